"""`AutoEncoder`: the encoder of any saved run, from texts to vectors in one call.

Axis legend: text, token, mention, entity, layer (the embedding first), width.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import Link, LinkedText, Linker
from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders import encoder_class, read_config
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.knowbert import KnowBERT
from kept.errors import CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.places import nodes_of, target_spans, text_nodes
from kept.graphs.views import KnowBERTView, View
from kept.linking.knowbert import Choice, choices
from kept.methods import method, method_of
from kept.outputs import KnowledgeOutput
from kept.pretraining.assembly import builder_for, view_for
from kept.randomness import generator, torch_draws
from kg_loaders import KnowledgeGraph, graph_from_records

Saved = TypeVar("Saved")
RUN_FILES = ("finetune.json", "pretrain.json")
"""A run's configuration beside its model, with its builder's settings in `graph` and the view's
options in `view`."""


@dataclass(frozen=True, eq=False)
class Entities:
    """Vectors of entities: `names` in the graph, `links` (index of the mention's link, or None for
    a neighbour that a fact brought)."""

    names: tuple[str, ...]
    links: tuple[int | None, ...]
    vectors: Float[Tensor, "entity width"]

    def __repr__(self) -> str:
        return f"Entities({len(self.names)}, vectors {list(self.vectors.shape)})"


@dataclass(frozen=True, eq=False)
class EncodedText:
    """One text. `token_spans` are characters of `linked.text`, in order and without special pieces.

    A token is a word piece, or, with methods that put an entity in the place of its mention's words
    (CoLAKE), that entity. `links[i]` is the link behind `mentions[i]`, the mean of its tokens;
    links cut off with the text are not among them. `entities` is None where the method has none in
    this text. `sentence` is the mean of all tokens. `linking` holds what a method that links by
    itself (KnowBERT) chose for the mentions of each of its graphs, None with other methods.
    `layers` holds the tokens' states in the embedding and after every layer, where asked for.
    """

    linked: LinkedText
    token_spans: Int[Tensor, "token 2"]
    tokens: Float[Tensor, "token width"]
    links: tuple[Link, ...]
    mentions: Float[Tensor, "mention width"]
    entities: Entities | None
    sentence: Float[Tensor, " width"]
    linking: tuple[Choice, ...] | None = None
    layers: Float[Tensor, "layer token width"] | None = None

    def __repr__(self) -> str:
        return (
            f"EncodedText({self.linked.text[:40]!r}, tokens {list(self.tokens.shape)}, "
            f"mentions {list(self.mentions.shape)}, sentence {list(self.sentence.shape)})"
        )


@dataclass(frozen=True, eq=False)
class Encoded(Sequence[EncodedText]):
    """The encoded texts in their order; `sentences` holds all their sentence vectors."""

    texts: tuple[EncodedText, ...]
    sentences: Float[Tensor, "text width"]

    def __getitem__(self, index: Any) -> Any:
        return self.texts[index]

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Encoded({len(self)} texts, sentences {list(self.sentences.shape)})"


class AutoEncoder:
    """An encoder with its tokenizer, its method's view and the settings it was trained with."""

    def __init__(
        self,
        encoder: KnowledgeEncoder,
        tokenizer: PreTrainedTokenizerBase,
        *,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
    ) -> None:
        self.encoder, self.tokenizer = encoder.eval(), tokenizer
        self.method = method_of(encoder)
        self.view = dict(view or {})
        settings = builder_for(self.method, builder or BuilderConfig(), self.view)
        self.builder = dataclasses.replace(settings, drop_probability=0.0)
        self._seen: tuple[str, View, DictionaryLinker | None] | None = None

    def __repr__(self) -> str:
        return f"AutoEncoder({type(self.encoder).__name__}, {self.builder}, view={self.view})"

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
    ) -> AutoEncoder:
        """The encoder of a pre-training or fine-tuning run, or a bare saved one.

        Tokenizer, builder settings and the view's options are those of the folder where none are
        given. Raises
        `CheckpointError` when the folder holds no model of ours, or no tokenizer.
        """
        return cls(
            saved_encoder(folder),
            tokenizer or saved_tokenizer(folder),
            builder=builder or saved_builder(folder),
            view=saved_view(folder) if view is None else view,
        )

    @classmethod
    def from_host(
        cls,
        method_name: str,
        host: str | Path,
        kg: KnowledgeGraph | str | Path,
        *,
        untrained: bool = False,
        seed: int = 0,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AutoEncoder:
        """A new encoder around a host, for methods that work without training (K-BERT).

        `options` are those of the encoder, `view` those of the view, such as `max_branches`.
        Raises `ConfigError` for the others unless `untrained`; their vectors then mean little.
        """
        chosen, graph = method(method_name), _opened(kg)
        if chosen.needs_training and not untrained:
            raise ConfigError(
                f"{method_name} must be trained before its vectors mean anything; train it "
                "(kept pretrain, kept finetune) and use from_pretrained, or say untrained=True"
            )
        tokenizer = hosts.load_tokenizer(host)
        with torch_draws(seed, "initial weights"):
            encoder = chosen.new_encoder(host, graph, tokenizer, seed=seed, **options)
        return cls(encoder, tokenizer, builder=builder, view=view)

    def encode(
        self,
        texts: Sequence[str | LinkedText] | str,
        kg: KnowledgeGraph | str | Path | None = None,
        linker: Linker | None = None,
        *,
        batch_size: int = 32,
        layers: bool = False,
    ) -> Encoded:
        """Vectors of every text, on the CPU; the same call gives the same vectors.

        Plain texts are linked by `linker`, without one by the labels and aliases of `kg`; a
        `LinkedText` keeps its links. A text's neighbours depend on the text alone. `kg` may be
        left out where the method reads no graph at inference (KEPLER, K-Adapter). `layers`: with
        the tokens' states after every layer. Raises
        `ConfigError` where it may not, `GraphMismatchError` for a graph of other ids.
        """
        batch_texts = [texts] if isinstance(texts, str) else list(texts)
        graph = self._graph(kg)
        view, own_linker = self._tools(graph, needs_linker=kg is not None and linker is None)
        linked = _linked(batch_texts, linker or own_linker)
        order = sorted(range(len(linked)), key=lambda i: (len(linked[i].text), i))
        encoded: dict[int, EncodedText] = {}
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            parts = self._encode([linked[i] for i in chosen], graph, view, layers=layers)
            encoded.update(zip(chosen, parts, strict=True))
        ordered = tuple(encoded[i] for i in range(len(linked)))
        width = self.encoder.host.config.hidden_size
        sentences = [text.sentence for text in ordered] or [torch.zeros(0, width)]
        return Encoded(ordered, torch.stack(sentences) if ordered else sentences[0])

    def _graph(self, kg: KnowledgeGraph | str | Path | None) -> KnowledgeGraph:
        if kg is not None:
            graph = _opened(kg)
            self.encoder.require_graph(graph)
            return graph
        if self.method.view.reads_graph:
            raise ConfigError(
                f"{type(self.encoder).__name__} reads the graph whenever it encodes: give kg, the "
                f"graph it was trained with (id space {self.encoder.config.id_space_hash[:12]})"
            )
        return graph_from_records([])

    def _tools(
        self, graph: KnowledgeGraph, *, needs_linker: bool
    ) -> tuple[View, DictionaryLinker | None]:
        """View and linker of the graph; those of the last graph are kept."""
        seen = self._seen
        if seen is None or seen[0] != graph.content_hash:
            view = view_for(self.method, graph, self.tokenizer, self.view)
            seen = (graph.content_hash, view, None)
        if needs_linker and seen[2] is None:
            seen = (*seen[:2], DictionaryLinker(graph))
        self._seen = seen
        return seen[1], seen[2]

    @torch.no_grad()
    def _encode(
        self, texts: Sequence[LinkedText], graph: KnowledgeGraph, view: View, *, layers: bool
    ) -> Iterator[EncodedText]:
        built = [
            build(
                text,
                self.tokenizer,
                graph,
                generator=generator(0, "encode", text.text),
                config=self.builder,
            )
            for text in texts
        ]
        samples = [view(word_graph) for word_graph in built]
        pad_id = int(self.tokenizer.pad_token_id)
        batch = KnowledgeBatch.stack(samples, word_pad_id=pad_id).to(self.encoder.device)
        output: KnowledgeOutput = self.encoder(batch)
        every = output.hidden_states if layers else (output.node_states,)
        states = torch.stack(every, 1).float().cpu()
        entity_states = output.entity_states
        for i, (text, word_graph, sample) in enumerate(zip(texts, built, samples, strict=True)):
            places = view.places(word_graph, sample)
            aligned = None if entity_states is None else entity_states[i].float().cpu()
            encoded = _encoded(text, word_graph, sample, places, states[i], aligned, graph)
            scores = output.linking_scores
            if isinstance(self.encoder, KnowBERT) and scores is not None:
                assert isinstance(view, KnowBERTView)
                chosen = choices(self.encoder, view, word_graph, sample, scores[i].float().cpu())
                encoded = dataclasses.replace(encoded, linking=chosen)
            yield encoded


def saved_encoder(folder: str | Path, *, graph: KnowledgeGraph | None = None) -> KnowledgeEncoder:
    """The encoder in a folder, without any heads, in evaluation mode."""
    encoder: KnowledgeEncoder = encoder_class(read_config(folder)).from_pretrained(
        folder, graph=graph
    )
    encoder.eval()
    return encoder


def saved_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer beside a saved model; raises `CheckpointError` when there is none."""
    if not (Path(folder) / "tokenizer_config.json").is_file():
        raise CheckpointError(
            f"{folder} holds no tokenizer; save that of its host beside it "
            "(load_tokenizer(host).save_pretrained(folder)), or give one"
        )
    return hosts.load_tokenizer(folder)


def saved_builder(folder: str | Path) -> BuilderConfig:
    """The builder's settings of the run that made a folder; the defaults for a bare model."""
    return _saved(folder, "graph", lambda values: BuilderConfig(**values))


def saved_view(folder: str | Path) -> dict[str, Any]:
    """The view's options of the run that made a folder; none for a bare model."""
    return _saved(folder, "view", lambda values: dict(values.items()))


def _saved(folder: str | Path, field: str, read: Callable[[Any], Saved]) -> Saved:
    """What `read` makes of a field of the run's configuration; of {} where there is none."""
    for name in RUN_FILES:
        path = Path(folder) / name
        if path.is_file():
            try:
                return read(json.loads(path.read_text(encoding="utf-8")).get(field) or {})
            except (ValueError, TypeError, AttributeError) as error:
                raise CheckpointError(f"{path} is not what a run wrote: {error}") from error
    return read({})


def _opened(kg: KnowledgeGraph | str | Path) -> KnowledgeGraph:
    return kg if isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg)


