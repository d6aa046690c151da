"""The golden folder of the method that a test module names as its `METHOD`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, golden_root: Path) -> Path:
    name: str = request.module.METHOD
    path = golden_root / name
    if not path.is_dir():
        pytest.skip(f"no golden vectors of {name} under {golden_root}")
    return path
