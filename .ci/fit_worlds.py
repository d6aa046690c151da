"""`kept fit` on private worlds, from a CSV in an empty folder, with kept from the wheel.

Prints a line for each world and seed: accuracy on test, that of the host alone, of the most
frequent answer and with another entity's facts, the verdict, seconds, and whether the aim holds: at
least .85 where the graph decides, no worse than the host alone where it does not, the right
verdict, and less than three minutes. Ends with 1 if one does not hold.

    .venv/bin/python .ci/fit_worlds.py [--worlds roles,sparse] [--seeds 0,1,2] [--busy]

The worlds are those of tests/kept/lab/fitting/private_worlds.py. `kept fit` goes by the clock, so
that seconds and choices mean something on a quiet machine alone. On a busy one `--busy` gives
one thread and five times the budget, and compares the seconds of one processor with the aim.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
VERDICTS = {
    "roles": "decides", "relations": "decides", "homonyms": "decides", "sparse": "low-coverage",
    "medicines": "decides", "tags": "decides", "far": "decides", "surnames": "decides",
    "dates": "decides", "absences": "decides",
}  # fmt: skip
LEAST, SECONDS = 0.85, 180
HEADER = "world|seed|method|accuracy|none|majority|other facts|verdict|wall s|processor s|aim"


def main() -> int:
    """Fit every world with every seed; 1 where an aim does not hold."""
    options = parse_options()
    sys.path.insert(0, str(CHECKOUT))
    from tests.kept.lab.fitting.private_worlds import WORLDS

    names = list(WORLDS) if options.worlds == "all" else options.worlds.split(",")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        python = options.python or install_wheel(Path(place))
        print(HEADER.replace("|", "  "), flush=True)
        for seed in map(int, options.seeds.split(",")):
            for name in names:
                folder = Path(place) / f"{name}-{seed}"
                folder.mkdir()
                world = WORLDS[name](options.people, seed)
                world.write(folder)
                row = fitted(folder, python, seed, is_busy=options.busy)
                rows.append({"world": name, "seed": seed, **row})
                clock = "processor_seconds" if options.busy else "seconds"
                rows[-1]["holds"] = holds(rows[-1], clock, decides=world.decides)
                print(as_line(rows[-1]), flush=True)
    if options.json is not None:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    failed = [row for row in rows if not row["holds"]]
    print(f"{len(rows) - len(failed)} of {len(rows)} hold")
    return int(bool(failed))


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", default="all")
    parser.add_argument("--seeds", default="0,1,2", help="of the worlds, the splits and training")
    parser.add_argument("--people", type=int, default=420, help="or companies, of each world")
    parser.add_argument("--busy", action="store_true", help="the machine has other work")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--python", help="a Python that has kept (default: the wheel is built)")
    return parser.parse_args()


def install_wheel(place: Path) -> str:
    """Build the wheel and return a Python that has kept from it, and this one's other packages."""
    command = [sys.executable, "-m", "build", "--quiet", "--wheel", "--no-isolation"]
    subprocess.run([*command, "--outdir", place / "dist"], cwd=CHECKOUT, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    python = str(place / "venv/bin/python")
    (site,) = (place / "venv/lib").glob("python*/site-packages")
    folders = [entry for entry in sys.path if entry.endswith("-packages")]
    (site / "libraries.pth").write_text("\n".join(folders) + "\n")  # no editable install is seen
    (wheel,) = (place / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return python


def fitted(folder: Path, python: str, seed: int, *, is_busy: bool) -> dict[str, Any]:
    """One world, fitted in its folder by the command."""
    command = [python, "-P", "-m", "kept", "fit", "data.csv", "--kg", "kg/", "-o", "mine"]
    command += ["--threads", "1", "--budget", "15"] if is_busy else []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    before, began = processor_seconds(), time.monotonic()
    with (folder / "log.txt").open("w") as log:
        subprocess.run(
            [*command, "--seed", str(seed)], cwd=folder, check=True, env=environment, stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    wall, processor = time.monotonic() - began, processor_seconds() - before
    result = json.loads((folder / "mine/fit.json").read_text(encoding="utf-8"))
    return {
        "method": result["method"],
        "scores": result["scores"],
        "verdict": result["verdict"]["key"],
        "seconds": round(wall, 1),
        "processor_seconds": round(processor, 1),
    }


def holds(row: dict[str, Any], clock: str, *, decides: bool) -> bool:
    """Whether the aim holds of a row."""
    scores = row["scores"]
    is_enough = scores["chosen"] >= (LEAST if decides else scores["none"])
    return is_enough and row["verdict"] == VERDICTS[row["world"]] and row[clock] < SECONDS


def as_line(row: dict[str, Any]) -> str:
    """A row of the table that is printed."""
    scores = [row["scores"].get(name) for name in ("chosen", "none", "majority", "wrong facts")]
    cells = [row["world"], str(row["seed"]), row["method"]]
    cells += ["-" if score is None else f"{score:.3f}" for score in scores]
    cells += [row["verdict"], f"{row['seconds']:.0f}", f"{row['processor_seconds']:.0f}"]
    return "  ".join([*cells, "holds" if row["holds"] else "DOES NOT HOLD"])


def processor_seconds() -> float:
    """Seconds of processor of the processes that were run from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
