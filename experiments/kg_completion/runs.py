"""One scorer of a plan: trained in pieces that resume, then tested in every way of the tables."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entity_linking.scoring.intervals import Interval
from kept.errors import CheckpointError
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
from kept.kge.splits import Splits
from kept.randomness import generator, torch_generator

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
        graph = splits.graph
        known = Filter(
            splits.as_mapping(), n_entities=graph.n_entities, n_relations=graph.n_relations
        )
        return cls(splits, known, negatives, seed)

    def ranked(
        self, scorer: Scorer | ScoresFunction, split: str, directions: tuple[Direction, ...]
    ) -> RankingResult:
        """Filtered ranks under realistic ties."""
        return rank(scorer, self.splits.as_mapping()[split], filter=self.known, ties="realistic",
                    directions=directions, candidates="all")  # fmt: skip


class TimeLimitReached(Exception):
    """The minutes of this call are used up; the state is on disk."""


def train_scorer(
    name: str,
    plan: dict[str, Any],
    benchmark: Benchmark,
    *,
    state_file: Path | None,
    deadline: float,
    tell: Callable[[str], None],
) -> tuple[Scorer, dict[str, Any]]:
    """Train to the end of the plan, an epoch at a time; raises `TimeLimitReached` after `deadline`.

    The state is written after every epoch, so the same call goes on where the last one stopped and
    gives the same bits. `budget_cpu_minutes` of the plan ends a training as its last epoch does.
    """
    config = TrainingConfig(**plan["training"])
    scorer, draws = _fresh(name, plan, benchmark)
    kept: dict[str, Any] = {"epoch": 0, "stopped": False, "cpu_seconds": 0.0, "state": None}
    if state_file is not None and state_file.is_file():
        kept = torch.load(state_file, weights_only=True)
    while True:
        start = time.process_time()
        epoch = min(kept["epoch"] + 1, config.n_epochs)
        budget_used = kept["cpu_seconds"] >= 60 * plan["budget_cpu_minutes"]
        if budget_used or kept["stopped"]:
            epoch = kept["epoch"]
        history = train(
            scorer, benchmark.splits.train, config=replace(config, n_epochs=epoch),
            generator=draws, state=kept["state"],
            validate=lambda current: benchmark.ranked(current, "valid", SIDES).mrr,
        )  # fmt: skip
        if epoch == kept["epoch"]:
            break
        kept = {"epoch": epoch, "stopped": history.stopped_early, "state": history.state,
                "cpu_seconds": kept["cpu_seconds"] + time.process_time() - start}  # fmt: skip
        _save(state_file, kept)
        tell(_progress(name, epoch, config.n_epochs, history.losses, history.validations,
                       kept["cpu_seconds"]))  # fmt: skip
        if time.perf_counter() > deadline and epoch < config.n_epochs:
            raise TimeLimitReached(name)
    record = {
        "validations": history.validations, "n_epochs": len(history.losses),
        "best_epoch": history.best_epoch, "cpu_seconds": round(kept["cpu_seconds"], 1),
        "budget_used_up": budget_used,
        "n_parameters": sum(p.numel() for p in scorer.parameters()),
    }  # fmt: skip
    return scorer, record


def measure(name: str, scorer: Scorer | ScoresFunction, benchmark: Benchmark) -> dict[str, Any]:
    """Metrics of the test split, in groups and by direction, and triple classification."""
    entities = benchmark.ranked(scorer, "test", SIDES)
    relations = benchmark.ranked(scorer, "test", ("relation",))
    draws = generator(benchmark.seed, "kg_completion", "interval", name)
    interval = bootstrap_interval(1 / entities.ranks, clusters=entities.triples, generator=draws)
    record = {
        "metrics": entities.metrics(), "mrr_interval": [interval.low, interval.high],
        "conditions": entities.conditions(),
        "directions": {side: entities.of(side).metrics() for side in SIDES},
        "relation_metrics": relations.metrics(), "relation_conditions": relations.conditions(),
        "categories": _by_category(entities, benchmark), "degrees": _by_degree(entities, benchmark),
    }  # fmt: skip
    if benchmark.negatives and isinstance(scorer, Scorer):
        classification = classify_triples(
            scorer.score_triples, benchmark.splits.as_mapping(), benchmark.negatives,
            n_relations=benchmark.splits.graph.n_relations,
            generator=generator(benchmark.seed, "kg_completion", "classification", name),
        )  # fmt: skip
        record["classification"] = {
            "accuracy": _three(classification.accuracy), "f1": _three(classification.f1),
            "n_true": classification.n_true, "n_false": classification.n_false,
            "rule": classification.rule,
        }  # fmt: skip
    return record


def baseline(benchmark: Benchmark) -> ScoresFunction:
    """Entities by their degree in the asked relation, on the training triples."""
    graph = benchmark.splits.graph
    return degree_baseline(
        benchmark.splits.train, n_entities=graph.n_entities, n_relations=graph.n_relations
    )


def _fresh(name: str, plan: dict[str, Any], benchmark: Benchmark) -> tuple[Scorer, torch.Generator]:
    graph, draws = benchmark.splits.graph, torch_generator(benchmark.seed, "kg_completion", name)
    make = make_reciprocal if plan["reciprocal"] else make_scorer
    scorer: Scorer = make(
        name, n_entities=graph.n_entities, n_relations=graph.n_relations, width=plan["width"],
        generator=draws,
    )  # fmt: skip
    return scorer, draws


def _by_category(entities: RankingResult, benchmark: Benchmark) -> dict[str, Any]:
    categories = relation_categories(
        benchmark.splits.train, n_relations=benchmark.splits.graph.n_relations
    )
    groups = category_of_questions(entities, categories)
    return group_metrics(entities, groups, (*CATEGORIES, NO_TRIPLE))


def _by_degree(entities: RankingResult, benchmark: Benchmark) -> dict[str, Any]:
    groups = degree_of_questions(
        entities, benchmark.splits.train, n_entities=benchmark.splits.graph.n_entities
    )
    return group_metrics(entities, groups, degree_names())


def _three(interval: Interval) -> list[float]:
    return [interval.estimate, interval.low, interval.high]


def _progress(
    name: str,
    epoch: int,
    n_epochs: int,
    losses: tuple[float, ...],
    validations: tuple[tuple[int, float], ...],
    cpu_seconds: float,
) -> str:
    line = f"{name}: epoch {epoch} of {n_epochs}, loss {losses[-1]:.4f}"
    if validations and validations[-1][0] == epoch:
        line += f", validation MRR {validations[-1][1]:.4f}"
    left = cpu_seconds / epoch * (n_epochs - epoch)
    return f"{line}, {cpu_seconds:.0f} CPU s, at most {left:.0f} to go"


def _save(state_file: Path | None, kept: dict[str, Any]) -> None:
    """Write beside and rename: a run that is cut leaves the epoch before."""
    if state_file is None:
        return
    state_file.parent.mkdir(parents=True, exist_ok=True)
    beside = state_file.with_name(f"{state_file.name}.{os.getpid()}")
    torch.save(kept, beside)
    beside.replace(state_file)


def read_json(path: Path) -> dict[str, Any] | None:
    """A finished result, or None where there is none yet; CheckpointError: it is cut."""
    if not path.is_file():
        return None
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is no whole result ({error}); remove it") from error
    return values
