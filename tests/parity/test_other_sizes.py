"""The parity tests take golden folders of any size.

The numbers of the originals are not to be had for other sizes. So the committed folders are made
over: other widths, heads, layers, vocabularies and batches, random weights, and what our own models
say of them in place of the expected numbers. Then every parity test of the method must pass; one
that has a size of the committed files in it cannot.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from other_sizes.tensors import COMMITTED

HERE = Path(__file__).parent
MAKERS = sorted({p.stem for p in (HERE / "other_sizes").glob("*.py")} - {"tensors"})
FIXED = ("test_other_sizes.py", "test_golden_coverage.py", "test_ultra_released.py")


@pytest.mark.slow
def test_every_parity_test_takes_other_sizes(tmp_path: Path) -> None:
    for folder in COMMITTED.iterdir():
        shutil.copytree(folder, tmp_path / folder.name)
    for method in MAKERS:
        importlib.import_module(f"other_sizes.{method}").make(tmp_path / method)
    tests = sorted(str(path) for path in HERE.rglob("test_*.py") if path.name not in FIXED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--golden", str(tmp_path), *tests],
        capture_output=True, text=True, check=False, cwd=HERE.parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout
