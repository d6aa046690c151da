"""What tests of `kept audit` ask and read."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from kept.apps.cli import app


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, flags)])


def counts(path: Path) -> dict[tuple[str, str], tuple[int, int]]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {(r["code"], r["set"]): (r["n_checked"], r["n_found"]) for r in rows}
