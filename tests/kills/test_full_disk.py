"""A disk that fills up under a command: one message, nothing replaced, no litter, gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_commands import COMMANDS, Invocation, Trials, content
from kill_harness import run_child

ROOM = {
    "build": (0, 100, 1000), "build --force": (0, 1000), "link": (0, 30, 2000),
    "link --resume": (2200, 4000), "pretrain": (0, 400, 3000, 20_000),
    "finetune": (0, 400, 3000, 20_000),
}  # fmt: skip
"""Bytes that one file may have: the first ones fit, then the system refuses to write on."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOM)
def test_a_full_disk(name: str, killing: Path, tmp_path: Path) -> None:
    command = COMMANDS[name]
    trials = Trials(command, killing, tmp_path)
    _, before, whole = trials.reference()
    for n_bytes in ROOM[name]:
        out = trials.fresh()
        places = {"OUT": out, "WORLD": killing}
        stopped = run_child(Invocation(command.arguments, places, n_bytes), out)
        assert stopped.code == 1, f"{name}, {n_bytes} bytes: {stopped.output}"
        assert "error: " in stopped.output
        assert "Traceback" not in stopped.output
        left = content(out)
        if name.startswith("build"):
            assert left == before
        assert not [n for n in left if Path(n).name.startswith(".")], sorted(left)
        resumed = run_child(Invocation(command.again, places), out)
        assert resumed.code == 0, f"{name}, {n_bytes} bytes: {resumed.output}"
        assert content(out) == whole, f"{name}, {n_bytes} bytes"
