"""What the commands of all studies share: their arguments, their data, their results.

A study is a folder with a `trial.py`, whose `main` calls `run_study`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers.utils.logging import disable_progress_bar

from kept.errors import ConfigError
from kept.lab.study.cells import Cells, CellTrial
from kept.training.config import RunConfig
from kg_loaders.disk.writing import write_json, write_text

C = TypeVar("C", bound=RunConfig)
Results = tuple[str, object]
"""A page and its values."""
Options = Mapping[str, Mapping[str, Any]]
"""By name, what `argparse` takes of each further option."""
CELL_OPTIONS: Options = {
    "--row": {"help": "only this row, and no table"},
    "--seed": {"type": int, "help": "only this seed, and no table"},
    "--tables": {"action": "store_true", "help": "run nothing, write the tables"},
}
"""Of a study of cells."""


def run_study(
    description: str | None,
    config: type[C],
    run: Callable[[C, argparse.Namespace], Results | None],
    options: Options | None = None,
    *,
    name: str = "results",
    arguments: list[str] | None = None,
) -> None:
    """Parse `CONFIG -o RUN`, run the study of that file on one thread, and write its results.

    `run` gets the configuration and the arguments (`command` is the line that was given), and
    returns the page with its values; None: nothing is written.
    """
    parser = study_parser(description)
    for option, fields in (options or {}).items():
        parser.add_argument(option, **fields)
    values = parser.parse_args(arguments)
    disable_progress_bar()
    torch.set_num_threads(1)
    study = config.read(values.config)
    values.out.mkdir(parents=True, exist_ok=True)
    values.command = f"{parser.prog} {values.config} -o {values.out}"
    if (results := run(study, values)) is not None:
        write_results(values.out, *results, name)


def run_cells(trial: CellTrial, arguments: argparse.Namespace) -> Cells | None:
    """Run what `CELL_OPTIONS` ask for; return all stored cells, None where a part was named."""
    if not arguments.tables:
        rows = None if arguments.row is None else [arguments.row]
        trial.run_missing(trial.keys(rows, arguments.seed), announce=announce)
    return trial.stored() if (arguments.row, arguments.seed) == (None, None) else None


def study_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of `CONFIG -o RUN`."""
    parser = argparse.ArgumentParser(prog=_program(), description=description)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    return parser


def _program() -> str:
    """Return the command that runs this study: of the folder, or of the module that was named."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = "" if spec is None else spec.name.removesuffix(".__main__")
    if module.startswith("experiments."):
        return f"python -m {module}"
    program = sys.argv[0]
    return program if program.startswith("python -m ") else Path(program).name


def announce(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def data_root() -> Path:
    """Return the folder of the public data sets; ConfigError where KEPT_DATA does not name it."""
    if not (root := os.environ.get("KEPT_DATA")):
        raise ConfigError("KEPT_DATA is not set: name the folder of the public data sets")
    return Path(root)


def write_results(folder: Path, page: str, values: object = None, name: str = "results") -> None:
    """Write `NAME.md`, and `NAME.json` where there are values, into a folder; print the page."""
    write_text(folder / f"{name}.md", page, force=True)
    if values is not None:
        write_json(folder / f"{name}.json", values, force=True)
    print(page)
