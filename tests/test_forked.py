"""A child that hangs shows where, and ends with the processes that hold its output open."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.forked import Forked

HANGING = """
import subprocess, threading
subprocess.Popen(["sleep", "600"])
held = threading.Lock()
held.acquire()
print("begins to wait", flush=True)
held.acquire()
"""


def test_a_child_that_hangs_says_where(tmp_path: Path) -> None:
    script = tmp_path / "hanging.py"
    script.write_text(HANGING)
    started = time.monotonic()
    output, _ = Forked([script], os.environ).communicate(timeout=20)
    assert time.monotonic() - started < 120
    assert "begins to wait" in output
    assert f'File "{script}", line 7 in <module>' in output
