"""Processes of their own that have imported everything already.

A Python that trains needs seconds of processor time to import torch and transformers. Here it is
forked from a process that has imported them, and nothing else, once for all tests of a worker.

That process has started no threads. A child that does not end within its time shows the stacks of
its threads and is killed with the processes that it started, which hold its output open.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from threading import Timer
from typing import Any

WARM = (
    "pytest",
    "kept.apps.cli.link.run", "kept.apps.cli.training.pretrain_run",
    "kept.apps.cli.training.finetune_run",
    "kept.apps.cli.comparing.compare_run", "kept.apps.cli.kgc.training",
    "matplotlib.backends.backend_agg", "kept.linking.graphs", "kept.encoders.kbert",
    "transformers.models.bert.modeling_bert", "kept.apps.cli.training.vectors_run",
    "kept.joint.assembly", "kept.training.extending.extend", "kg_loaders.checks",
    "kg_loaders.forecast", "kg_loaders.reading.parts", "pandas",
)  # fmt: skip
"""What the process has imported from which all others are forked; pyarrow asks for pandas."""


def warm() -> ForkServerContext:
    """Where processes are forked that have imported `WARM`."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    children = get_context("forkserver")
    children.set_forkserver_preload([*WARM])
    return children


def lead_a_group() -> None:
    """In a child: be ended by `end_with_stacks`, with all that it starts."""
    os.setsid()
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)


def end_with_stacks(pid: int) -> None:
    """Let a child show where its threads are, and kill its group; nothing if it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(1)
        os.killpg(pid, signal.SIGKILL)


class Forked:
    """One process, with as much of `subprocess.Popen` as tests use; `stdout` has both streams."""

    def __init__(self, command: Sequence[object], environment: Mapping[str, str]) -> None:
        children = warm()
        shown_from, shown_to = children.Pipe(duplex=False)
        arguments = [*map(str, command)]
        self._process = children.Process(target=_run, args=(arguments, {**environment}, shown_to))
        self._process.start()
        shown_to.close()
        with shown_from:
            self.stdout = os.fdopen(os.dup(shown_from.fileno()), encoding="utf-8")
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    poll = returncode.fget

    def send_signal(self, number: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)

    def wait(self, timeout: float = 400) -> int | None:
        self._process.join(timeout)
        return self.returncode

    def communicate(self, timeout: float = 400) -> tuple[str, None]:
        """All that it says; after `timeout` seconds it says where it is, and is killed."""
        assert self.pid is not None
        late = Timer(timeout, end_with_stacks, [self.pid])
        late.start()
        try:
            with self.stdout:
                output = self.stdout.read()
            self.wait()
        finally:
            late.cancel()
        return output, None


def _run(command: list[str], environment: dict[str, str], output: Connection) -> None:
    """`python COMMAND`: a script and its arguments, or `-m` and a module and its arguments."""
    gc.freeze()  # memory that is shared with the other children until somebody searches it
    gc.set_threshold(50_000, 20, 100)  # as in the tests themselves
    streams: list[Any] = []
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
        streams.append(os.fdopen(descriptor, "w", encoding="utf-8"))
    output.close()
    sys.stdout, sys.stderr = streams
    lead_a_group()
    os.environ.clear()
    os.environ.update(environment)
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, str(Path(command[0]).parent))
        runpy.run_path(command[0], run_name="__main__")
