"""Packages with plugins, installed into a temporary folder as pip would, and run with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

EXAMPLE = Path(__file__).parent / "plugin_package"
"""A package outside of kept, which adds one part of each kind."""
_RUN = """
import json, sys
from typer.testing import CliRunner
from kept.apps.cli import app
results = []
for line in json.load(sys.stdin):
    result = CliRunner().invoke(app, line)
    results.append((result.exit_code, " ".join(result.output.split())))
json.dump(results, sys.stdout)
"""


def install(package: Path, target: Path) -> Path:
    """Write a package and its metadata below `target`, as `pip install --target` does."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in sorted(package.iterdir()):
        if (folder / "__init__.py").is_file():
            shutil.copytree(folder, target / folder.name)
    write_metadata(target, project["name"], project["version"], project["entry-points"])
    return target


def write_metadata(
    target: Path, name: str, version: str, groups: Mapping[str, Mapping[str, str]]
) -> None:
    """Write what an installer writes about a package: its name, version and entry points."""
    folder = target / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(about, encoding="utf-8")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()), ""]
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def run_commands(target: Path, *lines: Sequence[object]) -> list[tuple[int, str]]:
    """Return exit code and output of command lines of kept, run with the packages of `target`."""
    result = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps([[str(word) for word in line] for line in lines]),
        env={**os.environ, "PYTHONPATH": str(target), "COLUMNS": "200"},
        cwd=target,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    results = [(code, output) for code, output in json.loads(result.stdout)]
    assert len(results) == len(lines)
    return results
