"""Word-knowledge graphs as training data."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from kept.batches import IGNORE, N_SPECIAL_ROWS
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import NodeKind
from kept.graphs.views import CoLAKEView, colake_view
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kept.training.stream import BatchStream, HasNodeCounts, HasSampleBatches
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import linked_texts, tokenizer


def make(graph: KnowledgeGraph, times: int = 1, probability: float = 0.3, **options: Any) -> Any:
    words = tokenizer()
    return WordGraphData(
        linked_texts(graph, times),
        graph,
        words,
        builder=BuilderConfig(**options),
        view=CoLAKEView(),
        objectives={"masked_nodes": {"probability": probability}},
    )


def test_a_sample_is_the_text_s_own_graph_masked(small_graph: KnowledgeGraph) -> None:
    data = make(small_graph)
    for index, text in enumerate(linked_texts(small_graph, 1)):
        whole = colake_view(
            build(text, tokenizer(), small_graph, generator=generator(7, "graph", 2, index))
        )
        sample = data.sample(index, epoch=2, seed=7)
        labels, ids = sample.node_labels, sample.node_ids
        assert dataclasses.replace(sample, node_ids=whole.node_ids, node_labels=None).same_as(whole)
        is_masked = labels != IGNORE
        assert labels[is_masked].equal(whole.node_ids[is_masked])
        assert ids[~is_masked].equal(whole.node_ids[~is_masked])


def test_samples_made_together_are_those_made_alone(small_graph: KnowledgeGraph) -> None:
    data = make(small_graph, max_neighbours=2, drop_probability=0.3)
    assert isinstance(data, HasSampleBatches)
    indices = [5, 0, 7, 5, 3]
    together = data.samples(indices, epoch=1, seed=4)
    for index, sample in zip(indices, together, strict=True):
        assert sample.same_as(data.sample(index, epoch=1, seed=4))
    stream = BatchStream(data, seed=4, batch_size=5)
    epoch, chosen = stream.locate(0)
    alone = [data.sample(int(i), epoch=epoch, seed=4) for i in chosen]
    assert stream[0].same_as(data.collate(alone, epoch=epoch, seed=4, step=0))


def test_masks_and_neighbours_change_with_the_epoch_alone(small_graph: KnowledgeGraph) -> None:
    data = make(small_graph, max_neighbours=1)
    epochs = [[data.sample(i, epoch=e, seed=1) for i in range(6)] for e in (0, 0, 1)]
    assert all(a.same_as(b) for a, b in zip(epochs[0], epochs[1], strict=True))
    assert not all(
        a.node_ids.shape == c.node_ids.shape and a.same_as(c)
        for a, c in zip(epochs[0], epochs[2], strict=True)
    )


def test_a_pickled_copy_gives_the_same_batches(small_graph: KnowledgeGraph) -> None:
    data = make(small_graph, times=2)
    copy = pickle.loads(pickle.dumps(data))
    assert copy.fingerprint == data.fingerprint
    streams = [BatchStream(d, seed=3, batch_size=5) for d in (data, copy)]
    assert all(streams[0][n].same_as(streams[1][n]) for n in range(8))


@pytest.mark.parametrize("options", [{}, {"max_neighbours": 2}, {"directions": "both"}])
def test_node_counts_bound_every_epoch(small_graph: KnowledgeGraph, options: Any) -> None:
    data = make(small_graph, replace_mentions=False, **options)
    assert isinstance(data, HasNodeCounts)
    slack = []
    for index in range(len(data)):
        sizes = [data.sample(index, epoch=e, seed=0).node_ids.shape[1] for e in range(4)]
        assert max(sizes) <= data.n_nodes(index)
        slack.append(data.n_nodes(index) - max(sizes))
    assert min(slack) == 0  # the bound is not idle


def test_frequencies_count_the_links_into_the_graph(small_graph: KnowledgeGraph) -> None:
    data = make(small_graph, times=2)
    counts = data.frequencies()
    row = {name: small_graph.entities.id(name) + N_SPECIAL_ROWS for name in ("Q90", "Q46")}
    assert (counts[row["Q90"]], counts[row["Q46"]], counts.sum()) == (6, 0, 20)
    assert counts[:N_SPECIAL_ROWS].sum() == 0
    assert "20 of 24 links in the graph" in repr(data)


def test_sampled_entities_hold_every_gold_and_linked_negatives(
    small_graph: KnowledgeGraph,
) -> None:
    data = make(small_graph, probability=0.8)
    samples = [data.sample(i, epoch=0, seed=0) for i in range(5)]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    golds = batch.node_labels[(batch.node_kinds == NodeKind.ENTITY) & (batch.node_labels >= 0)]
    extra = np.setdiff1d(batch.sampled_entities, golds)
    assert np.isin(golds, batch.sampled_entities).all()
    assert len(golds) > 3
    assert len(extra) > 0
    assert (data.frequencies()[extra] > 0).all()
    data.preparations["masked_nodes"].n_negatives = 1
    samples_of_steps = [
        data.collate(samples[:1], epoch=0, seed=0, step=n).sampled_entities for n in range(5)
    ]
    assert len(dict.fromkeys(tuple(rows.tolist()) for rows in samples_of_steps)) > 1


def test_the_fingerprint_moves_with_anything_that_moves_a_sample(
    small_graph: KnowledgeGraph,
) -> None:
    other_graph = small_graph.with_triples(small_graph.triples[:-1], note="one fewer")
    datasets = [
        make(small_graph), make(small_graph, times=2), make(other_graph),
        make(small_graph, max_neighbours=2), make(small_graph, probability=0.4),
        make(small_graph, policy="degree"),
    ]  # fmt: skip
    assert len(dict.fromkeys(data.fingerprint for data in datasets)) == len(datasets)
    assert make(small_graph).fingerprint == datasets[0].fingerprint


def test_texts_that_never_meet_the_graph_are_refused(small_graph: KnowledgeGraph) -> None:
    texts = linked_texts(small_graph, 1)[-2:]
    with pytest.raises(ConfigError, match="none of the 2 links of 2 texts leads into"):
        WordGraphData(
            texts,
            small_graph,
            tokenizer(),
            builder=BuilderConfig(),
            view=CoLAKEView(),
            objectives={"masked_nodes": {}},
        )
