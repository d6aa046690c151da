"""KnowBERT's encoder: several graphs in one mention axis, packing, frozen tables, its start."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kept.batches import (
    MASK_ROW,
    N_SPECIAL_ROWS,
    PAD_ROW,
    UNKNOWN_ROW,
    KnowledgeBatch,
    Visibility,
    pack,
)
from kept.encoders.knowbert import SPECIAL_PARTS, KnowBERT
from kept.errors import BatchError, ConfigError
from kept.layers.spans import FAR
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import tiny_host

SMALL = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}
SECOND = {
    **SMALL, "name": "wn", "layer": 1, "loss": "softmax", "vectors": "parts", "vector_width": 6,
    "part_width": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def wordnet() -> KnowledgeGraph:
    return graph_from_records(
        [
            Triple("wn:00000001-n", "hypernym", "wn:00000002-n"),
            Triple("wn:00000001-n", "derived", "wn:00000005-v"),
            Triple("wn:00000007-a", "similar", "wn:00000008-r"),
        ]
    )


@pytest.fixture(scope="module")
def both(
    small_graph: KnowledgeGraph,
    wordnet: KnowledgeGraph,
    tokenizer: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> KnowBERT:
    """Two graphs, after the first and the second layer."""
    folder = tmp_path_factory.mktemp("graphs") / "wordnet"
    wordnet.save(folder)
    torch.manual_seed(0)
    first = {**SMALL, "name": "kg", "layer": 0}
    knowbert = KnowBERT.for_graph(
        tiny_host(), small_graph, tokenizer, seed=3, kars=[first, {**SECOND, "kg": str(folder)}]
    )
    with torch.no_grad():  # far from the start, so that knowledge matters
        for parameter in knowbert.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return knowbert.eval()


def words(n_node: int, n_batch: int = 1) -> dict[str, Tensor]:
    ids = torch.arange(n_batch * n_node).view(n_batch, n_node) % 23 + 2
    return {
        "node_ids": ids,
        "node_kinds": torch.zeros_like(ids),
        "node_mask": torch.ones_like(ids, dtype=torch.bool),
        "positions": torch.arange(n_node).repeat(n_batch, 1),
        "segment_ids": torch.zeros_like(ids),
        "visibility": Visibility.everyone(n_batch, n_node),
    }


def sample(mentions: list[tuple[int, int, int, list[int]]], n_node: int = 9) -> KnowledgeBatch:
    """Mentions as graph, start, end, candidate rows; priors fall."""
    width = max([1, *(len(rows) for *_, rows in mentions)])
    ids = torch.full((1, len(mentions), width), PAD_ROW)
    priors = torch.zeros(ids.shape)
    for i, (*_, rows) in enumerate(mentions):
        ids[0, i, : len(rows)] = torch.tensor(rows)
        priors[0, i, : len(rows)] = torch.arange(len(rows), 0, -1) / sum(range(len(rows) + 1))
    spans = torch.tensor([m[1:3] for m in mentions], dtype=torch.int64).view(1, -1, 2)
    return KnowledgeBatch(
        **words(n_node),
        mention_spans=spans,
        mention_graphs=torch.tensor([[m[0] for m in mentions]], dtype=torch.int64),
        candidate_ids=ids,
        candidate_priors=priors,
    )


MENTIONS = [(0, 1, 3, [3, 4, 7]), (1, 2, 3, [4, 5]), (0, 1, 5, [6]), (1, 6, 8, [3, 6, 7, 4])]


@torch.no_grad()
def test_the_order_of_mentions_changes_nothing(both: KnowBERT) -> None:
    batch = sample(MENTIONS)
    order = [3, 0, 2, 1]
    moved = sample([MENTIONS[i] for i in order])
    one, other = both(batch), both(moved)
    torch.testing.assert_close(one.node_states, other.node_states, atol=1e-5, rtol=1e-5)
    scores = one.linking_scores[:, order]
    torch.testing.assert_close(scores, other.linking_scores, atol=1e-5, rtol=1e-5)
    real = batch.candidate_ids != PAD_ROW
    assert (one.linking_scores[~real] == FAR).all()
    assert (one.linking_scores[real].abs() < 100).all()


@torch.no_grad()
def test_a_graph_reads_its_own_mentions_only(both: KnowBERT) -> None:
    """The first KAR's scores do not depend on the second's mentions; every mention matters."""
    whole = both(sample(MENTIONS))
    first = both(sample([m for m in MENTIONS if m[0] == 0]))
    torch.testing.assert_close(
        whole.linking_scores[:, [0, 2], :3], first.linking_scores, atol=1e-5, rtol=1e-5
    )
    for left_out in range(4):
        with_fewer_links = both(sample([m for i, m in enumerate(MENTIONS) if i != left_out]))
        assert (with_fewer_links.node_states - whole.node_states).abs().max() > 1e-4


@torch.no_grad()
def test_packed_and_batched_samples_equal_single_ones(both: KnowBERT) -> None:
    samples = [sample(MENTIONS), sample([], n_node=5), sample(MENTIONS[1:2], n_node=6)]
    packed = pack(samples, 30)
    states = packed.unpack(both(packed.batch).node_states)
    batched = both(KnowledgeBatch.stack(samples)).node_states
    for i, one in enumerate(samples):
        alone = both(one).node_states[0]
        torch.testing.assert_close(states[i], alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(batched[i, : len(alone)], alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_text_without_mentions_is_one_with_padded_mentions(both: KnowBERT) -> None:
    """Absent fields, no mentions and padding marked as a graph's are the same."""
    output = both(KnowledgeBatch(**words(9)))
    assert output.linking_scores is None
    padded = sample([(0, 0, 0, [PAD_ROW]), (1, 0, 0, [PAD_ROW]), (0, 0, 0, [PAD_ROW])])
    for batch in (sample([]), padded):
        torch.testing.assert_close(
            both(batch).node_states, output.node_states, atol=1e-5, rtol=1e-5
        )


