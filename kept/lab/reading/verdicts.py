"""Verdicts of the committed reading controls, for comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kept.lab.reading.arms import ARMS, Arm
from kept.lab.reading.measures import READS
from kept.lab.study.design import DOES_NOT_READ

FIELDS = ("options", "view", "graph", "head_options")
"""The fields that a run's configuration and an arm share, `markers` aside."""
INSIDE = ("options", "view", "head_options")
"""Those that say how a method works; the others, what it is given."""


def stored_verdict(
    method: str, steps: int, settings: Mapping[str, Any], *, host: str
) -> str | None:
    """`READS` or `DOES_NOT_READ` for a run of `method` that takes so many steps; None where no
    control of this method was run that long, none on this host, or none with its options.

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
    until = [each["until_good"] for each in matching if each["verdict"] == READS]
    if until and min(step or 0 for step in until) <= steps:
        return READS
    return DOES_NOT_READ if max(each["steps"] for each in matching) >= steps or until else None


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
