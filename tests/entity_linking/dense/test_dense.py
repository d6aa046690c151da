from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from entity_linking import DictionaryLinker, Link, LinkedText, LinkingError, Mention
from entity_linking.dense.context import (
    ContextScorer,
    DenseCandidates,
    DenseIndex,
    RememberingEncoder,
    context_vectors,
    contexts_of,
)
from entity_linking.errors import LinkIndexError
from entity_linking.pipeline import Pipeline
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records
from tests.entity_linking.dense_parts import TrigramEncoder, mention_of

PARIS_TEXTS = [
    mention_of("Paris is the capital of France.", "Paris", "Q90", "Q830149"),
    mention_of("A small city in Texas called Paris.", "Paris", "Q90", "Q830149"),
    mention_of("No candidates for Paris here.", "Paris"),
    LinkedText("no mention", ()),
]


@pytest.mark.parametrize(
    ("text", "surface", "window", "query"),
    [
        ("In old Paris,\n on the Seine.", "Paris", 1, "old Paris, on"),
        ("In old Paris, on the Seine.", "Paris", 9, "In old Paris, on the Seine."),
        ("(New  York)", "New  York", 2, "(New York)"),
        ("anti-Paris-like things", "Paris", 0, "Paris"),
        ("anti-Paris-like things here", "Paris", 1, "anti-Paris-like things"),
        ("北京是中国的首都" * 9, "北京", 1, "北京是中国的首都北京是中国的"),
        ("Paris", "Paris", 3, "Paris"),
    ],
)
def test_queries_hold_the_mention_and_its_window(
    text: str, surface: str, window: int, query: str
) -> None:
    actual = contexts_of([mention_of(text, surface)], window)
    assert actual == [[(" ".join(surface.split()), query)]]


@pytest.fixture(scope="module")
def index(small_graph: KnowledgeGraph) -> DenseIndex:
    return DenseIndex.build(small_graph, TrigramEncoder(512), dtype="float32")


def test_candidates_are_the_nearest_cards(index: DenseIndex) -> None:
    encoder = TrigramEncoder(512)
    source = DenseCandidates(index, encoder, max_candidates=3, temperature=0.1)
    actual = source.candidates(PARIS_TEXTS)
    assert [len(links) for links in actual] == [1, 1, 1, 0]
    (candidates,) = actual[0]
    queries = context_vectors(encoder, contexts_of(PARIS_TEXTS[:1], 8)[0], 0.5)
    (hits,) = index.search(queries, 3)
    assert [c.entity for c in candidates] == [hit.entity for hit in hits]
    weights = [math.exp(hit.cosine / 0.1) for hit in hits]
    assert [c.prior for c in candidates] == pytest.approx([w / sum(weights) for w in weights])
    assert candidates[0].entity == "Q90"
    assert candidates[0].reason == f"card like the context {hits[0].cosine:.2f}".replace("0.", ".")
    assert [source.candidates([text])[0] for text in PARIS_TEXTS] == actual
    none = DenseCandidates(index, encoder, min_cosine=0.99).candidates(PARIS_TEXTS)
    assert none == [[()], [()], [()], []]


def test_contexts_score_candidates_in_their_order(index: DenseIndex) -> None:
    encoder = TrigramEncoder(512)
    scorer = ContextScorer(index, encoder, weight=2.0, temperature=0.1)
    actual = scorer.scores(PARIS_TEXTS)
    assert actual[0][0][0] > actual[0][0][1]
    assert actual[1][0][1] > actual[1][0][0]
    assert actual[2][0].shape == (0,)
    assert actual[3] == []
    pair = encoder.encode(["Paris", "Paris is the capital of France."])
    query = pair.sum(axis=0) / np.linalg.norm(pair.sum(axis=0))
    cards, _ = index.vectors(["Q90", "Q830149"])
    by_hand = [2.0 * float(query @ (card - index.mean)) / 0.1 for card in cards]
    assert actual[0][0].tolist() == pytest.approx(by_hand, abs=1e-4)
    for text, scores in zip(PARIS_TEXTS, actual, strict=True):
        for alone, together in zip(scorer.scores([text])[0], scores, strict=True):
            np.testing.assert_array_equal(alone, together)