@torch.no_grad()
def test_below_the_threshold_a_mention_is_null(both: KnowBERT) -> None:
    linker = both.linker("kg")
    batch = sample([(0, 1, 3, [3, 4])])
    spans, ids, priors = batch.mention_spans, batch.candidate_ids, batch.candidate_priors
    states, sees = torch.randn(1, 9, 16), torch.ones(1, 1, 1, dtype=torch.bool)
    scores = linker(states, spans, ids, priors, sees).scores
    null = linker.entities(torch.tensor(UNKNOWN_ROW))
    before = linker.threshold
    try:
        linker.threshold = float(scores.max()) + 1
        linked = linker(states, spans, ids, priors, sees)
        assert torch.equal(linked.entities[0, 0], null)
        linker.threshold = float(scores.mean())
        weights = linker(states, spans, ids, priors, sees).weights[0, 0]
        assert weights.tolist() == [float(s > scores.mean()) for s in scores[0, 0]]
    finally:
        linker.threshold = before


def test_tables_are_frozen_and_hold_the_graphs(both: KnowBERT, wordnet: KnowledgeGraph) -> None:
    table = both.linker("wn").entities
    assert not table.vectors.weight.requires_grad
    assert not both.linker("kg").entities.vectors.weight.requires_grad
    assert table.part_vectors.weight.requires_grad
    numbers = {"n": 1, "v": 2, "a": 3, "r": 4}
    expected = [numbers[str(name)[-1]] for name in wordnet.entities]
    assert table.parts.tolist() == [*SPECIAL_PARTS, *expected]
    assert (SPECIAL_PARTS[PAD_ROW], SPECIAL_PARTS[MASK_ROW]) == (0, 6)
    assert table.vectors.num_embeddings == wordnet.n_entities + N_SPECIAL_ROWS


def test_saved_and_checked_against_both_graphs(
    both: KnowBERT, small_graph: KnowledgeGraph, wordnet: KnowledgeGraph, tmp_path: Path
) -> None:
    both.save_pretrained(tmp_path)
    again = KnowBERT.from_pretrained(tmp_path, graph=small_graph).eval()
    batch = sample(MENTIONS)
    assert torch.equal(again(batch).node_states, both(batch).node_states)
    again.require_graph(wordnet, "wn")
    with pytest.raises(GraphMismatchError, match="'wn'"):
        again.require_graph(small_graph, "wn")
    with pytest.raises(GraphMismatchError, match="'kg'"):
        again.require_graph(wordnet)
    with pytest.raises(ConfigError, match="no KAR is named 'x'"):
        again.require_graph(wordnet, "x")


