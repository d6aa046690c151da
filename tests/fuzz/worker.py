"""One target for a while, in a process of its own: `python -m tests.fuzz.worker --help`.

Stops at the first finding; the folder `place` then holds the files that made it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import shutil
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random

from tests.fuzz.mutation import mutated
from tests.fuzz.openers import OPENERS
from tests.fuzz.options import OPTIONS
from tests.fuzz.settings import SETTINGS
from tests.fuzz.targets import ALLOWED, READERS, Files, Target

TARGETS = {**READERS, **OPENERS, **SETTINGS, **OPTIONS}
MOST_CPU_SECONDS = 15.0
MOST_GROWTH = 1 << 30
LIMITS = "seconds=5 memory_bytes=1G document_bytes=64M"


def spoilt(seeds: list[Files], random: Random) -> dict[str, bytes]:
    """One of the sets of files with one of its files spoilt, or missing."""
    files = dict(random.choice(seeds))
    name = random.choice(sorted(files))
    others = list(random.choice(seeds).values())
    files[name] = mutated(files[name], random.choice(others), random)
    if len(files) > 1 and random.random() < 0.02:
        del files[name]
    return files


def write(files: Files, folder: Path) -> None:
    """The files in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def cpu_seconds() -> float:
    """Of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def try_one(target: Target, folder: Path, random: Random) -> str:
    """Why the files at `place` are a finding, or ""."""
    started, before = cpu_seconds(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.run(folder, random)
    except ALLOWED:
        pass
    except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
        return traceback.format_exc()
    if (spent := cpu_seconds() - started) > MOST_CPU_SECONDS:
        return f"{spent:.0f} s of processor time"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    return f"{grown >> 20} MiB more memory" if grown > MOST_GROWTH else ""


def try_target(name: str, seed: str, seconds: float, least: int, folder: Path) -> str:
    """The seeds, then spoilt ones until the time is over; what was found, or ""."""
    target = TARGETS[name]
    seeds = target.seeds()
    try_one(target, _written(seeds[0], folder), Random(0))  # what is imported is no growth
    started = time.monotonic()
    for number in itertools.count():
        random = Random(f"{name}/{seed}/{number}")
        n_spoilt = number - len(seeds)
        if n_spoilt == 0:
            started = time.monotonic()
        if n_spoilt >= least and time.monotonic() - started > seconds:
            sys.stdout.write(f"{name}: {number} examples\n")
            return ""
        files = (
            spoilt(seeds, random) if target.spoils and n_spoilt >= 0 else seeds[number % len(seeds)]
        )
        if message := try_one(target, _written(files, folder), random):
            return f"{name}, example {number}: {message}"
    raise AssertionError


def main() -> int:
    """Try every target that is named; 1 at the first finding."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--least", type=int, default=0, help="spoilt examples, whatever the time")
    parser.add_argument("--place", type=Path, required=True, help="for the files of an example")
    arguments = parser.parse_args()
    os.environ["KEPT_LIMITS"] = LIMITS
    for name in arguments.targets:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()  # the last line says where a crash was
        if message := try_target(
            name, arguments.seed, arguments.seconds, arguments.least, arguments.place
        ):
            sys.stdout.write(f"{message}\n")
            return 1
    return 0


def _written(files: Files, folder: Path) -> Path:
    write(files, folder)
    return folder


if __name__ == "__main__":
    sys.exit(main())
