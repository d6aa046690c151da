"""`python -m experiments.completion_table -o RUN`: run the cells that are missing, print the table.

Needs KEPT_DATA. A cell is a scorer on a graph under a seed; one that was cut goes on where its
training stopped. `--graphs`, `--scorers` and `--seeds` do a part, `--minutes` begins no cell after
them. `results.json` holds all cells that are done, with what decided each.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from experiments.completion_table.cells import CELL, Plan, is_done, place_of, run_cell, settings_of
from experiments.completion_table.graphs import TableGraph, prepare
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
    told = parser.parse_args(arguments)
    torch.set_num_threads(1)
    config = yaml.safe_load(told.config.read_text(encoding="utf-8"))
    plans, data = read_plans(config), Path(os.environ["KEPT_DATA"])
    graphs = told.graphs.split(",") if told.graphs else config["graphs"]
    names = told.scorers.split(",") if told.scorers else [plan.name for plan in plans]
    started, cells = time.monotonic(), {}
    for name in config["graphs"]:
        graph = prepare(data, name, told.out / "graphs")
        for plan in plans:
            chosen = name in graphs and plan.name in names
            found = _cells(plan, graph, config["seeds"], told, data, chosen=chosen, since=started)
            cells[name, plan.name] = found
    page = to_markdown(config, plans, cells, told.out)
    write_text(told.out / "results.md", page, force=True)
    done = [cell for found in cells.values() for cell in found]
    write_json(told.out / "results.json", done, force=True)
    print(page)


def read_plans(config: dict[str, Any]) -> list[Plan]:
    """The scorers of a configuration, a mix behind those that it mixes."""
    return [
        Plan(name, dict(told.get("train", {})), tuple(told.get("of", ())),
             tuple(told.get("graphs", ())), told.get("by_graph", {}))
        for name, told in config["scorers"].items()
    ]  # fmt: skip


def _cells(
    plan: Plan, graph: TableGraph, seeds: list[int], told: argparse.Namespace, data: Path, *,
    chosen: bool, since: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """The cells of a scorer on a graph that are done, after running those that were chosen."""
    found = []
    if plan.graphs and graph.name not in plan.graphs:
        return found
    for seed in seeds[:1] if plan.is_fixed else seeds[: told.seeds]:
        place, settings = place_of(told.out, graph.name, plan.name, seed), None
        late = told.minutes is not None and time.monotonic() - since > 60 * told.minutes
        if chosen and not late:
            settings = settings_of(plan, graph, seed, data)
            if not is_done(place, settings):
                print(f"{graph.name}, {plan.name}, seed {seed}", flush=True)
                run_cell(plan, graph, seed, told.out, data)
        if (place / CELL).is_file() and is_done(place, settings_of(plan, graph, seed, data)):
            found.append(json.loads((place / CELL).read_text()))
    return found


if __name__ == "__main__":
    main()
