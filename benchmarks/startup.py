"""Processor time of `kept` before it has anything to do: help, and what was mistyped.

    python benchmarks/startup.py

The best of several runs of each line, beside an interpreter that imports nothing.
"""

from __future__ import annotations

import resource
import subprocess
import sys

N_RUNS = 5
AIM_SECONDS = 0.3
LINES = (
    ["--help"],
    ["kg", "--help"],
    ["finetunne"],
    ["link", "text", "--no-such-option"],
    ["kg", "info", "no-such-folder"],
    ["pretrain", "-o", "new", "--kg", "no-such-folder"],
)


def processor_seconds(command: list[str]) -> float:
    """User and system time of one child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(command: list[str]) -> float:
    return min(processor_seconds(command) for _ in range(N_RUNS))


def main() -> None:
    bare = best([sys.executable, "-c", "pass"])
    print(f"{'python -c pass':44}{bare:6.2f} s")
    for line in LINES:
        seconds = best([sys.executable, "-m", "kept", *line])
        told = "" if seconds < AIM_SECONDS else f"  above the aim of {AIM_SECONDS} s"
        print(f"{'kept ' + ' '.join(line):44}{seconds:6.2f} s, {seconds / bare:4.1f} times{told}")


if __name__ == "__main__":
    main()
