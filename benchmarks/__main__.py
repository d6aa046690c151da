"""Run the benchmarks one after the other, and write what they printed beside what is asked.

    python -m benchmarks -o benchmarks/results [--only linking/linking.py ...] [--large] [--again]

Each script is a process of its own with the flags of `benchmarks/asked.py`. What it printed goes
to FOLDER/TOPIC-SCRIPT.jsonl, whose first line says what the run took, and FOLDER/table.md has it
all. A script that ended well with the same code and flags is not run again unless `--again`; one
that fails, or takes longer than `--limit`, is named and the others go on. `--table` only writes the
table anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.asked import FLAGS, LARGE
from benchmarks.machine import described
from benchmarks.running import ROOT, Job, code_of, is_there, results, run
from benchmarks.table import page


def scripts(root: Path = ROOT) -> list[str]:
    """All that can be run, as `topic/script.py`."""
    all_scripts = sorted((root / "benchmarks").glob("*/*.py"))
    return [
        f"{file.parent.name}/{file.name}"
        for file in all_scripts
        if "__main__" in file.read_text("utf-8")
    ]


def jobs(names: Sequence[str], *, large: bool, root: Path = ROOT) -> list[Job]:
    flags = LARGE if large else FLAGS
    return [
        Job(f"benchmarks/{name}", flags.get(name, ""), large, root)
        for name in names
        if not large or name in LARGE
    ]


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
    parser.add_argument("-o", "--out", type=Path, default=root / "benchmarks" / "results")
    parser.add_argument("--only", nargs="+", default=every, choices=every, metavar="SCRIPT")
    parser.add_argument("--flags", help="in place of those of asked.py, for one script")
    parser.add_argument("--large", action="store_true", help="the sizes of LARGE")
    parser.add_argument("--again", action="store_true", help="also what is there")
    parser.add_argument("--limit", type=float, default=1500, help="seconds a script may take")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if not options.table:
        on_this_machine(options.out)
        chosen = jobs(options.only, large=options.large, root=root)
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
