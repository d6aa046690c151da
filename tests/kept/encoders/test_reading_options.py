"""Options beside the published ways, which let methods read: each against a calculation by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import Link, LinkedText, Mention
from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, UNKNOWN_ROW, KnowledgeBatch
from kept.encoders.colake import CoLAKE
from kept.encoders.ebert import EBERT
from kept.encoders.ernie import ERNIE
from kept.encoders.knowbert import KnowBERT
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, ERNIEView
from kept.heads.model import KnowledgeForTask
from kept.layers.entity_linker import EntityLinker, EntityTable
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.finetuning.data import TaskData
from kept.vectors import FactVectors, LabelVectors
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_hosts import small_batch, tiny_host

WITH_ANCHORS = dataclasses.replace(
    small_batch(), mention_spans=torch.tensor([[[5, 6]], [[5, 6]]]), sampled_entities=None
)


def anchors_read(kind: str, graph: KnowledgeGraph, *, training: bool) -> list[tuple[int, ...]]:
    """Rows of both anchors as CoLAKE reads them, over a few passes."""
    encoder = CoLAKE.from_host(tiny_host(), graph, anchor_rows=kind).train(training)
    batch = dataclasses.replace(WITH_ANCHORS, node_ids=WITH_ANCHORS.node_ids.clone())
    batch.node_ids[:, 5] = torch.tensor([8, 10])
    anchors: list[tuple[int, ...]] = []
    original = encoder.node_vectors

    def spy(read_batch: KnowledgeBatch, tables: Any) -> Any:
        anchors.append(tuple(read_batch.node_ids[:, 5].tolist()))
        others = [i for i in range(8) if i != 5]
        assert torch.equal(read_batch.node_ids[:, others], batch.node_ids[:, others])
        return original(read_batch, tables)

    encoder.node_vectors = spy  # type: ignore[method-assign]
    torch.manual_seed(0)
    for _ in range(8):
        encoder(batch)
    return anchors


def test_an_anchor_is_read_with_its_own_row_a_mask_or_anothers(small_graph: KnowledgeGraph) -> None:
    assert {*anchors_read("own", small_graph, training=True)} == {(8, 10)}
    assert {*anchors_read("masked", small_graph, training=True)} == {(MASK_ROW, MASK_ROW)}
    assert {*anchors_read("masked", small_graph, training=False)} == {(MASK_ROW, MASK_ROW)}
    assert {*anchors_read("redrawn", small_graph, training=True)} == {(8, 10), (10, 8)}
    assert {*anchors_read("redrawn", small_graph, training=False)} == {(8, 10)}
    with pytest.raises(ConfigError, match="anchor_rows is 'none'"):
        CoLAKE.from_host(tiny_host(), small_graph, anchor_rows="none")


def test_ernies_vectors_are_as_long_as_an_embedded_word(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    host = tiny_host(n_words=len(tokenizer))
    vectors = {
        scale: ERNIE.for_graph(
            host, small_graph, tokenizer, seed=0, scale=scale, vector_epochs=1, entity_width=8
        ).entity_vectors.weight[N_SPECIAL_ROWS:]
        for scale in ("unit", "host")
    }
    assert float(vectors["unit"].norm(dim=1).mean()) == pytest.approx(1, rel=1e-4)
    length = float(vectors["host"].norm(dim=1).mean())
    assert length == pytest.approx(hosts.embedded_length(host), rel=1e-4)
    assert torch.allclose(vectors["host"], vectors["unit"] * length, rtol=1e-3)
    with pytest.raises(ConfigError, match="scale is 'words'"):
        ERNIE.for_graph(host, small_graph, tokenizer, seed=0, scale="words")


def test_an_embedded_words_length_is_that_of_a_normalised_vector() -> None:
    host = tiny_host()
    with torch.no_grad():
        host.embeddings.LayerNorm.weight.uniform_(0.5, 2)
        host.embeddings.LayerNorm.bias.normal_()
    normalised = host.embeddings.LayerNorm(torch.randn(4000, 16))
    mean_square = normalised.detach().square().sum(1).mean().sqrt()
    assert hosts.embedded_length(host) == pytest.approx(mean_square.item(), rel=0.03)


def linker(*, soft: bool, threshold: float = 0.5) -> EntityLinker:
    """A linker of four entities, eight wide."""
    torch.manual_seed(0)
    return EntityLinker(
        hidden=6, width=8, entities=EntityTable(n_rows=8, width=8), n_layers=1, n_heads=2,
        feed_forward=8, scorer_width=4, threshold=threshold, soft=soft,
    ).eval()  # fmt: skip


def test_a_soft_threshold_is_one_more_candidate() -> None:
    scores = torch.tensor([[[1.0, -2.0]], [[0.2, -1.0]]], requires_grad=True)
    entities = torch.randn(2, 1, 2, 8)
    linker_ = linker(soft=True)
    weights, mixed = linker_._weigh(scores, entities)
    for i in range(2):
        powers = torch.tensor([*scores[i, 0].tolist(), 0.5]).exp()
        shares = powers / powers.sum()
        null = linker_.entities(torch.tensor(UNKNOWN_ROW))
        assert torch.allclose(weights[i, 0], shares[:2])
        by_hand = shares[0] * entities[i, 0, 0] + shares[1] * entities[i, 0, 1] + shares[2] * null
        assert torch.allclose(mixed[i, 0], by_hand, atol=1e-6)


@pytest.mark.parametrize("score", [-1.0, 1.0])
def test_one_candidate_gives_the_scorer_a_gradient_only_with_a_soft_threshold(score: float) -> None:
    for soft in (False, True):
        scores = torch.tensor([[[score]]], requires_grad=True)
        _, mixed = linker(soft=soft)._weigh(scores, torch.randn(1, 1, 1, 8))
        (gradient,) = torch.autograd.grad(mixed.sum(), scores, allow_unused=True)
        assert (gradient is not None and float(gradient.abs()) > 0) == soft


def test_links_start_open_where_the_first_score_is_above_the_threshold(
    small_graph: KnowledgeGraph,
) -> None:
    small = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}
    kars = [{**small, "null": "soft", "first_score": 2.0, "layer": 0}]
    model = KnowBERT.from_host(tiny_host(), small_graph, kars=kars)
    assert model.linker("kg").scorer.outer.bias.item() == 2.0
    assert model.linker("kg").soft
    published = KnowBERT.from_host(tiny_host(), small_graph, kars=[small])
    assert published.linker("kg").scorer.outer.bias.item() != 2.0
    with pytest.raises(ConfigError, match="null 'none': one of hard, soft"):
        KnowBERT.from_host(tiny_host(), small_graph, kars=[{**small, "null": "none"}])


def test_vectors_of_facts_are_means_of_all_they_name(tokenizer: Any) -> None:
    records = [Triple("a", "r", "b"), Triple("c", "r", "a")]
    texts = [
        Text("a", TextKind.LABEL, "old", "en"), Text("b", TextKind.LABEL, "river", "en"),
        Text("c", TextKind.LABEL, "city", "en"), Text("d", TextKind.LABEL, "near", "en"),
        Text("r", TextKind.LABEL, "flows through", "en", 0, True),
    ]  # fmt: skip
    graph = graph_from_records([*records, *texts])
    words = torch.randn(len(tokenizer), 5)
    vectors = FactVectors(words, tokenizer)(graph)
    pieces = tokenizer.get_vocab()
    row = {word: words[pieces[word]] for word in ("old", "river", "city", "near")}
    relation = (words[pieces["flows"]] + words[pieces["through"]]) / 2
    index_of = {name: graph.entities.find(name) for name in "abcd"}
    by_hand = (row["old"] + row["river"] + relation + row["city"] + relation) / 5
    assert torch.allclose(vectors.vectors[index_of["a"]], by_hand, atol=1e-6)
    assert torch.allclose(
        vectors.vectors[index_of["b"]], (row["river"] + row["old"] + relation) / 3
    )
    assert torch.equal(
        vectors.vectors[index_of["d"]], LabelVectors(words, tokenizer)(graph).vectors[index_of["d"]]
    )
    assert vectors.known.all()


def test_ebert_takes_the_vectors_that_it_is_told(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    host = tiny_host(n_words=len(tokenizer))
    encoder = EBERT.for_graph(host, small_graph, tokenizer, seed=0, vectors="facts")
    wanted = FactVectors(hosts.word_table(host).weight.detach(), tokenizer)(small_graph)
    assert torch.allclose(encoder.entity_vectors.weight[N_SPECIAL_ROWS:], wanted.vectors)
    with pytest.raises(ConfigError, match="vectors is 'names'"):
        EBERT.for_graph(host, small_graph, tokenizer, seed=0, vectors="names")
    with pytest.raises(ConfigError, match="beside vectors_from"):
        EBERT.for_graph(host, small_graph, tokenizer, seed=0, vectors="facts", vectors_from="x")


def test_a_head_reads_the_mean_of_its_target(tokenizer: Any, small_graph: KnowledgeGraph) -> None:
    encoder = ERNIE.from_host(tiny_host(n_words=len(tokenizer)), small_graph)
    with pytest.raises(ConfigError, match="read is 'last'"):
        KnowledgeForTask.of(encoder, "targets", ["a", "b"], n_targets=1, read="last")
    model = KnowledgeForTask.of(encoder, "targets", ["a", "b"], n_targets=1, read="mean")
    assert model.head.read == "mean"


def test_links_are_changed_whenever_they_are_read(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    example = TaskExample(
        LinkedText("Paris", (Link(Mention(0, 5), (), "Q90", 1.0),)), ("a",), (Mention(0, 5),)
    )

    def relink(linked: LinkedText, draws: np.random.Generator) -> LinkedText:
        entity = small_graph.entities.name(int(draws.integers(small_graph.n_entities)))
        return dataclasses.replace(linked, links=(Link(Mention(0, 5), (), entity, 1.0),))

    plain, moved = (
        TaskData(
            [example], small_graph, tokenizer, builder=BuilderConfig(**WORDS_ONLY),
            view=ERNIEView(), problem_type=SINGLE, labels={"a": 0}, relink=relinking,
        )
        for relinking in (None, relink)
    )  # fmt: skip
    entities = {int(plain.sample(0, epoch=epoch, seed=0).entity_ids.max()) for epoch in range(9)}
    entities_drawn = [
        int(moved.sample(0, epoch=epoch, seed=0).entity_ids.max()) for epoch in range(9)
    ]
    assert entities == {small_graph.entities.find("Q90") + N_SPECIAL_ROWS}
    assert len({*entities_drawn}) > 2
    assert entities_drawn[4] == int(moved.sample(0, epoch=4, seed=0).entity_ids.max())
    assert plain.fingerprint != moved.fingerprint
