"""Stated words: a mention that a fact of another mention states is masked, and predicted.

A reading stage: continued pre-training in which the masked words can be found in the facts that a
method reads beside the text, and nowhere else. It is salient span masking (Guu et al. 2020,
"REALM", ICML, section 3.4) of the mentions that a triple of the graph joins to another mention of
the text. What is ours: the mention that the fact is about gets a made-up name at every reading, so
that remembering who it is does not help; the masked mention loses its link, as in a question; the
fact is always among those shown, and no other fact of its head by the same relation or to the same
object; and with `objects: redrawn` text and fact name another object at every reading, so that
knowing what objects a relation usually has does not help either.

Axis legend: link, fact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind
from kept.objectives.base import Objective, Preparation, PreparationContext, Rewritten, StatedFact
from kept.objectives.masked_words import MaskedWords, MaskedWordsOptions, MaskedWordsPreparation
from kept.objectives.mentions.made_up import made_up_names
from kept.objectives.mentions.replacement import free_links, with_names
from kept.objectives.relation_pairs import NO_PAIRS, joined_pairs, share_joined
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

FEWEST_OBJECTS = 20
WORDS = MaskedWordsOptions(mask_share=1.0, random_share=0.0, strategy="whole_word")
"""How texts without such a mention are masked."""


@dataclass(frozen=True, kw_only=True)
class StatedWordsOptions:
    """What is made unknown, anew at every reading.

    `nameless`: the mention that the fact is about gets a made-up name. `objects` "redrawn": the
    mention that the fact states, and the object of the fact, is another entity whose name is one
    piece, sampled from the objects of all facts of the graph; "own": it stays.
    """

    nameless: bool = True
    objects: Literal["own", "redrawn"] = "own"

    def __post_init__(self) -> None:
        if self.objects not in ("own", "redrawn"):
            raise ConfigError(f"objective stated_words: objects {self.objects!r}: own or redrawn")


class StatedWordsPreparation(Preparation):
    """Masks the tail of a triple whose head is another mention, both sampled anew in every epoch.

    A text without one is masked as by `mlm`, in whole words.
    """

    rewrites: ClassVar[bool] = True
    replaces: ClassVar[tuple[str, ...]] = ("mlm",)
    remedy = NO_PAIRS

    def __init__(
        self,
        options: StatedWordsOptions,
        graph: KnowledgeGraph,
        words: MaskedWordsPreparation,
        objects: NDArray[np.int64],
    ) -> None:
        self.options, self.graph, self.words, self.objects = options, graph, words, objects

    @classmethod
    def of(cls, options: StatedWordsOptions, world: PreparationContext) -> Self:
        """Raises `ConfigError` for a tokenizer without a mask token, or a graph without objects
        to redraw from."""
        words = MaskedWordsPreparation.of(WORDS, world)
        objects = np.zeros(0, np.int64)
        if options.objects == "redrawn":
            objects = objects_of_one_piece(world)
        return cls(options, world.graph, words, objects)

    @property
    def fingerprint(self) -> str:
        return f"{self.options} {self.graph.content_hash} {self.words.fingerprint}"

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """Return the share of texts two of whose mentions a triple joins."""
        return share_joined(texts, self.graph)

    def rewrite(self, text: LinkedText, draws: np.random.Generator) -> Rewritten:
        """Return the text without the tail's link, and the tail in `mention`."""
        labels = np.full(len(text.links), IGNORE, np.int64)
        free = free_links(text.links)
        entities = np.full(len(text.links), -1, np.int64)
        for i in free:
            number = self.graph.entities.find(text.links[i].entity or "")
            entities[i] = -1 if number is None else number
        facts = joined_pairs(entities, self.graph)
        if not len(facts):
            return Rewritten(text, labels)
        head, relation, tail = facts[int(draws.integers(len(facts)))].tolist()
        is_alone = int((entities == entities[tail]).sum()) == 1
        fact = self._stated(
            int(entities[head]), relation, int(entities[tail]), draws, is_alone=is_alone
        )
        names: dict[int, tuple[int, str]] = {}
        if self.options.nameless:
            (name,) = made_up_names(1, draws)
            names[head] = (int(entities[head]), name)
        if fact.new_object is not None:
            names[tail] = (fact.new_object, self.graph.label(fact.new_object))
        rewritten = with_names(text, self.graph, names)
        links = tuple(link for i, link in enumerate(rewritten.links) if i != tail)
        mention = rewritten.links[tail].mention
        rewritten = dataclasses.replace(rewritten, links=links)
        return Rewritten(rewritten, np.delete(labels, tail), (mention,), (fact,))

    def _stated(
        self, head: int, relation: int, tail: int, draws: np.random.Generator, *, is_alone: bool
    ) -> StatedFact:
        """The fact that is to be shown, with the object that it is told with.

        An object that another mention of the text names, too, stays.
        """
        triples = self.graph.outgoing(head)
        is_stated = (triples[:, 1:] == [relation, tail]).all(axis=1)
        alike = (triples[:, 1] == relation) | (triples[:, 2] == tail)
        row = int(self.graph.out_offsets[head] + np.flatnonzero(is_stated)[0])
        replacement = None
        if len(self.objects) and is_alone:
            others = np.setdiff1d(self.objects, triples[:, 2])
            replacement = int(others[int(draws.integers(len(others)))])
        return StatedFact(row, replacement, triples[alike & ~is_stated])

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        nodes = _asked_words(batch)
        unmarked = batch.replace(target_spans=None) if batch.target_spans is not None else batch
        if not bool(nodes.any()):
            return self.words.mark(unmarked, draws)
        labels = torch.where(nodes, batch.node_ids, IGNORE)
        ids = batch.node_ids.masked_fill(nodes, self.words.mask_id)
        return unmarked.replace(node_ids=ids, node_labels=labels)


def objects_of_one_piece(world: PreparationContext) -> NDArray[np.int64]:
    """Return the entities that are objects of facts and whose name is one piece, sorted.

    Raises `ConfigError` for fewer than `FEWEST_OBJECTS`.
    """
    before = "x "
    objects = np.unique(world.graph.triples[:, 2]).astype(np.int64)
    names = [before + world.graph.label(int(entity)) for entity in objects]
    spans = world.tokenizer(names, add_special_tokens=False, return_offsets_mapping=True)
    n_pieces = [sum(end > len(before) for _, end in offsets) for offsets in spans["offset_mapping"]]
    entity_ids: NDArray[np.int64] = objects[np.array(n_pieces, np.int64) == 1]
    if len(entity_ids) < FEWEST_OBJECTS:
        raise ConfigError(
            f"objective stated_words redraws objects; {len(entity_ids)} of {world.graph} have a "
            f"name of one word piece, and {FEWEST_OBJECTS} are needed: take objects: own"
        )
    return entity_ids


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
