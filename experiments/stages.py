"""Rows that differ in what was trained before a task, each with the same seeds, on the same task.

A study is a YAML file (`StagedStudy`) and a function that writes the files it reads. A row is
pre-trained (or not), fine-tuned and scored once per seed; what is stored is not run again.

Axis legend: seed, group (items that are not independent), count.
"""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root
from kept import hosts
from kept.evaluation.crossed import difference, effect
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.lab.reading.cell import Budget, open_host
from kept.lab.study.origins import fingerprint_of, stored_with
from kept.lab.study.tables import Table, with_interval
from kept.options import merged
from kept.training.config import RunConfig
from kept.training.finetuning.answers import answers_of
from kept.training.finetuning.assembly import assemble as assemble_task
from kept.training.finetuning.config import FinetuneConfig
from kept.training.loop import Resume, train
from kept.training.pretraining.assembly import assemble as assemble_stage
from kept.training.pretraining.config import PretrainConfig
from kg_loaders.disk.writing import write_json, write_text

DATA, MADE, SEED = "DATA/", "MADE/", "SEED"
"""How paths in a study's file begin: below KEPT_DATA, or among what the study wrote. In the latter
SEED stands for the seed of the run."""
STAGE, MODEL = "pretrain.json", "model.safetensors"
CellResult = dict[str, Any]
"""A cell: whether each item is `right` (a digit each), its `group`, steps, what was read."""
Prepare = Callable[["StagedStudy", Path, Path], None]


class StagedRow(BaseModel):
    """What differs in a row; `pretrain` None: there is no stage before the task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    says: str
    pretrain: dict[str, Any] | None = None
    task: dict[str, Any] = Field(default_factory=dict)


class StagedStudy(RunConfig):
    """`pretrain` and `task` are fields of `PretrainConfig` and `FinetuneConfig` that rows share.

    `differences` are pairs of rows, the first minus the second. `files` are settings of the
    function that writes what the rows read. `host`: the name of a host, whose first `n_layers`
    layers lie in `MADE/host`.
    """

    name: str
    title: str
    about: str
    seeds: tuple[int, ...]
    host: str = "minilm"
    n_layers: int | None = None
    files: dict[str, Any] = Field(default_factory=dict)
    pretrain: dict[str, Any] = Field(default_factory=dict)
    task: dict[str, Any] = Field(default_factory=dict)
    rows: dict[str, StagedRow]
    differences: tuple[tuple[str, str], ...] = ()

    @model_validator(mode="after")
    def _rows_known(self) -> StagedStudy:
        if unknown := {name for pair in self.differences for name in pair} - set(self.rows):
            raise ValueError(f"differences name {sorted(unknown)}; rows are {[*self.rows]}")
        return self

    def stage(self, row: str, seed: int, root: Path, out: Path) -> PretrainConfig | None:
        """The configuration of a row's stage before the task, if it has one."""
        own = self.rows[row].pretrain
        if own is None:
            return None
        fields = placed(merged(self.pretrain, own), root, out, seed)
        return PretrainConfig.read(None, seeded(fields, seed))

    def fine_tuning(
        self, row: str, seed: int, root: Path, out: Path, model: Path | None
    ) -> FinetuneConfig:
        """The configuration of a row's task."""
        fields = placed(merged(self.task, self.rows[row].task), root, out, seed)
        begun = {} if model is None else {"model": model}
        return FinetuneConfig.read(None, seeded(fields, seed) | begun)


