"""ULTRA's released weights on a public graph: scores, ranks and metrics of the original."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from kept.evaluation.ranking import Filter, rank
from kept.kge.ultra.networks import load_ultra, make_ultra
from kept.kge.ultra.training import UltraScorer
from kept.tasks.datasets.inductive import GRAIL, read_grail

METHOD = "ultra"


def real_graphs(folder: Path) -> list[str]:
    """The names of the files of real graphs."""
    return sorted(path.stem for path in folder.glob("real_*.json"))


PARAMETERS = {"real": real_graphs}
REAL_ATOL = 5e-5
WEIGHTS = "ultra/ultra_4g.safetensors"


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.data
def test_released_weights(folder: Path, real: str, data_root: Path, compared: Any) -> None:
    """The first questions of a GraIL graph, whose name and orders of ids the golden file gives."""
    record = json.loads((folder / f"{real}.json").read_text("utf-8"))
    expected = load_file(folder / f"{real}.safetensors")
    ids = {name: i for i, name in enumerate(record["entity_order"])}
    relations = {name: i for i, name in enumerate(record["relation_order"])}
    parts = {
        name: np.array([(ids[h], relations[r], ids[t]) for h, r, t in rows])
        for name, rows in inference_triples(data_root / GRAIL, record["dataset"]).items()
    }
    sizes = {"n_entities": len(ids), "n_relations": len(relations)}
    model = make_ultra()
    load_ultra(model, data_root / f"ultra/{record['checkpoint']}.safetensors")
    scorer = UltraScorer(model, parts["train"], **sizes)
    queries, known = expected["queries_h_t_r"], Filter(parts, **sizes)
    rows = queries[:, [0, 2, 1]]
    for side in ("tail", "head"):
        scores = scorer.scores(side, rows)  # type: ignore[arg-type]
        compared.close(side, scores, expected[f"kernel.{side}.scores"], atol=REAL_ATOL)
        ranks = rank(
            scorer, rows.numpy(), filter=known, ties="pessimistic", directions=(side,),  # type: ignore[arg-type]
            candidates="all",
        ).ranks  # fmt: skip
        low, high = (expected[f"kernel.{side}.rank_{end}"].numpy() for end in ("lowest", "highest"))
        compared.equal(f"{side} ranks", ((low <= ranks) & (ranks <= high)).all(), True)
    vectors = model.relation_model(scorer.between, queries[:1, 2])[0]
    expected_vectors = expected["kernel.first_relation_representations"]
    compared.close("vectors", vectors.detach(), expected_vectors, atol=REAL_ATOL)


def inference_triples(archive: Path, name: str) -> dict[str, list[list[str]]]:
    """The triples of the inference graph `name`, such as "fb237_v1_ind"."""
    parts = {}
    with tarfile.open(archive) as members:
        for split in ("train", "valid", "test"):
            member = members.extractfile(f"{name}/{split}.txt")
            assert member is not None
            parts[split] = [line.split("\t") for line in member.read().decode().splitlines()]
    return parts


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("split", "mrr"), [("WN18RR_v1", 0.6647), ("fb237_v1", 0.4993)])
def test_mean_reciprocal_ranks_of_the_release(split: str, mrr: float, data_root: Path) -> None:
    """Whole test sets of our own reader's ids; the weights have seen all of these triples."""
    graphs = read_grail(data_root, split)
    part, n_relations = graphs.parts["test"], graphs.graph.n_relations
    model = make_ultra()
    load_ultra(model, data_root / WEIGHTS)
    scorer = UltraScorer(model, part.context, n_entities=part.n_entities, n_relations=n_relations)
    actual = rank(
        scorer, part.queries, filter=part.filter(n_relations), ties="pessimistic",
        directions=("head", "tail"), candidates="all",
    ).mrr  # fmt: skip
    assert actual == pytest.approx(mrr, abs=5e-5)
