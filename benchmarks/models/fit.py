"""`kept fit` on the four private worlds, from CSV to a verdict, at its full budget.

A line for each world: scores on test, the verdict, minutes, processor seconds, whether what is
asked holds: at least .85 where the graph decides and no worse than the host alone where it does
not, with the right verdict, within three minutes.

    python benchmarks/models/fit.py [--worlds roles,sparse] [--people 420] [--seed 0] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.kept.lab.fitting.private_worlds import WORLDS

VERDICTS = {
    "roles": {"decides"}, "relations": {"decides"}, "homonyms": {"decides"},
    "sparse": {"low-coverage"},
}  # fmt: skip
LEAST, MINUTES = 0.85, 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--people", type=int, default=420)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    for name in given.worlds.split(","):
        print(json.dumps(measured(name, given.people, given.seed, given.threads)), flush=True)


def measured(name: str, n_people: int, seed: int, threads: int) -> dict[str, Any]:
    """One world, written to an empty folder and fitted there by the command."""
    with tempfile.TemporaryDirectory() as folder:
        world = WORLDS[name](n_people, seed)
        world.write(Path(folder))
        command = [
            sys.executable, "-m", "kept", "fit", "data.csv", "--kg", "kg/", "-o", "mine",
            "--threads", str(threads),
        ]  # fmt: skip
        before, began = _processor_seconds(), time.monotonic()
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        minutes = (time.monotonic() - began) / 60
        found = json.loads((Path(folder) / "mine/fit.json").read_text(encoding="utf-8"))
    scores, verdict = found["scores"], found["verdict"]["key"]
    enough = scores["chosen"] >= LEAST if world.decides else scores["chosen"] >= scores["none"]
    return {
        "world": name,
        "method": found["method"],
        "scores": {key: round(value, 3) for key, value in scores.items()},
        "verdict": verdict,
        "minutes": round(minutes, 2),
        "processor_seconds": round(_processor_seconds() - before, 1),
        "holds": enough and verdict in VERDICTS[name] and minutes <= MINUTES,
    }


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
