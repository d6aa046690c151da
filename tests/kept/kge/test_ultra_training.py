"""ULTRA: edges by loops, negatives, learning a rule that holds on a graph never seen, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kept.errors import CheckpointError, ConfigError, EvaluationError
from kept.evaluation.ranking import Filter, rank
from kept.kge.training_config import TrainingConfig
from kept.kge.ultra.graphs import MEETINGS, Edges, relation_graph, without_easy
from kept.kge.ultra.networks import LayerOptions, Ultra, load_ultra, make_ultra
from kept.kge.ultra.training import (
    UltraScorer,
    strict_negatives,
    train_ultra,
    unconnected_entities,
)

N_RELATIONS = 3
CONFIG = TrainingConfig(
    n_epochs=12, batch_size=8, learning_rate=0.01, optimiser="adamw",
    objective="negative_sampling", loss="log_sigmoid", n_negatives=8, adversarial_temperature=1.0,
)  # fmt: skip


def families(n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """A graph of (child, parent) and (parent, parent's parent): relation 2 is their composition.

    Returns triples to read, triples of relation 2 that follow from them, and the entities' number.
    """
    draws = np.random.default_rng(seed)
    rows, follow = [], []
    for i in range(n):
        child, parent, old = 3 * i, 3 * i + 1, 3 * i + 2
        rows += [(child, 0, parent), (parent, 1, old)]
        follow.append((child, 2, old))
    friends = draws.integers(3 * n, size=(n, 2))
    rows += [(a, 0, b) for a, b in friends.tolist() if a != b]
    return np.array(rows), np.array(follow), 3 * n


def test_the_graph_of_relations_by_loops() -> None:
    draws = np.random.default_rng(0)
    triples = np.stack([draws.integers(n, size=12) for n in (6, N_RELATIONS, 6)], 1)
    edges = Edges.of(triples, n_entities=6, n_relations=N_RELATIONS)
    ends = {
        "h": [{int(e) for e, t in zip(edges.ends[0], edges.types, strict=True) if t == kind}
              for kind in range(edges.n_types)],
        "t": [{int(e) for e, t in zip(edges.ends[1], edges.types, strict=True) if t == kind}
              for kind in range(edges.n_types)],
    }  # fmt: skip
    wanted = [
        (kind, a, b)
        for kind, name in enumerate(MEETINGS)
        for a in range(edges.n_types)
        for b in range(edges.n_types)
        if ends[name[0]][a] & ends[name[2]][b]
    ]
    between = relation_graph(edges)
    relation_edges = torch.stack([between.types, *between.ends], 1).tolist()
    assert [tuple(row) for row in relation_edges] == wanted


def test_edges_of_a_question_carry_nothing() -> None:
    edges = Edges.of([[0, 0, 1], [0, 1, 1], [2, 0, 1]], n_entities=3, n_relations=2)
    kept = without_easy(edges, torch.tensor([[0, 0, 1]]))
    assert kept.tolist() == [False, True, True, False, True, True]
    hop = without_easy(edges, torch.tensor([[0, 0, 1]]), one_hop=True)
    assert hop.tolist() == [False, False, True, False, False, True]
    beyond = without_easy(edges, torch.tensor([[1, 0, 0]]))  # the inverse is another fact
    assert beyond.all()


def test_negatives_answer_nothing() -> None:
    triples = np.array([[0, 0, 1], [0, 0, 2], [3, 0, 1]])
    known = Filter({"train": triples}, n_entities=4, n_relations=1)
    batch = torch.from_numpy(triples)
    tails, heads = (unconnected_entities(known, side, batch) for side in ("tail", "head"))
    assert tails.tolist() == [[True, False, False, True]] * 2 + [[True, False, True, True]]
    assert heads[0].tolist() == [False, True, True, False]
    draws = torch.rand(3, 50, generator=torch.Generator().manual_seed(0))
    sampled = strict_negatives(tails, draws)
    assert all(bool(tails[i, sampled[i]].all()) for i in range(3))
    assert set(sampled[0].tolist()) == {0, 3}
    with pytest.raises(ConfigError, match="every entity answers it"):
        strict_negatives(torch.tensor([[True, False], [False, False]]), draws[:2])


def test_a_rule_holds_on_a_graph_that_was_never_seen() -> None:
    """Trained on some families, it completes others, of another number."""
    rows, follow, n_entities = families(20, 0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make_ultra(width=8, n_layers=3)
    other_rows, other, n_others = families(33, 1)
    sizes = {"n_entities": n_others, "n_relations": N_RELATIONS}

    def mrr() -> float:
        scorer = UltraScorer(model, np.concatenate([other_rows, other[:16]]), **sizes)
        known = Filter({"all": np.concatenate([other_rows, other])}, **sizes)
        return rank(scorer, other[16:], filter=known, ties="realistic",
                    directions=("head", "tail"), candidates="all").mrr  # fmt: skip

    before = mrr()
    history = train_ultra(
        model, np.concatenate([rows, follow]), n_entities=n_entities, n_relations=N_RELATIONS,
        config=CONFIG, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert history.losses[-1] < 0.8 * history.losses[0]
    assert before < 0.3
    assert mrr() > 0.8


def test_a_run_that_is_resumed_ends_alike() -> None:
    rows, follow, n_entities = families(8, 0)
    triples = np.concatenate([rows, follow])
    sizes = {"n_entities": n_entities, "n_relations": N_RELATIONS}

    def trained(*epochs: int) -> Ultra:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = make_ultra(width=4, n_layers=2)
        draws, state = torch.Generator().manual_seed(0), None
        for n in epochs:
            config = TrainingConfig(**{**vars(CONFIG), "n_epochs": n})
            state = train_ultra(
                model, triples, config=config, generator=draws, state=state, **sizes
            ).state
        return model

    whole, parts = trained(3), trained(1, 3)
    for one, two in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, two)


def test_batches_of_questions_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, follow, n_entities = families(6, 2)
    model = make_ultra(width=4, n_layers=2).double()
    scorer = UltraScorer(model, rows, n_entities=n_entities, n_relations=N_RELATIONS)
    questions = torch.from_numpy(follow)
    whole = scorer.scores("head", questions)
    monkeypatch.setattr("kept.kge.ultra.training.BATCH_SIZE", 1)
    torch.testing.assert_close(scorer.scores("head", questions), whole)
    with pytest.raises(EvaluationError, match="leave the direction relation out"):
        scorer.scores("relation", questions)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="say to='second'"):
        LayerOptions(message="rotate")
    with pytest.raises(ConfigError, match="5 is odd"):
        LayerOptions(message="rotate", to="second", width=5)
    with pytest.raises(ConfigError, match="1 training triples"):
        train_ultra(
            make_ultra(width=4, n_layers=1), [[0, 0, 1]], n_entities=2, n_relations=1,
            config=CONFIG, generator=torch.Generator(),
        )  # fmt: skip
    path = tmp_path / "weights.safetensors"
    save_file(make_ultra(width=4, n_layers=1).state_dict(), path)
    model = make_ultra(width=4, n_layers=2)
    with pytest.raises(CheckpointError, match="holds no ULTRA of these sizes"):
        load_ultra(model, path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_ultra(model, path)
