"""Ids of further vocabularies reach the word pieces of their words."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import pytest

from entity_linking.mentions import LinkedText
from kept.batches import NONE, KnowledgeBatch
from kept.graphs.annotation import Annotation, Annotator, extra_ids
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views.base import words_of
from kept.randomness import generator
from kg_loaders import KnowledgeGraph


class Lengths(Annotator):
    """Words of more than two letters have their length, and the first letter's number as well."""

    fingerprint = "lengths"

    def __call__(self, text: str) -> Sequence[Annotation]:
        return [
            Annotation(*match.span(), (len(match[0]), ord(match[0][0]) - 97, len(match[0])))
            for match in re.finditer(r"[a-z]{3,}", text)
        ]


class Second(Annotator):
    """The characters from the third on have 7."""

    fingerprint = "second"

    def __call__(self, text: str) -> Sequence[Annotation]:
        return [Annotation(3, len(text), (7,)), Annotation(3, 6, (9, 7))]


class Nothing(Annotator):
    fingerprint = "nothing"

    def __call__(self, text: str) -> Sequence[Annotation]:
        return []


def batch_of(text: str, tokenizer: Any, graph: KnowledgeGraph, **annotators: Annotator) -> Any:
    config = BuilderConfig(replace_mentions=False, max_neighbours=0)
    graph_ = build(
        LinkedText(text, ()), tokenizer, graph, generator=generator(0, "x"), config=config
    )
    batch = words_of(graph_)
    return dataclasses.replace(batch, extra_ids=extra_ids(graph_, annotators))


def test_every_piece_of_a_word_has_the_ids_of_the_word(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    batch = batch_of("an oxbow, the", tokenizer, small_graph, length=Lengths(), rest=Second())
    pieces = tokenizer.convert_ids_to_tokens(batch.node_ids[0])
    assert pieces == ["[CLS]", "a", "##n", "o", "##x", "##b", "##o", "##w", ",", "the", "[SEP]"]
    none, oxbow = [NONE, NONE], [5, 14]
    assert batch.extra_ids["length"][0].tolist() == [
        none, none, none, *[oxbow] * 5, none, [3, 19], none
    ]  # fmt: skip
    first, later = [7, 9], [7, NONE]
    assert batch.extra_ids["rest"][0].tolist() == [
        none, none, none, *[first] * 3, *[later] * 4, none
    ]  # fmt: skip


def test_there_is_a_slot_where_no_word_has_an_id(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    batch = batch_of("the river", tokenizer, small_graph, nothing=Nothing())
    assert batch.extra_ids["nothing"].tolist() == [[[NONE]] * 4]
    longer = batch_of("the river", tokenizer, small_graph, nothing=Lengths())
    stacked = KnowledgeBatch.stack([batch, longer])
    assert stacked.extra_ids is not None
    assert stacked.extra_ids["nothing"][0].tolist() == [[NONE, NONE]] * 4


def test_annotators_are_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Annotator()  # type: ignore[abstract]
