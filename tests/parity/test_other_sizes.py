"""The parity tests take golden folders of any size.

The numbers of the originals are not to be had for other sizes. So the committed folders are made
over: other widths, heads, layers, vocabularies and batches, random weights, and what our own models
say of them in place of the expected numbers. Then every parity test of the method must pass; one
that has a size of the committed files in it cannot.
"""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.parity.other_sizes.tensors import COMMITTED

HERE = Path(__file__).parent
MAKERS = sorted({p.stem for p in (HERE / "other_sizes").glob("*.py")} - {"tensors"})
IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""Plugins of pytest that the process had loaded from which this one is forked."""
FIXED = (
    "test_other_sizes.py", "test_golden_coverage.py", "test_ultra_released.py",
    "test_subgraph_folders.py", "test_luke.py",
)  # fmt: skip
"""Tests of folders as they are, and LUKE's, which reads no folder: its sizes are random already."""


@pytest.mark.slow
def test_every_parity_test_takes_other_sizes(tmp_path: Path) -> None:
    for folder in COMMITTED.iterdir():
        shutil.copytree(folder, tmp_path / folder.name)
    for method in MAKERS:
        importlib.import_module(f"tests.parity.other_sizes.{method}").make(tmp_path / method)
    tests = sorted(str(path) for path in HERE.rglob("test_*.py") if path.name not in FIXED)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", IMPORTED, "-m", "not data"]
    process = Forked([*command, "--golden", tmp_path, *tests], os.environ)
    output, _ = process.communicate()
    assert process.returncode == 0, output[-6000:]
    assert "passed" in output
    assert "skipped" not in output
