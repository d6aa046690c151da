"""Walks over WordNet against networkx, word by word; contexts; links from glosses."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from entity_linking import DictionaryLinker, LinkedText, LinkingError
from entity_linking.pipeline import Pipeline
from entity_linking.senses.candidates import FirstSense, SenseCandidates
from entity_linking.senses.corpus import SenseText, read_senses
from entity_linking.senses.gloss_links import gloss_links
from entity_linking.senses.walks import Method, SenseWalk, relations, undirected
from kg_loaders import KnowledgeGraph
from tests.entity_linking.mini_wordnet import (
    EDGES,
    ENTITY,
    FLOW,
    LEND,
    LENDER,
    MONEY,
    RICH,
    RIVER,
    SHORE,
    SLOPE,
    WATER,
    mini_graph,
    mini_lexicon,
    write_corpus,
)

FLOOR = 1e-9
LINES = {"d0": [0, 0, 0, 0, 1, 1, 1], "d1": [0, 0, 0, 0]}
"""The sentence of each content word of the documents."""


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return mini_graph()


@pytest.fixture(scope="module")
def proposed(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> list[LinkedText]:
    texts = read_senses(*write_corpus(tmp_path_factory.mktemp("walks")))
    return with_candidates(graph, texts)


def with_candidates(graph: KnowledgeGraph, texts: list[SenseText]) -> list[LinkedText]:
    """The texts with the candidates of their words."""
    source = SenseCandidates(graph, mini_lexicon(), texts)
    return Pipeline(DictionaryLinker(graph), source, FirstSense()).propose(
        [t.linked for t in texts]
    )


def oracle(text: LinkedText, *, method: str, priors: bool, sentences: bool) -> list[list[float]]:
    """networkx; with `sentences` each line is its own context, else the document is."""
    walkers = nx.Graph(EDGES)
    results = []
    for i, link in enumerate(text.links):
        entities = [c.entity for c in link.candidates]
        restart = dict.fromkeys(walkers, 0.0)
        for j, voter in enumerate(text.links):
            if sentences and LINES[text.id][i] != LINES[text.id][j]:
                continue
            if method == "ppr_w2w" and [c.entity for c in voter.candidates] == entities:
                continue
            for c in voter.candidates:
                weight = c.prior if priors else 1 / len(voter.candidates)
                restart[c.entity] = restart.get(c.entity, 0.0) + weight
        walkers.add_nodes_from(restart)  # the adverb has no edges
        shares = {}
        if any(restart.values()):
            shares = nx.pagerank(walkers, 0.85, restart, max_iter=2000, tol=1e-14)
        results.append([float(np.log(shares.get(e, 0.0) + FLOOR)) for e in entities])
    return results


@pytest.mark.parametrize("method", ["ppr", "ppr_w2w"])
@pytest.mark.parametrize("priors", [True, False])
@pytest.mark.parametrize("sentences", [True, False])
def test_scores_are_those_of_networkx(
    graph: KnowledgeGraph,
    proposed: list[LinkedText],
    method: Method,
    priors: bool,
    sentences: bool,
) -> None:
    walk = SenseWalk(
        graph,
        relations(graph),
        method=method,
        restart_priors=priors,
        context_words=1 if sentences else 20,
        tolerance=1e-7,
    )
    for text, scores in zip(proposed, walk.scores(proposed), strict=True):
        expected = oracle(text, method=method, priors=priors, sentences=sentences)
        assert len(expected) == len(scores) == len(text.links)
        for ours, theirs in zip(scores, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-3)
    alone = [walk.scores([text])[0] for text in proposed]
    for ours, theirs in zip(walk.scores(proposed), alone, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_context_decides_and_own_priors_add(
    graph: KnowledgeGraph, proposed: list[LinkedText]
) -> None:
    plain = SenseWalk(graph, relations(graph), restart_priors=False)
    first, second = plain.scores(proposed)
    assert int(np.argmax(first[0])) == 0  # the bank of the river
    assert int(np.argmax(second[0])) == 1  # the bank that lends money
    both = SenseWalk(graph, relations(graph), restart_priors=False, own_prior=True)
    priors = [c.prior for c in proposed[0].links[0].candidates]
    np.testing.assert_allclose(both.scores(proposed)[0][0], first[0] + np.log(priors), atol=1e-6)
    assert "ppr_w2w" in repr(plain)


def test_a_context_grows_by_whole_sentences(
    graph: KnowledgeGraph, proposed: list[LinkedText]
) -> None:
    """Three known words stand in each sentence: three are enough, for four both are taken."""
    walks = [
        SenseWalk(graph, relations(graph), context_words=n).scores(proposed[:1])[0][4][0]
        for n in (3, 4, 20)
    ]
    assert walks[0] == pytest.approx(np.log(FLOOR), abs=1e-6)  # nothing leads to "soon"
    short, long = (
        SenseWalk(graph, relations(graph), context_words=n).scores(proposed[:1])[0][0]
        for n in (3, 4)
    )
    assert not np.allclose(short, long, atol=1e-3)


def test_relations_are_undirected_and_weigh_one(graph: KnowledgeGraph) -> None:
    actual = relations(graph)
    assert actual.nnz == 2 * len(EDGES)
    assert (actual != actual.T).nnz == 0
    assert set(actual.data.tolist()) == {1.0}


def links_of(graph: KnowledgeGraph, synset: str, **options: str) -> dict[str, float]:
    row = gloss_links(graph, mini_lexicon(), **options)[graph.entities.find(synset)].tocoo()  # type: ignore[arg-type]
    return {graph.entities.name(int(i)): float(w) for i, w in zip(row.col, row.data, strict=True)}


def test_gloss_words_link_to_their_senses(graph: KnowledgeGraph) -> None:
    assert links_of(graph, SHORE) == {WATER: 1.0}  # "sloping land" is unknown, examples not read
    assert links_of(graph, LENDER) == {LEND: 1.0, MONEY: 1.0}
    assert links_of(graph, MONEY) == {RICH: 1.0}
    assert links_of(graph, SLOPE) == {SHORE: 1.0}
    assert links_of(graph, SLOPE, senses="all") == {
        SHORE: pytest.approx(21 / 48),
        LENDER: pytest.approx(26 / 48),
    }
    assert links_of(graph, ENTITY) == {}
    joined = undirected(relations(graph), gloss_links(graph, mini_lexicon()))
    ids = {name: graph.entities.find(name) for name in (SHORE, SLOPE, MONEY, RIVER, FLOW)}
    assert joined[ids[MONEY], graph.entities.find(RICH)] == 1.0
    assert joined[ids[SLOPE], ids[SHORE]] == joined[ids[SHORE], ids[SLOPE]] == 1.0
    assert joined[ids[MONEY], ids[RIVER]] == 0.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "static"}, "'static'"),
        ({"context_words": 0}, "context_words 0"),
        ({"floor": 1.0}, "floor 1.0"),
        ({"damping": 0.0}, "damping is 0.0"),
    ],
)
def test_wrong_settings_are_told(
    graph: KnowledgeGraph, wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(LinkingError, match=message):
        SenseWalk(graph, relations(graph), **wrong)  # type: ignore[arg-type]
    with pytest.raises(LinkingError, match="shape"):
        SenseWalk(graph, relations(graph)[:3, :3])
    with pytest.raises(LinkingError, match="'every'"):
        gloss_links(graph, mini_lexicon(), senses="every")  # type: ignore[arg-type]
