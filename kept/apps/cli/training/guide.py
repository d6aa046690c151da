"""The README in every run's folder: what each file is, and which commands go on from it."""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
from collections.abc import Sequence
from functools import cache
from importlib.metadata import requires, version
from pathlib import Path

import torch
from pydantic import BaseModel

from kept.apps.cli.terminal import command_line
from kg_loaders.disk.writing import write_json, write_text

GUIDE, ENVIRONMENT = "README.md", "environment.json"
FILES = {
    "model.safetensors": "the weights, encoder and heads; `AutoEncoder.from_pretrained` reads them",
    "config.json": "sizes of the model, and the hashes of the graph that its rows follow",
    "checksums.json": "the seal: size and SHA-256 of each file of the model",
    "tokenizer.json": "the language model's word pieces",
    "tokenizer_config.json": "settings of the tokenizer",
    "pretrain.json": "the whole configuration; read again by `kept pretrain --config`",
    "finetune.json": "the whole configuration; read again by `kept finetune --config`",
    "extended.json": "which graph it follows since `kept extend`, and how new rows started",
    "new_rows.jsonl": "entities and relations whose rows no training has seen",
    "fit.json": "every trial, the scores on test and the verdict of `kept fit`",
    "questions.json": "the way in which questions are answered; `kept predict` reads it",
    "answers.jsonl": "each test answer with the right one",
    "data": "the linked splits; `kept finetune --format table` reads them",
    "coverage.json": "in how many texts anything of the graph was shown to the model",
    "metrics.json": "scores of dev and test, with intervals, the majority and coverage",
    "predictions.jsonl": "each answer with its gold label",
    "log.jsonl": "losses, rates and costs, a line per logged step",
    "curves.png": "the losses as a picture",
    "checkpoints": "what `--resume` goes on from; of a finished run a note that it is finished",
    "adapters": "adapters that other runs can load",
    "environment.json": "versions of all that it was made with, the machine, the command",
    "tensorboard": "the curves for `tensorboard --logdir .`",
    "wandb": "the curves for Weights & Biases; `wandb sync wandb/offline-run-*` sends them",
    "mlflow.db": "the curves for `mlflow ui --backend-store-uri sqlite:///mlflow.db`",
    "mlflow": "files that MLflow keeps",
    "predictions-dev.json": "answers in the form of SQuAD's script",
    "predictions-test.json": "answers in the form of SQuAD's script",
}


def write_environment(
    output: Path, config: BaseModel, *, precision: str | None = None, products: str | None = None
) -> None:
    """Write what a run depends on beside its settings: what a second person needs to repeat it.

    Versions of Python and of each package that kept needs, the machine and its threads, the
    precision in which it computed, the library of its products, the command, and the SHA-256 of
    each file that `config` names (the graph has hashes of its own, in `config.json`).
    """
    files = sorted({path for path in config.model_dump().values() if isinstance(path, Path)})
    facts = {
        "command": command_line(),
        "kept": version("kept"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "packages": _packages(),
        "files": {str(path): _sha256(path) for path in files if path.is_file()},
    }
    if precision is not None:
        facts["precision"] = precision
    if products is not None:
        facts["products"] = products
    write_json(output / ENVIRONMENT, facts, indent=1, force=True)


@cache
def _packages() -> dict[str, str]:
    """The version of each package that kept needs."""
    needed = [line for line in requires("kept") or () if "extra" not in line]
    return {name: version(name) for name in sorted(re.split(r"[^\w.-]", n)[0] for n in needed)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_guide(output: Path, kg: object, commands: Sequence[str]) -> None:
    """Write the guide; `commands` go on from here, with `RUN` and `KG` for the two folders."""
    places = {"RUN": shlex.quote(str(output)), "KG": "KG" if kg is None else shlex.quote(str(kg))}
    names = sorted(path.name for path in output.iterdir() if path.name != GUIDE)
    rows = [f"| `{name}` | {FILES[name]} |" for name in names if name in FILES]
    lines = []
    for command in commands:
        for name, location in places.items():
            command = command.replace(name, location)
        lines.append(command)
    words = command_line()
    text = (
        f"# A run of kept\n\nMade by `{words}`.\n\n| file | what it is |\n|---|---|\n"
        + "\n".join(rows)
        + "\n\nGo on with:\n\n```\n"
        + "\n".join(lines)
        + "\n```\n"
    )
    write_text(output / GUIDE, text, force=True)
