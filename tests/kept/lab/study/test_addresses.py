"""The hash of a run: of its settings' values, whatever their order and the class of a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.lab.study.addresses import run_hash


def test_equal_settings_have_one_hash() -> None:
    settings = {"train": "data/train.txt", "steps": 3, "options": {"a": 1, "b": None}}
    assert len(run_hash(settings)) == 12
    assert run_hash(settings) == run_hash({**settings, "train": Path("data/train.txt")})
    turned = dict(reversed(settings.items())) | {"options": {"b": None, "a": 1}}
    assert run_hash(turned) == run_hash(settings)
    for other in ({"steps": 4}, {"train": "data/test.txt"}, {"options": {"a": 1}}):
        assert run_hash({**settings, **other}) != run_hash(settings)


def test_what_is_no_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="is no setting: give numbers, strings"):
        run_hash({"train": {1, 2}})
