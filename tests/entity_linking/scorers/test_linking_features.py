from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from entity_linking import Candidate, DictionaryLinker, Link, LinkedText, LinkingError, Mention
from entity_linking.parts import Scorer
from entity_linking.scorers.candidate_rows import CandidateRows
from entity_linking.scorers.context_words import FUNCTION_WORDS, words_of
from entity_linking.scorers.features import (
    NeighbourScorer,
    PopularityScorer,
    PriorScorer,
    TypeScorer,
)
from entity_linking.scorers.likeness import NameScorer
from entity_linking.scorers.overlap import OverlapScorer
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.rerank_worlds import flat, linked

SCORERS: dict[str, Callable[[KnowledgeGraph], Scorer]] = {
    "prior": lambda graph: PriorScorer(),
    "popularity": PopularityScorer,
    "name": NameScorer,
    "neighbour": NeighbourScorer,
    "type": lambda graph: TypeScorer(graph, ["P17", "P30"]),
    "overlap": OverlapScorer,
}
TEXTS = [
    "Paris on the Seine is in France, not in Texas.",
    "Paris, Texas: a city.",
    "No name here.",
    "Berlin and PARIS and Bonn, Paris and Germany, in Europe.",
]


@pytest.fixture(scope="module")
def texts(small_graph: KnowledgeGraph) -> list[LinkedText]:
    """Dictionary links, the first text with an unknown candidate and a link without any."""
    result = DictionaryLinker(small_graph, case="insensitive").link(TEXTS)
    odd = linked(
        "Nowhere near Paris",
        ("Nowhere", [], None),
        ("Paris", [("Q90", 0.5), ("unknown", 0.4)], "Q90"),
    )
    return [odd, *result]


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_law(name: str, small_graph: KnowledgeGraph, texts: list[LinkedText]) -> None:
    """One finite number a candidate; alone as in a batch; permuted as the candidates are."""
    scorer = SCORERS[name](small_graph)
    together = scorer.scores(texts)
    for text, scores in zip(texts, together, strict=True):
        assert [len(s) for s in scores] == [len(link.candidates) for link in text.links]
        assert all(np.isfinite(s).all() and s.dtype == np.float64 for s in scores)
    assert flat(together) == [flat(scorer.scores([text]))[0] for text in texts]
    turned = [
        replace(t, links=tuple(replace(k, candidates=k.candidates[::-1]) for k in t.links))
        for t in texts
    ]
    for before, after in zip(together, scorer.scores(turned), strict=True):
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(a, b[::-1], atol=1e-12)
    assert scorer.scores([]) == []
    assert any(s.any() for scores in together for s in scores)


def neighbours(graph: KnowledgeGraph, name: str) -> set[str]:
    if name not in graph.entities:
        return set()
    entity = graph.entities.id(name)
    tails = {graph.entities.name(t) for _, _, t in graph.outgoing(entity).tolist()}
    heads = {graph.entities.name(h) for h, _, _ in graph.incoming(entity).tolist()}
    return (tails | heads) - {name}


def kinds(graph: KnowledgeGraph, name: str) -> set[str]:
    if name not in graph.entities:
        return set()
    entity = graph.entities.id(name)
    wanted = {graph.relations.id("P17"), graph.relations.id("P30")}
    facts = graph.outgoing(entity).tolist()
    of_facts = {graph.entities.name(tail) for _, relation, tail in facts if relation in wanted}
    return of_facts | {f"type {name}" for name in graph.types(entity)}


def coherence(graph: KnowledgeGraph, text: LinkedText, i: int, name: str, by_type: bool) -> float:
    others = [link for j, link in enumerate(text.links) if j != i and link.candidates]
    kinds_of_mention = kinds(graph, name)
    total = 0.0
    for other in others:
        for candidate in other.candidates:
            if by_type:
                shared = kinds_of_mention & kinds(graph, candidate.entity)
                total += candidate.prior * len(shared) / max(len(kinds_of_mention), 1)
            elif candidate.entity in neighbours(graph, name):
                total += candidate.prior
    return total / max(len(others), 1)