def test_each_link_is_judged_by_itself(index: DenseIndex) -> None:
    """So that a re-ranker may ask about some of a text's mentions."""
    scorer = ContextScorer(index, TrigramEncoder(512))
    one = mention_of("Paris", "Paris", "Q90").links[0]
    links = (one, replace(one, mention=Mention(9, 14)))
    together = scorer.scores([LinkedText("Paris in Texas", links)])[0]
    for link, score in zip(links, together, strict=True):
        (alone,) = scorer.scores([LinkedText("Paris in Texas", (link,))])[0]
        np.testing.assert_array_equal(alone, score)


def test_unknown_entities_score_like_the_average(index: DenseIndex) -> None:
    text = mention_of("Paris in Texas", "Paris", "unknown", "Q830149")
    ((scores,),) = ContextScorer(index, TrigramEncoder(512)).scores([text])
    assert scores[0] == 0.0
    assert scores[1] > 0.0


def test_repeats_are_read_once(index: DenseIndex) -> None:
    encoder = TrigramEncoder(512)
    shared = RememberingEncoder(encoder, most=2)
    pipeline = Pipeline(
        DictionaryLinker(graph_from_records([Text("Q90", TextKind.LABEL, "Paris")])),
        DenseCandidates(index, shared, window=4),
        ContextScorer(index, shared, window=4),
    )
    linked = pipeline.link(["Paris, in Texas"] * 5)
    assert encoder.surfaces == ["Paris", "Paris, in Texas"]
    assert len({text.links[0].entity for text in linked}) == 1
    before = shared.encode(["a", "b"])
    np.testing.assert_array_equal(shared.encode(["b", "a", "b"]), before[[1, 0, 1]])
    assert len(encoder.surfaces) == 4
    shared.encode(["a"])
    shared.encode(["c"])  # b goes: a was used last
    shared.encode(["a", "c"])
    assert len(encoder.surfaces) == 5
    shared.encode(["b"])
    assert len(encoder.surfaces) == 6
    assert shared.encode([]).shape == (0, 512)
    assert (shared.name, shared.width) == (encoder.name, 512)


def test_faults_are_told(index: DenseIndex) -> None:
    for part in (DenseCandidates, ContextScorer):
        with pytest.raises(LinkIndexError, match="trigrams/64"):
            part(index, TrigramEncoder())
        with pytest.raises(LinkingError, match="window is -1"):
            part(index, TrigramEncoder(512), window=-1)
        with pytest.raises(LinkingError, match="surface_share is 2"):
            part(index, TrigramEncoder(512), surface_share=2)
        with pytest.raises(LinkingError, match="temperature is 0"):
            part(index, TrigramEncoder(512), temperature=0)
    with pytest.raises(LinkingError, match="max_candidates is 0"):
        DenseCandidates(index, TrigramEncoder(512), max_candidates=0)
    with pytest.raises(LinkingError, match="weight is nan"):
        ContextScorer(index, TrigramEncoder(512), weight=math.nan)
    with pytest.raises(LinkingError, match="most is 0"):
        RememberingEncoder(TrigramEncoder(), most=0)


def test_encoders_that_return_nonsense_are_caught(index: DenseIndex) -> None:
    class Broken(TrigramEncoder):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            return super().encode(texts) * np.nan

    with pytest.raises(LinkingError, match="not finite"):
        ContextScorer(index, Broken(512)).scores(PARIS_TEXTS)


def test_the_mention_may_stand_anywhere(index: DenseIndex) -> None:
    text = "Bonn Bonn"
    links = tuple(Link(Mention(start, start + 4), (), None, 1.0) for start in (0, 5))
    actual = DenseCandidates(index, TrigramEncoder(512)).candidates([LinkedText(text, links)])
    assert [candidates[0].entity for candidates in actual[0]] == ["Q2", "Q2"]
