"""SimKGC's ranks with re-ranking against the original's."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from kept.evaluation.ranking import Filter, RankingResult, rank
from kept.kge.simkgc.ranking import SimKGCScorer
from tests.parity.simkgc.simkgc_golden import Golden
from tests.parity.stored_digits import half_unit

METHOD = "simkgc"


# ---- evaluation ----------------------------------------------------------------------------------
def test_ranks_with_re_ranking(golden: Golden, compared: Any) -> None:
    record, data = golden.read("evaluation"), golden.load("evaluation")
    world = golden.world(golden.training["task"], is_linked=golden.training["use_link_graph"])
    n = golden.training["max_num_tokens"]
    model = golden.model(torch.float32)
    scorer = SimKGCScorer(model, golden.tokenizer, world.texts, n_tokens=n)
    order = [world.entities.index(name) for name in record["entity_order"]]
    compared.close("simkgc entities", scorer.entities[order], data["entity_vectors"], atol=1e-6)
    splits = {name: world.rows(rows) for name, rows in world.benchmark.splits.items()}
    known, parts = Filter(splits, **world.sizes), {}
    half = half_unit([one["metrics"] for one in record["runs"]])
    for one in record["runs"]:
        if one.get("average"):
            metrics = averaged(*(parts[side] for side in ("forward", "backward")))
            for name, value in one["metrics"].items():
                compared.close(f"simkgc {name}", metrics[name], value, atol=1e-9 + half)
            continue
        scorer.links, scorer.weight = world.links, one["neighbor_weight"]
        scorer.n_hops, direction = one["n_hop"], one["direction"]
        side = "tail" if direction == "forward" else "head"
        rows = torch.from_numpy(splits["test"])
        vectors = data[f"{direction}.hr_vectors"]
        compared.close("simkgc questions", scorer.questions(side, rows), vectors, atol=1e-6)
        scores = scorer.scores(side, rows)
        key = f"{direction}.w{one['neighbor_weight']}.hop{one['n_hop']}.scores_before_filter"
        if key in data:
            compared.close("simkgc scores", scores[:, order], data[key], atol=2e-6)
        anchors = splits["test"][:, 0 if direction == "forward" else 2].tolist()
        for anchor, near in zip(anchors, one["n_hop_entities"] or [], strict=False):
            actual = [order.index(i) for i in world.links.within(anchor, one["n_hop"]).tolist()]
            compared.equal("simkgc near", sorted(actual), sorted(near))
        result = rank(scorer, splits["test"], filter=known, ties="realistic", directions=(side,),
                      candidates="all")  # fmt: skip
        compared.equal("simkgc ranks", result.ranks.astype(int).tolist(), one["ranks"])
        compared_answers(one, scores[:, order], result, compared, half)
        parts[direction] = rounded(result)


def compared_answers(
    one: Any, scores: Tensor, result: RankingResult, compared: Any, half: float
) -> None:
    """Every run's rounded metrics; the best three where nothing was filtered."""
    for name, value in one["metrics"].items():
        compared.close(f"simkgc {name}", rounded(result)[name], value, atol=1e-9 + half)
    for row, filtered in enumerate(one["filtered"]):
        if not filtered:
            best = scores[row].topk(len(one["top3_indices"][row]))
            compared.equal("simkgc best", best.indices.tolist(), one["top3_indices"][row])
            compared.close("simkgc best scores", best.values, one["top3_scores"][row], atol=2e-6)


def rounded(result: RankingResult) -> dict[str, float]:
    """The metrics as the program prints them."""
    values = {"mean_rank": result.mr, "mrr": result.mrr}
    values |= {f"hit@{k}": result.hits(k) for k in (1, 3, 10)}
    return {name: round(value, 4) for name, value in values.items()}


def averaged(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: round((one[name] + other[name]) / 2, 4) for name in one}


def test_candidates_of_the_inductive_benchmark(golden: Golden, compared: Any) -> None:
    for path in sorted(golden.folder.glob("inductive_candidates_*.json")):
        record = json.loads(path.read_text("utf-8"))
        task = path.stem.removeprefix("inductive_candidates_")
        benchmark = golden.world(task, is_linked=False).benchmark
        compared.equal("simkgc all entities", list(benchmark.names), record["all_entities"])
        rows = benchmark.splits[record["test_file"].split(".")[0]]
        ends = {end for head, _, tail in rows for end in (head, tail)}
        actual = [name for name in benchmark.names if name in ends]
        compared.equal("simkgc candidates", actual, record["candidates"])
