"""Verdicts of the committed reading controls, for comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from kept.lab.reading.arms import ARMS, Arm
from kept.lab.reading.measures import NOT_TESTED, READS
from kept.lab.study.design import DOES_NOT_READ

FIELDS = ("options", "view", "graph", "head_options")
"""The fields that a run's configuration and an arm share, `markers` aside."""
INSIDE = ("options", "view", "head_options")
"""Those that say how a method works; the others, what it is given."""


class StoredVerdict(NamedTuple):
    """`READS`, `NOT_TESTED` or `DOES_NOT_READ`, and the verdict's words with its budget."""

    verdict: str
    in_words: str


def stored_verdict(
    method: str, steps: int, settings: Mapping[str, Any], *, host: str
) -> StoredVerdict | None:
    """The verdict on a run of `method` that takes so many steps; None where no control of this
    method was run that long, none on this host, or none with its options.

    `settings` are fields of the run's configuration (`FIELDS`, `markers`); those that are not given
    are as published. The arm with the same settings is looked up; else the published one, if the
    run is as published but for its graph and markers.
    """
    arms = [name for name, arm in ARMS.items() if arm.method == method]
    same = [name for name in arms if _same(ARMS[name], settings)]
    chosen = same or [
        name for name in arms if ARMS[name].is_published and _same(ARMS[name], settings, INSIDE)
    ]
    matching = [each for each in stored() if each["arm"] in chosen and each["host"] == host]
    if not matching:
        return None
    right = [each for each in matching if each["verdict"] in (READS, NOT_TESTED)]
    soon = [each for each in right if (each["until_good"] or 0) <= steps]
    for word in (READS, NOT_TESTED):
        if any(each["verdict"] == word for each in soon):
            return StoredVerdict(word, word)
    longest = max(matching, key=lambda each: int(each["steps"]))
    if longest["steps"] < steps and not right:
        return None
    row = {**longest, "verdict": DOES_NOT_READ, "steps": min(steps, longest["steps"])}
    return StoredVerdict(DOES_NOT_READ, in_budget(row))


def in_budget(row: Mapping[str, Any]) -> str:
    """The verdict of a stored row; that a method does not read names the budget that it had.

    >>> budget = {"steps": 200, "host": "minilm", "n_layers": 3, "seeds": 1}
    >>> in_budget({"verdict": DOES_NOT_READ, **budget})
    'does not read facts in 200 steps (first 3 layers of minilm, 1 seed)'
    """
    if row["verdict"] != DOES_NOT_READ:
        return str(row["verdict"])
    layers = "all layers" if row["n_layers"] is None else f"first {row['n_layers']} layers"
    seeds = f"{row['seeds']} seed{'' if row['seeds'] == 1 else 's'}"
    return f"{DOES_NOT_READ} in {row['steps']} steps ({layers} of {row['host']}, {seeds})"


@cache
def stored() -> tuple[dict[str, Any], ...]:
    """The verdicts that were committed, one per arm and task (`tables.verdict_values`)."""
    text = files("kept.lab.reading").joinpath("verdicts.json").read_text(encoding="utf-8")
    return tuple(json.loads(text))


def _same(arm: Arm, settings: Mapping[str, Any], fields: Sequence[str] = FIELDS) -> bool:
    mine = {name: dict(getattr(arm, name)) for name in fields}
    theirs = {name: dict(settings.get(name) or {}) for name in fields}
    return mine == theirs and (
        fields is not FIELDS or settings.get("markers", "kadapter") == arm.markers
    )
