"""How tests of training start other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.children import with_tests

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Start:
    """Start a script of this folder in a Python of its own, which also finds `tests`."""

    def started(script: str, *flags: object, hash_seed: int = 0) -> subprocess.Popen[str]:
        environment = with_tests(PYTHONHASHSEED=str(hash_seed), OMP_NUM_THREADS="1")
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)), *map(str, flags)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return started
