"""Every scorer against a naive numpy restatement of its paper's formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kept.errors import ConfigError
from kept.kge import FORMULAS, RotatE, Scorer, TransE, make_scorer

N_ENTITIES, N_RELATIONS, WIDTH = 7, 3, 6


def naive_transe_l1(h, r, t):
    return -sum(abs(a + b - c) for a, b, c in zip(h, r, t, strict=True))


def naive_transe_l2(h, r, t):
    return -(sum((a + b - c) ** 2 for a, b, c in zip(h, r, t, strict=True)) ** 0.5)


def naive_rescal(h, m, t):
    rows = [m[i * len(t) : (i + 1) * len(t)] for i in range(len(h))]
    return sum(h[i] * rows[i][j] * t[j] for i in range(len(h)) for j in range(len(t)))


def naive_distmult(h, r, t):
    return sum(a * b * c for a, b, c in zip(h, r, t, strict=True))


def naive_complex(h, r, t):
    h, r, t = (v[: len(v) // 2] + 1j * v[len(v) // 2 :] for v in (h, r, t))
    return sum((a * b * np.conj(c)).real for a, b, c in zip(h, r, t, strict=True))


def naive_rotate(h, r, t):
    h, t = (v[: len(v) // 2] + 1j * v[len(v) // 2 :] for v in (h, t))
    return -sum(abs(a * np.exp(1j * b) - c) for a, b, c in zip(h, r, t, strict=True))


def naive_rotate_l2(h, r, t):
    h, t = (v[: len(v) // 2] + 1j * v[len(v) // 2 :] for v in (h, t))
    return -(sum(abs(a * np.exp(1j * b) - c) ** 2 for a, b, c in zip(h, r, t, strict=True)) ** 0.5)


SIZES = {"n_entities": N_ENTITIES, "n_relations": N_RELATIONS, "width": WIDTH}
NAIVE = {"transe": naive_transe_l2, "rescal": naive_rescal, "distmult": naive_distmult,
         "complex": naive_complex, "rotate": naive_rotate}  # fmt: skip
OTHER_NORMS = {"transe_l1": naive_transe_l1, "rotate_l2": naive_rotate_l2}
CASES = [*NAIVE, *OTHER_NORMS]


def make(name: str) -> Scorer:
    generator = torch.Generator().manual_seed(5)
    norm = {"transe_l1": 1, "rotate_l2": 2}.get(name)
    name = name.split("_")[0]
    return make_scorer(name, **SIZES, generator=generator, norm=norm).double()


def cube(name: str, scorer: Scorer) -> np.ndarray:
    naive = {**NAIVE, **OTHER_NORMS}[name]
    entities, relations = scorer.entities.detach().numpy(), scorer.relations.detach().numpy()
    return np.array([[[naive(h, r, t) for t in entities] for r in relations] for h in entities])


def test_every_scorer_has_an_oracle():
    assert set(NAIVE) == set(FORMULAS)


@pytest.mark.parametrize("name", CASES)
def test_all_four_ways_of_scoring_equal_the_formula(name: str):
    scorer = make(name)
    expected = cube(name, scorer)
    h, r, t = np.indices(expected.shape).reshape(3, -1)
    triples = torch.from_numpy(np.stack([h, r, t], 1))
    with torch.no_grad():
        single = scorer.score_triples(triples).numpy()
        heads, relations, tails = (
            scorer.scores(direction, triples).numpy() for direction in ("head", "relation", "tail")
        )
    np.testing.assert_allclose(single, expected[h, r, t], atol=1e-7)
    np.testing.assert_allclose(heads, expected[:, r, t].T, atol=1e-7)
    np.testing.assert_allclose(relations, expected[h, :, t], atol=1e-7)
    np.testing.assert_allclose(tails, expected[h, r], atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_score_broadcasts(name: str):
    scorer = make(name)
    head, relation = scorer.entities[:2, None], scorer.relations[:1, None]
    scores = scorer.score(head, relation, scorer.entities[None])
    assert scores.shape == (2, N_ENTITIES)
    expected = scorer.tails(scorer.entities[:2], scorer.relations[:1].expand(2, -1),
                            scorer.entities)  # fmt: skip
    torch.testing.assert_close(scores, expected, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("n_heads", [0, 1, 3])
@pytest.mark.parametrize("name", CASES)
def test_corrupted_triples_are_scored_as_any_other(name: str, n_heads: int):
    scorer = make(name)
    triples = torch.tensor([[0, 1, 2], [3, 0, 4], [5, 2, 5]])
    replacements = torch.tensor([[1, 1], [6, 3], [2, 0]])
    replaced = triples[:, None].repeat(1, 2, 1)
    replaced[:n_heads, :, 0], replaced[n_heads:, :, 2] = (
        replacements[:n_heads],
        replacements[n_heads:],
    )
    head, relation, tail = triples.T
    states = scorer.entities[head], scorer.relations[relation], scorer.entities[tail]
    scores = scorer.corrupted(*states, scorer.entities, replacements, n_heads)
    expected = scorer.score_triples(replaced)
    torch.testing.assert_close(scores, expected)
    weights = torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 2.0]], dtype=torch.float64)
    tables = [scorer.entities, scorer.relations]
    ours = torch.autograd.grad((scores * weights).sum(), tables)
    plain = torch.autograd.grad((expected * weights).sum(), tables)
    torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_ways_agree(name: str):
    scorer = make(name)
    triples = torch.tensor([[0, 1, 2], [3, 0, 4]])
    rows = torch.arange(2)
    gradients = []
    for loss in (
        scorer.score_triples(triples),
        scorer.scores("tail", triples)[rows, triples[:, 2]],
        scorer.scores("head", triples)[rows, triples[:, 0]],
        scorer.scores("relation", triples)[rows, triples[:, 1]],
    ):
        gradients.append(torch.autograd.grad(loss.sum(), [scorer.entities, scorer.relations]))
    for other in gradients[1:]:
        for left, right in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(left, right, atol=1e-7, rtol=1e-6)


def test_gradient_is_finite_where_rotated_head_and_tail_coincide():
    scorer = make("rotate")
    with torch.no_grad():
        scorer.entities[1] = scorer.entities[0]
        scorer.relations[0] = 0
    scorer.score_triples(torch.tensor([[0, 0, 1]])).sum().backward()
    assert scorer.entities.grad is not None
    assert torch.isfinite(scorer.entities.grad).all()


def test_equal_generators_give_equal_vectors():
    first, second = make("rotate"), make("rotate")
    assert torch.equal(first.entities, second.entities)
    assert torch.equal(first.relations, second.relations)


def test_wrong_settings_are_errors():
    generator = torch.Generator()
    with pytest.raises(ConfigError, match=r"'conve' is unknown.*transe"):
        make_scorer("conve", **SIZES, generator=generator)
    with pytest.raises(ConfigError, match="width 5"):
        make_scorer("complex", **{**SIZES, "width": 5}, generator=generator)
    for kind in (TransE, RotatE):
        with pytest.raises(ConfigError, match=f"norm 3 of {kind.__name__}"):
            kind(**SIZES, generator=generator, norm=3)
    with pytest.raises(ConfigError, match="'distmult' measures no distance"):
        make_scorer("distmult", **SIZES, generator=generator, norm=1)