def _linked(texts: Sequence[str | LinkedText], linker: Linker | None) -> list[LinkedText]:
    """Plain texts linked; without a linker they have no links."""
    plain = [text for text in texts if isinstance(text, str)]
    linked = iter(linker.link(plain) if linker else [LinkedText(text, ()) for text in plain])
    return [text if isinstance(text, LinkedText) else next(linked) for text in texts]


def _encoded(
    linked: LinkedText,
    word_graph: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    places: NDArray[np.int64],
    layers: Float[Tensor, "layer node width"],
    entity_states: Tensor | None,
    graph: KnowledgeGraph,
) -> EncodedText:
    nodes = text_nodes(word_graph)
    nodes = nodes[places[nodes] >= 0]
    states, chosen = layers[-1], torch.from_numpy(places[nodes])
    tokens = states[chosen]
    of_links = [(link, nodes_of(word_graph, nodes, link.mention)) for link in linked.links]
    of_links = [(link, node_ids) for link, node_ids in of_links if len(node_ids)]
    means = [states[torch.from_numpy(places[node_ids])].mean(0) for _, node_ids in of_links]
    width = states.shape[-1]
    return EncodedText(
        linked=linked,
        token_spans=torch.from_numpy(word_graph.spans[nodes].astype(np.int64)),
        tokens=tokens,
        links=tuple(link for link, _ in of_links),
        mentions=torch.stack(means) if means else torch.zeros(0, width),
        entities=_entities(word_graph, batch, places, states, entity_states, graph),
        sentence=tokens.mean(0) if len(tokens) else states[0],
        layers=layers[:, chosen] if len(layers) > 1 else None,
    )


