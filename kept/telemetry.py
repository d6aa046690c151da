"""Libraries that report their use to their makers are told not to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SETTINGS = {"CI": "true", "RAY_USAGE_STATS_ENABLED": "0"}
"""openvino sends nothing from a CI job, Ray nothing where it is switched off."""


@contextmanager
def without_telemetry() -> Iterator[None]:
    """Keep openvino and Ray from sending usage data while they are imported, started or used.

    openvino sends from a forked process, which also holds the caller's pipes open.
    """
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
