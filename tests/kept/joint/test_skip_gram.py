"""Pairs against loops, the update against its objective's gradient, and what is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.joint.corpus import Corpus, read_corpus
from kept.joint.skip_gram import MAX_DOT, Tables, keep_table, noise_table, sigmoids, update
from kept.joint.wikipedia2vec import (
    Keep,
    Wikipedia2Vec,
    Wikipedia2VecSettings,
    link_pairs,
    word_pairs,
)
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

TEXTS = [
    LinkedText(
        "Paris lies on the Seine, and Lyon on the Rhone",
        (gold_link(0, 5, "Q90"), gold_link(18, 23, "Q1471"), gold_link(29, 33, "Q456")),
    ),
    LinkedText("the Seine", (gold_link(4, 9, "Q1471"),)),
    LinkedText("the Rhone runs on, and on", (gold_link(4, 9, "Q602"), gold_link(10, 14, "Q0"))),
]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return graph_from_records(
        [Triple("Q90", "on", "Q1471"), Triple("Q456", "on", "Q602"), Triple("Q602", "in", "Q142")]
    )


@pytest.fixture
def corpus(graph: KnowledgeGraph) -> Corpus:
    return read_corpus(TEXTS, graph, min_tokens=3, min_word_count=2)


def test_the_vocabulary_is_of_linked_entities_and_those_with_a_triple(
    corpus: Corpus, graph: KnowledgeGraph
) -> None:
    assert corpus.words == ("and", "on", "rhone", "the")  # "the Seine" is too short to count
    assert [graph.entities.name(int(i)) for i in corpus.entities] == sorted(
        ["Q90", "Q1471", "Q456", "Q602", "Q142"], key=lambda name: graph.entities.find(name) or 0
    )
    counts = {graph.entities.name(int(i)): n for i, n in
              zip(corpus.entities, corpus.entity_counts, strict=True)}  # fmt: skip
    assert counts == {"Q90": 1, "Q1471": 2, "Q456": 1, "Q602": 1, "Q142": 0}
    assert corpus.n_links_outside == 1
    assert "1 link to what is not in the graph" in repr(corpus)
    assert corpus.text_offsets.tolist() == [0, 10, 10, 16]
    assert corpus.link_offsets.tolist() == [0, 3, 3, 4]
    assert [tuple(row[1:]) for row in corpus.links.tolist()] == [(0, 1), (4, 5), (6, 7), (11, 12)]
    assert len(corpus.edges) == 6
    assert (
        corpus.fingerprint == read_corpus(TEXTS, graph, min_tokens=3, min_word_count=2).fingerprint
    )
    assert corpus.fingerprint != read_corpus(TEXTS, graph, min_tokens=3).fingerprint


def test_a_link_of_several_words_holds_them_all(graph: KnowledgeGraph) -> None:
    text = LinkedText("see: the long river here", (gold_link(9, 19, "Q90"),))
    (row,) = read_corpus([text], graph).links.tolist()
    assert row[1:] == [2, 4]


def test_nothing_left_is_an_error(graph: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match="leave 0 words"):
        read_corpus([LinkedText("a b", ())], graph, min_word_count=2)


class Always(Keep):
    """Every token stays, and nothing is drawn for it."""

    def __init__(self) -> None:
        pass

    def __call__(self, words: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        return words >= 0


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_those_of_loops(corpus: Corpus, seed: int) -> None:
    texts, window = np.array([2, 0]), 3
    spans = [(corpus.text_offsets[t], corpus.text_offsets[t + 1]) for t in texts]
    n_tokens = sum(end - begin for begin, end in spans)
    sizes = generator(seed, "pairs").integers(1, window, n_tokens, endpoint=True).tolist()
    expected = []
    for position, (begin, end) in enumerate(spans):
        for i in range(begin, end):
            size = sizes.pop(0)
            for j in range(max(begin, i - size), min(end, i + size + 1)):
                if i != j and corpus.tokens[i] >= 0 and corpus.tokens[j] >= 0:
                    expected.append((corpus.tokens[i], corpus.tokens[j], position))
    pairs = word_pairs(corpus, texts, window=window, keep=Always(), draws=generator(seed, "pairs"))
    assert list(zip(pairs.inputs, pairs.outputs, pairs.places, strict=True)) == expected

    rows = [(p, r) for p, t in enumerate(texts) for r in range(*corpus.link_offsets[t : t + 2])]
    sizes = generator(seed, "links").integers(1, window, len(rows), endpoint=True).tolist()
    expected = []
    for (position, row), size in zip(rows, sizes, strict=True):
        entity, first, last = corpus.links[row]
        begin, end = spans[position]
        for j in range(max(begin, first - size), min(end, last + size)):
            if not first <= j < last and corpus.tokens[j] >= 0:
                word = corpus.tokens[j]
                expected += [(entity, word, position), (word, entity, position)]
    pairs = link_pairs(corpus, texts, window=window, keep=Always(), draws=generator(seed, "links"))
    assert list(zip(pairs.inputs, pairs.outputs, pairs.places, strict=True)) == expected


def test_frequent_words_go_in_the_share_that_the_table_says(graph: KnowledgeGraph) -> None:
    text = LinkedText("the " * 900 + "seine " * 100, ())
    corpus = read_corpus([text], graph)
    keep, draws = Keep(corpus, 1e-3), generator(0, "keep")
    words = np.repeat(np.arange(2), 20_000)
    shares = keep(words, draws).reshape(2, -1).mean(1)
    expected = keep_table(corpus.word_counts, 1e-3) / (2**32 - 1)
    assert np.abs(shares - expected).max() < 0.01
    assert not keep(np.full(5, -1), draws).any()
    assert Keep(corpus, 0.0)(words, draws).all()


def test_noise_is_drawn_in_the_share_of_the_power() -> None:
    counts = np.array([1, 8, 27])
    shares = np.bincount(noise_table(counts, 2 / 3, 100_000)) / 100_000
    assert np.allclose(shares, np.array([1, 4, 9]) / 14, atol=1e-4)
    assert noise_table(counts, 0, 100).tolist() == [0, 1, 2]
    assert np.bincount(noise_table(np.array([6, 1, 1]), 1, 81)).tolist() == [62, 10, 9]


def test_a_step_is_that_of_the_objective() -> None:
    """Pairs without common items: the step is the gradient of the negative-sampling loss."""
    draws = torch.Generator().manual_seed(1)
    inputs, outputs = (torch.randn(12, 5, generator=draws) * 0.7 for _ in range(2))
    tables = Tables(inputs.clone(), outputs.clone())
    pair_in, pair_out = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    negatives = torch.tensor([[6, 7], [8, 9], [10, 11]])
    rates = torch.tensor([0.1, 0.2, 0.3])
    total, n = update(tables, pair_in, pair_out, negatives, rates, sigmoids(1_000_000))
    first, second = (t.double().requires_grad_() for t in (inputs, outputs))
    losses = []
    for i, (a, b) in enumerate(zip(pair_in, pair_out, strict=True)):
        loss = F.softplus(-(first[a] @ second[b]))
        for negative in negatives[i]:
            loss = loss + F.softplus(first[a] @ second[negative])
        losses.append(loss)
    torch.stack(losses).mul(rates.double()).sum().backward()
    assert first.grad is not None
    assert second.grad is not None
    assert n == 9
    assert float(total) == pytest.approx(float(torch.stack(losses).detach().sum()), rel=1e-5)
    assert torch.allclose(tables.inputs.double(), inputs.double() - first.grad, atol=2e-5)
    assert torch.allclose(tables.outputs.double(), outputs.double() - second.grad, atol=2e-5)


def test_what_is_far_out_and_what_is_drawn_of_itself_stay() -> None:
    tables = Tables(torch.full((3, 1), 3.0), torch.tensor([[2.5], [0.1], [-2.5]]))
    before = tables.outputs.clone()
    ids = torch.tensor([0])
    _, n = update(tables, ids, ids, torch.tensor([[0, 2]]), torch.ones(1), sigmoids())
    assert n == 0
    assert MAX_DOT < 3.0 * 2.5
    assert torch.equal(tables.outputs, before)
    _, n = update(tables, ids, torch.tensor([1]), torch.tensor([[1]]), torch.ones(1), sigmoids())
    assert n == 1


def test_the_loss_falls_and_neighbours_come_near(graph: KnowledgeGraph) -> None:
    corpus = read_corpus(TEXTS * 30, graph)
    settings = Wikipedia2VecSettings(window=3, negatives=3, sample=0.0, batch_pairs=64)
    tables = Tables.fresh(corpus.n_items, 8, torch.Generator().manual_seed(0))
    model = Wikipedia2Vec(corpus, settings, tables, seed=0)
    pages, losses = np.arange(len(corpus.pages)), []
    schedule = np.random.default_rng(0).integers(len(corpus.words), corpus.n_items, (90, 1))
    for epoch in range(15):
        loss, n = model.train(pages, np.full(90, 0.1), schedule, epoch)
        losses.append(loss / n)
    assert losses[-1] < losses[0] - 0.05
    entity = {graph.entities.name(int(i)): len(corpus.words) + row
              for row, i in enumerate(corpus.entities)}  # fmt: skip
    near = F.cosine_similarity(tables.inputs[entity["Q1471"]], tables.inputs, dim=1)
    assert near[entity["Q90"]] > near[entity["Q142"]]
