from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.simkgc.simkgc_golden import Golden


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder)
