"""Any run with a head over words as a `ClozeModel`, with or without its graph.

Axis legend: sample, node, mask, word, embedding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.auto import saved_builder, saved_tokenizer, saved_view
from kept.batches import KnowledgeBatch
from kept.encoders import read_config
from kept.errors import ConfigError, HostError
from kept.graphs.builder import BuilderConfig, Exclusion, join_all
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.inputs.controls.conditions import controlled_graph
from kept.inputs.views import builder_for, view_for
from kept.lab.probing.models.base import (
    REMEDY,
    AskedFacts,
    ClozeModel,
    Question,
    Sample,
    mask_places,
    words_around_masks,
)
from kept.lab.probing.models.truth import require_truth, truths
from kept.lab.probing.results import Mode
from kept.methods import method_of
from kept.objectives.masked_nodes import MaskedNodes
from kept.objectives.masked_words import MaskedWords
from kept.objectives.mentions.stated import StatedWords
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, graph_from_records


class KeptMaskedLM(ClozeModel):
    """A pre-trained run: its encoder, view and builder, under the head over words of `mlm`, or of
    CoLAKE's `masked_nodes`.

    In mode "weights" links and facts are removed, as with knowledge off; in mode "graph" a text's
    facts depend on its key alone, and none is dropped at random.
    """

    def __init__(
        self,
        model: KnowledgeForPreTraining,
        tokenizer: Any,
        mode: Mode,
        graph: KnowledgeGraph | None = None,
        *,
        show_asked: bool = False,
        builder: BuilderConfig | None = None,
        view: dict[str, Any] | None = None,
        name: str = "",
    ) -> None:
        self._model = model.eval()
        self._encoder = model.encoder
        self._head, self._bias = _word_head(model)
        method_name = method_of(self._encoder)
        self.mode, self.tokenizer, self.name = mode, tokenizer, name or type(self._encoder).__name__
        self.method = self._encoder.config.model_type.removeprefix("kept-").replace("plain", "none")
        self._show_asked = show_asked
        self.asked_facts: AskedFacts = (
            "none" if mode == "weights" else "shown" if show_asked else "hidden"
        )
        self._graph = self._world(method_name.view.reads_graph, graph)
        settings = builder_for(method_name, builder or BuilderConfig(), view or {})
        self._builder = dataclasses.replace(settings, drop_probability=0.0)
        self.max_words = self._builder.max_words
        self._view = view_for(method_name, self._graph, tokenizer, view or {})

    @classmethod
    def open(
        cls,
        folder: Path,
        mode: Mode,
        kg: KnowledgeGraph | str | Path | None,
        *,
        show_asked: bool = False,
    ) -> KeptMaskedLM:
        """The run in `folder` with its own settings; a graph is read in mode "graph" alone."""
        if not read_config(folder).objectives:
            raise HostError(f"{folder} holds no head over words; {REMEDY}")
        graph = kg if kg is None or isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg)
        return cls(
            KnowledgeForPreTraining.from_pretrained(folder),
            saved_tokenizer(folder),
            mode,
            graph,
            show_asked=show_asked,
            builder=saved_builder(folder),
            view=saved_view(folder),
            name=str(folder),
        )

    def samples(self, questions: Sequence[Question]) -> list[Sample]:
        linked = [self._linked(question.linked) for question in questions]
        linked, encoded = words_around_masks(linked, self.tokenizer, self._builder.max_words)
        ends = [self._ends(question.fact) for question in questions]
        graphs = join_all(
            linked,
            encoded,
            self._graph,
            generators=[generator(0, "probe", question.key) for question in questions],
            config=self._builder,
            exclude=[
                Exclusion(pairs=each) if len(each) and not self._show_asked else None
                for each in ends
            ],
        )
        return [self._sample(graph, each) for graph, each in zip(graphs, ends, strict=True)]

    @torch.inference_mode()
    def states(self, samples: Sequence[Sample]) -> Float[Tensor, "sample mask embedding"]:
        bodies = [sample.body.replace(node_ids=sample.ids[None]) for sample in samples]
        batch = KnowledgeBatch.stack(bodies, word_pad_id=hosts.padding_id(self.tokenizer))
        output = self._encoder(batch.to(self._encoder.device))
        rows = torch.arange(len(samples))[:, None]
        masks = torch.tensor([sample.masks for sample in samples])
        return self._head(output.node_states[rows, masks])

    @torch.inference_mode()
    def truths(
        self, samples: Sequence[Sample], *, first_word: float = 0.0
    ) -> Float[Tensor, " sample"]:
        require_truth(self._model, self.name)
        bodies = [sample.body.replace(node_ids=sample.ids[None]) for sample in samples]
        batch = KnowledgeBatch.stack(bodies, word_pad_id=hosts.padding_id(self.tokenizer))
        spans = torch.tensor([(min(s.masks), max(s.masks) + 1) for s in samples])
        device = self._encoder.device
        return truths(self._model, batch.to(device), spans.to(device), first_word=first_word)

    def words(self) -> tuple[Float[Tensor, "word embedding"], Float[Tensor, " word"] | None]:
        return hosts.word_table(self._encoder.host).weight.detach(), self._bias.detach()

    def _world(self, reads_graph: bool, graph: KnowledgeGraph | None) -> KnowledgeGraph:
        """The graph that is read in this mode: without triples in mode "weights"."""
        if self.mode == "weights":
            if graph is None or not reads_graph:
                return graph_from_records([])
            return controlled_graph(graph, "off", 0)
        if not reads_graph:
            raise ConfigError(
                f"{type(self._encoder).__name__} reads no graph when it answers: what it knows is "
                "in its weights; use mode weights"
            )
        if graph is None:
            raise ConfigError(
                f"mode graph of {type(self._encoder).__name__} needs kg, the graph it reads"
            )
        self._encoder.require_graph(graph)
        return graph

    def _linked(self, linked: LinkedText) -> LinkedText:
        return dataclasses.replace(linked, links=()) if self.mode == "weights" else linked

    def _ends(self, fact: tuple[str, str, str] | None) -> NDArray[np.int32]:
        """Ids of head and tail, `[1 2]`; `[0 2]` where the graph has not both."""
        names = () if fact is None or self.mode == "weights" else (fact[0], fact[2])
        ids = [self._graph.entities.find(name) for name in names]
        return np.array([] if None in ids else ids, np.int32).reshape(-1, 2)

    def _sample(self, graph: WordKnowledgeGraph, ends: NDArray[np.int32]) -> Sample:
        batch = self._view(graph)
        is_word = (batch.node_kinds[0] == NodeKind.WORD) & batch.node_mask[0]
        ids = batch.node_ids[0]
        masks = mask_places(ids.where(is_word, -1), self.tokenizer)
        return Sample(ids, masks, batch, self._is_shown(graph, ends))

    def _is_shown(self, graph: WordKnowledgeGraph, ends: NDArray[np.int32]) -> bool:
        """Whether a fact of the word-knowledge graph joins `ends`, in either direction."""
        rows = graph.origins[graph.kinds == NodeKind.RELATION, 1]
        pairs = np.sort(self._graph.triples[rows][:, [0, 2]], axis=1)
        return bool(len(ends)) and bool((pairs == np.sort(ends, axis=1)).all(axis=1).any())


def _word_head(model: KnowledgeForPreTraining) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return the transform between states and the word table, and the bias; raises `HostError`."""
    for head in model.objectives.values():
        if isinstance(head, StatedWords):
            head = head.words
        if isinstance(head, MaskedWords):
            return head.transform, head.bias
        if isinstance(head, MaskedNodes):
            return head.word_transform, head.word_bias
    raise HostError(
        f"{type(model.encoder).__name__} was trained for {sorted(model.objectives)}, none of which "
        f"has a head over words; train it with --objective mlm, or {REMEDY}"
    )
