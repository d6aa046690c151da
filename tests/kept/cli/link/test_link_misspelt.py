"""`kept link --misspelt`: names with a slip are found and say what they are like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.cli import app
from kg_loaders import Text, TextKind, graph_from_records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("misspelt")
    names = {"D1": "lung cancer", "D2": "amoxicillin"}
    records = [Text(entity, TextKind.LABEL, name) for entity, name in names.items()]
    graph_from_records(records).save(folder / "kg")
    kept("link", "index", str(folder / "kg"), "-o", str(folder / "index"))
    return folder


def kept(*line: str) -> str:
    result = CliRunner().invoke(app, list(line))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("index", [(), ("--index", "index")])
def test_slips_are_found_where_asked(folder: Path, index: tuple[str, ...]) -> None:
    more = [*index[:1], *(str(folder / name) for name in index[1:]), "--json"]
    line = ["link", "Deadly lugn cancer, amoxicilin given.", "--kg", str(folder / "kg"), *more]
    assert not json.loads(kept(*line))["mentions"]
    found = json.loads(kept(*line, "--misspelt"))["mentions"]
    assert [(m["start"], m["end"], m["entity"]) for m in found] == [(7, 18, "D1"), (20, 30, "D2")]
