"""Options of converters: values as their annotations want them, all faults at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kept.convert import convert, converter, read_options
from kept.errors import CheckpointError, ConfigError


def reader(
    path: Path, *, needed: Path, name: str = "x", rate: float = 1.0, n: int = 2,
    target: Path | None = None, both: str | int = "y",
) -> None:  # fmt: skip
    """Stands for the function of a method."""


def read(**values: Any) -> dict[str, Any]:
    return read_options(cast(Any, reader), {"needed": "folder", **values})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("needed", "a/b", Path("a/b")), ("name", "z", "z"), ("name", 7, "7"), ("name", 2.5, "2.5"),
        ("rate", 3, 3.0), ("rate", 0.5, 0.5), ("n", 4, 4), ("target", None, None),
        ("target", "here", Path("here")), ("both", 5, 5), ("both", "5", "5"),
    ],
)  # fmt: skip
def test_values_as_they_are_annotated(name: str, value: Any, expected: Any) -> None:
    value_ = read(**{name: value})[name]
    assert (value_, type(value_)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("n", 2.5, "n: 2.5 is no int"), ("n", "4", "n: '4' is no int"),
        ("rate", "fast", "rate: 'fast' is no float"), ("rate", True, "rate: True is no float"),
        ("n", None, "n: None is no int"), ("target", 3, "target: 3 is no Path"),
        ("both", 2.5, "both: 2.5 is no str or int"), ("other", 1, "other: no such option"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**{name: value})
    assert f"1 fault in the options: {says}." in str(caught.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(cast(Any, reader), {"n": "x", "other": 1})
    text = str(caught.value)
    assert "3 faults" in text
    for part in ("other: no such option", "needed: required", "n: 'x' is no int", "rate: float"):
        assert part in text
    with pytest.raises(ConfigError, match="no converter 'nothing'; there are"):
        converter("nothing")


def test_a_release_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="none does not exist"):
        convert("kbert", tmp_path / "none", tmp_path / "out", {})
    assert not (tmp_path / "out").exists()
