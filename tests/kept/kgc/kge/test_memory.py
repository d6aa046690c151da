"""What is freed stays with the process: the C library neither maps it apart nor gives it back."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

import pytest

N_BYTES = 64_000_000

WORK = """
import ctypes, json, sys
import torch
from kept.kgc.kge.memory import keep_freed_memory

class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost").split()]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Mallinfo2
if sys.argv[1] == "kept":
    assert keep_freed_memory()
before = mallinfo2().hblkhd
array = torch.ones(16_000_000)
mapped = mallinfo2().hblkhd - before
del array
print(json.dumps({"mapped": mapped, "free": mallinfo2().fordblks}))
"""


def memory_of(setting: str) -> dict[str, int]:
    """Bytes that an array of 61 MiB has mapped for itself, and that are free once it is gone."""
    result = subprocess.run([sys.executable, "-c", WORK, setting], capture_output=True, check=True)
    counts: dict[str, int] = json.loads(result.stdout)
    return counts


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="there is no glibc 2.33 or later here"
)
def test_freed_memory_stays_with_the_process() -> None:
    kept, plain = memory_of("kept"), memory_of("plain")
    assert plain["mapped"] >= N_BYTES > plain["free"], "glibc maps so large an array apart"
    assert kept["mapped"] == 0
    assert kept["free"] >= N_BYTES
