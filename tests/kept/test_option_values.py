"""Options of a part from a file: of the kind that their field has, or refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kept.errors import ConfigError
from kept.options import read_options


@dataclass(frozen=True)
class Options:
    """One field of each kind."""

    n: int = 1
    share: float = 0.5
    switch: bool = False
    name: str = ""
    either: int | None = None


@pytest.mark.parametrize(
    "values",
    [{"n": True}, {"n": 2.5}, {"n": "4"}, {"n": None}, {"share": False}, {"switch": 1},
     {"switch": "yes"}, {"nn": 1}],
)  # fmt: skip
def test_a_value_of_another_kind(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        read_options(Options, values, "a part")


def test_values_of_its_kind() -> None:
    values = {"n": 3, "share": 1, "switch": True, "name": "x", "either": None}
    assert read_options(Options, values, "a part") == Options(3, 1, True, "x", None)
