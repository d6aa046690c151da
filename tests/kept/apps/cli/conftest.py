"""A process that tells what a command loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

HEAVY = ("torch", "sklearn", "scipy", "transformers", "pyarrow", "matplotlib")
CODE = """
import atexit, json, os, sys
import pydantic
from kept.apps.cli import main
for asked in sys.stdin:
    heavy, line, folder = json.loads(asked)
    read, write = os.pipe()
    if not os.fork():
        os.dup2(write, 1)
        os.dup2(write, 2)
        sys.argv[1:] = line
        os.chdir(folder)
        atexit.register(lambda: print("loaded:", *(name for name in heavy if name in sys.modules)))
        main()
    os.close(write)
    said = open(read).read()
    print(json.dumps([os.waitstatus_to_exitcode(os.wait()[1]), said]), flush=True)
"""
"""Each command in a fork of a process that has loaded the command line alone, as all of them do."""


@pytest.fixture(scope="session")
def loaded() -> Iterator[Callable[..., tuple[int, str, str]]]:
    """The exit code of `kept LINE`, what it loaded of `HEAVY` and `more`, and what it said."""
    with subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        to, back = process.stdin, process.stdout
        assert to is not None
        assert back is not None

        def answer(*line: str, more: Sequence[str] = ()) -> tuple[int, str, str]:
            to.write(json.dumps([[*HEAVY, *more], line, os.getcwd()]) + "\n")
            to.flush()
            code, reply = json.loads(back.readline())
            output, _, modules = reply.rpartition("loaded:")
            return code, modules.strip(), output

        yield answer
