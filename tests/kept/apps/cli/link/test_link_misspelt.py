"""`kept link --misspelt`: names with a slip are found and say what they are like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
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
def test_typos_are_corrected_where_requested(folder: Path, index: tuple[str, ...]) -> None:
    more = [*index[:1], *(str(folder / name) for name in index[1:]), "--json"]
    line = ["link", "Deadly lugn cancer, amoxicilin given.", "--kg", str(folder / "kg"), *more]
    assert not json.loads(kept(*line))["mentions"]
    mentions = json.loads(kept(*line, "--misspelt"))["mentions"]
    assert [(m["start"], m["end"], m["entity"]) for m in mentions] == [
        (7, 18, "D1"),
        (20, 30, "D2"),
    ]


# ---- verbs and roles -----------------------------------------------------------------------------
ROLES = ("restorer", "driver", "welder", "teacher", "guard", "lung cancer", "photographer")


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roles") / "kg"
    graph_from_records([Text(name, TextKind.LABEL, name) for name in ROLES]).save(folder)
    return folder


def misspelt(roles: Path, text: str) -> list[tuple[str, float]]:
    line = ("link", text, "--kg", str(roles), "--json", "--misspelt")
    mentions = json.loads(kept(*line))["mentions"]
    return [(each["entity"], each.get("confidence", 1.0)) for each in mentions]


@pytest.mark.parametrize(
    "verb",
    ["restores", "restored", "restore", "Restores", "drives", "drivers", "welded", "guards"],
)  # fmt: skip
def test_a_verb_is_no_slip_of_a_role(roles: Path, verb: str) -> None:
    assert misspelt(roles, f"Anna {verb} paintings.") == []


@pytest.mark.parametrize(
    ("slip", "name"),
    [("restoerr", "restorer"), ("restrer", "restorer"), ("restoreer", "restorer"),
     ("photograhper", "photographer"), ("teachre", "teacher"), ("lung cancre", "lung cancer"),
     ("lung cance", "lung cancer")],
)  # fmt: skip
def test_a_slip_is_never_certain(roles: Path, slip: str, name: str) -> None:
    ((entity, confidence),) = misspelt(roles, f"The {slip} is here.")
    assert entity == name
    assert 0.5 < confidence < 1.0
    assert confidence == pytest.approx(1 - 1 / len(slip))


def test_what_is_written_as_it_should_be_stays_certain(roles: Path) -> None:
    assert misspelt(roles, "The restorer is here.") == [("restorer", 1.0)]
