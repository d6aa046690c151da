"""Triple scorers on a benchmark, trained in pieces that resume; with published numbers.

KEPT_DATA=DIR python -m experiments kg_completion --dataset codex-s
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray

from entity_linking.scoring.intervals import Interval
from experiments.command import announce, data_root, write_results
from experiments.kg_completion.tables import page
from kept.evaluation.leakage import (
    audit_table,
    inverses_in_graph,
    pairs_in_graph,
    shared_triples,
    triples_in_graph,
)
from kept.evaluation.ranking import Direction, Filter, RankingResult, ScoresFunction, rank
from kept.evaluation.ranking_groups import (
    CATEGORIES,
    NO_TRIPLE,
    category_of_questions,
    degree_baseline,
    degree_names,
    degree_of_questions,
    group_metrics,
    relation_categories,
)
from kept.evaluation.statistics import bootstrap_interval
from kept.evaluation.triple_classification import classify_triples
from kept.kge import Scorer, TrainingConfig, make_reciprocal, make_scorer, train
from kept.kge.splits import Splits, read_negatives, read_splits
from kept.lab.study.cells import PlainCellTrial
from kept.randomness import generator, torch_generator
from kg_loaders.disk.writing import whole_file

HERE = Path(__file__).parent
SIDES: tuple[Direction, ...] = ("head", "tail")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Splits, what is known of them, false triples by split where the data set has them."""

    splits: Splits
    known: Filter
    negatives: dict[str, NDArray[np.int32]]
    seed: int

    @classmethod
    def of(cls, splits: Splits, negatives: dict[str, NDArray[np.int32]], seed: int) -> Benchmark:
        """Return the benchmark with the filter of all its splits."""
        sizes = {"n_entities": splits.graph.n_entities, "n_relations": splits.graph.n_relations}
        return cls(splits, Filter(splits.as_mapping(), **sizes), negatives, seed)

    @property
    def sizes(self) -> dict[str, Any]:
        """The numbers of entities and relations."""
        graph = self.splits.graph
        return {"n_entities": graph.n_entities, "n_relations": graph.n_relations}

    def ranked(
        self, scorer: Scorer | ScoresFunction, split: str, directions: tuple[Direction, ...]
    ) -> RankingResult:
        """Return filtered ranks under realistic ties."""
        return rank(scorer, self.splits.as_mapping()[split], filter=self.known, ties="realistic",
                    directions=directions, candidates="all")  # fmt: skip


class TimeLimitReached(Exception):
    """The minutes of this call are used up; the state is on disk."""


@dataclass(frozen=True)
class ScorerTrial(PlainCellTrial):
    """The scorers of a plan on its benchmark, each trained with one seed."""

    plan: Mapping[str, Any]
    benchmark: Benchmark
    folder: Path
    deadline: float

    @property
    def rows(self) -> list[str]:
        """The scorers."""
        return [*self.plan["scorers"]]

    def seeds(self, row: str) -> tuple[int, ...]:
        """See `CellTrial.seeds`."""
        return (self.benchmark.seed,)

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        address = training_address(self.plan["scorers"][row], self.benchmark)
        return self.folder / f"{row}-{address}-{negatives_address(self.benchmark)}.json"

    def run(self, row: str, seed: int) -> dict[str, Any]:
        """Train and test a scorer; raises `TimeLimitReached`."""
        settings = self.plan["scorers"][row]
        states = self.folder / f"{row}-{training_address(settings, self.benchmark)}.pt"
        scorer, training = train_scorer(
            row, settings, self.benchmark, state_file=states, deadline=self.deadline
        )
        return {"training": training, **measure(row, scorer, self.benchmark)}

    def summary(self, row: str, seed: int, cell: Any) -> str:
        """See `CellTrial.summary`."""
        return f"{row}: {cell['metrics']}"

    def results(self, names: list[str]) -> dict[str, Any]:
        """Return the results of the degrees and the named scorers, run where they are missing."""
        self.run_missing(self.keys(names), announce=announce)
        degree = degree_baseline(self.benchmark.splits.train, **self.benchmark.sizes)
        cells = {name: self.read(name, self.benchmark.seed) for name in names}
        return {"degree": measure("degree", degree, self.benchmark), **cells}


