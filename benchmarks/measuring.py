"""What the scripts share: runs in turn, the best of them, JSON lines, growth with size."""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Spent(NamedTuple):
    """Seconds of a run, and what it returned."""

    processor: float
    wall: float
    result: Any


def once(run: Callable[[], Any]) -> Spent:
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    return Spent(time.process_time() - processor, time.perf_counter() - wall, result)


def in_turn(runs: Sequence[Callable[[], Any]], repeat: int) -> list[Spent]:
    """Of each the run of least processor time; all run once before any runs again."""
    best: list[Spent | None] = [None] * len(runs)
    for _ in range(repeat):
        for position, run in enumerate(runs):
            spent, least = once(run), best[position]
            if least is None or spent.processor < least.processor:
                best[position] = spent
    return [spent for spent in best if spent is not None]


def processor_seconds_of(command: Sequence[str]) -> float:
    """User and system time of a child process that must end well, else SystemExit."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{process.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_line(**line: Any) -> None:
    """Print a JSON line."""
    print(json.dumps(line), flush=True)


def is_missing(package: str, **row: Any) -> bool:
    """Whether a peer is not installed; then the line of its row says that it is left out."""
    missing = importlib.util.find_spec(package) is None
    if missing:
        write_line(**row, skipped=f"{package} is not installed (`make venv` installs it)")
    return missing


def compared(row: str, ours: Spent, theirs: Spent, /, *, equal: bool | None, **more: Any) -> None:
    """Print the line of ours beside a peer's; `more` says what was run.

    `equal` is None where results are not to be equal, as of two random draws.
    """
    scale, unit = (1e3, "ms") if ours.processor < 0.1 else (1, "s")
    seconds = (f"kept_{unit}", ours), (f"peer_{unit}", theirs)
    write_line(
        row=row, **more, **{name: round(scale * each.processor, 3) for name, each in seconds},
        times_as_fast=round(theirs.processor / ours.processor, 2),
        by_the_clock=round(theirs.wall / ours.wall, 2),
        **({} if equal is None else {"equal": equal}),
    )  # fmt: skip


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size that the costs grow as, by least squares on logarithms.

    >>> round(exponent([10, 20, 40], [3.0, 12.0, 48.0]), 2)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(costs, 1e-6)), 1)[0])


def growth(
    row: str, of: str, sizes: Sequence[float], ours: Sequence[float],
    peer: Sequence[float] | None = None, **more: Any,
) -> None:  # fmt: skip
    """Print the fitted exponents, and what n log n would have over the same sizes of `of`."""
    if len(sizes) < 2:
        return
    fitted = {} if peer is None else {"peer_exponent": round(exponent(sizes, peer), 2)}
    write_line(
        row=row, **more, of=of, sizes=list(sizes), kept_exponent=round(exponent(sizes, ours), 2),
        **fitted, n_log_n=round(exponent(sizes, [n * np.log(max(n, 2)) for n in sizes]), 2),
    )  # fmt: skip


def three_sizes(n: int) -> list[int]:
    """A quarter, a half and all of `n`.

    >>> three_sizes(1000)
    [250, 500, 1000]
    """
    return [max(n // part, 1) for part in (4, 2, 1)]
