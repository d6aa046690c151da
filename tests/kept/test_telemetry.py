"""No library sends usage data on behalf of kept."""

from __future__ import annotations

import os

import pytest

from kept.telemetry import SETTINGS, without_telemetry


def test_settings_are_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "false")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    with without_telemetry():
        assert {name: os.environ[name] for name in SETTINGS} == SETTINGS
    assert os.environ["CI"] == "false"
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ


def test_ray_takes_the_setting() -> None:
    usage = pytest.importorskip("ray._common.usage.usage_lib")
    with without_telemetry():
        assert not usage.usage_stats_enabled()