def _entities(
    word_graph: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    places: NDArray[np.int64],
    states: Tensor,
    aligned: Tensor | None,
    graph: KnowledgeGraph,
) -> Entities | None:
    """Entity nodes of the batch; else the states of entities that are aligned with words."""
    if aligned is not None and batch.entity_ids is not None:
        chosen = (batch.entity_ids[0] >= N_SPECIAL_ROWS).nonzero()[:, 0]
        ids = (batch.entity_ids[0, chosen] - N_SPECIAL_ROWS).tolist()
        spans = target_spans(word_graph, places, [link.mention for link in word_graph.links])
        first = {int(start): i for i, (start, stop) in enumerate(spans.tolist()) if start < stop}
        names = tuple(graph.entities.name(i) for i in ids)
        return Entities(names, tuple(map(first.get, chosen.tolist())), aligned[chosen])
    nodes = np.flatnonzero((word_graph.kinds == NodeKind.ENTITY) & (places >= 0))
    if not len(nodes):
        return None
    return Entities(
        tuple(graph.entities.name(int(i)) for i in word_graph.ids[nodes]),
        tuple(
            int(word_graph.origins[n, 0]) if word_graph.spans[n, 0] >= 0 else None for n in nodes
        ),
        states[torch.from_numpy(places[nodes])],
    )
