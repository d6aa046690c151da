"""KnowBERT: between two layers of the host, mentions are linked and their entities attended to.

Peters et al. 2019, "Knowledge Enhanced Contextual Word Representations" (EMNLP). A *KAR* (knowledge
attention and recontextualisation, section 3) belongs to one graph and follows one layer.

Axis legend: batch, node, mention (all graphs), candidate, width.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import (
    EMBEDDINGS,
    KnowledgeConfig,
    KnowledgeEncoder,
    graph_fields,
    layer_group,
)
from kept.errors import ConfigError
from kept.kge.vectors import vector_rows
from kept.layers.entity_linker import (
    EntityLinker,
    PartEntityTable,
    Recontextualisation,
    start_as_inverse,
)
from kept.layers.kar import KAR, check_candidates, linker_of
from kept.layers.mentions import mentions_of
from kept.layers.rows import RowTable
from kept.layers.spans import FAR
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError
from kg_loaders.formats.wordnet_lexicon import parts_of_speech

SPECIAL_PARTS = (7, 0, 6)
"""Parts of speech of the special rows: UNKNOWN (which means NULL), PAD, MASK."""


class KnowBERTConfig(KnowledgeConfig):
    """`kars`: the fields of each `KAR`, in the order that `mention_graphs` of a batch counts.

    The first belongs to the graph whose hashes the configuration carries.
    """

    model_type = "kept-knowbert"

    def __init__(
        self, *, kars: Sequence[Mapping[str, Any]] = (), head_dropout: float = 0.1, **options: Any
    ) -> None:
        super().__init__(**options)
        self.head_dropout = head_dropout
        n_layers = int(self.host.num_hidden_layers)
        specs = [KAR.read(kar) for kar in kars]
        default = max(n_layers * 5 // 6 - 1, 0)
        specs = [
            dataclasses.replace(spec, layer=default) if spec.layer is None else spec
            for spec in specs
        ]
        for spec in specs:
            if not 0 <= (spec.layer or 0) < n_layers:
                raise ConfigError(
                    f"KAR {spec.name!r} follows layer {spec.layer}, the host has 0 to "
                    f"{n_layers - 1}"
                )
        twice = [name for name, n in Counter(spec.name for spec in specs).items() if n > 1]
        if twice:
            raise ConfigError(f"two KARs are named {twice[0]!r}; give each graph its own name")
        self.kars = [dataclasses.asdict(spec) for spec in specs]

    @property
    def specs(self) -> list[KAR]:
        """`kars` as values."""
        return [KAR.read(kar) for kar in self.kars]

    @classmethod
    def of(
        cls,
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        *,
        kars: Sequence[Mapping[str, Any]] = ({},),
        others: Sequence[KnowledgeGraph] = (),
        **options: Any,
    ) -> KnowBERTConfig:
        """The configuration for `graph` and, one KAR each, the `others`."""
        graphs = (graph, *others)
        if len(kars) != len(graphs):
            raise ConfigError(f"{len(kars)} KARs for {len(graphs)} graphs; give one a graph")
        filled = [
            {
                **kar,
                "n_entities": each.n_entities,
                "id_space_hash": each.id_space_hash,
                "content_hash": each.content_hash,
            }
            for kar, each in zip(kars, graphs, strict=True)
        ]
        return super().of(host, graph, kars=filled, **options)


class KnowBERT(KnowledgeEncoder):
    """The encoder: linkers and recontextualisations between the host's layers.

    `hidden_states[i + 1]` is what layer i hands on, after the KARs that follow it. Several KARs
    after one layer run in alphabetical order of their names, as in the released code.
    """

    config_class = KnowBERTConfig
    parts = {  # noqa: RUF012 - a class variable of the base
        "host": ("host.",),
        "linker": ("linkers.",),
        "recontextualisation": ("recontextualisations.",),
    }

    def __init__(self, config: KnowBERTConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        hidden = self.host.config.hidden_size
        self.specs = config.specs
        self.linkers = nn.ModuleDict({spec.name: linker_of(spec, hidden) for spec in self.specs})
        self.recontextualisations = nn.ModuleDict(
            {
                spec.name: Recontextualisation(
                    hidden=hidden,
                    width=spec.width,
                    n_heads=spec.n_heads,
                    feed_forward=spec.feed_forward,
                )
                for spec in self.specs
            }
        )
        self.post_init()
        self.freeze()

    @classmethod
    def from_host(cls, host: PreTrainedModel, graph: KnowledgeGraph, **options: Any) -> KnowBERT:
        """As the base; projections back to the host start as inverses of those from it."""
        model = super().from_host(host, graph, **options)
        for spec in model.specs:
            if spec.first_score:
                nn.init.constant_(model.linker(spec.name).scorer.outer.bias, spec.first_score)
            if spec.projection != "random":
                start_as_inverse(
                    model.recontextualisation(spec.name).projection,
                    model.linker(spec.name).projection,
                    original=spec.projection == "original",
                )
        return model

    @classmethod
    def for_graph(
        cls,
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        kars: Sequence[Mapping[str, Any]] = ({},),
        vector_epochs: int = 20,
        **options: Any,
    ) -> KnowBERT:
        """A new encoder whose entity vectors come from a TransE trained on each graph.

        A KAR after the first names its graph's folder in `kg`; `vectors_from` names a folder that
        `kept kgc train` wrote, or a text file of Wikipedia2Vec, instead of training.
        """
        kar_options = [dict(kar) for kar in kars]
        folders = [kar.pop("kg", None) for kar in kar_options]
        sources = [kar.pop("vectors_from", None) for kar in kar_options]
        if kar_options and (folders[0] is not None or None in folders[1:]):
            raise ConfigError("every KAR but the first names the folder of its graph in `kg`")
        graphs = [graph, *map(KnowledgeGraph.open, folders[1:])]
        model = cls.from_host(host, graph, kars=kar_options, others=graphs[1:], **options)
        for spec, each, source in zip(model.specs, graphs, sources, strict=True):
            table = model.linker(spec.name).entities
            vectors = vector_rows(
                each,
                width=table.vectors.embedding_dim,
                seed=seed,
                n_epochs=vector_epochs,
                path=source,
            )
            vectors.put_into(table.vectors)
            with torch.no_grad():
                if isinstance(table, PartEntityTable):
                    table.parts.copy_(_parts_of(each))
        return model

    def row_tables(self) -> tuple[RowTable, ...]:
        """The table of each KAR on the first graph, in the space of what it was learned by."""
        return tuple(
            RowTable(name=f"linkers.{spec.name}.entities.vectors.weight", of="entity")
            for spec in self._first_graphs
        )

    @property
    def _first_graphs(self) -> list[KAR]:
        """The KARs on the graph whose hash the configuration carries."""
        return [s for s in self.specs if s.id_space_hash == self.config.id_space_hash]

    def follow(self, graph: KnowledgeGraph) -> None:
        """As the base; KARs on other graphs stay as they are."""
        fields = graph_fields(graph)
        del fields["n_relations"]
        mine = {spec.name for spec in self._first_graphs}
        for name in mine:
            table = self.linker(name).entities
            if isinstance(table, PartEntityTable):
                table.parts = _parts_of(graph).to(table.parts.device)
        self.specs = [dataclasses.replace(s, **fields) if s.name in mine else s for s in self.specs]
        self.config.kars = [dataclasses.asdict(spec) for spec in self.specs]
        super().follow(graph)

    def group_outside_host(self, name: str) -> str:
        """A KAR belongs to the layer that it follows, its table of entities to the embeddings."""
        _, kar, inner, *_ = name.split(".")
        if inner == "entities":
            return EMBEDDINGS
        return layer_group(next(spec.layer or 0 for spec in self.specs if spec.name == kar))

    def freeze(self) -> None:
        super().freeze()
        for name in self.linkers:
            self.linker(name).entities.vectors.requires_grad_(False)

    def linker(self, name: str) -> EntityLinker:
        """The linker of the KAR with this name."""
        module = self.linkers[name]
        assert isinstance(module, EntityLinker)
        return module

    def recontextualisation(self, name: str) -> Recontextualisation:
        """The recontextualisation of the KAR with this name."""
        module = self.recontextualisations[name]
        assert isinstance(module, Recontextualisation)
        return module

    def require_graph(self, graph: KnowledgeGraph, name: str | None = None) -> None:
        """Raise `GraphMismatchError` unless the KAR `name` (default: the first) is `graph`'s."""
        named = [spec for spec in self.specs if spec.name == name] or self.specs[:1]
        if name is not None and named[0].name != name:
            raise ConfigError(f"no KAR is named {name!r}; there are {list(self.linkers)}")
        made_with = named[0].id_space_hash if named else self.config.id_space_hash
        if made_with != graph.id_space_hash:
            raise GraphMismatchError(
                f"the KAR {named[0].name if named else ''!r} of this KnowBERT was made with the id "
                f"space {made_with or '(none: a temporary entity vocabulary)'}, the graph has "
                f"{graph.id_space_hash}; open the graph it was made with, or train on this one"
            )

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every node and the linking scores of every mention.

        `linking_scores` are those of each mention's own KAR; `FAR` for padding. Raises `BatchError`
        for mentions without candidates, of a graph without a KAR or beyond its table.
        """
        check_candidates(batch, self.specs)
        hidden = hosts.embed_words(self.host, batch)
        step = hosts.stepper(
            self.host, batch.visibility, batch.node_mask, positions=batch.positions
        )
        states, scores = [hidden], None
        if batch.candidate_ids is not None:
            scores = hidden.new_full(batch.candidate_ids.shape, FAR)
        order = sorted(range(len(self.specs)), key=lambda i: self.specs[i].name)
        for index, layer in enumerate(hosts.layers(self.host)):
            hidden = step(layer, hidden)
            for graph in order:
                if self.specs[graph].layer == index:
                    hidden, scores = self._inject(graph, hidden, batch, scores)
            states.append(hidden)
        return KnowledgeOutput.of(states, linking_scores=scores)

    def _inject(
        self, graph: int, hidden: Tensor, batch: KnowledgeBatch, scores: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """One KAR: new states, and `scores` with those of its mentions."""
        name, mentions = self.specs[graph].name, mentions_of(batch, graph)
        linked = self.linker(name)(
            hidden, mentions.spans, mentions.candidate_ids, mentions.priors, mentions.mentions_see
        )
        linked_scores = linked.scores[:, :-1].to(hidden.dtype)
        if scores is not None and mentions.places is None:
            scores = linked_scores
        elif scores is not None and mentions.places is not None:
            positions = mentions.places[..., None].expand_as(linked_scores)
            assert batch.mention_graphs is not None
            mine = batch.mention_graphs.gather(1, mentions.places) == graph
            merged = torch.where(mine[..., None], linked_scores, scores.gather(1, positions))
            scores = scores.scatter(1, positions, merged)
        return self.recontextualisation(name)(hidden, linked, mentions.nodes_see), scores


def _parts_of(graph: KnowledgeGraph) -> Tensor:
    """The part of speech of each row, int64 `[row]`."""
    return torch.cat([torch.tensor(SPECIAL_PARTS), torch.from_numpy(parts_of_speech(graph))])
