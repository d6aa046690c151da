"""docs/decisions/0023-lines-per-system.md says what the systems' files hold."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/decisions/0023-lines-per-system.md"
ROW = re.compile(r"^\| ([^|]+) \| (\d+) \| ", re.MULTILINE)


def test_lines_per_system_are_told_and_below_the_aim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / ".ci"), *sys.path])
    from lines_per_system import AIM, counts

    counted = {system: sum(files.values()) for system, files in counts().items()}
    n_lines = {system: int(n) for system, n in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    assert n_lines.keys() == counted.keys()
    assert {system: n for system, n in counted.items() if n > AIM} == {}
    stale = {
        s: (n_lines[s], n) for s, n in counted.items() if abs(n_lines[s] - n) > max(5, 0.1 * n)
    }
    assert not stale, f"told, counted: {stale}; write the table of .ci/lines_per_system.py"
