"""Killed at any file-system event: old or whole, gone on with to the same bytes, and no litter.

A sample of the events here; `make kill` takes every one and prints the table.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from kill_commands import COMMANDS, Trials
from kill_harness import deaths

STRIDE = int(os.environ.get("KEPT_KILL_STRIDE", "0"))
"""1: every event. 0: about six deaths a command."""
N_SAMPLED = 6


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_anywhere(name: str, killing: Path, tmp_path: Path) -> None:
    trials = Trials(COMMANDS[name], killing, tmp_path)
    ended, before, whole = trials.reference()
    assert len(ended.events) > 5
    assert not any(Path(left).name.startswith(".") for left in whole), sorted(whole)
    stride = STRIDE or max(1, len(ended.events) // N_SAMPLED)
    chosen = deaths(ended.events, stride)
    found, wrong = Counter[str](), list[str]()
    for death in chosen:
        try:
            found[trials.trial(death, before, whole)] += 1
        except AssertionError as error:  # the others are tried all the same
            wrong.append(str(error))
            print(f"\n{wrong[-1]}", flush=True)  # noqa: T201
    assert not wrong, "\n".join([f"{len(wrong)} of {len(chosen)} deaths", *wrong])
    states = ", ".join(f"{n} {state}" for state, n in sorted(found.items()))
    print(  # noqa: T201  # the table of `make kill`
        f"\n| {name} | {len(ended.events)} | {len(chosen)} | {states} | all equal, no litter |"
    )
