"""The control conditions that `--controls` names."""

from __future__ import annotations

from typing import get_args

from kept.inputs.controls.conditions import Knowledge
from kept.suggestions import no_such


def control_names(text: str) -> tuple[Knowledge, ...]:
    """The control conditions in a comma-separated text; ConfigError for an unknown one."""
    kinds: tuple[Knowledge, ...] = get_args(Knowledge)
    controls = []
    for name in dict.fromkeys(part.strip() for part in text.split(",") if part.strip()):
        match = next((kind for kind in kinds if kind == name and kind != "true"), None)
        if match is None:
            raise no_such("control", name, kinds[1:])
        controls.append(match)
    return tuple(controls)
