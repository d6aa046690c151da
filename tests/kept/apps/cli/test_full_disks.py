"""A command whose disk is full says so, leaves nothing behind, and ends well when given again.

Commands that train for long are in tests/kills.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kept.apps.cli.test_outputs import FILES, FOLDERS, paths
from tests.kills.kill_commands import Invocation
from tests.kills.kill_harness import Ended, run_child

__all__ = ["paths"]

LINES = {
    name: line
    for name, line in {**FILES, **FOLDERS}.items()
    if name not in ("pretrain", "finetune", "extend")
}
N_BYTES = {"quarantine": 5}
"""What one file may have, where 30 bytes are enough: less than the command writes."""
UNLIMITED = 10**9


def result_of(line: str, paths: dict[str, Path], n_bytes: int) -> Ended:
    words = [re.sub("|".join(paths), lambda m: str(paths[m[0]]), word) for word in line.split()]
    return run_child(Invocation(words, {"no place": Path()}, n_bytes), paths["KG"].parent)


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", LINES)
def test_a_full_disk(name: str, paths: dict[str, Path], tmp_path: Path) -> None:
    """As in tests/kills, the system itself refuses to write on."""
    before = listing(tmp_path)
    stopped = result_of(LINES[name], paths, N_BYTES.get(name, 30))
    assert stopped.code == 1, stopped.output
    assert "Traceback" not in stopped.output
    assert "cannot be written: File too large" in stopped.output
    assert "run the same command again; earlier files are untouched" in stopped.output
    assert listing(tmp_path) - before <= {"out.training"}  # what a training goes on with
    done = result_of(LINES[name], paths, UNLIMITED)
    assert done.code == (1 if name == "audit" else 0), done.output  # 1: it finds the leaks
    outputs = {path.partition("/")[0] for path in listing(tmp_path) - before}
    assert any(each == "out" or each.startswith("out.") for each in outputs), outputs
    assert not any(each.startswith(".") for each in outputs), outputs
