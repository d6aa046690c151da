"""Rows that differ in what was trained before a task, each with the same seeds, on the same task.

A study is a YAML file (`StagedStudy`) and a function that writes the files it reads. A row is
pre-trained (or not), fine-tuned and scored once per seed; what is stored is not run again.
"""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from experiments.command import CELL_OPTIONS, Results, data_root, run_cells, run_study
from kept import hosts
from kept.lab.reading.cell import Budget, open_host
from kept.lab.study.cells import (
    NONE,
    CellTrial,
    counts_of_digits,
    digits,
    mean_effect,
    page_of,
    paired_effect,
    share,
)
from kept.lab.study.origins import Origin, fingerprint_of
from kept.lab.study.tables import Table, with_interval
from kept.options import merged
from kept.training.config import RunConfig
from kept.training.finetuning.answers import answers_of
from kept.training.finetuning.assembly import assemble as assemble_task
from kept.training.finetuning.config import FinetuneConfig
from kept.training.loop import Resume, train
from kept.training.pretraining.assembly import assemble as assemble_stage
from kept.training.pretraining.config import PretrainConfig
from kg_loaders.disk.writing import write_text

DATA, OUTPUT, SEED = "DATA/", "MADE/", "SEED"
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
        """Return the configuration of a row's stage before the task, if it has one."""
        training = self.rows[row].pretrain
        if training is None:
            return None
        fields = placed(merged(self.pretrain, training), root, out, seed)
        return PretrainConfig.read(None, seeded(fields, seed))

    def fine_tuning(
        self, row: str, seed: int, root: Path, out: Path, model: Path | None
    ) -> FinetuneConfig:
        """Return the configuration of a row's task."""
        fields = placed(merged(self.task, self.rows[row].task), root, out, seed)
        model_fields = {} if model is None else {"model": model}
        return FinetuneConfig.read(None, seeded(fields, seed) | model_fields)


