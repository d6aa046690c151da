"""A command that is killed, or whose disk fills up: no litter, and gone on with to the same bytes.

Killed at any file-system event: what is there is old or whole. A sample of the events here; `make
kill` takes every one and prints the table.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.kills.kill_commands import COMMANDS, SLOW, Invocation, Trials, content, places_of
from tests.kills.kill_harness import deaths, run_child

STRIDE = int(os.environ.get("KEPT_KILL_STRIDE", "0"))
"""1: every event. 0: a few, `N_SAMPLED` and those that are torn."""
N_SAMPLED = 3
ROOM = {
    "build": (0, 100, 1000), "build --force": (0, 1000), "link": (0, 30, 2000),
    "link --resume": (2200, 4000), "pretrain": (0, 400, 3000, 20_000),
    "finetune": (0, 400, 3000, 20_000),
}  # fmt: skip
"""Bytes that one file may have: the first ones fit, then the system refuses to write on.

The least and the most here, all of them in `make kill`.
"""


@pytest.fixture(scope="module")
def trials_of(killing: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trials]:
    """The trials of a command, whose unkilled run all tests share."""
    return cache(lambda name: Trials(COMMANDS[name], killing, tmp_path_factory.mktemp("trials")))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in COMMANDS if STRIDE or n not in SLOW])
def test_a_kill_anywhere(name: str, trials_of: Callable[[str], Trials]) -> None:
    trials = trials_of(name)
    ended, before, whole = trials.reference
    assert len(ended.events) >= 5
    assert not any(Path(left).name.startswith(".") for left in whole), sorted(whole)
    stride = STRIDE or max(1, len(ended.events) // N_SAMPLED)
    chosen = deaths(ended.events, stride)
    outcomes = Counter(trials.trial(death, before, whole) for death in chosen)
    states = ", ".join(f"{n} {state}" for state, n in sorted(outcomes.items()))
    print(  # noqa: T201  # the table of `make kill`
        f"\n| {name} | {len(ended.events)} | {len(chosen)} | {states} | all equal, no litter |"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOM)
def test_a_full_disk(name: str, killing: Path, trials_of: Callable[[str], Trials]) -> None:
    """One message, nothing replaced."""
    command, trials = COMMANDS[name], trials_of(name)
    _, before, whole = trials.reference
    for n_bytes in ROOM[name] if STRIDE == 1 else (ROOM[name][0], ROOM[name][-1]):
        out = trials.fresh()
        places = places_of(killing, out)
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
