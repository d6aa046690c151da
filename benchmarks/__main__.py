"""Run the benchmarks one after the other, and write what they printed beside what is asked.

    python -m benchmarks [-o FOLDER] [--only linking/linking.py ...] [--large | --small] [--again]

Each script is a process of its own with the flags of `benchmarks/asked.py`. What it printed goes
to FOLDER/TOPIC-SCRIPT.jsonl, whose first line says what the run took, and FOLDER/table.md has it
all. FOLDER is by default the committed one of this machine. A script that ended well with the same
code and flags is not run again unless `--again`; one that fails, or takes longer than `--limit`, is
named and the others go on. `--small` is a trial of all scripts in some minutes: its figures mean
nothing. `--table` only writes the table anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.asked import BY_HAND, FLAGS, LARGE, SMALL
from benchmarks.machine import described
from benchmarks.running import ROOT, Job, code_of, is_there, results, run
from benchmarks.table import page


def scripts(root: Path = ROOT) -> list[str]:
    """All that `make bench` runs, as `topic/script.py`."""
    every = [
        f"{file.parent.name}/{file.name}"
        for file in sorted((root / "benchmarks").glob("*/*.py"))
        if "__main__" in file.read_text("utf-8")
    ]
    return [name for name in every if name not in BY_HAND]


def jobs(
    names: Sequence[str], *, large: bool = False, small: bool = False, root: Path = ROOT
) -> list[Job]:
    flags = LARGE if large else SMALL if small else FLAGS
    return [
        Job(f"benchmarks/{name}", flags.get(name, ""), large, root)
        for name in names
        if not large or name in LARGE
    ]


def folder_of_this_machine(root: Path) -> Path:
    """The folder of results with this machine's description, else `benchmarks/results`."""
    for path in sorted((root / "benchmarks").glob("results*/machine.json")):
        if json.loads(path.read_text("utf-8")) == described():
            return path.parent
    return root / "benchmarks" / "results"


def on_this_machine(folder: Path) -> None:
    """Describe the machine in the folder, or end if the folder is another machine's."""
    path, machine = folder / "machine.json", described()
    if path.is_file() and json.loads(path.read_text("utf-8")) != machine:
        raise SystemExit(
            f"{path} describes another machine or other packages; give another folder, or remove "
            "this one's results, as a table is of one machine"
        )
    path.write_text(json.dumps(machine, indent=1) + "\n", encoding="utf-8")


def write_table(folder: Path) -> Path:
    path = folder / "table.md"
    machine = json.loads((folder / "machine.json").read_text("utf-8"))
    path.write_text(page(results(folder), machine), encoding="utf-8")
    return path


def run_all(jobs: Sequence[Job], folder: Path, *, again: bool, limit: float) -> list[str]:
    """Run what is not there; returns the commands that failed."""
    failed = []
    for job in jobs:
        if not again and is_there(job, folder, code_of(job)):
            print(f"{job.command}: there already", flush=True)
            continue
        print(job.command, flush=True)
        lines = run(job, folder, limit)
        print(f"    exit {lines['exit_code']}, {lines['seconds']} s", flush=True)
        if lines["exit_code"] != 0:
            failed.append(job.command)
            print("\n".join(f"    {line}" for line in lines["error"]), flush=True)
        write_table(folder)
    return failed


def main(root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )  # fmt: skip
    every = scripts(root)
    parser.add_argument("-o", "--out", type=Path, help="default: the folder of this machine")
    parser.add_argument("--only", nargs="+", default=every, choices=every, metavar="SCRIPT")
    parser.add_argument("--flags", help="in place of those of asked.py, for one script")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--large", action="store_true", help="the sizes of LARGE")
    sizes.add_argument("--small", action="store_true", help="the sizes of SMALL, into -o FOLDER")
    parser.add_argument("--again", action="store_true", help="also what is there")
    parser.add_argument("--limit", type=float, default=900, help="seconds a script may take")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    if options.small and options.out is None:
        parser.error("--small needs -o FOLDER: its figures are no results")
    options.out = options.out or folder_of_this_machine(root)
    options.out.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if not options.table:
        on_this_machine(options.out)
        chosen = jobs(options.only, large=options.large, small=options.small, root=root)
        if options.flags is not None:
            if len(chosen) != 1:
                parser.error("--flags goes with one script; name it with --only")
            chosen = [replace(chosen[0], flags=options.flags)]
        failed = run_all(chosen, options.out, again=options.again, limit=options.limit)
    print(write_table(options.out))
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
