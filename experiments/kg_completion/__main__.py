"""Triple scorers on a benchmark, published numbers beside.

KEPT_DATA=DIR python -m experiments.kg_completion --dataset codex-s
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from kept.evaluation.leakage import (
    audit_table,
    inverses_in_graph,
    pairs_in_graph,
    shared_triples,
    triples_in_graph,
)
from kept.evaluation.ranking import Direction, Filter, RankingResult, rank
from kept.evaluation.statistics import bootstrap_interval
from kept.kge import Scorer, TrainingConfig, make_scorer, train
from kept.kge.splits import Splits, read_splits

HERE = Path(__file__).parent
SIDES: tuple[Direction, ...] = ("head", "tail")


def run_scorer(name: str, plan: dict[str, Any], splits: Splits, seed: int) -> dict[str, Any]:
    """Train one scorer by its plan and test it."""
    graph = splits.graph
    generator = torch.Generator().manual_seed(seed)
    scorer = make_scorer(
        name, n_entities=graph.n_entities, n_relations=graph.n_relations, width=plan["width"],
        generator=generator,
    )  # fmt: skip
    known = Filter(splits.as_mapping(), n_entities=graph.n_entities, n_relations=graph.n_relations)

    def ranked(rows: np.ndarray, directions: tuple[Direction, ...]) -> RankingResult:
        return rank(scorer, rows, filter=known, ties="realistic", directions=directions,
                    candidates="all")  # fmt: skip

    def validate(_: Scorer) -> float:
        return ranked(splits.valid, SIDES).mrr

    start = time.process_time()
    history = train(scorer, splits.train, config=TrainingConfig(**plan["training"]),
                    generator=generator, validate=validate)  # fmt: skip
    entities, relations = ranked(splits.test, SIDES), ranked(splits.test, ("relation",))
    interval = bootstrap_interval(
        1 / entities.ranks, clusters=entities.triples, generator=np.random.default_rng(seed)
    )
    return {
        "metrics": entities.metrics(), "mrr_interval": [interval.low, interval.high],
        "conditions": entities.conditions(), "relation_metrics": relations.metrics(),
        "relation_conditions": relations.conditions(), "validations": history.validations,
        "n_epochs": len(history.losses), "best_epoch": history.best_epoch,
        "cpu_seconds": round(time.process_time() - start, 1),
        "n_parameters": sum(p.numel() for p in scorer.parameters()),
    }  # fmt: skip


def as_markdown(told: dict[str, Any], published: dict[str, Any], differs: str, audit: str) -> str:
    """The page of results."""
    columns = (
        "scorer", "MRR [95 % CI]", "Hits@1", "Hits@10", "published MRR / H@1 / H@10",
        "relation MRR", "relation Hits@1", "epochs (best)", "CPU seconds",
    )  # fmt: skip
    lines = [f"# Triple scorers on {told['dataset']}", ""]
    lines += [f"`{told['command']}`, seed {told['seed']}.", ""]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, result in told["scorers"].items():
        metrics, relation, (low, high) = (
            result["metrics"], result["relation_metrics"], result["mrr_interval"],
        )  # fmt: skip
        theirs = published.get(name)
        beside = " / ".join(f"{v:.3f}" for v in theirs.values()) if theirs else "none"
        lines.append(
            f"| {name} | {metrics['mrr']:.3f} [{low:.3f}, {high:.3f}] | {metrics['hits@1']:.3f} "
            f"| {metrics['hits@10']:.3f} | {beside} | {relation['mrr']:.3f} "
            f"| {relation['hits@1']:.3f} | {result['n_epochs']} ({result['best_epoch']}) "
            f"| {result['cpu_seconds']:.0f} |"
        )
    conditions = next(iter(told["scorers"].values()))["conditions"]
    entities = (
        f"Entities: {conditions['n_asked']} questions, {conditions['n_scored']} scored, skipped "
        f"{conditions['n_skipped'] or 'none'}; ties {conditions['ties']}; filter "
        f"{conditions['filter']}; both sides; candidates {conditions['candidates']}. The interval "
        "is a bootstrap over test triples, of one seed: it does not hold the spread over seeds. "
        "Relations: one question a test triple, the same filter, all relations compete."
    )
    lines += ["", entities, "", f"Published: {published['from']}.", ""]
    lines += [f"What differs: {differs.strip()}", "", "## What the training triples give away", ""]
    lines += [audit, ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.kg_completion")
    parser.add_argument("--dataset", default="codex-s", help="a YAML file beside this script")
    parser.add_argument("--scorers", help="some of them, by comma; then nothing is written")
    parser.add_argument("--epochs", type=int, help="fewer epochs; then nothing is written")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = yaml.safe_load((HERE / f"{arguments.dataset}.yaml").read_text(encoding="utf-8"))
    root = os.environ.get("KEPT_DATA")
    if not root:
        sys.exit("KEPT_DATA is not set: name the folder of the public data sets")
    splits = read_splits(Path(root) / plan["folder"], holdout=0.1, seed=plan["seed"])
    given = splits.graph.with_triples(splits.train, note="train")
    checks = [check(splits.test, given)
              for check in (triples_in_graph, inverses_in_graph, pairs_in_graph)]  # fmt: skip
    audit = audit_table([*checks, shared_triples(splits.as_mapping(), splits.graph)])
    told: dict[str, Any] = {
        "dataset": arguments.dataset, "seed": plan["seed"], "scorers": {},
        "command": f"python -m experiments.kg_completion --dataset {arguments.dataset}",
        "content_hash": splits.graph.content_hash, "torch": torch.__version__,
    }  # fmt: skip
    chosen = arguments.scorers.split(",") if arguments.scorers else plan["scorers"]
    for name in chosen:
        if arguments.epochs is not None:
            plan["scorers"][name]["training"]["n_epochs"] = arguments.epochs
        result = run_scorer(name, plan["scorers"][name], splits, plan["seed"])
        told["scorers"][name] = result
        print(name, result["metrics"], f"{result['cpu_seconds']} s", flush=True)
    page = as_markdown(told, plan["published"], plan["differs"], audit)
    print(page)
    if arguments.scorers is None and arguments.epochs is None:
        output = HERE / f"{arguments.dataset}.results"
        output.with_suffix(".results.json").write_text(json.dumps(told, indent=2) + "\n")
        output.with_suffix(".results.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
