from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.kblam.kblam_golden import Golden, read


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder, read(folder, "config"), read(folder, "cases")["kb_sets"])
