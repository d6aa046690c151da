"""What the commands of all studies share: their arguments, their data, their results."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from kept.errors import ConfigError
from kg_loaders.disk.writing import write_json, write_text


def study_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of `CONFIG -o RUN`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    return parser


def data_root() -> Path:
    """Return the folder of the public data sets; ConfigError where KEPT_DATA does not name it."""
    if not (root := os.environ.get("KEPT_DATA")):
        raise ConfigError("KEPT_DATA is not set: name the folder of the public data sets")
    return Path(root)


def write_results(folder: Path, page: str, values: object, name: str = "results") -> None:
    """Write `NAME.md` and `NAME.json` into the folder of a study, and print the page."""
    write_text(folder / f"{name}.md", page, force=True)
    write_json(folder / f"{name}.json", values, force=True)
    print(page)
