"""Next sentence and sentence order: which pairs are drawn, with which class, and the loss."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE
from kept.encoders.colake import CoLAKE
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import CoLAKEView
from kept.graphs.words import join_texts
from kept.inputs.pairs import TextPairs, pair_bounds
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import FAMILIES, tiny_host


def samples_of(
    pairs: TextPairs, n_texts: int, n_epochs: int = 200
) -> list[tuple[int, Any, int, int]]:
    return [
        (*pairs.draw(i, generator(0, epoch, i)), i)
        for epoch in range(n_epochs)
        for i in range(n_texts)
    ]


def test_next_sentences_follow_and_others_come_from_elsewhere() -> None:
    documents = [4, 1, 3]
    owner = np.repeat(np.arange(3), documents)
    classes: Counter[int] = Counter()
    others = set()
    for first, second, label, index in samples_of(TextPairs("next_sentence", documents), 8):
        classes[label] += 1
        if index == 4:
            assert (first, second, label) == (4, None, IGNORE)
            continue
        assert first == min(index, {0: 2, 2: 6}[int(owner[index])])
        if label == 0:
            assert second == first + 1
            assert owner[second] == owner[first]
        else:
            assert owner[second] != owner[first]
            others.add((int(owner[first]), second))
    assert others == {(0, 4), (0, 5), (0, 6), (0, 7), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)}
    assert classes[IGNORE] == 200
    assert abs(classes[0] - classes[1]) < 120


def test_one_document_gives_random_texts_of_its_own() -> None:
    seen = set()
    for first, second, label, _ in samples_of(TextPairs("next_sentence", [4]), 4):
        assert (second == first + 1) == (label == 0)
        assert second != first
        seen.add((first, second))
    assert seen == {(a, b) for a in range(3) for b in range(4) if a != b}


def test_sentence_order_swaps_neighbours() -> None:
    for first, second, label, _ in samples_of(TextPairs("sentence_order", [2, 3]), 5, 20):
        assert second - first == (1 if label == 0 else -1)
        assert {first, second} in ({0, 1}, {2, 3}, {3, 4})


def test_impossible_pairs_are_refused() -> None:
    with pytest.raises(ConfigError, match="two texts or more"):
        TextPairs("sentence_order", [1, 1, 1])
    with pytest.raises(ConfigError, match="three texts"):
        TextPairs("next_sentence", [2])


def test_bounds_hold() -> None:
    counts = np.array([3, 9, 1, 4])
    bounds = pair_bounds(counts)
    for kind in ("next_sentence", "sentence_order"):
        for first, second, _, index in samples_of(TextPairs(kind, [4]), 4, 30):
            assert counts[first] + counts[second] <= bounds[index]


def data(
    linked: Sequence[LinkedText],
    graph: KnowledgeGraph,
    tokenizer: Any,
    objectives: Mapping[str, Mapping[str, Any]],
    **options: Any,
) -> WordGraphData:
    return WordGraphData(
        linked,
        graph,
        tokenizer,
        builder=BuilderConfig(max_words=40, max_nodes=90, max_neighbours=2),
        view=CoLAKEView(),
        objectives=objectives,
        **options,
    )


def test_data_carry_classes_and_segments(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    data_ = data(linked, small_graph, tokenizer, {"nsp": {}}, documents=[30, 9, 1])
    labels = []
    for index in range(len(data_)):
        sample = data_.sample(index, epoch=0, seed=0)
        assert sample.pair_labels is not None
        labels.append(int(sample.pair_labels[0]))
        assert set(sample.segment_ids[0].tolist()) == ({0} if index == 39 else {0, 1})
        words = (sample.node_kinds[0] == 0).sum()
        assert words <= 40
        assert sample.node_ids.shape[1] <= data_.n_nodes(index)
        again = data_.sample(index, epoch=0, seed=0)
        assert torch.equal(again.node_ids, sample.node_ids)
    assert Counter(labels)[IGNORE] == 1
    assert 10 < labels.count(0) < 30
    other = [int(data_.sample(i, epoch=1, seed=0).pair_labels[0]) for i in range(40)]  # type: ignore[index]
    assert other != labels
    assert data(linked, small_graph, tokenizer, {"sop": {}}).fingerprint != data_.fingerprint
    whole = data(linked, small_graph, tokenizer, {"nsp": {}})
    assert whole.fingerprint != data_.fingerprint


def test_faulty_mixes_and_documents_are_refused(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    with pytest.raises(ConfigError, match="nsp and sop ask for different pairs"):
        data(linked, small_graph, tokenizer, {"nsp": {}, "sop": {}})
    with pytest.raises(ConfigError, match="39 texts, not 40"):
        data(linked, small_graph, tokenizer, {"nsp": {}}, documents=[39])
    pairs = [join_texts(linked[0], linked[1]), *linked]
    with pytest.raises(ConfigError, match="some are pairs"):
        data(pairs, small_graph, tokenizer, {"sop": {}})


def test_given_pairs_train_as_they_are(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    pair = join_texts(linked[0], linked[2])
    data_ = data([pair, *linked], small_graph, tokenizer, {"mlm": {}})
    sample = data_.sample(0, epoch=0, seed=0)
    assert set(sample.segment_ids[0].tolist()) == {0, 1}
    assert sample.pair_labels is None
    moved = dataclasses.replace(pair, links=(), pair_start=pair.pair_start + 1)  # type: ignore[operator]
    shifted = dataclasses.replace(pair, links=())
    one = data([shifted, *linked], small_graph, tokenizer, {"mlm": {}})
    other = data([moved, *linked], small_graph, tokenizer, {"mlm": {}})
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("name", ["nsp", "sop"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_on_the_pooled_first_node(
    name: str, family: str, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = tiny_host(family, n_words=len(tokenizer), n_positions=128)
    model = KnowledgeForPreTraining.of(CoLAKE.from_host(host, small_graph), {name: {}}).eval()
    data_ = data(linked, small_graph, tokenizer, {name: {}}, documents=[39, 1])
    samples = [data_.sample(i, epoch=0, seed=0) for i in (0, 1, 2, 39)]
    batch = data_.collate(samples, epoch=0, seed=0, step=0)
    output = model(batch)
    pooler = getattr(model.encoder.host, "pooler", None)
    head, terms = model.objectives[name].classes, []
    assert batch.pair_labels is not None
    for states, label in zip(output.node_states, batch.pair_labels.tolist(), strict=True):
        first = states[0]
        linear = pooler if family == "albert" else getattr(pooler, "dense", None)
        pooled = first if linear is None else torch.tanh(linear(first))
        if label != IGNORE:
            terms.append(F.cross_entropy(head(pooled), torch.tensor(label)))
    assert len(terms) == 3
    torch.testing.assert_close(output.losses, {name: torch.stack(terms).mean()})
    alone = dataclasses.replace(batch, pair_labels=torch.full((4,), IGNORE))
    assert model(alone).losses[name].item() == 0
    assert model(dataclasses.replace(batch, pair_labels=None)).losses == {}
