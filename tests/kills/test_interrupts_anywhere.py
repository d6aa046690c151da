"""Ctrl-C at any moment of a command: exit code 130 and a sentence, and the command goes on.

The first events come before a first checkpoint, a first run and a first line. What an interrupted
tidying leaves, the next writer removes, as after a kill.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.kills.kill_commands import COMMANDS, SLOW, Invocation, Trials, content, places_of
from tests.kills.kill_harness import Death, run_child

N_SAMPLED = 5
"""Events of a command at which it is interrupted, beside its first three."""

BEFORE = {"compare": "asked.json"}
"""A file before which a command is interrupted too: what is there so far has to be known again."""


@pytest.fixture(scope="module")
def trials_of(killing: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trials]:
    """The trials of a command, whose uninterrupted run all tests share."""
    return cache(lambda name: Trials(COMMANDS[name], killing, tmp_path_factory.mktemp("trials")))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in SLOW])
def test_an_interrupt_anywhere(name: str, trials_of: Callable[[str], Trials]) -> None:
    trials = trials_of(name)
    ended, _, whole = trials.reference
    n_events, command = len(ended.events), COMMANDS[name]
    numbers = {0, 1, 2, *range(3, n_events, max(1, n_events // N_SAMPLED))}
    if name in BEFORE:
        numbers.add(next(n for n, event in enumerate(ended.events) if BEFORE[name] in event))
    for number in sorted(numbers):
        out = trials.fresh()
        places = places_of(trials.world, out)
        death = Death(number, by=signal.SIGINT)
        stopped = run_child(Invocation(command.arguments, places), out, death)
        where = f"{name}, {death} of {n_events} ({ended.events[number]})"
        assert stopped.code in (130, 0), f"{where}: {stopped.code}\n{stopped.output[-2000:]}"
        assert "Traceback" not in stopped.output, f"{where}:\n{stopped.output[-2000:]}"
        left = content(out)
        resumed = run_child(Invocation(command.again, places), out)
        named = {each: left[each] for each in left if not Path(each).name.startswith(".")}
        is_done = named == whole and "exists" in resumed.output
        assert resumed.code == 0 or is_done, f"{where}: cannot go on:\n{resumed.output[-2000:]}"
        after = content(out)
        different = {each for each in {*after, *whole} if after.get(each) != whole.get(each)}
        assert not different, f"{where}, then: {sorted(different)}"
