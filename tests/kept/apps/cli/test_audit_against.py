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
    result = audit("--triples", f"test={tested}", "--against", other)
    assert result.exit_code == 1
    rows = [line for line in result.stdout.splitlines() if "test against other" in line]
    counts = {row.split(" | ")[1]: row.split(" | ")[3:5] for row in rows}
    assert counts["triple-in-graph"] == ["4", "1"], "valid is not its training"
    assert counts["inverse-in-graph"] == ["4", "1"]
    assert counts["pair-in-graph"] == ["4", "1"]


def test_a_clean_set_and_an_unknown_one(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = tmp_path / "test.tsv"
    tested.write_text("a\tr\td\n")
    monkeypatch.setenv("KEPT_DATA", str(tmp_path / "root"))
    (tmp_path / "root" / "kgc").mkdir(parents=True)
    other.rename(tmp_path / "root" / "kgc" / "mine")
    assert audit("--triples", f"test={tested}", "--against", "mine").exit_code == 0
    refusal = audit("--triples", f"test={tested}", "--against", "nobody")
    assert refusal.exit_code == 1
    assert "neither a folder nor a data set of codex or kgc below" in " ".join(
        refusal.stderr.split()
    )


@pytest.mark.data
def test_most_of_codex_s_is_in_codex_m(data_root: Path) -> None:
    tested = data_root / "codex" / "codex-s" / "test.txt"
    result = audit("--triples", f"test={tested}", "--against", data_root / "codex" / "codex-m")
    row = next(line for line in result.stdout.splitlines() if "triple-in-graph" in line)
    assert row.split(" | ")[3:5] == ["1828", "1643"]
