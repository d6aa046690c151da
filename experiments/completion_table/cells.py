"""One cell of the table: a scorer on a graph under a seed, trained by `kept kgc`, asked twice."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.completion_table.graphs import Asked, TableGraph
from kept.apps.cli.kgc.opening import filter_of, open_over
from kept.apps.cli.kgc.train_options import TrainOptions, training_fingerprint
from kept.apps.cli.kgc.training import train_scorer
from kept.evaluation.ranking import Direction, HasScores, RankingResult, rank
from kept.evaluation.sampled_ranking import rank_among_sampled
from kept.evaluation.triple_classification import classify_triples, mean_of_directions
from kept.kgc.shared_ranking import RememberedBlocks
from kept.kge.inductive import DegreeScorer, PageRankScorer
from kept.kge.splits import STRATA, Seen, Splits, read_negatives, read_splits
from kept.kge.trained import is_scorer, read_description
from kept.randomness import generator
from kg_loaders.disk.writing import whole_file, write_json

N_CANDIDATES, N_DRAWS = 50, 10
BASELINES = ("degree", "PageRank")
CELL, QUESTIONS, MODEL = "cell.json", "questions.npz", "model"


@dataclass(frozen=True)
class Plan:
    """A scorer of the table: options of `kept kgc train`; `of`: the scorers of a mix.

    `graphs`: those it is run on, all without. `by_graph`: options that one of them has instead.
    `is_fixed`: it has one seed.
    """

    name: str
    train: dict[str, Any]
    of: tuple[Plan, ...] = ()
    graphs: tuple[str, ...] = ()
    by_graph: dict[str, dict[str, Any]] = field(default_factory=dict)

    def on(self, graph: str) -> dict[str, Any]:
        """The options of its training on a graph."""
        return self.train | self.by_graph.get(graph, {})

    @property
    def is_fixed(self) -> bool:
        """Whether nothing is drawn: baselines, weights of others."""
        return not self.train or "weights" in self.train

    @property
    def is_table(self) -> bool:
        """Whether an entity is a vector of its own, so that no other graph can be asked."""
        return self.train.get("name") in ("transe", "rescal", "distmult", "complex", "rotate",
                                          "rgcn", "compgcn", "bertmk")  # fmt: skip


def place_of(run: Path, graph: str, plan: str, seed: int) -> Path:
    """The folder of a cell."""
    return run / "cells" / graph / plan.replace(" ", "_") / str(seed)


def is_done(place: Path, settings: dict[str, Any]) -> bool:
    """Whether the cell was run, with these settings."""
    if not (place / CELL).is_file():
        return False
    return bool(json.loads((place / CELL).read_text())["settings"] == settings)


def settings_of(plan: Plan, graph: TableGraph, seed: int, data: Path) -> dict[str, Any]:
    """All that decides a cell, as JSON values."""
    weights = plan.train.get("weights")
    content = b"" if weights is None else (data / weights).read_bytes()
    mixed = [{"scorer": part.name, "train": part.on(graph.name)} for part in plan.of]
    return {"train": plan.on(graph.name), "of": mixed, "graph": graph.name, "seed": seed,
            "data": hashlib.sha256(graph.digests + content).hexdigest(),
            "candidates": N_CANDIDATES, "draws": N_DRAWS}  # fmt: skip


def run_cell(plan: Plan, graph: TableGraph, seed: int, run: Path, data: Path) -> dict[str, Any]:
    """Train (or go on with it), ask every part and write the cell; returns what it holds.

    The scorers of a mix are run first where the folder `run` lacks them.
    """
    print(f"{graph.name}, {plan.name}, seed {seed}", flush=True)
    for one in plan.of:
        model = place_of(run, graph.name, one.name, seed) / MODEL
        if not _is_trained(model, graph.source, _options(one, graph, seed, run, data)):
            run_cell(one, graph, seed, run, data)
    place = place_of(run, graph.name, plan.name, seed)
    settings = settings_of(plan, graph, seed, data)
    place.mkdir(parents=True, exist_ok=True)
    cpu, model = time.process_time(), place / MODEL
    if plan.train:
        options = _options(plan, graph, seed, run, data)
        if not _is_trained(model, graph.source, options):
            train_scorer(graph.source, model, options, force=True, every_seconds=60.0)
    trained = time.process_time() - cpu
    parts: dict[str, Any] = {}
    questions: dict[str, Any] = {}
    for asked in graph.asked:
        if plan.is_table and asked.folder != graph.source:
            continue
        parts[asked.of], found = _asked(plan, asked, model)
        questions |= {f"{asked.of}/{name}": values for name, values in found.items()}
    with whole_file(place / QUESTIONS, force=True) as part, part.open("wb") as sink:
        np.savez_compressed(sink, **questions)
    cell = {"settings": settings, "graph": graph.name, "scorer": plan.name, "seed": seed,
            "parts": parts, "training_cpu_seconds": round(trained, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1)}  # fmt: skip
    if plan.train:
        training = read_description(model)["training"]
        cell |= {"validations": training.get("validations"), "best": training.get("best_epoch")}
    write_json(place / CELL, cell, force=True)
    return cell


def _options(plan: Plan, graph: TableGraph, seed: int, run: Path, data: Path) -> TrainOptions:
    told = {**plan.on(graph.name), "seed": seed, "holdout": 0.05}
    told["of"] = tuple(place_of(run, graph.name, one.name, seed) / MODEL for one in plan.of)
    if "weights" in told:
        told["weights"] = data / told["weights"]
    return TrainOptions.of(**told)


def _is_trained(model: Path, source: Path, options: TrainOptions) -> bool:
    """Whether the scorer stands and was trained with these options on this graph."""
    if not is_scorer(model):
        return False
    splits = read_splits(source, holdout=options.holdout, seed=options.seed)
    about = read_description(model)["training"].get("about")
    return bool(about == training_fingerprint(options, splits))


def _asked(
    plan: Plan, asked: Asked, model: Path
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    splits = read_splits(asked.folder, holdout=0.05, seed=0)
    seen: Seen | None = splits.seen
    if plan.train:
        opened = open_over(asked.folder, model)
        scorer, splits, seen = opened.scorer, opened.splits, opened.seen
    else:
        scorer = _baseline(plan.name, splits)
    known = filter_of(splits)
    directions: tuple[Direction, ...] = ("head", "tail")
    remembered = RememberedBlocks(scorer, splits.test, filter=known, directions=directions)
    full = rank(remembered, splits.test, filter=known, ties="realistic",
                directions=directions, candidates="all")  # fmt: skip
    few = rank_among_sampled(
        remembered, splits.test, filter=known, ties="realistic", directions=directions,
        n_candidates=N_CANDIDATES, n_draws=N_DRAWS, seed=0,
    )  # fmt: skip
    part: dict[str, Any] = {
        "n_triples": len(splits.test), "n_entities": splits.graph.n_entities,
        "filtered": full.metrics() | {"conditions": full.conditions()},
        "sampled": few.metrics() | {"conditions": few.conditions()},
        "strata": None if seen is None or not plan.train else _strata(full, seen),
    }  # fmt: skip
    if any(asked.folder.glob("test_negatives.*")):
        part["classification"] = asdict(classify_triples(
            mean_of_directions(remembered), splits.as_mapping(),
            read_negatives(asked.folder, splits), n_relations=splits.graph.n_relations,
            generator=generator(0, "kgc", "classification"),
        ))  # fmt: skip
    triple = np.tile(np.arange(len(splits.test)), 2).astype(np.float64)
    return part, {"rr": 1 / full.ranks, "hits": few.hits(10), "triple": triple}


def _strata(full: RankingResult, seen: Seen) -> dict[str, dict[str, float]]:
    strata, found = seen.strata(full.triples), {}
    for name in STRATA:
        part = full.where(strata == name)
        if part.n_scored:
            found[name] = {"n_questions": part.n_scored, "mrr": part.mrr}
    return found


def _baseline(name: str, splits: Splits) -> HasScores:
    context: Any = splits.train
    if name == "degree":
        return DegreeScorer(
            context, n_entities=splits.graph.n_entities, n_relations=splits.graph.n_relations
        )
    return PageRankScorer(context, n_entities=splits.graph.n_entities)
