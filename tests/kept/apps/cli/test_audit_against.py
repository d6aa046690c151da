"""`kept audit --against`: tested triples in the training triples of another data set."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kept.apps.cli import app


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.fixture
def other(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "train.txt").write_text("a\tr\tb\nc\ts\td\n")
    (folder / "valid.txt").write_text("e\tr\tb\n")
    (folder / "test.txt").write_text("a\tr\td\n")
    return folder


def test_triples_and_their_inverses_are_found(other: Path, tmp_path: Path) -> None:
    tested = tmp_path / "test.tsv"
    tested.write_text("a\tr\tb\nd\ts\tc\ne\tr\tb\nc\tr\td\n")
    told = audit("--triples", f"test={tested}", "--against", other)
    assert told.exit_code == 1
    rows = [line for line in told.stdout.splitlines() if "test against other" in line]
    found = {row.split(" | ")[1]: row.split(" | ")[3:5] for row in rows}
    assert found["triple-in-graph"] == ["4", "1"], "valid is not its training"
    assert found["inverse-in-graph"] == ["4", "1"]
    assert found["pair-in-graph"] == ["4", "1"]


def test_a_clean_set_and_an_unknown_one(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = tmp_path / "test.tsv"
    tested.write_text("a\tr\td\n")
    monkeypatch.setenv("KEPT_DATA", str(tmp_path / "root"))
    (tmp_path / "root" / "kgc").mkdir(parents=True)
    other.rename(tmp_path / "root" / "kgc" / "mine")
    assert audit("--triples", f"test={tested}", "--against", "mine").exit_code == 0
    told = audit("--triples", f"test={tested}", "--against", "nobody")
    assert told.exit_code == 1
    assert "neither a folder nor a data set of codex or kgc below" in " ".join(told.stderr.split())


@pytest.mark.data
def test_most_of_codex_s_is_in_codex_m(data_root: Path) -> None:
    tested = data_root / "codex" / "codex-s" / "test.txt"
    told = audit("--triples", f"test={tested}", "--against", data_root / "codex" / "codex-m")
    row = next(line for line in told.stdout.splitlines() if "triple-in-graph" in line)
    assert row.split(" | ")[3:5] == ["1828", "1643"]