def seeded(fields: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The same fields with the seed of the training."""
    return {**fields, "training": {**fields.get("training", {}), "seed": seed}}


def placed(value: Any, root: Path, out: Path, seed: int) -> Any:
    """A value of a study's file with its paths (`DATA`, `MADE`), however deep, where they lie."""
    if isinstance(value, Mapping):
        return {name: placed(each, root, out, seed) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [placed(each, root, out, seed) for each in value]
    if isinstance(value, str) and value.startswith(DATA):
        return str(root / value.removeprefix(DATA))
    if isinstance(value, str) and value.startswith(MADE):
        return str(out / "made" / value.removeprefix(MADE).replace(SEED, str(seed)))
    return value


def write_host(name: str, n_layers: int | None, folder: Path) -> None:
    """The first layers of a host (None: all) as one of their own, unless it is there."""
    if not (folder / MODEL).exists():
        host, tokenizer = open_host(Budget(host=name, n_layers=n_layers))
        host.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


# ---- running ---------------------------------------------------------------
def pretrained(config: PretrainConfig, out: Path) -> Path:
    """The folder of a trained stage; rows that share a stage share the folder."""
    folder = out / "stages" / fingerprint_of(config.model_dump(mode="json"))[:12]
    if (folder / MODEL).exists():
        return folder
    model, data = assemble_stage(config)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / STAGE, config.model_dump_json(indent=2), force=True)
    hosts.load_tokenizer(config.host).save_pretrained(folder)
    train(model, data, config.training, folder, resume=Resume.IF_ANY)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return folder


def run_cell(study: StagedStudy, row: str, seed: int, root: Path, out: Path) -> CellResult:
    """A row's answers under a seed, from its file in `out` if it is there."""
    stage = study.stage(row, seed, root, out)
    described = study.fine_tuning(row, seed, root, out, None if stage is None else Path("stage"))
    parts = [None if stage is None else stage.model_dump(mode="json")]
    world = study.files, study.host, study.n_layers
    origin = {"settings": fingerprint_of(world, *parts, described.model_dump(mode="json"))}
    path = out / "cells" / f"{row}-{seed}.json"

    def answers() -> CellResult:
        model = None if stage is None else pretrained(stage, out)
        return answered(study.fine_tuning(row, seed, root, out, model), out / "task" / path.stem)

    cell: CellResult = stored_with(path, origin, answers)
    return cell


def answered(config: FinetuneConfig, folder: Path) -> CellResult:
    """Train on the task and answer its evaluation split; the trained model is not kept."""
    assembled = assemble_task(config, is_pretrained_control=config.model is not None)
    ended = train(assembled.model, assembled.data, config.training, folder, resume=Resume.IF_ANY)
    name = "test" if "test" in assembled.evaluation else "dev"
    predictions = {name: assembled.score(name)[0]}
    answers = answers_of(assembled, predictions)
    shutil.rmtree(folder)
    return {
        "right": "".join("01"[answer.gold == answer.predicted] for answer in answers),
        "group": [answer.group for answer in answers],
        "gold": [" ".join(answer.gold) for answer in answers],
        "steps": ended.step,
        "read": assembled.evaluation[name].coverage.as_json()["shares"]["read"],
    }


# ---- the page --------------------------------------------------------------
def counts_of(told: CellResult) -> Counts:
    """Right, answered and asked of each group, for `f1_value`, which is accuracy here."""
    return accuracy_counts([digit == "1" for digit in told["right"]], told["group"])


def page(study: StagedStudy, cells: Mapping[str, Mapping[int, CellResult]], command: str) -> str:
    """A row's accuracy over its seeds, then the differences over the seeds that both have."""
    first = next(iter(next(iter(cells.values())).values()))
    gold = Counter(first["gold"]).most_common(1)[0]
    n = len(first["gold"])
    read = (
        f"Accuracy on {n} items, 95 % intervals over seeds and items; the most frequent answer "
        f"({gold[0]!r}) is right in {gold[1] / n:.3f}. *Shown*: the share of items in which "
        "anything of the graph is shown to the method (–: it reads none there)."
    )
    rows = [
        [row, *_row_cells(list(seeds.values())), study.rows[row].says]
        for row, seeds in cells.items()
    ]
    table = Table(("row", "accuracy", "of each seed", "shown", "what it is"), rows)
    parts = [f"# {study.title}", f"`{command}`", study.about.strip(), read, table.compact()]
    pairs = [pair for pair in study.differences if set(pair) <= set(cells)]
    if pairs:
        rows = [
            [f"{one} − {other}", *_difference_cells(cells[one], cells[other])]
            for one, other in pairs
        ]
        parts.append(Table(("difference", "estimate", "p", "not visible below"), rows).compact())
    return "\n\n".join(parts) + "\n"


def _row_cells(seeds: Sequence[CellResult]) -> list[str]:
    scores = effect(np.stack([counts_of(told) for told in seeds]), f1_value)
    each = ", ".join(f"{_share(told):.3f}" for told in seeds)
    shares = [told["read"] for told in seeds if told["read"] is not None]
    return [with_interval(scores), each, f"{np.mean(shares):.2f}" if shares else "–"]


def _share(told: CellResult) -> float:
    return float(np.mean([digit == "1" for digit in told["right"]]))


def _difference_cells(
    ours: Mapping[int, CellResult], theirs: Mapping[int, CellResult]
) -> list[str]:
    seeds = [seed for seed in ours if seed in theirs]
    if len(seeds) < 2:
        return ["–"] * 3
    sides = [[counts_of(side[seed]) for seed in seeds] for side in (ours, theirs)]
    found = difference(*sides, f1_value)
    return [with_interval(found, "+"), f"{found.p:.3f}", f"{found.visible():.3f}"]


# ---- the command -----------------------------------------------------------
def stored_cells(
    study: StagedStudy, rows: Sequence[str], root: Path, out: Path
) -> dict[str, dict[int, CellResult]]:
    """The cells that are there, by row and seed; rows without any are left out."""
    cells = {
        row: {
            seed: run_cell(study, row, seed, root, out)
            for seed in study.seeds
            if (out / "cells" / f"{row}-{seed}.json").exists()
        }
        for row in rows
    }
    return {row: seeds for row, seeds in cells.items() if seeds}


def main(module: str, prepare: Prepare) -> None:
    """`python -m MODULE CONFIG -o RUN`: run what is missing, write results.md and results.json."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--row", help="only this row, and no table")
    parser.add_argument("--seed", type=int, help="only this seed, and no table")
    parser.add_argument("--tables", action="store_true", help="run nothing, write the tables")
    given = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)
    study, root = StagedStudy.read(given.config), data_root()
    (given.out / "made").mkdir(parents=True, exist_ok=True)
    write_host(study.host, study.n_layers, given.out / "made" / "host")
    prepare(study, root, given.out / "made")
    for seed in study.seeds if given.seed is None else (given.seed,):
        for row in study.rows if given.row is None else (given.row,):
            if not given.tables:
                told = run_cell(study, row, seed, root, given.out)
                print(f"seed {seed}, {row}: {_share(told):.3f}", flush=True)
    if given.row is None and given.seed is None:
        cells = stored_cells(study, [*study.rows], root, given.out)
        command = f"python -m {module} {given.config} -o {given.out}"
        write_text(given.out / "results.md", page(study, cells, command), force=True)
        digits = {
            row: {seed: told["right"] for seed, told in seeds.items()}
            for row, seeds in cells.items()
        }
        write_json(given.out / "results.json", digits, force=True)
        print((given.out / "results.md").read_text("utf-8"))
