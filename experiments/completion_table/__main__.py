"""`python -m experiments.completion_table -o RUN`: run the cells that are missing, print the table.

Needs KEPT_DATA. A cell is a scorer on a graph under a seed; one that was cut goes on where its
training stopped. `--graphs`, `--scorers` and `--seeds` do a part, `--minutes` begins no cell after
them. `results.json` holds all cells that are done, with what decided each; those of an earlier one
(`--earlier`, otherwise the one beside the configuration; `--anew`: none) with the same settings are
not run again. A mix needs its scorers: those that this run lacks are.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml

from experiments.command import data_root
from experiments.completion_table.cells import CELL, Plan, is_done, place_of, run_cell, settings_of
from experiments.completion_table.graphs import TableGraph, prepare
from experiments.completion_table.record import Record, judge
from experiments.completion_table.tables import to_markdown
from kg_loaders.disk.writing import write_json, write_text

CONFIG = Path(__file__).with_name("table.yaml")


def main(arguments: list[str] | None = None) -> None:
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
    told = parser.parse_args(arguments)
    torch.set_num_threads(1)
    config = yaml.safe_load(told.config.read_text(encoding="utf-8"))
    plans, data = read_plans(config), data_root()
    graphs = told.graphs.split(",") if told.graphs else config["graphs"]
    names = told.scorers.split(",") if told.scorers else [plan.name for plan in plans]
    if odd := ({*graphs} - {*config["graphs"]}) | ({*names} - {plan.name for plan in plans}):
        parser.error(f"{told.config} has no {', '.join(sorted(odd))}")
    earlier = _earlier(told)
    told.out.mkdir(parents=True, exist_ok=True)
    prepared = {name: prepare(data, name, told.out / "graphs") for name in config["graphs"]}
    end = math.inf if told.minutes is None else time.monotonic() + 60 * told.minutes
    for graph in (prepared[name] for name in graphs):
        for plan in (plan for plan in plans if plan.name in names):
            for seed in _seeds(plan, graph, config["seeds"])[: told.seeds]:
                # a baseline costs seconds, and the others are compared over its questions
                taken = earlier if plan.train else Record()
                is_there = _cell(plan, graph, seed, told.out, data, taken) is not None
                if not is_there and time.monotonic() < end:
                    run_cell(plan, graph, seed, told.out, data)
    cells = {}
    for graph in prepared.values():
        for plan in plans:
            found = (_cell(plan, graph, seed, told.out, data, earlier)
                     for seed in _seeds(plan, graph, config["seeds"]))  # fmt: skip
            cells[graph.name, plan.name] = [cell for cell in found if cell is not None]
    record = judge(cells, config["pairs"], told.out, earlier)
    page = to_markdown(config, plans, cells, record)
    write_text(told.out / "results.md", page, force=True)
    write_json(told.out / "results.json", asdict(record), force=True)
    print(page)


def _earlier(told: argparse.Namespace) -> Record:
    """What is not run again: of the file that was named, or of the one beside the configuration."""
    beside = told.config.with_name("results.json")
    if told.earlier is not None:
        return Record.read(told.earlier)
    return Record.read(beside) if beside.is_file() and not told.anew else Record()


def read_plans(config: dict[str, Any]) -> list[Plan]:
    """The scorers of a configuration, a mix behind those that it mixes."""
    plans: dict[str, Plan] = {}
    for name, told in config["scorers"].items():
        plans[name] = Plan(
            name, dict(told.get("train", {})), tuple(plans[one] for one in told.get("of", ())),
            tuple(told.get("graphs", ())), told.get("by_graph", {}),
        )  # fmt: skip
    return list(plans.values())


def _seeds(plan: Plan, graph: TableGraph, seeds: Sequence[int]) -> Sequence[int]:
    """Those that a scorer has on a graph, if any."""
    if plan.graphs and graph.name not in plan.graphs:
        return []
    return seeds[:1] if plan.is_fixed else seeds


def _cell(
    plan: Plan, graph: TableGraph, seed: int, run: Path, data: Path, earlier: Record
) -> dict[str, Any] | None:
    """The cell if it was run: in this run's folder, or earlier."""
    place, settings = (
        place_of(run, graph.name, plan.name, seed),
        settings_of(plan, graph, seed, data),
    )
    if is_done(place, settings):
        here: dict[str, Any] = json.loads((place / CELL).read_text(encoding="utf-8"))
        return here
    return earlier.cell(plan.name, settings)


if __name__ == "__main__":
    main()
