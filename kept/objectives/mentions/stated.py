"""Stated words: a mention that a fact of another mention states is masked, and predicted.

A reading stage: continued pre-training in which the masked words can be found in the facts that a
method reads beside the text, and nowhere else. It is salient span masking (Guu et al. 2020,
"REALM", ICML, section 3.4) of the mentions that a triple of the graph joins to another mention of
the text. What is ours: the mention that the fact is about gets a made-up name at every reading, so
that remembering who it is does not help; and the masked mention loses its link, as in a question.

Axis legend: link, fact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.graphs.graph import NodeKind
from kept.objectives.base import Objective, Preparation, Rewritten, World
from kept.objectives.masked_words import MaskedWords, MaskedWordsOptions, MaskedWordsPreparation
from kept.objectives.mentions.made_up import made_up_names
from kept.objectives.mentions.replacement import free_links, with_names
from kept.objectives.relation_pairs import NO_PAIRS, joined_pairs, share_joined
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

WORDS = MaskedWordsOptions(mask_share=1.0, random_share=0.0, strategy="whole_word")
"""How texts without such a mention are masked."""


@dataclass(frozen=True, kw_only=True)
class StatedWordsOptions:
    """`nameless`: the mention that the fact is about gets a made-up name at every reading."""

    nameless: bool = True


class StatedWordsPreparation(Preparation):
    """Masks the tail of a triple whose head is another mention, both sampled anew in every epoch.

    A text without one is masked as by `mlm`, in whole words.
    """

    rewrites: ClassVar[bool] = True
    replaces: ClassVar[tuple[str, ...]] = ("mlm",)
    remedy = NO_PAIRS

    def __init__(
        self, options: StatedWordsOptions, graph: KnowledgeGraph, words: MaskedWordsPreparation
    ) -> None:
        self.options, self.graph, self.words = options, graph, words

    @classmethod
    def of(cls, options: StatedWordsOptions, world: World) -> Self:
        """Raises `ConfigError` for a tokenizer without a mask token."""
        return cls(options, world.graph, MaskedWordsPreparation.of(WORDS, world))

    @property
    def fingerprint(self) -> str:
        return f"{self.options} {self.graph.content_hash} {self.words.fingerprint}"

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """Return the share of texts two of whose mentions a triple joins."""
        return share_joined(texts, self.graph)

    def rewrite(self, text: LinkedText, draws: np.random.Generator) -> Rewritten:
        """Return the text without the tail's link, and the tail in `asked`."""
        labels = np.full(len(text.links), IGNORE, np.int64)
        free = free_links(text.links)
        entities = np.full(len(text.links), -1, np.int64)
        for i in free:
            number = self.graph.entities.find(text.links[i].entity or "")
            entities[i] = -1 if number is None else number
        facts = joined_pairs(entities, self.graph)
        if not len(facts):
            return Rewritten(text, labels)
        head, _, tail = facts[int(draws.integers(len(facts)))].tolist()
        shown = text
        if self.options.nameless:
            (name,) = made_up_names(1, draws)
            shown = with_names(text, self.graph, {head: (int(entities[head]), name)})
        links = tuple(link for i, link in enumerate(shown.links) if i != tail)
        asked = shown.links[tail].mention
        return Rewritten(dataclasses.replace(shown, links=links), np.delete(labels, tail), (asked,))

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        nodes = _asked_words(batch)
        bare = batch.replace(target_spans=None) if batch.target_spans is not None else batch
        if not bool(nodes.any()):
            return self.words.mark(bare, draws)
        labels = torch.where(nodes, batch.node_ids, IGNORE)
        ids = batch.node_ids.masked_fill(nodes, self.words.mask_id)
        return bare.replace(node_ids=ids, node_labels=labels)


def _asked_words(batch: KnowledgeBatch) -> Tensor:
    """The words inside the batch's targets, `[1 node]`; none where they were cut off."""
    nodes = torch.zeros_like(batch.node_mask)
    if batch.target_spans is not None:
        for start, stop in batch.target_spans[0].tolist():
            nodes[:, start:stop] = True
    words: Tensor = nodes & (batch.node_kinds == NodeKind.WORD) & batch.node_mask
    return words


class StatedWords(Objective):
    """The head over words of `mlm`, for the words that facts state."""

    def __init__(self, words: MaskedWords) -> None:
        super().__init__()
        self.words = words

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: StatedWordsOptions) -> Self:
        return cls(MaskedWords.for_encoder(encoder, WORDS))

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`stated_words`: the mean over labelled words."""
        losses = self.words(output, batch, encoder)
        return {"stated_words": losses["mlm"]} if losses else {}