@pytest.mark.parametrize("by_type", [False, True])
def test_coherence_against_loops(
    by_type: bool, small_graph: KnowledgeGraph, texts: list[LinkedText]
) -> None:
    scorer = SCORERS["type" if by_type else "neighbour"](small_graph)
    n_positive = 0
    for text, scores in zip(texts, scorer.scores(texts), strict=True):
        for i, (link, each) in enumerate(zip(text.links, scores, strict=True)):
            expected = [coherence(small_graph, text, i, c.entity, by_type) for c in link.candidates]
            np.testing.assert_allclose(each, expected, atol=1e-12)
            n_positive += sum(value > 0 for value in expected)
    assert n_positive > 3


def test_coherence_in_small_steps(
    small_graph: KnowledgeGraph, texts: list[LinkedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = NeighbourScorer(small_graph)
    whole = flat(scorer.scores(texts))
    monkeypatch.setattr("entity_linking.scorers.features.PAIRS_PER_STEP", 3)
    assert flat(scorer.scores(texts)) == whole


def test_prior_and_popularity_against_loops(
    small_graph: KnowledgeGraph, texts: list[LinkedText]
) -> None:
    degree = {"Q90": 5, "Q830149": 0, "unknown": 0, "Q46": 2}
    priors = PriorScorer(floor=0.5).scores(texts)
    popular = PopularityScorer(small_graph).scores(texts)
    popularity = PopularityScorer(small_graph, {"Q90": 7.0, "elsewhere": 3.0}).scores(texts)
    n_seen = 0
    for i, text in enumerate(texts):
        for j, link in enumerate(text.links):
            for k, c in enumerate(link.candidates):
                assert priors[i][j][k] == pytest.approx(math.log(max(c.prior, 0.5)))
                assert popularity[i][j][k] == pytest.approx(math.log(8) if c.entity == "Q90" else 0)
                if c.entity in degree and c.entity != "Q90":
                    assert popular[i][j][k] == pytest.approx(math.log1p(degree[c.entity]))
                    n_seen += 1
    paris = small_graph.entities.id("Q90")
    n_triples = len(small_graph.outgoing(paris)) + len(small_graph.incoming(paris))
    assert popular[0][1][0] == pytest.approx(math.log1p(n_triples))
    assert n_seen > 4


def test_priors_that_are_remembered_are_those_of_their_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("entity_linking.scorers.features.MOST_REMEMBERED", 2)
    scorer = PriorScorer()
    sets = [tuple(Candidate("Q1", i / 9, 0.0) for i in range(n)) for n in range(1, 6)]
    for candidates in [*sets, *sets, sets[0]]:
        text = LinkedText("Paris", (Link(Mention(0, 5), candidates, None, 1.0),))
        expected = [math.log(max(c.prior, 1e-4)) for c in candidates]
        for _ in range(2):
            assert scorer.scores([text])[0][0] == pytest.approx(expected)


def card(graph: KnowledgeGraph, name: str) -> dict[str, float]:
    """Words of an entity's card with their field weights."""
    if name not in graph.entities:
        return {}
    entity = graph.entities.id(name)
    near = [graph.label(graph.entities.id(other)) for other in neighbours(graph, name)]
    fields = [graph.label(entity), graph.description(entity) or "", *graph.types(entity)]
    words = dict.fromkeys((w.lower() for s in near for w in s.split()), 0.5)
    words |= dict.fromkeys((w.lower() for s in fields for w in s.split()), 1.0)
    return {w: weight for w, weight in words.items() if w not in FUNCTION_WORDS}


@pytest.mark.parametrize("window", [2, 50])
def test_overlap_against_loops(
    window: int, small_graph: KnowledgeGraph, texts: list[LinkedText]
) -> None:
    names = list(small_graph.entities)
    cards = {name: card(small_graph, name) for name in [*names, "unknown"]}
    n_cards = {w: sum(w in cards[n] for n in names) for n in names for w in cards[n]}
    idf = {w: math.log1p(len(names) / n) for w, n in n_cards.items()}
    scorer = OverlapScorer(small_graph, window=window)
    n_positive = 0
    for text, scores in zip(texts, scorer.scores(texts), strict=True):
        for link, each in zip(text.links, scores, strict=True):
            sides = text.text[: link.mention.start], text.text[link.mention.end :]
            before, after = ("".join(c if c.isalnum() else " " for c in s).split() for s in sides)
            context = {w.lower() for w in before[-window:] + after[:window]} & set(idf)
            for candidate, value in zip(link.candidates, each, strict=True):
                weights = {w: f * idf[w] for w, f in cards[candidate.entity].items()}
                dot = sum(weights.get(w, 0.0) * idf[w] for w in context)
                norms = [sum(v * v for v in weights.values()), sum(idf[w] ** 2 for w in context)]
                expected = dot / math.sqrt(norms[0] * norms[1]) if dot else 0.0
                assert value == pytest.approx(expected, abs=1e-12)
                n_positive += expected > 0
    assert n_positive > 2


def test_overlap_reads_other_scripts() -> None:
    records = [
        Text("Q1", TextKind.LABEL, "東京"),
        Text("Q1", TextKind.DESCRIPTION, "日本の首都"),
        Text("Q2", TextKind.LABEL, "東京"),
        Text("Q2", TextKind.DESCRIPTION, "un café à Straßburg"),
    ]
    graph = graph_from_records(records)
    both = [("Q1", 0.5), ("Q2", 0.5)]
    texts = [
        linked("首都の東京", ("東京", both, None)),
        linked("CAFE\u0301 東京", ("東京", both, None)),
    ]
    first, second = (scores[0] for scores in OverlapScorer(graph).scores(texts))
    assert first[0] > first[1] == 0
    assert second[1] > second[0] == 0


def test_places_of_words() -> None:
    texts = ["İstanbul, cafe\u0301 x\u00adyz", "", "Straße 東京!"]
    words = words_of(texts)
    assert words.values == ("istanbul", "café", "xyz", "strasse", "東", "京")
    assert words.text_of.tolist() == [0, 0, 0, 2, 2, 2]
    assert words.starts.tolist() == [0, 10, 16, 0, 7, 8]


def test_types_of_texts_and_relations_agree() -> None:
    records = [
        *(
            Text(q, TextKind.TYPE, kind)
            for q, kind in [("a", "city"), ("b", "city"), ("c", "band")]
        ),
        Triple("a", "P31", "b"),
        Text("d", TextKind.LABEL, "d"),
    ]
    graph = graph_from_records(records)
    text = linked(
        "x y", ("x", [("a", 0.6), ("c", 0.4), ("d", 0.1)], None), ("y", [("b", 1.0)], None)
    )
    for relations, expected in (([], 1.0), (["P31"], 0.5)):
        first, second = TypeScorer(graph, relations).scores([text])[0]
        assert first.tolist() == [expected, 0.0, 0.0]
        assert second.tolist() == pytest.approx([0.6])


def test_ranks_against_loops() -> None:
    rng = np.random.default_rng(0)
    sizes = [0, 1, 3, 5, 0, 7]
    texts = [linked("word", ("word", [(f"Q{j}", 0.1) for j in range(n)], None)) for n in sizes]
    rows = CandidateRows.of(texts)
    values = rng.integers(-3, 2, len(rows)).astype(np.float64)
    better, others, best = rows.n_better(values), rows.others_best(values), rows.best(values)
    for m in range(len(sizes)):
        mine = values[rows.offsets[m] : rows.offsets[m + 1]].tolist()
        assert best[m] == (max(mine) if mine else 0)
        for j, value in enumerate(mine):
            row = rows.offsets[m] + j
            assert better[row] == sum(other > value for other in mine)
            assert others[row] == max(mine[:j] + mine[j + 1 :], default=value)


@pytest.mark.parametrize("counts", [np.zeros(3), np.full(10, -1.0), np.full(10, np.nan)])
def test_wrong_counts_are_told(counts: np.ndarray, small_graph: KnowledgeGraph) -> None:
    with pytest.raises(LinkingError, match="counts"):
        PopularityScorer(small_graph, counts)


def test_wrong_settings_of_scorers_are_told(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(LinkingError, match="floor"):
        PriorScorer(0.0)
    with pytest.raises(LinkingError, match="window"):
        OverlapScorer(small_graph, window=0)