# ---- addresses -----------------------------------------------------------------------------------
def training_address(settings: Mapping[str, Any], benchmark: Benchmark) -> str:
    """Return a hash of all that a training depends on; test triples filter the validation."""
    depends = [settings, benchmark.seed, benchmark.splits.graph.content_hash]
    digest = hashlib.sha256(json.dumps(depends, sort_keys=True).encode())
    digest.update(_rows_hash(benchmark.splits.as_mapping()))
    return digest.hexdigest()[:12]


def negatives_address(benchmark: Benchmark) -> str:
    """Return a hash of what else a finished training is tested on: the false triples."""
    return _rows_hash(benchmark.negatives).hex()[:6]


def _rows_hash(parts: Mapping[str, NDArray[np.int32]]) -> bytes:
    digest = hashlib.sha256()
    for name, rows in parts.items():
        digest.update(f"{name} {len(rows)}\n".encode() + rows.astype("<i4").tobytes())
    return digest.digest()


# ---- training ------------------------------------------------------------------------------------
def train_scorer(
    name: str, plan: Mapping[str, Any], benchmark: Benchmark, *, state_file: Path, deadline: float,
    progress: Callable[[str], None] = announce,
) -> tuple[Scorer, dict[str, Any]]:  # fmt: skip
    """Train to the end of the plan, an epoch at a time; raises `TimeLimitReached` after `deadline`.

    The state is written after every epoch, so the same call goes on where the last one stopped and
    gives the same bits. `budget_cpu_minutes` of the plan ends a training as its last epoch does.
    """
    config = TrainingConfig(**plan["training"])
    draws = torch_generator(benchmark.seed, "kg_completion", name)
    make = make_reciprocal if plan["reciprocal"] else make_scorer
    scorer: Scorer = make(name, width=plan["width"], generator=draws, **benchmark.sizes)
    state: dict[str, Any] = {"epoch": 0, "stopped": False, "cpu_seconds": 0.0, "state": None}
    if state_file.is_file():
        state = torch.load(state_file, weights_only=True)
    while True:
        start = time.process_time()
        epoch = min(state["epoch"] + 1, config.n_epochs)
        budget_used = state["cpu_seconds"] >= 60 * plan["budget_cpu_minutes"]
        if budget_used or state["stopped"]:
            epoch = state["epoch"]
        history = train(
            scorer, benchmark.splits.train, config=replace(config, n_epochs=epoch),
            generator=draws, state=state["state"],
            validate=lambda current: benchmark.ranked(current, "valid", SIDES).mrr,
        )  # fmt: skip
        if epoch == state["epoch"]:
            break
        state = {"epoch": epoch, "stopped": history.stopped_early, "state": history.state,
                 "cpu_seconds": state["cpu_seconds"] + time.process_time() - start}  # fmt: skip
        state_file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(state_file, force=True) as part:
            torch.save(state, part)
        progress(_progress(name, config.n_epochs, history, state))
        if time.perf_counter() > deadline and epoch < config.n_epochs:
            raise TimeLimitReached(name)
    record = {
        "validations": history.validations, "n_epochs": len(history.losses),
        "best_epoch": history.best_epoch, "cpu_seconds": round(state["cpu_seconds"], 1),
        "budget_used_up": budget_used,
        "n_parameters": sum(p.numel() for p in scorer.parameters()),
    }  # fmt: skip
    return scorer, record


def _progress(name: str, n_epochs: int, history: Any, state: Mapping[str, Any]) -> str:
    epoch, seconds = state["epoch"], state["cpu_seconds"]
    line = f"{name}: epoch {epoch} of {n_epochs}, loss {history.losses[-1]:.4f}"
    if history.validations and history.validations[-1][0] == epoch:
        line += f", validation MRR {history.validations[-1][1]:.4f}"
    left = seconds / epoch * (n_epochs - epoch)
    return f"{line}, {seconds:.0f} CPU s, at most {left:.0f} to go"


