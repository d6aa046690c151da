"""Train the ready weights, write their card and build the wheel of kept-weights; resumable.

    python -m experiments ready_weights experiments/ready_weights/ultra.yaml -o runs/ready
    python -m experiments ready_weights experiments/ready_weights/ultra.yaml -o runs/ready \\
        --scores umls=…/kgc/umls --scores fb237_v1=…/fb237_v1_ind

What is there already is not made again. `--scores NAME=FOLDER` evaluates the weights on a graph,
beside degree, PageRank and a ComplEx that is trained on that very graph, and writes `scores.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from experiments.ready_weights.ultra import UltraPlan, train
from kept.packaged import READY_PACKAGE
from kg_loaders.disk.seals import sha256_of
from kg_loaders.disk.writing import write_text

HERE = Path(__file__).parent
VERSION = "0.1.0"
WIKIGOLD, NAMES = "typing/wikigold/wikigold.conll.txt.gz", "names"
"""The texts that the tagger of names is trained on (CC BY 4.0), and what it is called."""
PROJECT = f"""\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "kept-weights"
version = "{VERSION}"
description = "Weights that kept trained from licensed data, for a first run without training"
readme = "README.md"
license = "Apache-2.0"
requires-python = ">=3.11"

[tool.setuptools]
packages = ["{READY_PACKAGE}"]

[tool.setuptools.package-data]
{READY_PACKAGE} = ["**/*"]
"""


def main() -> None:
    """Read the arguments and do what is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments ready_weights", description=__doc__
    )
    parser.add_argument("plan", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--scores", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    plan = UltraPlan(**yaml.safe_load(arguments.plan.read_text(encoding="utf-8")))
    weights = train(
        plan, Path(os.environ["KEPT_DATA"]), arguments.output, threads=arguments.threads
    )
    names = train_names(Path(os.environ["KEPT_DATA"]) / WIKIGOLD, arguments.output / NAMES)
    package(weights, plan, arguments.output / "package", names=names)
    print(wheel(arguments.output))
    for each in arguments.scores:
        name, _, folder = each.partition("=")
        score(weights, name, Path(folder), arguments.output)


def train_names(marked: Path, folder: Path) -> Path:
    """Train the tagger of names on WikiGold where it is not there, and return its folder."""
    if not folder.is_dir():
        command = [sys.executable, "-m", "kept", "link", "train-tagger", str(marked)]
        subprocess.run([*command, "-o", str(folder)], check=True)
    return folder


def package(weights: Path, plan: UltraPlan, folder: Path, *, names: Path | None = None) -> None:
    """Write the sources of the distribution: the weights, their card, and its settings."""
    module = folder / READY_PACKAGE
    for name, source in ((plan.name, weights), (NAMES, names)):
        for file in [] if source is None else sorted(source.iterdir()):
            (module / name).mkdir(parents=True, exist_ok=True)
            (module / name / file.name).write_bytes(file.read_bytes())
    text = '"""Weights that kept trained; kept finds them by their folders."""\n'
    write_text(module / "__init__.py", text, force=True)
    write_text(folder / "pyproject.toml", PROJECT, force=True)
    write_text(folder / "README.md", card(weights, plan), force=True)


def card(weights: Path, plan: UltraPlan) -> str:
    """The card: what the weights are, their data and licences, and how they were made."""
    described = json.loads((weights / "model.json").read_text(encoding="utf-8"))
    training = described["training"]
    size = sum(file.stat().st_size for file in weights.iterdir())
    rows = {
        "what": f"ULTRA (Galkin et al. 2024), width {plan.width}, for graphs it never saw",
        "trained on": ", ".join(plan.graphs),
        "licence of the data": "MIT (tsafavi/codex; pykeen/pykeen); facts of Wikidata are CC0",
        "licence of the weights": "Apache-2.0",
        "SHA-256 of model.safetensors": sha256_of(weights / "model.safetensors"),
        "bytes": f"{size:,}",
        "training": f"{training['cpu_seconds']} CPU-seconds, {plan.n_rounds} rounds of "
        f"{plan.n_steps} steps",
        "what it was trained on, by name": "trained_on.safetensors, as hashes: kept kgc eval "
        "counts test triples among them",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    scores = (HERE / "scores.md").read_text(encoding="utf-8") if _has_scores() else ""
    tagger = (
        f"`{NAMES}`: a tagger of names, the first two layers of all-MiniLM-L6-v2 (Apache-2.0) "
        "fine-tuned on WikiGold (CC BY 4.0; Balasuriya et al. 2009)."
    )
    head = f"# kept-weights {VERSION}: {plan.name}, {NAMES}"
    return f"{head}\n\n{tagger}\n\n| `{plan.name}` | |\n|---|---|\n{table}\n{scores}"


def _has_scores() -> bool:
    return (HERE / "scores.md").is_file()


def wheel(output: Path) -> Path:
    """Build the wheel of the package where it is not there, and return it."""
    folder = output / "dist"
    built = sorted(folder.glob("kept_weights-*.whl"))
    if not built:
        subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder),
             str(output / "package")],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        built = sorted(folder.glob("kept_weights-*.whl"))
    return built[-1]


def score(weights: Path, name: str, graph: Path, output: Path) -> dict[str, Any]:
    """Evaluate the weights on a graph, and a ComplEx that is trained on it; kept in scores.json."""
    path = output / "scores.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if name not in stored:
        ready = _evaluated(graph, weights)
        model = output / f"complex-{name}"
        began = time.monotonic()
        before = os.times()
        if not model.is_dir():
            _kept("train", str(graph), "--scorer", "complex", "-o", str(model))
        after = os.times()
        spent = after.children_user + after.children_system
        spent -= before.children_user + before.children_system
        trained = _evaluated(graph, model)
        row = {f"ready {key}": value for key, value in ready.items()}
        row |= {f"complex {key}": value for key, value in trained.items() if key == "scorer"}
        row |= {"complex CPU-seconds": round(spent), "seconds": round(time.monotonic() - began)}
        stored[name] = row
        write_text(path, json.dumps(stored, indent=1) + "\n", force=True)
    print(name, stored[name])
    return dict(stored[name])


def _evaluated(graph: Path, model: Path) -> dict[str, float]:
    """MRR of a scorer, of degree and of PageRank on the test triples."""
    values = json.loads(_kept("eval", str(graph), "-m", str(model), "--json"))
    mrr = {"scorer": values["metrics"]["mrr"]}
    comparisons = {key: one for key, one in values["beside"].items() if key != "model"}
    mrr |= {key: one["metrics"]["mrr"] for key, one in comparisons.items()}
    return {key: round(value, 4) for key, value in mrr.items()}


def _kept(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kept", "kgc", *arguments], check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    return done.stdout


if __name__ == "__main__":
    main()
