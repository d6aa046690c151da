"""Processor time of `kept` before it has anything to do: help, what was mistyped, two sentences.

    python benchmarks/commands/startup.py [--entities 100000]

The best of several runs of each line, beside an interpreter that imports nothing. Modules are
compiled once, as those of an installed package are. At the end two sentences over graphs of three
sizes, the first time and the best of the later ones.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, three_sizes, write_line

N_RUNS = 5
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


def best(command: list[str], n_runs: int = N_RUNS) -> float:
    return min(processor_seconds(command) for _ in range(n_runs))


def link(folder: Path, n_entities: int = 2) -> list[str]:
    """The command that links two sentences, with all it reads: Paris, France and more entities."""
    folder.mkdir(exist_ok=True)
    more = range(1000, 1000 + n_entities - 2)
    triples = ["Q90\tP17\tQ142", *(f"Q{i}\tP17\tQ142" for i in more)]
    labels = ["Q90\tParis", "Q142\tFrance", *(f"Q{i}\tplace {i}" for i in more)]
    for name, lines in (("triples.tsv", triples), ("labels.tsv", labels)):
        (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "text.txt").write_text("Paris is in France.\nI like Paris.\n")
    kept, graph = [sys.executable, "-m", "kept"], str(folder / "kg")
    files = [str(folder / "triples.tsv"), "--labels", str(folder / "labels.tsv")]
    subprocess.run([*kept, "kg", "build", *files, "-o", graph], check=True, capture_output=True)
    out = ["-o", str(folder / "linked.jsonl"), "--force"]
    return [*kept, "link", str(folder / "text.txt"), "--kg", graph, *out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000, help="of the largest graph")
    parser.add_argument("--runs", type=int, default=N_RUNS, help="of each command")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/compiled"
        python_alone = best([sys.executable, "-c", "pass"], options.runs)
        commands = {
            f"kept {' '.join(line)}": [sys.executable, "-m", "kept", *line] for line in LINES
        }
        commands["kept link, two sentences"] = link(Path(name) / "2")
        for row, command in commands.items():
            seconds = best(command, options.runs)
            write_line(row=row, kept_s=round(seconds, 2), bare_python_s=round(python_alone, 3))
        sizes, spent = three_sizes(options.entities), []
        for n in sizes:
            command = link(Path(name) / str(n), n)
            spent.append((processor_seconds(command), best(command, options.runs)))
            first, later = (round(each, 2) for each in spent[-1])
            write_line(row="kept link, larger graphs", entities=n, first_s=first, kept_s=later)
        for row, seconds in zip(("first time", "later"), zip(*spent, strict=True), strict=True):
            growth(f"kept link, larger graphs, {row}", "entities", sizes, seconds)


if __name__ == "__main__":
    main()
