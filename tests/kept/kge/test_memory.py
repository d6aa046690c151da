"""What is freed stays with the process: the C library neither maps it apart nor gives it back."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

import pytest

from kept.kge import memory

N_BYTES = 64_000_000

WORK = """
import ctypes, json, sys
import torch
from kept.kge.memory import keep_freed_memory

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


class Library:
    """A C library whose `mallopt` notes what it is given and answers as it is told."""

    def __init__(self, *answers: int) -> None:
        self.answers, self.calls = [*answers], list[tuple[int, int]]()

    def mallopt(self, name: int, value: int) -> int:
        self.calls.append((name, value))
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("answers", "is_kept"), [((1, 1), True), ((1, 0), False), ((0, 1), False), ((0, 0), False)]
)
def test_memory_is_kept_where_both_settings_are_taken(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[int, int], is_kept: bool
) -> None:
    """glibc's `M_MMAP_MAX` (-4) is 0, its `M_TRIM_THRESHOLD` (-1) the largest int."""
    library = Library(*answers)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory.sys, "platform", "linux")
    assert memory.keep_freed_memory() is is_kept
    assert library.calls[0] == (-4, 0)
    assert library.calls[1:] in ([], [(-1, 2**31 - 1)])


def test_without_glibc_it_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(1, 1)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.keep_freed_memory() is False
    assert library.calls == []
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory() is False
