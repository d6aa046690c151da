"""`python -m experiments completion_table -o RUN`: run the cells that are missing, print the table.

Needs KEPT_DATA. A cell is a scorer on a graph under a seed; one that was cut goes on where its
training stopped. `--graphs`, `--scorers` and `--seeds` do a part, `--minutes` begins no cell after
them. `results.json` holds all cells that are done, with what decided each; those of an earlier one
(`--earlier`, otherwise the one beside the configuration; `--anew`: none) with the same settings are
not run again. A mix needs its scorers: those that this run lacks are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray

from experiments.command import announce, data_root, write_results
from experiments.completion_table.graphs import Evaluated, TableGraph, prepare
from experiments.completion_table.record import CELL, QUESTIONS, Record, judge, place_of
from experiments.completion_table.tables import to_markdown
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
from kept.lab.study.cells import CellTrial
from kept.lab.study.origins import Origin
from kept.randomness import generator
from kg_loaders.disk.writing import whole_file, write_json

CONFIG = Path(__file__).with_name("table.yaml")
N_CANDIDATES, N_DRAWS = 50, 10
MODEL = "model"
SIDES: tuple[Direction, ...] = ("head", "tail")


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
        """Return the options of its training on a graph."""
        return self.train | self.by_graph.get(graph, {})

    @property
    def is_fixed(self) -> bool:
        """Whether nothing is drawn: baselines, weights of others."""
        return not self.train or "weights" in self.train

    @property
    def is_table(self) -> bool:
        """Whether each entity has a trained vector, so that no other graph can be evaluated."""
        return self.train.get("name") in ("transe", "rescal", "distmult", "complex", "rotate",
                                          "rgcn", "compgcn", "bertmk")  # fmt: skip


def read_plans(config: Mapping[str, Any]) -> dict[str, Plan]:
    """Return the scorers of a configuration by name, a mix behind those that it mixes."""
    plans: dict[str, Plan] = {}
    for name, fields in config["scorers"].items():
        plans[name] = Plan(
            name, dict(fields.get("train", {})), tuple(plans[one] for one in fields.get("of", ())),
            tuple(fields.get("graphs", ())), fields.get("by_graph", {}),
        )  # fmt: skip
    return plans


@dataclass(frozen=True)
class TableTrial(CellTrial):
    """The cells of a graph; those of `earlier` with the same settings are not run again."""

    plans: Mapping[str, Plan]
    graph: TableGraph
    all_seeds: Sequence[int]
    folder: Path
    data: Path
    earlier: Record = field(default_factory=Record)

    @property
    def rows(self) -> Sequence[str]:
        """The scorers that are run on the graph."""
        graph = self.graph.name
        return [plan.name for plan in self.plans.values() if graph in (plan.graphs or (graph,))]

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.all_seeds[:1] if self.plans[row].is_fixed else self.all_seeds

    def origin(self, row: str, seed: int) -> Origin:
        """Nothing: a cell holds its settings as they are."""
        return {}

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return place_of(self.folder, self.graph.name, row, seed) / CELL

    def settings(self, row: str, seed: int) -> dict[str, Any]:
        """Return all that decides a cell, as JSON values."""
        plan, name = self.plans[row], self.graph.name
        weights = plan.train.get("weights")
        content = b"" if weights is None else (self.data / weights).read_bytes()
        mixed = [{"scorer": part.name, "train": part.on(name)} for part in plan.of]
        return {"train": plan.on(name), "of": mixed, "graph": name, "seed": seed,
                "data": hashlib.sha256(self.graph.digests + content).hexdigest(),
                "candidates": N_CANDIDATES, "draws": N_DRAWS}  # fmt: skip

    def read(self, row: str, seed: int) -> dict[str, Any] | None:
        """Return the cell with these settings, of this run or of an earlier one."""
        settings, path = self.settings(row, seed), self.path(row, seed)
        if path.is_file():
            cell: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if cell["settings"] == settings:
                return cell
        return self.earlier.cell(row, settings)

    def write(self, row: str, seed: int, cell: Any) -> None:
        """See `CellTrial.write`."""
        write_json(self.path(row, seed), cell, force=True)

    def run(self, row: str, seed: int) -> dict[str, Any]:
        """Train (or go on with it), and evaluate every part; the questions are beside the cell.

        The scorers of a mix are run first where the folder lacks them.
        """
        plan, graph = self.plans[row], self.graph
        announce(f"{graph.name}, {row}, seed {seed}")
        for one in plan.of:
            if not self._is_trained(one, seed):
                self.make(one.name, seed)
        folder = self.path(row, seed).parent
        folder.mkdir(parents=True, exist_ok=True)
        cpu, model = time.process_time(), folder / MODEL
        if plan.train and not self._is_trained(plan, seed):
            options = self._options(plan, seed)
            train_scorer(graph.source, model, options, force=True, every_seconds=60.0)
        trained = time.process_time() - cpu
        parts: dict[str, Any] = {}
        questions: dict[str, Any] = {}
        for part in graph.parts:
            if not plan.is_table or part.folder == graph.source:
                parts[part.of], arrays = _evaluated(plan, part, model)
                questions |= {f"{part.of}/{name}": values for name, values in arrays.items()}
        with whole_file(folder / QUESTIONS, force=True) as path, path.open("wb") as sink:
            np.savez_compressed(sink, **questions)
        cell = {"settings": self.settings(row, seed), "graph": graph.name, "scorer": row,
                "seed": seed, "parts": parts, "training_cpu_seconds": round(trained, 1),
                "cpu_seconds": round(time.process_time() - cpu, 1)}  # fmt: skip
        if plan.train:
            training = read_description(model)["training"]
            cell |= {"validations": training.get("validations"), "best": training.get("best_epoch")}
        return cell

    def _options(self, plan: Plan, seed: int) -> TrainOptions:
        fields = {**plan.on(self.graph.name), "seed": seed, "holdout": 0.05}
        fields["of"] = tuple(self.path(one.name, seed).with_name(MODEL) for one in plan.of)
        if "weights" in fields:
            fields["weights"] = self.data / fields["weights"]
        return TrainOptions.of(**fields)

    def _is_trained(self, plan: Plan, seed: int) -> bool:
        """Whether the scorer is there and was trained with its options on this graph."""
        model, options = self.path(plan.name, seed).with_name(MODEL), self._options(plan, seed)
        if not is_scorer(model):
            return False
        splits = read_splits(self.graph.source, holdout=options.holdout, seed=options.seed)
        about = read_description(model)["training"].get("about")
        return bool(about == training_fingerprint(options, splits))


def _evaluated(
    plan: Plan, part: Evaluated, model: Path
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    splits = read_splits(part.folder, holdout=0.05, seed=0)
    seen: Seen | None = splits.seen
    if plan.train:
        opened = open_over(part.folder, model)
        scorer, splits, seen = opened.scorer, opened.splits, opened.seen
    else:
        scorer = _baseline(plan.name, splits)
    known = filter_of(splits)
    remembered = RememberedBlocks(scorer, splits.test, filter=known, directions=SIDES)
    options: dict[str, Any] = {"filter": known, "ties": "realistic", "directions": SIDES}
    full = rank(remembered, splits.test, candidates="all", **options)
    few = rank_among_sampled(
        remembered, splits.test, n_candidates=N_CANDIDATES, n_draws=N_DRAWS, seed=0, **options
    )
    scores: dict[str, Any] = {
        "n_triples": len(splits.test), "n_entities": splits.graph.n_entities,
        "filtered": full.metrics() | {"conditions": full.conditions()},
        "sampled": few.metrics() | {"conditions": few.conditions()},
        "strata": None if seen is None or not plan.train else _strata(full, seen),
    }  # fmt: skip
    if any(part.folder.glob("test_negatives.*")):
        scores["classification"] = asdict(classify_triples(
            mean_of_directions(remembered), splits.as_mapping(),
            read_negatives(part.folder, splits), n_relations=splits.graph.n_relations,
            generator=generator(0, "kgc", "classification"),
        ))  # fmt: skip
    triple = np.tile(np.arange(len(splits.test)), 2).astype(np.float64)
    return scores, {"rr": 1 / full.ranks, "hits": few.hits(10), "triple": triple}


def _strata(full: RankingResult, seen: Seen) -> dict[str, dict[str, float]]:
    strata = seen.strata(full.triples)
    parts = {name: full.where(strata == name) for name in STRATA}
    return {name: {"n_questions": part.n_scored, "mrr": part.mrr}
            for name, part in parts.items() if part.n_scored}  # fmt: skip


def _baseline(name: str, splits: Splits) -> HasScores:
    context: Any = splits.train
    n_entities = splits.graph.n_entities
    if name == "degree":
        n_relations = splits.graph.n_relations
        return DegreeScorer(context, n_entities=n_entities, n_relations=n_relations)
    return PageRankScorer(context, n_entities=n_entities)


# ---- the command ---------------------------------------------------------------------------------
def main(arguments: list[str] | None = None) -> None:
    """Run the missing cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, nargs="?", default=CONFIG)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--graphs", help="some of the configuration's, by comma")
    parser.add_argument("--scorers", help="some of the configuration's, by comma")
    parser.add_argument("--seeds", type=int, help="the first so many seeds")
    parser.add_argument("--minutes", type=float, help="begin no cell after these")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--earlier", type=Path, help="a results.json whose cells are taken")
    source.add_argument("--anew", action="store_true", help="run every cell")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    config = yaml.safe_load(options.config.read_text(encoding="utf-8"))
    plans, data, earlier = read_plans(config), data_root(), _earlier(options)
    graphs = options.graphs.split(",") if options.graphs else config["graphs"]
    names = options.scorers.split(",") if options.scorers else [*plans]
    if odd := ({*graphs} - {*config["graphs"]}) | ({*names} - {*plans}):
        parser.error(f"{options.config} has no {', '.join(sorted(odd))}")
    options.out.mkdir(parents=True, exist_ok=True)
    end = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    trials = {
        name: TableTrial(plans, prepare(data, name, options.out / "graphs"), config["seeds"],
                         options.out, data, earlier) for name in config["graphs"]
    }  # fmt: skip
    for trial in (trials[graph] for graph in graphs):
        for row in (row for row in trial.rows if row in names):
            # a baseline costs seconds, and the others are compared over its questions
            this_trial = trial if plans[row].train else replace(trial, earlier=Record())
            keys = [(row, seed) for seed in trial.seeds(row)[: options.seeds]]
            this_trial.run_missing(keys, should_stop=lambda: time.monotonic() >= end)
    stored = {name: trial.stored() for name, trial in trials.items()}
    cells = {(graph, row): [*of_row.get(row, {}).values()]
             for graph, of_row in stored.items() for row in plans}  # fmt: skip
    record = judge(cells, config["pairs"], options.out, earlier)
    write_results(options.out, to_markdown(config, plans, cells, record), asdict(record))


def _earlier(arguments: argparse.Namespace) -> Record:
    """Return what is not run again: of the named file, or of the one beside the configuration."""
    if arguments.earlier is not None:
        return Record.read(arguments.earlier)
    committed = arguments.config.with_name("results.json")
    return Record.read(committed) if committed.is_file() and not arguments.anew else Record()


if __name__ == "__main__":
    main()