def seeded(fields: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the fields with the seed of the training."""
    return {**fields, "training": {**fields.get("training", {}), "seed": seed}}


def placed(value: Any, root: Path, out: Path, seed: int) -> Any:
    """Return a value of a study's file with its paths (`DATA`, `MADE`), however deep, resolved."""
    if isinstance(value, Mapping):
        return {name: placed(each, root, out, seed) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [placed(each, root, out, seed) for each in value]
    if isinstance(value, str) and value.startswith(DATA):
        return str(root / value.removeprefix(DATA))
    if isinstance(value, str) and value.startswith(OUTPUT):
        return str(out / "made" / value.removeprefix(OUTPUT).replace(SEED, str(seed)))
    return value


def write_host(name: str, n_layers: int | None, folder: Path) -> None:
    """Write the first layers of a host (None: all) as another host, unless it is there."""
    if not (folder / MODEL).exists():
        host, tokenizer = open_host(Budget(host=name, n_layers=n_layers))
        host.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


# ---- running -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class StagedTrial(CellTrial):
    """The rows of a study: each pre-trained or not, then fine-tuned on the task and scored.

    `root` has the data, `folder` what the study makes.
    """

    study: StagedStudy
    root: Path
    folder: Path

    @property
    def rows(self) -> Sequence[str]:
        """The rows of the file."""
        return [*self.study.rows]

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.study.seeds

    def origin(self, row: str, seed: int) -> Origin:
        """Return the fingerprint of both configurations of a row."""
        study, stage = self.study, self._stage(row, seed)
        task = self._task(row, seed, None if stage is None else Path("stage"))
        parts = [None if stage is None else stage.model_dump(mode="json")]
        world = study.files, study.host, study.n_layers
        return {"settings": fingerprint_of(world, *parts, task.model_dump(mode="json"))}

    def run(self, row: str, seed: int) -> CellResult:
        """Train a row and return its answers to the evaluation split."""
        stage = self._stage(row, seed)
        model = None if stage is None else pretrained(stage, self.folder)
        return answered(self._task(row, seed, model), self.folder / "task" / f"{row}-{seed}")

    def summary(self, row: str, seed: int, cell: CellResult) -> str:
        """See `CellTrial.summary`."""
        return f"seed {seed}, {row}: {share(cell['right']):.3f}"

    def _stage(self, row: str, seed: int) -> PretrainConfig | None:
        return self.study.stage(row, seed, self.root, self.folder)

    def _task(self, row: str, seed: int, model: Path | None) -> FinetuneConfig:
        return self.study.fine_tuning(row, seed, self.root, self.folder, model)


def pretrained(config: PretrainConfig, out: Path) -> Path:
    """Return the folder of a trained stage; rows that share a stage share the folder."""
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


def answered(config: FinetuneConfig, folder: Path) -> CellResult:
    """Train on the task and answer its evaluation split; the trained model is not kept."""
    assembled = assemble_task(config, is_pretrained_control=config.model is not None)
    ended = train(assembled.model, assembled.data, config.training, folder, resume=Resume.IF_ANY)
    name = "test" if "test" in assembled.evaluation else "dev"
    answers = answers_of(assembled, {name: assembled.score(name)[0]})
    shutil.rmtree(folder)
    return {
        "right": digits(answer.gold == answer.predicted for answer in answers),
        "group": [answer.group for answer in answers],
        "gold": [" ".join(answer.gold) for answer in answers],
        "steps": ended.step,
        "read": assembled.evaluation[name].coverage.as_json()["shares"]["read"],
    }


# ---- the page ------------------------------------------------------------------------------------
def page(study: StagedStudy, cells: Mapping[str, Mapping[int, CellResult]], command: str) -> str:
    """Return a row's accuracy over its seeds, then differences over the seeds that both have."""
    first = next(iter(next(iter(cells.values())).values()))
    gold = Counter[str](first["gold"]).most_common(1)[0]
    n = len(first["gold"])
    read = (
        f"Accuracy on {n} items, 95 % intervals over seeds and items; the most frequent answer "
        f"({gold[0]!r}) is right in {gold[1] / n:.3f}. *Shown*: the share of items in which "
        "anything of the graph is shown to the method (–: it reads none there)."
    )
    counts = {row: {seed: counts_of_digits(cell["right"], cell["group"])
                    for seed, cell in of_row.items()} for row, of_row in cells.items()}  # fmt: skip
    rows = []
    for row, of_row in cells.items():
        each = ", ".join(f"{share(cell['right']):.3f}" for cell in of_row.values())
        shares = [cell["read"] for cell in of_row.values() if cell["read"] is not None]
        score, read_share = with_interval(mean_effect(counts[row].values())), np.mean(shares or [0])
        rows.append(
            [row, score, each, f"{read_share:.2f}" if shares else NONE, study.rows[row].says]
        )
    differences = []
    for ours, theirs in study.differences:
        if {ours, theirs} <= cells.keys():
            if len(cells[ours].keys() & cells[theirs].keys()) < 2:
                numbers = [NONE] * 3
            else:
                gap = paired_effect(counts[ours], counts[theirs])
                numbers = [with_interval(gap, "+"), f"{gap.p:.3f}", f"{gap.visible():.3f}"]
            differences.append([f"{ours} − {theirs}", *numbers])
    return page_of(
        study.title, command, study.about, read,
        Table(("row", "accuracy", "of each seed", "shown", "what it is"), rows),
        Table(("difference", "estimate", "p", "not visible below"), differences),
    )  # fmt: skip


# ---- the command ---------------------------------------------------------------------------------
def main(module: str, prepare: Prepare) -> None:
    """`python -m MODULE CONFIG -o RUN`: run what is missing, write results.md and results.json.

    `prepare` writes the files that the rows read.
    """

    def run(study: StagedStudy, arguments: argparse.Namespace) -> Results | None:
        trial, folder = StagedTrial(study, data_root(), arguments.out), arguments.out / "made"
        write_host(study.host, study.n_layers, folder / "host")
        prepare(study, trial.root, folder)
        if (cells := run_cells(trial, arguments)) is None:
            return None
        command = f"python -m {module} {arguments.config} -o {arguments.out}"
        right = {row: {seed: cell["right"] for seed, cell in of_row.items()}
                 for row, of_row in cells.items()}  # fmt: skip
        return page(study, cells, command), right

    run_study(main.__doc__, StagedStudy, run, CELL_OPTIONS)
