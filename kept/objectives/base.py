"""What an objective is: losses over an encoder's output, and the marks on data that they need.

An objective has three parts, joined by one line in `kept.objectives.model.OBJECTIVES`: a frozen
dataclass of options, an `Objective` (a module with the heads and the losses) and a `Preparation`
(the data's side: masks, corruption, negatives, labels).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import LinkedText, Mention
from kept.batches import IGNORE, KnowledgeBatch
from kept.batches.host_copies import places
from kept.encoders.base import KnowledgeEncoder
from kept.graphs.graph import NodeKind
from kept.graphs.views.base import View
from kept.layers.rows import RowTable
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

Pairing = Literal["next_sentence", "sentence_order"]
"""Kinds of text pairs (see `kept.inputs.pairs`)."""


def labelled_nodes(batch: KnowledgeBatch, kind: NodeKind) -> Int[Tensor, " chosen"]:
    """The flat places of the nodes of a kind that have a label."""
    assert batch.node_labels is not None
    return places(
        lambda kinds, labels: (kinds == kind.value) & (labels != IGNORE),
        batch.node_kinds, batch.node_labels,
    )  # fmt: skip


class Objective(nn.Module, ABC):
    """Abstract: heads over an encoder's output and their named, unweighted mean losses."""

    @classmethod
    @abstractmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: Any) -> Self:
        """Heads of the encoder's sizes; `options` is the objective's own dataclass."""

    def row_tables(self) -> tuple[RowTable, ...]:
        """The weights whose rows are entities or relations of the encoder's graph."""
        return ()

    def join(self, others: Mapping[str, Objective]) -> None:
        """Called once, with all objectives of the model, to take hold of parts of others.

        They must not become submodules, or they would be saved twice.
        """

    @abstractmethod
    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Return losses by name; none when the batch has no labels of this objective."""


@dataclass(frozen=True)
class PreparationContext:
    """What preparations may use: graph, tokenizer, frequency of each entity row in links."""

    graph: KnowledgeGraph
    tokenizer: PreTrainedTokenizerBase
    entity_counts: NDArray[np.float64]


@dataclass(frozen=True)
class StatedFact:
    """A fact that the sample must show: row `row` of the graph's triples, without `hidden [n 3]`.

    `new_object` replaces its object, if given.
    """

    row: int
    new_object: int | None
    hidden: NDArray[np.int32]


@dataclass(frozen=True)
class Rewritten:
    """The text that replaces another, with a label for each of its links, `[link]`, if any.

    `marked`: spans of it that `mark` finds in the sample's `target_spans`. `stated`: facts that its
    graph must show.
    """

    linked: LinkedText
    link_labels: NDArray[np.int64] | None = None
    marked: tuple[Mention, ...] = ()
    stated: tuple[StatedFact, ...] = ()


class Preparation(ABC):
    """Abstract: labels single samples, then completes whole batches. Must pickle cheaply.

    Random numbers come from the given generator only, so that a sample depends on (seed, epoch,
    index) alone and a batch's own on (seed, step). `pairing`: samples must be pairs of texts, of
    this kind, with their class in `pair_labels`. `rewrites`: `rewrite` changes texts before graphs
    are built around them; views of mentions have its labels as `mention_classes`. `remedy`: what to
    do where `share_read` is 0. `replaces`: objectives whose labels this one sets instead of them;
    they keep their heads and losses.
    """

    pairing: ClassVar[Pairing | None] = None
    rewrites: ClassVar[bool] = False
    remedy: ClassVar[str] = ""
    replaces: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def of(cls, options: Any, world: PreparationContext) -> Self:
        """The data side of the objective with these options."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever a sample could."""

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """Return the share of samples, or of entities, that the objective learns from; None where
        it reads the graph only through the view.

        `texts`: the entities of each text's links, -1 for one outside the graph.
        """
        return None

    def require_view(self, view: View) -> None:  # noqa: B027 - most objectives read any view
        """Raise `ConfigError` for a view whose batches never hold this objective's labels."""

    @property
    def cautions(self) -> list[str]:
        """What a person should know before training: parts of it that learn nothing."""
        return []

    def rewrite(self, text: LinkedText, draws: np.random.Generator) -> Rewritten:
        """Return the text to show instead; called only where `rewrites`."""
        raise NotImplementedError

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        """One sample (a batch of one, unpadded) with this objective's labels."""
        return batch

    @property
    def period(self) -> int:
        """Return the period, in steps, of the kinds of batches; 1 without batches of its own."""
        return 1

    def own_batch(self, step: int, draws: np.random.Generator) -> KnowledgeBatch | None:
        """Return the objective's own batch that replaces batch number `step`, if any.

        It has no labels of other objectives, so that tasks alternate.
        """
        return None

    def complete(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        """Return a stacked batch with what its samples share, such as negatives."""
        return batch
