"""The score of each sample when it was first tried: before a test was written for what survived.

A sample whose survivors have been read says nothing about other modules any more. `blind.json`
keeps the score that the first run of each seed came to, whole or ended before; none is replaced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

HEAD = """
## Blind

What the first run of each sample came to, before its survivors were read: the score to expect of
the modules that no sample has drawn. What survives was tried on at least so many test files.
Nothing is left out as equivalent but what was so already.

| seed | modules | of them tried | mutants of each | test files | judged | caught or ended | score |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Sample:
    """What a sample is drawn by: its seed, so many modules, at most so many mutants of each.

    `n_files` is on how many test files a mutant is tried that survives.
    """

    seed: int
    n_modules: int
    n_mutants: int
    n_files: int


def remember(path: Path, sample: Sample, n_modules: int, n_judged: int, n_caught: int) -> None:
    """Keep the score of a sample in the file `path`, unless there is one of its seed already.

    `n_modules` of the sample were tried; nothing is kept where it is none.
    """
    scores = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if str(sample.seed) in scores or not n_modules:
        return
    scores[str(sample.seed)] = {
        "modules": sample.n_modules, "tried": n_modules, "mutants": sample.n_mutants,
        "files": sample.n_files, "judged": n_judged, "caught": n_caught,
    }  # fmt: skip
    path.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")


def as_markdown(path: Path) -> str:
    """Return the scores of `path` as a section, "" where there are none."""
    scores = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = []
    for seed, one in sorted(scores.items(), key=lambda item: int(item[0])):
        share = f"{100 * one['caught'] / one['judged']:.0f} %" if one["judged"] else "–"
        names = ("modules", "tried", "mutants", "files", "judged", "caught")
        counts = " | ".join(str(one[name]) for name in names)
        rows.append(f"| {seed} | {counts} | {share} |")
    return HEAD + "\n".join([*rows, ""]) if rows else ""
