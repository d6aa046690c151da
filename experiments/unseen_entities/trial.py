"""Completion of unseen entities by text and graph together, over graphs, splits and seeds.

    python -m experiments unseen_entities experiments/unseen_entities/study.yaml \
        -o runs/unseen

Writes the pack (graphs, splits, texts, host) into RUN/pack where it is missing, trains every cell
that has no file in `answers/` beside the configuration, and writes the page. `--device cuda` trains
on a GPU. `--page` needs neither data nor GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments.command import announce, data_root, run_study, write_results
from experiments.unseen_entities.cells import CellSettings, run_baselines, run_cell
from experiments.unseen_entities.paths import PathSettings
from experiments.unseen_entities.tables import QUESTIONS, Results, page
from experiments.unseen_entities.texts import TextSettings
from experiments.unseen_entities.worlds import (
    TEST,
    SplitGraph,
    SplitSettings,
    read_benchmark,
    write_pack,
)
from kept.errors import CheckpointError
from kept.lab.study.cells import CellTrial
from kept.lab.study.origins import Origin, fingerprint_of
from kept.training.config import RunConfig
from kg_loaders.disk.writing import whole_file, write_text

ORIGIN = "origin"
SMALL = 1 << 16


class StudyConfig(RunConfig):
    """The file `study.yaml`: graphs, splits, seeds, and how each graph's networks are trained."""

    name: str
    graphs: tuple[str, ...]
    seeds: tuple[int, ...]
    splits: tuple[int, ...]
    split: SplitSettings
    training: dict[str, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class UnseenTrial(CellTrial):
    """The cells of a study: a row is a graph and a split; an outcome is the ranks of all methods.

    `folder` has the answers, `pack` what is trained on.
    """

    config: StudyConfig
    folder: Path
    pack: Path
    device: str = "cpu"

    @cached_property
    def worlds(self) -> dict[str, SplitGraph]:
        """The world of each row."""
        return {
            f"{graph}-{split}": SplitGraph.read(self.pack, graph, split)
            for graph in self.config.graphs
            for split in self.config.splits
        }

    @property
    def rows(self) -> Sequence[str]:
        """See `CellTrial.rows`."""
        return [f"{g}-{split}" for g in self.config.graphs for split in self.config.splits]

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.config.seeds

    def settings(self, row: str) -> CellSettings:
        """Return how a row's networks are trained."""
        settings = self.config.training[self.worlds[row].name]
        ultra, nbfnet = (PathSettings(**settings[name]) for name in ("ultra", "nbfnet"))
        return CellSettings(TextSettings(**settings["text"]), ultra, nbfnet, settings["scored"])

    def origin(self, row: str, seed: int) -> Origin:
        """See `CellTrial.origin`."""
        settings = fingerprint_of(asdict(self.settings(row)))
        return {"settings": settings[:16], "data": self.worlds[row].digest}

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`; ranks are arrays."""
        return self.folder / f"{row}-{seed}.npz"

    def run(self, row: str, seed: int) -> dict[str, Any]:
        """See `CellTrial.run`."""
        outcome = run_cell(self.worlds[row], self.pack, self.settings(row), seed, self.device)
        return {"ranks": outcome.ranks, "notes": outcome.notes | {"device": self.device}}

    def read(self, row: str, seed: int) -> dict[str, Any] | None:
        """See `CellTrial.read`."""
        path = self.path(row, seed)
        if not path.exists():
            return None
        with np.load(path) as stored:
            notes = json.loads(str(stored[ORIGIN]))
            ranks = {name: stored[name] for name in stored.files if name != ORIGIN}
        if notes["origin"] != self.origin(row, seed):
            raise CheckpointError(
                f"{path} came of other settings or data; move it away and run again"
            )
        return {"ranks": ranks, "notes": notes}

    def write(self, row: str, seed: int, cell: Any) -> None:
        """See `CellTrial.write`."""
        notes = cell["notes"] | {"origin": dict(self.origin(row, seed))}
        arrays = {name: _narrow(ranks) for name, ranks in cell["ranks"].items()}
        _save(self.path(row, seed), arrays | {ORIGIN: np.array(json.dumps(notes))})

    def summary(self, row: str, seed: int, cell: Any) -> str:
        """See `CellTrial.summary`."""
        names = ("text", "ULTRA", "NBFNet", "text + paths")
        scores = (f"{name} {np.mean(2 / cell['ranks'][name]):.3f}" for name in names)
        return f"{row}, seed {seed}: {', '.join(scores)}"

    def write_questions(self) -> None:
        """Write the questions of each row, with what slices read, and the baselines' ranks."""
        for row, world in self.worlds.items():
            path = self.folder / f"{QUESTIONS}{row}.npz"
            if not path.exists():
                _save(path, questions_of(world) | {
                    name: _narrow(ranks) for name, ranks in run_baselines(world).ranks.items()
                })  # fmt: skip


def questions_of(world: SplitGraph) -> dict[str, np.ndarray]:
    """Return the test's questions, first those for heads, and what is known of their entities.

    `unseen`: the held-out entity that a question is about (not the answer, where both
    are); `n_facts`: its facts that may be read; `is_answer`: it is the answer;
    `shares_fact`: a fact that may be read joins the two entities, in either direction.
    """
    rows = world.questions(TEST)
    degrees = np.bincount(world.facts(TEST)[:, [0, 2]].ravel(), minlength=world.n_entities)
    anchors = np.concatenate([rows[:, 2], rows[:, 0]])
    answers = np.concatenate([rows[:, 0], rows[:, 2]])
    is_answer = world.group[anchors] == 0
    unseen = np.where(is_answer, answers, anchors)
    is_held = world.group[rows[:, [0, 2]]] > 0
    pairs = np.sort(rows[:, [0, 2]], axis=1) @ [world.n_entities, 1]
    read = np.sort(world.context(TEST)[:, [0, 2]], axis=1) @ [world.n_entities, 1]
    return {
        "relation": np.tile(rows[:, 1], 2).astype(np.uint16),
        "unseen": unseen.astype(np.uint16), "is_answer": is_answer,
        "both": np.tile(is_held.all(1), 2),
        "shares_fact": np.tile(np.isin(pairs, read), 2),
        "n_facts": degrees[unseen].astype(np.uint16),
    }  # fmt: skip


def _narrow(ranks: np.ndarray) -> np.ndarray:
    return ranks.astype(np.uint16) if ranks.max() < SMALL else ranks.astype(np.uint32)


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, force=True) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def write_relations(config: StudyConfig, folder: Path) -> None:
    """Write the names of each graph's relations, for the page."""
    names = {}
    for name in config.graphs:
        graph = read_benchmark(data_root(), name)[0].graph
        names[name] = [graph.relation_label(i) for i in range(graph.n_relations)]
    write_text(folder / "relations.json", json.dumps(names, indent=0), force=True)


def run(config: StudyConfig, arguments: argparse.Namespace) -> None:
    """Run what is missing and write the page beside the configuration."""
    here, pack = arguments.config.parent, arguments.out / "pack"
    answers = here / "answers"
    if not arguments.page:
        if not (pack / "host.npz").exists():
            pack.mkdir(parents=True, exist_ok=True)
            n_splits = len(config.splits)
            write_pack(pack, data_root(), config.graphs, config.split, n_splits, announce)
        trial = UnseenTrial(config, answers, pack, arguments.device)
        trial.write_questions()
        if not (answers / "relations.json").exists():
            write_relations(config, answers)
        trial.run_missing(
            trial.keys(arguments.row and [arguments.row], arguments.seed), announce=announce
        )
    write_results(here, page(Results.read(answers)))


if __name__ == "__main__":
    run_study(
        __doc__, StudyConfig, run,
        {"--device": {"default": "cpu"},
         "--row": {"help": "only this graph and split, as codex-s-0"},
         "--seed": {"type": int, "help": "only this seed"},
         "--page": {"action": "store_true", "help": "only write the page"}},
    )  # fmt: skip
