"""KnowBERT's objective against loops, and how candidates of hidden words are hidden."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kept.batches import (
    IGNORE,
    MASK_ROW,
    N_SPECIAL_ROWS,
    PAD_ROW,
    UNKNOWN_ROW,
    KnowledgeBatch,
    Visibility,
)
from kept.encoders.knowbert import KnowBERT
from kept.errors import ConfigError
from kept.layers.kar import KAR
from kept.layers.spans import FAR
from kept.objectives.entity_linking import (
    EntityLinking,
    EntityLinkingOptions,
    EntityLinkingPreparation,
)
from kept.outputs import KnowledgeOutput


def batch(n_graphs: int = 1, n_mention: int = 6, n_node: int = 14) -> KnowledgeBatch:
    """Mentions of two nodes each, side by side; some NIL, some without their gold entity."""
    draws = torch.Generator().manual_seed(5)
    ids = torch.randint(N_SPECIAL_ROWS, 40, (1, n_mention, 4), generator=draws)
    ids[0, 1, 2:] = PAD_ROW
    ids[0, 2] = PAD_ROW
    labels = ids[..., 1].clone()
    labels[0, 3], labels[0, 4], labels[0, 5] = UNKNOWN_ROW, 50, IGNORE
    starts = torch.arange(n_mention) * 2 + 1
    words = torch.arange(n_node)[None]
    graphs = torch.arange(n_mention)[None] % n_graphs
    return KnowledgeBatch(
        node_ids=words,
        node_kinds=torch.zeros_like(words),
        node_mask=torch.ones_like(words, dtype=torch.bool),
        positions=words,
        segment_ids=torch.zeros_like(words),
        visibility=Visibility.everyone(1, n_node),
        mention_spans=torch.stack([starts, starts + 2], dim=1)[None],
        mention_graphs=graphs if n_graphs > 1 else None,
        mention_labels=labels.where(labels != PAD_ROW, UNKNOWN_ROW),
        candidate_ids=ids,
        candidate_priors=torch.rand(ids.shape, generator=draws),
    )


def scores_of(batch_: KnowledgeBatch) -> Tensor:
    scores = torch.randn(batch_.candidate_ids.shape, generator=torch.Generator().manual_seed(1))
    return scores.masked_fill(batch_.candidate_ids == PAD_ROW, FAR)


class FakeEncoder(KnowBERT):
    """Only its KARs are read."""

    def __init__(self, *specs: KAR) -> None:
        torch.nn.Module.__init__(self)
        self.specs = list(specs)


def naive(kind: str, missing: str, batch_: KnowledgeBatch, scores: Tensor, graph: int) -> float:
    """The losses in loops."""
    losses = []
    for i, label in enumerate(batch_.mention_labels[0].tolist()):
        if label == IGNORE or (batch_.mention_graphs is not None and i % 2 != graph):
            continue
        real = [
            (entity, score)
            for entity, score in zip(
                batch_.candidate_ids[0, i].tolist(), scores[0, i].tolist(), strict=True
            )
            if entity != PAD_ROW
        ]
        if kind == "margin":
            losses += [max(0.0, 0.3 + (-s if e == label else s)) for e, s in real]
            continue
        places = [positions for positions, (entity, _) in enumerate(real) if entity == label]
        if not real or (not places and missing == "ignore"):
            continue
        gold = real[places[0] if places else 0][1]
        losses.append(math.log(sum(math.exp(s) for _, s in real)) - gold)
    return sum(losses) / max(len(losses), 1)


@pytest.mark.parametrize("n_graphs", [1, 2])
@pytest.mark.parametrize("kind", ["margin", "softmax"])
@pytest.mark.parametrize("missing", ["ignore", "first"])
def test_losses_are_those_of_loops(kind: str, missing: str, n_graphs: int) -> None:
    specs = [KAR(name=f"g{i}", loss=kind, margin=0.3) for i in range(n_graphs)]
    batch_, encoder = batch(n_graphs), FakeEncoder(*specs)
    scores = scores_of(batch_)
    output = KnowledgeOutput(node_states=torch.zeros(1, 14, 2), linking_scores=scores)
    losses = EntityLinking(missing_gold=missing)(output, batch_, encoder)
    assert list(losses) == (["el"] if n_graphs == 1 else ["el_g0", "el_g1"])
    for graph, loss in enumerate(losses.values()):
        expected = naive(kind, missing, batch_, scores, graph)
        assert loss.item() == pytest.approx(expected, abs=1e-5)
        assert expected > 0


@pytest.mark.parametrize("kind", ["margin", "softmax"])
def test_without_labels_there_is_no_loss_and_without_mentions_it_is_zero(kind: str) -> None:
    batch_, encoder, objective = (
        batch(),
        FakeEncoder(KAR(loss=kind)),
        EntityLinking(missing_gold="ignore"),
    )
    scores = scores_of(batch_).requires_grad_()
    output = KnowledgeOutput(node_states=torch.zeros(1, 14, 2), linking_scores=scores)
    assert objective(output, dataclasses.replace(batch_, mention_labels=None), encoder) == {}
    nothing = dataclasses.replace(
        batch_, mention_labels=torch.full_like(batch_.mention_labels, IGNORE)
    )
    loss = objective(output, nothing, encoder)["el"]
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


def hidden(batch_: KnowledgeBatch, *nodes: int) -> KnowledgeBatch:
    labels = torch.full_like(batch_.node_ids, IGNORE)
    labels[0, list(nodes)] = 7
    return dataclasses.replace(batch_, node_labels=labels)


def prepare(**options: Any) -> EntityLinkingPreparation:
    return EntityLinkingPreparation(EntityLinkingOptions(**options))


def test_candidates_of_hidden_words_are_masked() -> None:
    hidden_batch = hidden(batch(), 2, 9)  # inside the first mention and the fifth
    marked = prepare(mask_share=1.0, random_share=0.0).mark(hidden_batch, np.random.default_rng(0))
    for i in range(6):
        if i in (0, 4):
            assert marked.candidate_ids[0, i].tolist() == [MASK_ROW, *[PAD_ROW] * 3]
            assert marked.candidate_priors[0, i].tolist() == [1, 0, 0, 0]
            assert marked.mention_labels[0, i] == IGNORE
        else:
            assert marked.candidate_ids[0, i].equal(hidden_batch.candidate_ids[0, i])
            assert marked.mention_labels[0, i] == hidden_batch.mention_labels[0, i]


def test_random_candidates_come_from_the_same_graph_of_the_text() -> None:
    hidden_batch = hidden(batch(2), *range(14))
    marked = prepare(mask_share=0.0, random_share=1.0).mark(hidden_batch, np.random.default_rng(0))
    pools = [
        set(hidden_batch.candidate_ids[hidden_batch.mention_graphs == graph].flatten().tolist())
        for graph in (0, 1)
    ]
    for i in range(6):
        ids = [e for e in marked.candidate_ids[0, i].tolist() if e != PAD_ROW]
        assert ids
        assert set(ids) <= pools[i % 2] | {MASK_ROW}
        assert marked.candidate_priors[0, i].sum().item() == pytest.approx(1, abs=1e-5)
    assert (marked.mention_labels == IGNORE).all()


def test_shares_and_repetition() -> None:
    """Four fifths masked, a tenth random, a tenth as they are; equal draws, equal marks."""
    hidden_batch = hidden(batch(n_mention=6), *range(14))
    ids = [
        prepare().mark(hidden_batch, np.random.default_rng(seed)).candidate_ids
        for seed in range(200)
    ]
    kept = sum(int((one == hidden_batch.candidate_ids).all(2).sum()) for one in ids) / (200 * 6)
    masked = sum(int((one[..., 0] == MASK_ROW).sum()) for one in ids) / (200 * 6)
    assert 0.76 < masked < 0.86
    assert 0.07 < kept < 0.13
    again = prepare().mark(hidden_batch, np.random.default_rng(3)).candidate_ids
    assert torch.equal(again, ids[3])
    assert prepare().fingerprint != prepare(mask_share=0.5).fingerprint


def test_nothing_hidden_changes_nothing() -> None:
    batch_ = batch()
    assert prepare().mark(batch_, np.random.default_rng(0)) is batch_


@pytest.mark.parametrize(
    ("options", "message"),
    [({"missing_gold": "last"}, "missing_gold is 'last'"), ({"mask_share": 1.5}, "from 0 to 1")],
)
def test_faulty_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EntityLinkingOptions(**options)
