"""Triple scorers on a benchmark, published numbers beside.

KEPT_DATA=DIR python -m experiments.kg_completion --dataset codex-s
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray

from experiments.kg_completion.runs import (
    Benchmark,
    TimeLimitReached,
    baseline,
    measure,
    read_json,
    train_scorer,
)
from experiments.kg_completion.tables import page
from kept.evaluation.leakage import (
    audit_table,
    inverses_in_graph,
    pairs_in_graph,
    shared_triples,
    triples_in_graph,
)
from kept.kge.splits import Splits, read_negatives, read_splits
from kg_loaders.disk.writing import write_json, write_text

HERE = Path(__file__).parent


def run(plan: dict[str, Any], names: list[str], benchmark: Benchmark, states: Path,
        deadline: float) -> dict[str, Any]:  # fmt: skip
    """Results of the named scorers, trained where `states` does not hold them yet."""
    results = {"degree": measure("degree", baseline(benchmark), benchmark)}
    for name in names:
        own = plan["scorers"][name]
        trained = address(own, benchmark)
        place = states / f"{name}-{trained}-{asked_of(benchmark)}.json"
        stored = read_json(place)
        if stored is None:
            scorer, training = train_scorer(
                name, own, benchmark, state_file=states / f"{name}-{trained}.pt",
                deadline=deadline, tell=tell,
            )  # fmt: skip
            stored = {"training": training, **measure(name, scorer, benchmark)}
            write_json(place, stored, force=True)
        tell(f"{name}: {stored['metrics']}")
        results[name] = stored
    return results


def address(own: dict[str, Any], benchmark: Benchmark) -> str:
    """A hash of all that a training depends on; test triples filter the validation."""
    depends = [own, benchmark.seed, benchmark.splits.graph.content_hash]
    digest = hashlib.sha256(json.dumps(depends, sort_keys=True).encode())
    digest.update(_rows_hash(benchmark.splits.as_mapping()))
    return digest.hexdigest()[:12]


def asked_of(benchmark: Benchmark) -> str:
    """A hash of what a finished training is asked beside the splits: the false triples."""
    return _rows_hash(benchmark.negatives).hex()[:6]


def _rows_hash(parts: Mapping[str, NDArray[np.int32]]) -> bytes:
    digest = hashlib.sha256()
    for name, rows in parts.items():
        digest.update(f"{name} {len(rows)}\n".encode() + rows.astype("<i4").tobytes())
    return digest.digest()


def audit(splits: Splits) -> str:
    """What the training triples give away of the test."""
    train = splits.graph.with_triples(splits.train, note="train")
    checks = [check(splits.test, train)
              for check in (triples_in_graph, inverses_in_graph, pairs_in_graph)]  # fmt: skip
    return audit_table([*checks, shared_triples(splits.as_mapping(), splits.graph)])


def tell(text: str) -> None:
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.kg_completion")
    parser.add_argument("--dataset", default="codex-s", help="a YAML file beside this script")
    parser.add_argument("--scorers", help="some of them, by comma; then no page is written")
    parser.add_argument("--states", type=Path, default=Path("runs/kg_completion"),
                        help="where trainings are kept after every epoch")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=float("inf"),
                        help="stop after the epoch they end in; then call again")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    deadline = time.perf_counter() + 60 * options.minutes
    torch.set_num_threads(options.threads)
    plan = yaml.safe_load((HERE / f"{options.dataset}.yaml").read_text(encoding="utf-8"))
    root = os.environ.get("KEPT_DATA")
    if not root:
        sys.exit("KEPT_DATA is not set: name the folder of the public data sets")
    folder = Path(root) / plan["folder"]
    splits = read_splits(folder, holdout=0.1, seed=plan["seed"], texts=False)
    negatives = read_negatives(folder, splits) if plan["negatives"] else {}
    benchmark = Benchmark.of(splits, negatives, plan["seed"])
    names = options.scorers.split(",") if options.scorers else [*plan["scorers"]]
    try:
        results = run(plan, names, benchmark, options.states / options.dataset, deadline)
    except TimeLimitReached as stopped:
        sys.exit(f"out of time in {stopped}: run the same command again to go on")
    results_page = {
        "dataset": options.dataset, "seed": plan["seed"], "scorers": results,
        "n_unseen": splits.n_unseen("test"),
        "command": f"python -m experiments.kg_completion --dataset {options.dataset}"
        + (f" --scorers {options.scorers}" if options.scorers else ""),
        "content_hash": splits.graph.content_hash, "torch": torch.__version__,
    }  # fmt: skip
    text = page(results_page, plan, audit(splits))
    tell(text)
    if options.scorers is None:
        output = HERE / f"{options.dataset}.results"
        write_json(output.with_suffix(".results.json"), results_page, force=True)
        write_text(output.with_suffix(".results.md"), text, force=True)


if __name__ == "__main__":
    main()
