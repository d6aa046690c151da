"""`python -m tests.mutation [MODULE ...] [-n 12] [--sample M --seed 0]`: faults, to be caught.

Tries `-n` mutants of every module of kg_loaders, entity_linking and kept, always the same, and
prints what was caught by the tests that `targets.py` finds: first by the files nearest to a module,
then, of what survives, by further ones. `--sample` draws so many of the modules, by `--seed`;
`--seconds` ends it. What is known is kept in `.mutation/`: a run that was ended goes on, and only
what changed is tried again. A run without named modules writes `score.md`, and `blind.json` keeps
the score that the first run of a sample came to: give that run its time. `accepted.json` lists
equivalent mutants, each with the reason why no test can tell it from the original.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import time
from pathlib import Path

N_TOGETHER = 8
"""Modules whose tests are collected together, and whose mutants are all tried before the next: a
run that is ended has judged whole modules, the caught and the surviving."""
HERE = Path(__file__).parent
STATE = Path(".mutation/findings.jsonl")
WARM = (
    "numpy", "scipy.stats", "torch", "transformers.models.bert.modeling_bert", "hypothesis",
    "pyarrow", "pandas", "sklearn.metrics", "typer.testing", "matplotlib.backends.backend_agg",
)  # fmt: skip


def main() -> int:
    """Try what is named, or everything; 1 if a mutant survived that is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("-n", type=int, default=12, help="mutants per module at most")
    parser.add_argument("--sample", type=int, help="so many modules of the tree (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not arguments.modules or any(each.startswith("kept/") for each in arguments.modules):
        for name in WARM:  # once, for every process that is forked from this one
            importlib.import_module(name)
    from tests.mutation.blind import Sample, as_markdown, remember
    from tests.mutation.score import score_of
    from tests.mutation.state import State
    from tests.mutation.targets import MOST_FILES, draw, files_of, modules_of
    from tests.mutation.trial import attempts, run_plan

    root = Path.cwd()
    modules = modules_of(root)
    if unknown := {*arguments.modules} - {*modules}:
        parser.error(f"no module with a function: {', '.join(sorted(unknown))}")
    if arguments.modules:
        modules = tuple(arguments.modules)
    elif arguments.sample is not None:
        modules = draw(modules, arguments.sample, arguments.seed)
    targets = {module: files_of(module, root) for module in modules}
    accepted = json.loads((HERE / "accepted.json").read_text(encoding="utf-8"))
    whole: list[str] = []  # the modules of batches that were not cut short
    failed = False
    screen = os.fdopen(os.dup(1), "w", buffering=1)
    for start in range(0, len(modules), N_TOGETHER):
        batch = {module: targets[module] for module in modules[start : start + N_TOGETHER]}
        for further in (False, True):
            stored = State(STATE)
            plan = attempts(root, batch, arguments.n, stored, accepted=accepted, further=further)
            if plan and time.monotonic() < until:
                code = run_plan(
                    root, plan, State(STATE), until, lambda line: print(line, file=screen)
                )
                failed = failed or code != 0
        if time.monotonic() < until:
            whole += batch
    by_name = {module: targets[module] for module in sorted(targets)}
    score = score_of(root, by_name, arguments.n, State(STATE), accepted)
    first_scores = HERE / "blind.json"
    if arguments.sample and not arguments.modules:
        tried = {module: targets[module] for module in whole}
        blind = score_of(root, tried, arguments.n, State(STATE), accepted)
        sample = Sample(arguments.seed, arguments.sample, arguments.n, MOST_FILES)
        remember(first_scores, sample, blind.n_modules, blind.n_judged, blind.n_caught)
    text = score.text + as_markdown(first_scores)
    sys.stdout.write(text)
    if not arguments.modules:
        (HERE / "score.md").write_text(text, encoding="utf-8")
    if failed:
        sys.stdout.write("pytest failed: see .mutation/pytest.log\n")
    return 1 if score.n_left or failed else 0


if __name__ == "__main__":
    sys.exit(main())