def test_the_way_back_starts_as_the_pseudo_inverse(small_graph: KnowledgeGraph) -> None:
    knowbert = KnowBERT.from_host(tiny_host(), small_graph, kars=[SMALL])
    forth, back = knowbert.linker("kg").projection, knowbert.recontextualisation("kg").projection
    weight = forth.weight.detach()
    torch.testing.assert_close(weight @ back.weight @ weight, weight, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(forth(back(torch.eye(8))), torch.eye(8), atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        forth.bias.fill_(0.5)
    random = KnowBERT.from_host(tiny_host(), small_graph, kars=[{**SMALL, "projection": "random"}])
    product = (
        random.linker("kg").projection.weight @ random.recontextualisation("kg").projection.weight
    )
    assert (product - torch.eye(8)).abs().max() > 0.5


def test_vectors_depend_on_seed_and_graph_alone(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    def table(seed: int) -> Tensor:
        knowbert = KnowBERT.for_graph(tiny_host(), small_graph, tokenizer, seed=seed, kars=[SMALL])
        return knowbert.linker("kg").entities.vectors.weight

    assert torch.equal(table(1), table(1))
    assert not torch.equal(table(1), table(2))
    assert (table(1)[PAD_ROW] == 0).all()
    assert table(1)[N_SPECIAL_ROWS:].norm(dim=1).mean().item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kars": [{"layer": 2}]}, "layer 2, the host has 0 to 1"),
        ({"kars": [{"widht": 2}]}, "no option .widht."),
        ({"kars": [{"width": 10, "n_heads": 4, "loss": "hinge"}]}, "loss 'hinge'.*multiple of"),
        ({"kars": [{"name": "a.b"}]}, "letters, digits"),
        ({"kars": [{}, {}]}, "2 KARs for 1 graphs"),
    ],
)
def test_faulty_configurations_are_named(
    options: dict[str, Any], message: str, small_graph: KnowledgeGraph
) -> None:
    with pytest.raises(ConfigError, match=message):
        KnowBERT.from_host(tiny_host(), small_graph, **options)


def test_every_further_kar_needs_its_graph(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="folder of its graph"):
        KnowBERT.for_graph(tiny_host(), small_graph, tokenizer, seed=0, kars=[SMALL, SECOND])
    small_graph.save(tmp_path / "kg")
    twice = [SMALL, {**SMALL, "kg": str(tmp_path / "kg")}]
    with pytest.raises(ConfigError, match="two KARs are named 'kg'"):
        KnowBERT.for_graph(tiny_host(), small_graph, tokenizer, seed=0, kars=twice)


def test_batches_that_do_not_fit_are_named(both: KnowBERT, small_graph: KnowledgeGraph) -> None:
    batch = sample(MENTIONS)
    with pytest.raises(BatchError, match="beyond the 13 rows of KAR 'kg'"):
        both(sample([(0, 1, 2, [13])]))
    with pytest.raises(BatchError, match="graph 2, there are 2 KARs"):
        both(sample([(2, 1, 2, [3])]))
    without = dataclasses.replace(batch, candidate_ids=None, candidate_priors=None)
    with pytest.raises(BatchError, match="reads candidate_ids"):
        both(without)
    with pytest.raises(BatchError, match="need mention_graphs"):
        both(
            dataclasses.replace(
                batch, mention_graphs=None, candidate_ids=batch.candidate_ids.clamp(max=4)
            )
        )


def test_a_kar_after_the_last_layer_and_two_after_one(small_graph: KnowledgeGraph) -> None:
    knowbert = KnowBERT.from_host(
        tiny_host(),
        small_graph,
        kars=[{**SMALL, "name": "b", "layer": 1}, {**SMALL, "name": "a", "layer": 1}],
        others=[small_graph],
    ).eval()
    order: list[str] = []
    for name in ("a", "b"):
        knowbert.linker(name).register_forward_hook(lambda *_, name=name: order.append(name))
    output = knowbert(sample(MENTIONS))
    assert order == ["a", "b"]
    assert len(output.hidden_states) == 3
    assert output.node_states is output.hidden_states[-1]
