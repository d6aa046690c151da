"""The environments in which tests start processes.

A command of kept runs as a user's does: with `os.environ`, from a folder that is not the checkout.
Only what needs modules of the tests, or is about the experiments, is given a folder for those.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMPORTABLE = ROOT / "tests" / "importable"
"""Makes `tests`, `experiments` and `benchmarks` packages; it does not lead to those under test."""


def with_tests(**variables: str) -> dict[str, str]:
    """Return an environment in which a Python can also import `tests` and `experiments`."""
    return {**os.environ, "PYTHONPATH": str(IMPORTABLE), **variables}
