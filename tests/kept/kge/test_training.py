"""Training learns, repeats itself bit by bit, resumes, and says what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from kept.bounds import MAX_RATE
from kept.errors import ConfigError
from kept.evaluation.ranking import Filter, rank
from kept.kge import FORMULAS, RECIPES, Scorer, TrainingConfig, make_scorer, train
from kept.kge.training import NO_CANDIDATE, Sampler, batch_loss, contrast, tail_chances

N_ENTITIES, N_RELATIONS = 30, 2
# a chain and its inverse: a symmetric scorer cannot tell them apart
CHAIN = np.array([(i, 0, i + 1) for i in range(N_ENTITIES - 1)])
TRIPLES = np.concatenate([CHAIN, CHAIN[:, [2, 1, 0]] + [0, 1, 0]])
ONE_VS_ALL = TrainingConfig(n_epochs=30, batch_size=16, learning_rate=0.2)
SAMPLING = TrainingConfig(
    n_epochs=40, batch_size=29, learning_rate=0.15, optimiser="adam",
    objective="negative_sampling", loss="log_sigmoid", n_negatives=8, margin=4.0,
    adversarial_temperature=1.0, reject_known=True,
)  # fmt: skip


def make(name: str, seed: int = 0) -> tuple[Scorer, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"n_entities": N_ENTITIES, "n_relations": N_RELATIONS, "width": 16}
    return make_scorer(name, **sizes, generator=generator), generator


def mrr(scorer: Scorer) -> float:
    known = Filter({"train": TRIPLES}, n_entities=N_ENTITIES, n_relations=N_RELATIONS)
    return rank(scorer, TRIPLES, filter=known, ties="pessimistic", directions=("head", "tail"),
                candidates="all").mrr  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("config", [ONE_VS_ALL, SAMPLING], ids=["one_vs_all", "sampling"])
def test_every_scorer_learns_a_chain(name: str, config: TrainingConfig):
    scorer, generator = make(name)
    before = mrr(scorer)
    history = train(scorer, TRIPLES, config=config, generator=generator)
    after = mrr(scorer)
    assert history.losses[-1] < history.losses[0]
    # DistMult is symmetric and one translation is tight for a long chain; chance is 0.13
    assert after > (0.5 if name in ("distmult", "transe") else 0.75) > before


@pytest.mark.parametrize(
    "changes",
    [
        {"corrupt": "uniform"},
        {"corrupt": "bernoulli", "loss": "margin", "adversarial_temperature": 0.0},
        {"share_negatives": True, "loss": "cross_entropy"},
        {"share_negatives": True, "corrupt": "bernoulli", "relation_weight": 1.0},
        {"unit_entities": True, "loss": "margin", "margin": 1.0},
    ],
    ids=str,
)
def test_every_option_learns(changes: dict[str, object]):
    scorer, generator = make("transe")
    train(scorer, TRIPLES, config=replace(SAMPLING, **changes), generator=generator)
    assert mrr(scorer) > 0.4  # chance is 0.13


def test_regularisation_keeps_vectors_small():
    norms = []
    for weight in (0.0, 0.5):
        scorer, generator = make("complex")
        config = replace(ONE_VS_ALL, n3_weight=weight, n_epochs=20)
        train(scorer, TRIPLES, config=config, generator=generator)
        norms.append(float(scorer.entities.detach().norm()))
    assert norms[1] < 0.8 * norms[0]


@pytest.mark.parametrize("config", [ONE_VS_ALL, SAMPLING], ids=["one_vs_all", "sampling"])
def test_equal_seeds_give_equal_bits_and_resuming_changes_nothing(config: TrainingConfig):
    weights = []
    for stops in ((6,), (6,), (2, 5, 6)):
        scorer, generator = make("complex")
        state = None
        for n_epochs in stops:
            # a fresh process: other weights and another generator, all from the state
            if state is not None:
                scorer, generator = make("complex", seed=99)
            history = train(scorer, TRIPLES, config=replace(config, n_epochs=n_epochs),
                            generator=generator, state=state)  # fmt: skip
            state = history.state
        assert len(history.losses) == 6
        weights.append((scorer.entities, scorer.relations))
    for other in weights[1:]:
        assert all(torch.equal(a, b) for a, b in zip(weights[0], other, strict=True))


def test_one_state_resumes_twice_alike():
    scorer, generator = make("complex")
    state = train(
        scorer, TRIPLES, config=replace(ONE_VS_ALL, n_epochs=2), generator=generator
    ).state
    weights = []
    for _ in range(2):
        scorer, generator = make("complex", seed=99)
        config = replace(ONE_VS_ALL, n_epochs=4)
        train(scorer, TRIPLES, config=config, generator=generator, state=state)
        weights.append(scorer.entities.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize("loss", ["log_sigmoid", "margin"])
def test_no_gradient_goes_through_adversarial_weights(loss: Any):
    """The gradient of each negative is its weight, a constant, times its own slope."""
    positive = torch.tensor([0.5, -1.0], dtype=torch.float64)
    negative = torch.tensor([[1.0, -0.5, 2.0], [0.0, 0.3, -2.0]], dtype=torch.float64)
    negative.requires_grad_()
    contrast(positive, negative, loss=loss, margin=1.0, temperature=0.7).sum().backward()
    weights = (0.7 * negative.detach()).softmax(1)
    slopes = {
        "log_sigmoid": torch.sigmoid(1.0 + negative.detach()),
        "margin": (1.0 - positive[:, None] + negative.detach() > 0).double(),
    }
    torch.testing.assert_close(negative.grad, weights * slopes[loss])


def test_early_stop_returns_the_best_weights():
    scorer, generator = make("complex")
    values = iter([0.1, 0.5, 0.4, 0.3, 0.2])
    seen: list[torch.Tensor] = []

    def validate(current: Scorer) -> float:
        seen.append(current.entities.detach().clone())
        return next(values)

    config = replace(ONE_VS_ALL, n_epochs=50, validate_every=2, patience=2)
    history = train(scorer, TRIPLES, config=config, generator=generator, validate=validate)
    assert history.stopped_early
    assert history.validations == ((2, 0.1), (4, 0.5), (6, 0.4), (8, 0.3))
    assert history.best_epoch == 4
    assert torch.equal(scorer.entities, seen[1])


def test_bernoulli_chances_by_hand():
    # relation 0: one head, three tails -> 3 tails a head, 1 head a tail -> replace the head
    triples = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 0, 3], [1, 1, 2]])
    torch.testing.assert_close(
        tail_chances(triples, 3), torch.tensor([0.25, 0.5, 0.5], dtype=torch.float64)
    )


def test_sampled_sides_follow_the_chances():
    triples = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 0, 3]])
    sampler = Sampler(triples, 4, 1, replace(SAMPLING, corrupt="bernoulli"))
    batch = triples[:1].expand(20_000, 3)
    share = sampler.corrupts_tail(batch, torch.Generator().manual_seed(0)).float().mean()
    assert float(share) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("slot", [0, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_known_triples_are_taken_out_of_the_negatives(slot: int, shared: bool):
    triples = torch.from_numpy(TRIPLES)
    sampler = Sampler(triples, N_ENTITIES, N_RELATIONS, SAMPLING)
    batch = triples[[3, 40]]
    candidates = torch.arange(N_ENTITIES) if shared else torch.arange(N_ENTITIES).repeat(2, 1)
    scores = sampler.without_known(torch.zeros(2, N_ENTITIES), batch, candidates, slot)
    expected = torch.zeros(2, N_ENTITIES)
    expected[[0, 1], batch[:, slot]] = NO_CANDIDATE
    assert torch.equal(scores, expected)


def test_losses_by_hand():
    positive, negative = torch.tensor([1.0]), torch.tensor([[0.5, -1.0]])
    common = {"margin": 1.0, "temperature": 0.0}
    margin = contrast(positive, negative, loss="margin", **common)
    assert margin.item() == pytest.approx(0.25)  # (0.5 + 0) / 2

    def log_sigmoid(x: float) -> float:
        return -np.log1p(np.exp(-x))

    expected = -log_sigmoid(2) - (log_sigmoid(-1.5) + log_sigmoid(0)) / 2
    sigmoid = contrast(positive, negative, loss="log_sigmoid", **common)
    assert sigmoid.item() == pytest.approx(expected, rel=1e-6)
    expected = -np.log(np.exp(1) / (np.exp(1) + np.exp(0.5) + np.exp(-1)))
    entropy = contrast(positive, negative, loss="cross_entropy", **common)
    assert entropy.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("corrupt", ["both", "uniform"])
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_loss_of_a_batch_is_the_formula_on_its_draws(name: str, corrupt: str, shared: bool):
    """The draws are repeated in order: sides, then entities for heads, then for tails."""
    scorer = make(name)[0].double()
    config = replace(SAMPLING, corrupt=corrupt, share_negatives=shared, n_negatives=3,
                     reject_known=False, margin=1.0)  # fmt: skip
    batch = torch.from_numpy(TRIPLES[5:12])
    sampler = Sampler(batch, N_ENTITIES, N_RELATIONS, config)
    loss = batch_loss(scorer, batch, sampler, config, torch.Generator().manual_seed(4))
    draws = torch.Generator().manual_seed(4)
    tails = torch.rand(len(batch), generator=draws) < 0.5
    expected = 0.0
    for slot, chosen in ((0, ~tails), (2, tails)):
        rows = batch if corrupt == "both" else batch[chosen]
        if corrupt == "both" and slot == 0:
            draws.manual_seed(4)  # no sides are drawn
        shape = (3,) if shared else (len(rows), 3)
        negatives = torch.randint(N_ENTITIES, shape, generator=draws).expand(len(rows), 3)
        for row, ids in zip(rows, negatives, strict=True):
            replaced = row.repeat(3, 1)
            replaced[:, slot] = ids
            expected += contrast(
                scorer.score_triples(row[None]), scorer.score_triples(replaced)[None],
                loss=config.loss, margin=1.0, temperature=config.adversarial_temperature,
            )  # fmt: skip
    expected = expected.squeeze() / len(batch)
    torch.testing.assert_close(loss, expected)
    tables = [scorer.entities, scorer.relations]
    plain = torch.autograd.grad(expected, tables)
    torch.testing.assert_close(torch.autograd.grad(loss, tables), plain)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_gradient_of_one_against_all_is_that_of_plain_look_ups(name: str):
    scorer = make(name)[0].double()
    batch = torch.from_numpy(TRIPLES[5:12])
    sampler = Sampler(batch, N_ENTITIES, N_RELATIONS, ONE_VS_ALL)
    loss = batch_loss(scorer, batch, sampler, ONE_VS_ALL, torch.Generator())
    head, relation, tail = batch.T
    plain = cross_entropy(scorer.score_tails(head, relation), tail)
    plain = plain + cross_entropy(scorer.score_heads(relation, tail), head)
    torch.testing.assert_close(loss, plain)
    tables = [scorer.entities, scorer.relations]
    torch.testing.assert_close(
        torch.autograd.grad(loss, tables), torch.autograd.grad(plain, tables)
    )


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_batch_of_one_leaves_a_side_empty(name: str, shared: bool):
    scorer, generator = make(name)
    config = replace(SAMPLING, corrupt="uniform", share_negatives=shared)
    batch = torch.from_numpy(TRIPLES[:1])
    loss = batch_loss(
        scorer, batch, Sampler(batch, N_ENTITIES, N_RELATIONS, config), config, generator
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert scorer.entities.grad is not None
    assert scorer.entities.grad.any()


def test_a_batch_whose_negatives_are_all_known_has_a_finite_loss():
    negative = torch.full((1, 3), NO_CANDIDATE)
    for loss in ("margin", "log_sigmoid", "cross_entropy"):
        value = contrast(torch.zeros(1), negative, loss=loss, margin=1.0, temperature=1.0)
        assert torch.isfinite(value).all()


def test_all_faults_of_a_configuration_come_at_once():
    def faults(**options):
        with pytest.raises(ConfigError) as caught:
            TrainingConfig(**options)
        return str(caught.value).removeprefix("training configuration: ").split("; ")

    sampling = {"objective": "negative_sampling", "loss": "margin"}
    rate = f"is not above 0 and at most {MAX_RATE}"
    assert faults(n_epochs=-1, batch_size=0, learning_rate=0, patience=1, **sampling) == [
        "n_epochs -1 is negative", "batch_size 0 is below 1", f"learning_rate 0 {rate}",
        "negative_sampling needs n_negatives", "loss margin needs a margin above 0",
        "patience needs validate_every",
    ]  # fmt: skip
    over = 2 * MAX_RATE
    assert faults(n_epochs=0, batch_size=1, learning_rate=over, loss="margin", n_negatives=1) == [
        f"learning_rate {over} {rate}", "one_vs_all takes cross_entropy",
        "one_vs_all takes no n_negatives", "loss margin needs a margin above 0",
    ]  # fmt: skip
    least = TrainingConfig(n_epochs=0, batch_size=1, learning_rate=MAX_RATE)
    replace(least, **sampling, margin=0.1, n_negatives=1, patience=1, validate_every=1)


def test_nothing_to_train_on_and_divergence_are_errors():
    scorer, generator = make("transe")
    with pytest.raises(ConfigError, match="no triples"):
        train(scorer, TRIPLES[:0], config=ONE_VS_ALL, generator=generator)
    with torch.no_grad():
        scorer.entities[0] = float("nan")
    with pytest.raises(ConfigError, match="loss is nan in epoch 1"):
        train(scorer, TRIPLES, config=ONE_VS_ALL, generator=generator)


def test_every_scorer_has_a_recipe():
    assert set(RECIPES) == set(FORMULAS)
