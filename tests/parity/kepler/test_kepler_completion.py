"""KEPLER's link-prediction evaluation: every stored rank, metric and score.

The original's ties count against the truth, "both" asks head and tail of a triple in turn, and a
tested triple with an unknown entity is dropped (here it is counted as skipped).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from kept.evaluation.ranking import (
    OUTSIDE,
    Direction,
    Filter,
    RankingResult,
    ScoresFunction,
    rank,
)
from kept.kge import TransE
from tests.parity.stored_digits import half_unit

METHOD = "kepler"
SCORES = "transe_l1_scores_margin"
"""Of the tensor that ends in its margin."""
FILTERS = {
    "transductive": ("train", "valid", "test"),
    "inductive": ("test",),
    "unfiltered": (),
}
DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "head": ("head",),
    "tail": ("tail",),
    "both": ("head", "tail"),
}


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "kg_completion.json").read_text())
    return result


@pytest.fixture(scope="module")
def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "kg_completion.safetensors")


def ids(data: dict[str, Any], name: str) -> NDArray[np.int64]:
    """Triples by id; -1 where a name is unknown."""
    entities, relations = data["entity2id"], data["relation2id"]
    rows = [(entities.get(h, -1), relations.get(r, -1), entities.get(t, -1)) for h, r, t in
            data[name]]  # fmt: skip
    return np.array(rows)


def transe(tensors: dict[str, Tensor]) -> TransE:
    """The evaluation's scorer: L1, although training uses L2."""
    entities, relations = tensors["entity_embeddings"], tensors["relation_embeddings"]
    scorer = TransE(
        n_entities=len(entities),
        n_relations=len(relations),
        width=entities.shape[1],
        generator=torch.Generator(),
        norm=1,
    )
    scorer.load_state_dict({"entities": entities, "relations": relations})
    return scorer


def looked_up(table: Tensor) -> ScoresFunction:
    """Scores from a table `[relation head tail]`."""

    def scores(direction: Direction, triples: Tensor, /) -> Tensor:
        heads, relations, tails = triples.unbind(-1)
        return table[relations, heads] if direction == "tail" else table[relations, :, tails]

    return scores


def in_order(result: RankingResult) -> list[int]:
    """Ranks in file order, head and tail of a triple in turn."""
    by_direction = result.ranks.astype(int).reshape(len(result.directions), -1)
    return [int(i) for i in by_direction.T.ravel()]


def test_every_stored_ranking(
    data: dict[str, Any], tensors: dict[str, Tensor], compared: Any
) -> None:
    scorers: dict[str, Any] = {
        "score_matrix": looked_up(tensors["score_matrix"]),
        "transe_embeddings": transe(tensors),
    }
    test = ids(data, "test")
    n_unknown = int((test < 0).any(1).sum())
    atol = 1e-12 + half_unit([record["metrics"] for record in data["results"].values()])
    for name, expected in data["results"].items():
        scorer, setting, side = name.split("/")
        result = rank(
            scorers[scorer],
            test,
            filter=Filter(
                {part: known[(known >= 0).all(1)] for part in FILTERS[setting]
                 for known in (ids(data, part),)},
                n_entities=len(data["entity2id"]),
                n_relations=len(data["relation2id"]),
            ),
            ties="pessimistic",
            directions=DIRECTIONS[side],
            candidates="all",
        )  # fmt: skip
        compared.equal(name, in_order(result), expected["rankings"])
        skipped = {OUTSIDE: n_unknown * len(DIRECTIONS[side])} if n_unknown else {}
        assert result.n_skipped == skipped
        ours = result.metrics()
        for key, value in expected["metrics"].items():
            compared.close(f"{name} {key}", ours[key.lower()], value, atol=atol)


def test_transe_scores(tensors: dict[str, Tensor], compared: Any) -> None:
    """Margin minus the L1 norm, for every triple, by all three routes."""
    (name,) = (name for name in tensors if name.startswith(SCORES))
    scorer, expected, margin = transe(tensors), tensors[name], float(name.removeprefix(SCORES))
    n_relations, n_entities, _ = expected.shape
    every = torch.cartesian_prod(
        torch.arange(n_entities), torch.arange(n_relations), torch.arange(n_entities)
    )
    with torch.no_grad():
        one = scorer.score_triples(every).view(n_entities, n_relations, n_entities)
        compared.close("transe", margin + one.transpose(0, 1), expected, atol=1e-5)
        pairs = torch.cartesian_prod(torch.arange(n_relations), torch.arange(n_entities))
        tails = scorer.score_tails(pairs[:, 1], pairs[:, 0]).view(expected.shape)
        heads = scorer.score_heads(pairs[:, 0], pairs[:, 1]).view(expected.shape)
    compared.close("transe tails", margin + tails, expected, atol=1e-5)
    compared.close("transe heads", margin + heads.transpose(1, 2), expected, atol=1e-5)
