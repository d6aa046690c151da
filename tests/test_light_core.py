"""Linking and graphs without scikit-learn, torch-geometric and matplotlib, which are extras."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("matplotlib", "sklearn", "torch_geometric", "anywidget")
NEED_AN_EXTRA = {
    "kept.layers.gat_conv",
    "kept.lab.completion.compare", "kept.lab.completion.inductive", "kept.apps.explorer.widget",
    "kept.apps.integrations.sklearn_vectors", "kept.apps.integrations.sentence_module",
    "kept.apps.integrations.langchain_facts", "kept.apps.integrations.llamaindex_facts",
    "kept.kge.gnn.networks",
    "kept.kge.gnn.recipes", "kept.kge.gnn.training",
}  # fmt: skip
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({HEAVY}))\n"
IMPORTS = """
import importlib, json, pkgutil
faults = {}
for top in ("kg_loaders", "entity_linking", "kept"):
    for found in pkgutil.walk_packages(importlib.import_module(top).__path__, top + "."):
        if found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except Exception as error:
            faults[found.name] = [type(error).__name__, str(error)]
print(json.dumps(faults))
"""
COMMANDS = """
from kept.apps.cli import main
for line in sys.argv[1].split(";"):
    sys.argv = ["kept", *line.split()]
    try:
        main()
    except SystemExit as stop:
        print(f"[{stop.code or 0}]")
"""


def python(code: str, *arguments: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_they_are_no_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = " ".join(project["dependencies"])
    for name in ("matplotlib", "scikit-learn", "torch-geometric", "anywidget"):
        assert name not in needed
        assert any(name in " ".join(extra) for extra in project["optional-dependencies"].values())
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in project["classifiers"]


@pytest.mark.slow
def test_every_module_is_there_or_names_its_extra() -> None:
    faults: dict[str, Any] = json.loads(python(IMPORTS).splitlines()[-1])
    unexpected = {name: fault for name, fault in faults.items() if name not in NEED_AN_EXTRA}
    optional = {name: f for name, f in unexpected.items() if f[0] == "MissingExtraError"}
    assert {n: f for n, f in unexpected.items() if n not in optional} == {}
    assert set(optional) <= NEED_AN_EXTRA | {name for name in optional if "serve" in name}
    for kind, says in faults.values():
        assert kind == "MissingExtraError"
        assert "pip install 'kept[" in says


@pytest.mark.slow
def test_a_graph_is_built_linked_and_shown(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("Q90\tP17\tQ142\n")
    (tmp_path / "l.tsv").write_text("Q90\tParis\nQ142\tFrance\n")
    (tmp_path / "x.txt").write_text("Paris is in France.\n")
    lines = (
        "kg build t.tsv --labels l.tsv -o kg;link x.txt --kg kg -o linked.jsonl;"
        "link score linked.jsonl linked.jsonl --kg kg;kg merge kg -o pairs.jsonl;"
        "kg export kg -o x.graphml;kg query kg ASK{?s?p?o};doctor;curve nowhere -o c"
    )
    output = python(COMMANDS, lines, folder=tmp_path)
    assert output.count("[0]") >= 6, output
    assert "matplotlib" in output
    assert "Q142" in (tmp_path / "linked.jsonl").read_text()
