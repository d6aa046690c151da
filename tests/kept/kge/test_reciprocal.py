"""A reciprocal scorer asks for heads as tails of the inverse, in every place a scorer stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kept.errors import ConfigError
from kept.evaluation.ranking import Filter, rank
from kept.kge import (
    FORMULAS,
    Reciprocal,
    TrainingConfig,
    TransE,
    make_reciprocal,
    make_scorer,
    train,
)
from kept.kge.trained import load_scorer, save_scorer
from kg_loaders import KnowledgeGraph

N_ENTITIES, N_RELATIONS, WIDTH = 7, 3, 4
CHAIN = np.array([(i, 0, i + 1) for i in range(N_ENTITIES - 1)])
TRAINING = TrainingConfig(n_epochs=60, batch_size=4, learning_rate=0.1)
SAMPLED = replace(TRAINING, objective="negative_sampling", n_negatives=8, reject_known=True)


def fresh(name: str, seed: int = 3, *, n_relations: int = N_RELATIONS) -> Reciprocal:
    return make_reciprocal(
        name, n_entities=N_ENTITIES, n_relations=n_relations, width=WIDTH,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def states(scorer: Reciprocal, triples: torch.Tensor) -> tuple[torch.Tensor, ...]:
    head, relation, tail = triples.unbind(1)
    return scorer.entities[head], scorer.relations[relation], scorer.entities[tail]


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_scores_are_those_of_the_plain_scorer_with_twice_the_relations(name: str):
    plain = make_scorer(
        name, n_entities=N_ENTITIES, n_relations=2 * N_RELATIONS, width=WIDTH,
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    scorer = fresh(name)
    for h in range(N_ENTITIES):
        for r in range(N_RELATIONS):
            row = torch.tensor([[h, r, 2]])
            there, back = torch.tensor([[h, 2 * r, 2]]), torch.tensor([[2, 2 * r + 1, h]])
            with torch.no_grad():
                tails, heads = scorer.scores("tail", row), scorer.scores("head", row)
                torch.testing.assert_close(tails, plain.scores("tail", there))
                torch.testing.assert_close(heads, plain.scores("tail", back))
                sides = [scorer.score_for(side, *states(scorer, row)) for side in ("head", "tail")]
                torch.testing.assert_close(sides[0], heads[:, h], atol=1e-5, rtol=1e-5)
                torch.testing.assert_close(sides[1], tails[:, 2], atol=1e-5, rtol=1e-5)
                mean = (plain.score_triples(there) + plain.score_triples(back)) / 2
                torch.testing.assert_close(scorer.score_triples(row), mean)
                relation = scorer.scores("relation", row)[:, r]
                torch.testing.assert_close(relation, mean, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_regularisation_sees_relations_and_inverses(name: str):
    scorer = fresh(name)
    relation, inverse = scorer.relations.detach().chunk(2, -1)
    expected = torch.cat([scorer.inner.moduli(relation), scorer.inner.moduli(inverse)], -1)
    assert torch.equal(scorer.moduli(scorer.relations.detach()), expected)
    entities = scorer.entities.detach()
    assert torch.equal(scorer.moduli(entities), scorer.inner.moduli(entities))


@pytest.mark.parametrize("config", [TRAINING, SAMPLED, replace(SAMPLED, share_negatives=True)])
def test_training_moves_both_vectors_of_a_relation_and_resumes_to_the_bit(config: TrainingConfig):
    weights = []
    for stops in ((6,), (2, 6)):
        scorer, state = fresh("complex"), None
        before = scorer.relations.detach().clone()
        generator = torch.Generator().manual_seed(0)
        for n_epochs in stops:
            history = train(scorer, CHAIN, config=replace(config, n_epochs=n_epochs),
                            generator=generator, state=state)  # fmt: skip
            state = history.state
        moved = (scorer.relations.detach() - before).abs().sum(1)
        assert moved[0] > 0.1
        assert (scorer.relations.detach()[0].chunk(2)[1] != before[0].chunk(2)[1]).all()
        assert not moved[1:].any()  # no triple has these relations
        weights.append(scorer.state_dict())
    assert list(weights[0]) == ["entities", "relations"]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_symmetric_formula_learns_a_chain_once_heads_are_asked_of_the_inverse():
    known = Filter({"train": CHAIN}, n_entities=N_ENTITIES, n_relations=1)
    scorer = make_reciprocal("distmult", n_entities=N_ENTITIES, n_relations=1, width=16,
                             generator=torch.Generator().manual_seed(1))  # fmt: skip
    plain = make_scorer("distmult", n_entities=N_ENTITIES, n_relations=1, width=16,
                        generator=torch.Generator().manual_seed(1))  # fmt: skip
    values = []
    for each in (scorer, plain):
        train(each, CHAIN, config=TRAINING, generator=torch.Generator().manual_seed(0))
        result = rank(each, CHAIN, filter=known, ties="pessimistic", directions=("head", "tail"),
                      candidates="all")  # fmt: skip
        values.append(result.mrr)
    assert values[0] > values[1] + 0.1


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_saved_one_comes_back(name: str, tmp_path: Path, small_graph: KnowledgeGraph):
    scorer = make_reciprocal(
        name, n_entities=small_graph.n_entities, n_relations=small_graph.n_relations, width=4,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    if isinstance(scorer.inner, TransE):
        scorer.inner.norm = 1
    save_scorer(tmp_path / "m", scorer, small_graph, {})
    loaded = load_scorer(tmp_path / "m", small_graph).scorer
    assert isinstance(loaded, Reciprocal)
    triples = torch.from_numpy(small_graph.triples)
    for direction in ("head", "relation", "tail"):
        assert torch.equal(loaded.scores(direction, triples), scorer.scores(direction, triples))


def test_fresh_vectors_and_an_odd_number_of_relations():
    first, second = fresh("rotate"), fresh("rotate", seed=9)
    second.initialise(torch.Generator().manual_seed(3))
    assert torch.equal(first.relations, second.relations)
    assert torch.equal(first.entities, second.entities)
    with pytest.raises(ConfigError, match="3 relations cannot be relations and their inverses"):
        Reciprocal(make_scorer("complex", n_entities=2, n_relations=3, width=4,
                               generator=torch.Generator()))  # fmt: skip