# ---- testing -------------------------------------------------------------------------------------
def measure(name: str, scorer: Scorer | ScoresFunction, benchmark: Benchmark) -> dict[str, Any]:
    """Return metrics of the test split, in groups and by direction, and triple classification."""
    entities = benchmark.ranked(scorer, "test", SIDES)
    relations = benchmark.ranked(scorer, "test", ("relation",))
    splits, n_relations = benchmark.splits, benchmark.splits.graph.n_relations
    draws = generator(benchmark.seed, "kg_completion", "interval", name)
    interval = bootstrap_interval(1 / entities.ranks, clusters=entities.triples, generator=draws)
    categories = relation_categories(splits.train, n_relations=n_relations)
    by_category = category_of_questions(entities, categories)
    by_degree = degree_of_questions(entities, splits.train, n_entities=splits.graph.n_entities)
    record = {
        "metrics": entities.metrics(), "mrr_interval": [interval.low, interval.high],
        "conditions": entities.conditions(),
        "directions": {side: entities.of(side).metrics() for side in SIDES},
        "relation_metrics": relations.metrics(), "relation_conditions": relations.conditions(),
        "categories": group_metrics(entities, by_category, (*CATEGORIES, NO_TRIPLE)),
        "degrees": group_metrics(entities, by_degree, degree_names()),
    }  # fmt: skip
    if benchmark.negatives and isinstance(scorer, Scorer):
        classification = classify_triples(
            scorer.score_triples, splits.as_mapping(), benchmark.negatives, n_relations=n_relations,
            generator=generator(benchmark.seed, "kg_completion", "classification", name),
        )  # fmt: skip
        record["classification"] = {
            "accuracy": _three(classification.accuracy), "f1": _three(classification.f1),
            "n_true": classification.n_true, "n_false": classification.n_false,
            "rule": classification.rule,
        }  # fmt: skip
    return record


def _three(interval: Interval) -> list[float]:
    return [interval.estimate, interval.low, interval.high]


def audit(splits: Splits) -> str:
    """Return what the training triples give away of the test."""
    train = splits.graph.with_triples(splits.train, note="train")
    checks = [check(splits.test, train)
              for check in (triples_in_graph, inverses_in_graph, pairs_in_graph)]  # fmt: skip
    return audit_table([*checks, shared_triples(splits.as_mapping(), splits.graph)])


# ---- the command ---------------------------------------------------------------------------------
def read_benchmark(plan: Mapping[str, Any], root: Path) -> Benchmark:
    """Return the benchmark of a plan from its folder below `root`."""
    folder = root / plan["folder"]
    splits = read_splits(folder, holdout=0.1, seed=plan["seed"], texts=False)
    negatives = read_negatives(folder, splits) if plan["negatives"] else {}
    return Benchmark.of(splits, negatives, plan["seed"])


def main() -> None:
    """Train and test the scorers of a data set, and write its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="codex-s", help="a YAML file beside this script")
    parser.add_argument("--scorers", help="some of them, by comma; then no page is written")
    parser.add_argument("--states", type=Path, default=Path("runs/kg_completion"),
                        help="where trainings are kept after every epoch")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=float("inf"),
                        help="stop after the epoch they end in; then call again")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    deadline = time.perf_counter() + 60 * options.minutes
    torch.set_num_threads(options.threads)
    plan = yaml.safe_load((HERE / f"{options.dataset}.yaml").read_text(encoding="utf-8"))
    benchmark = read_benchmark(plan, data_root())
    names = options.scorers.split(",") if options.scorers else [*plan["scorers"]]
    try:
        trial = ScorerTrial(plan, benchmark, options.states / options.dataset, deadline)
        scorers = trial.results(names)
    except TimeLimitReached as stopped:
        sys.exit(f"out of time in {stopped}: run the same command again to go on")
    splits = benchmark.splits
    results = {
        "dataset": options.dataset, "seed": plan["seed"], "scorers": scorers,
        "n_unseen": splits.n_unseen("test"),
        "command": f"python -m experiments kg_completion --dataset {options.dataset}"
        + (f" --scorers {options.scorers}" if options.scorers else ""),
        "content_hash": splits.graph.content_hash, "torch": torch.__version__,
    }  # fmt: skip
    text = page(results, plan, audit(splits))
    if options.scorers is None:
        write_results(HERE, text, results, f"{options.dataset}.results")
    else:
        announce(text)


if __name__ == "__main__":
    main()
