"""Processor time of `kept` before it has anything to do: help, what was mistyped, two sentences.

    python benchmarks/commands/startup.py

The best of several runs of each line, beside an interpreter that imports nothing. Modules are
compiled once, as those of an installed package are.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

N_RUNS = 5
AIM_SECONDS = 0.3
LINK_SECONDS = 1.0
"""For `kept link` of two sentences on a graph of two entities."""
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


def link(folder: Path) -> list[str]:
    """The command that links two sentences, with all it reads."""
    (folder / "triples.tsv").write_text("Q90\tP17\tQ142\n")
    (folder / "labels.tsv").write_text("Q90\tParis\nQ142\tFrance\n")
    (folder / "text.txt").write_text("Paris is in France.\nI like Paris.\n")
    kept, graph = [sys.executable, "-m", "kept"], str(folder / "kg")
    files = [str(folder / "triples.tsv"), "--labels", str(folder / "labels.tsv")]
    subprocess.run([*kept, "kg", "build", *files, "-o", graph], check=True, capture_output=True)
    out = ["-o", str(folder / "linked.jsonl"), "--force"]
    return [*kept, "link", str(folder / "text.txt"), "--kg", graph, *out]


def report(what: str, seconds: float, bare: float, aim: float) -> None:
    told = "" if seconds < aim else f"  above the aim of {aim} s"
    print(f"{what:44}{seconds:6.2f} s, {seconds / bare:4.1f} times{told}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/compiled"
        bare = best([sys.executable, "-c", "pass"])
        print(f"{'python -c pass':44}{bare:6.2f} s")
        for line in LINES:
            seconds = best([sys.executable, "-m", "kept", *line])
            report(f"kept {' '.join(line)}", seconds, bare, AIM_SECONDS)
        report("kept link, two sentences", best(link(Path(name))), bare, LINK_SECONDS)


if __name__ == "__main__":
    main()
