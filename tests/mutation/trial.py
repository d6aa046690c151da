"""Trying mutants: tests are collected once, and every mutant is a forked process of its own.

The process replaces the code of the changed function, wherever it is held, and runs the tests that
reach the changed line, the quickest first, until one fails. What was found is kept in a file of one
line per mutant: it holds as long as the module and the test that caught it, or for a survivor all
the tests, stay as they are.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutation.mutants import Mutant, mutants_of, mutated, sample, shown, traced
from tests.mutation.targets import N_FILES, Group, name_of

BASE_SECONDS = 5  # of processor time, beside five times what the tests take
MOST_BYTES = 6 << 30
OWN_FAULT = 70  # how a process ends that did not get to the end of its tests by itself


def sha(text: str) -> str:
    """The hash of a text, short."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_sha(path: Path, test: str) -> str:
    """The hash of a test with all that stands beside the other tests of its file."""
    name = test.split("::")[1].split("[")[0]
    kept = [
        shown(node)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if not getattr(node, "name", "").startswith("test_") or getattr(node, "name", "") == name
    ]
    return sha("\n".join(kept))


class State:
    """What is known of mutants, and of what tests reach; one line is added for each finding."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            whole, end, torn = path.read_bytes().rpartition(b"\n")
            if torn:  # a run was ended while it wrote
                os.truncate(path, len(whole + end))
            for line in whole.splitlines():
                record = json.loads(line)
                self.known[record["name"]] = record

    def add(self, record: dict[str, Any]) -> None:
        """Remember a finding, also if the next moment is the last."""
        self.known[record["name"]] = record
        with self.path.open("ab") as file:
            file.write(json.dumps(record).encode() + b"\n")


def holds(record: dict[str, Any] | None, module: str, tests: Sequence[str], root: Path) -> bool:
    """Whether a finding about a mutant is still true of these files."""
    if record is None or record["module"] != sha((root / module).read_text(encoding="utf-8")):
        return False
    if record["result"] == "caught":
        path = root / record["by"].split("::")[0]
        return path.exists() and record["tests"] == test_sha(path, record["by"])
    return bool(record["tests"] == files_sha(tests, root))


def files_sha(paths: Sequence[str], root: Path) -> str:
    """The hash of several files."""
    return sha("\n".join((root / path).read_text(encoding="utf-8") for path in paths))


def replace_code(tree: ast.Module, path: str) -> None:
    """Give every function of the file `path` the code that it has in `tree`."""
    codes: dict[tuple[str, int], CodeType] = {}
    waiting = [compile(tree, path, "exec")]
    while waiting:
        code = waiting.pop()
        codes[code.co_qualname, code.co_firstlineno] = code
        waiting += [part for part in code.co_consts if isinstance(part, CodeType)]
    gc.unfreeze()  # what the suite set aside would not be among the objects
    for held in gc.get_objects():
        if type(held) is FunctionType and held.__code__.co_filename == path:
            old = held.__code__
            new = codes[old.co_qualname, old.co_firstlineno]
            if new != old:
                held.__code__ = new


class Trial:
    """A plugin of pytest that runs mutants in place of tests.

    Args:
        root: the folder of the sources.
        group: modules and tests.
        n_mutants: of a module at most.
        state: what is known, and where to write.
        until: `time.monotonic` at which nothing new is begun.
        tell: gets a line about each mutant.
    """

    def __init__(
        self, root: Path, group: Group, n_mutants: int, state: State, until: float,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.root, self.group, self.state, self.until = root, group, state, until
        self.n_mutants, self.tell = n_mutants, tell
        # read once: what changes while it is tried changes no finding
        self.sources = {m: (root / m).read_text(encoding="utf-8") for m in group.modules}
        self.tests_sha = {file: files_sha([file], root) for file in group.tests}
        self.all_sha = files_sha(group.tests, root)
        self.failed: str | None = None
        self.reached: set[tuple[str, int]] = set()
        self.reached_in_setup: set[tuple[str, int]] = set()
        self.n_tests: Counter[str] = Counter()
        """By the name of a mutant, the tests that reach its line, of the files that were tried."""
        self.reached_modules: set[str] = set()

    def pytest_configure(self) -> None:
        """No test fails because the machine is slow, and no example is made smaller."""
        same = settings.get_profile("default")
        settings.register_profile(
            "mutation", same, derandomize=True, deadline=None, database=None,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, and what preparing a test reached."""
        if report.failed:
            self.failed = report.nodeid
        if report.when == "setup":
            self.reached_in_setup |= self.reached

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant of the group that is not known yet, on the nearest file of tests first.

        What survives is tried on the next file: most modules never need the later, slower ones.
        """
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        items = {item.nodeid: item for item in session.items}
        paths = {}
        for module in self.group.modules:
            paths[module] = str(importlib.import_module(name_of(module)).__file__)
        left = {mutant: module for module in self.group.modules for mutant in self._unknown(module)}
        for number, file in enumerate(self.group.tests):
            is_further = number >= N_FILES and not self.group.is_listed
            tried = [each for each in left if not (is_further and self.n_tests[each.name])]
            if not tried:
                break
            reach = self._reach(file, items, paths)
            self.reached_modules |= {module for _, lines in reach.values() for module, _ in lines}
            n_tests = sum(test.split("::")[0] == file for test in items)
            session.testsfailed += n_tests - len(reach)
            for mutant in tried:
                if time.monotonic() > self.until:
                    return True
                if self._is_caught(mutant, left[mutant], reach, items, paths):
                    del left[mutant]
        missed = sorted({*left.values()} - self.reached_modules)  # all files were tried on these
        if missed and self.group.is_listed:
            raise pytest.UsageError(f"no test of the group reaches a line of {', '.join(missed)}")
        for mutant, module in left.items():
            self._add(mutant, module, "survived" if self.n_tests[mutant.name] else "unreached")
        return True

    def _unknown(self, module: str) -> list[Mutant]:
        """The mutants to try of a module: those about which nothing that still holds is known."""
        return [
            mutant
            for mutant in sample(mutants_of(self.sources[module], module), self.n_mutants)
            if not holds(self.state.known.get(mutant.name), module, self.group.tests, self.root)
        ]

    def _reach_of_nearest(
        self, items: dict[str, pytest.Item], paths: dict[str, str], lines: set[tuple[str, int]]
    ) -> tuple[dict[str, Any], int]:
        """The reach of the first files, and of further ones until these lines are reached.

        The second value is how many of their tests fail without a mutant.
        """
        reach: dict[str, Any] = {}
        n_failed = 0
        for number, file in enumerate(self.group.tests):
            if not self.group.is_listed and number >= N_FILES and not lines:
                break
            reach_of_file = self._reach(file, items, paths)
            n_failed += sum(test.split("::")[0] == file for test in items) - len(reach_of_file)
            reach |= reach_of_file
            lines = lines - {
                (m, line) for _, reached in reach_of_file.values() for m, line in reached
            }
        return reach, n_failed

    def _is_caught(
        self, mutant: Mutant, module: str, reach: dict[str, Any], items: dict[str, pytest.Item],
        paths: dict[str, str],
    ) -> bool:  # fmt: skip
        """Try a mutant on the tests of one file that reach its line; remember it if one fails."""
        known = self.state.known.get(mutant.name)
        by = known.get("by") if known else None
        tests = sorted(
            (test != by, seconds, test)
            for test, (seconds, lines) in reach.items()
            if [module, mutant.line] in lines and test in items
        )
        if not tests:
            return False
        self.n_tests[mutant.name] += len(tests)
        tree = mutated(self.sources[module], mutant)
        seconds = BASE_SECONDS + 5 * sum(test[1] for test in tests)
        report = self._forked(
            [items[test] for _, _, test in tests],
            lambda: replace_code(tree, paths[module]),
            int(seconds),
        )
        if report is None:  # ended by its limits, or by a crash: seen as well as a failure
            self._add(mutant, module, "ended")
        elif report["failed"]:
            self._add(mutant, module, "caught", report["failed"])
        return report is None or bool(report["failed"])

    def _add(self, mutant: Mutant, module: str, result: str, by: str | None = None) -> None:
        """Remember what became of a mutant. One that no test reaches has survived, too."""
        of_tests = test_sha(self.root / by.split("::")[0], by) if by else self.all_sha
        self.state.add(
            {"name": mutant.name, "result": "survived" if result == "unreached" else result,
             "by": by, "n_tests": self.n_tests[mutant.name], "module": sha(self.sources[module]),
             "tests": of_tests, "line": mutant.line}
        )  # fmt: skip
        self.tell(f"{result:<10}{mutant.name}")

    def _reach(
        self, file: str, items: dict[str, pytest.Item], paths: dict[str, str]
    ) -> dict[str, Any]:
        """What each test of a file takes and reaches: its seconds, and [module, line] in a list."""
        sources = sha("\n".join(self.sources.values()))
        name = f"reach of {file} in {' '.join(self.group.modules)}"
        key = sha(sources + self.tests_sha[file])
        record = self.state.known.get(name)
        if not any(test.split("::")[0] == file for test in items):
            return {}  # all of them are slow
        if record is None or record["key"] != key:
            mine = [item for test, item in items.items() if test.split("::")[0] == file]
            report = self._forked(mine, lambda: self._trace(paths), 3600, stop=False)
            if report is None:
                raise pytest.UsageError(f"{file} ends pytest, without any mutant")
            record = {"name": name, "key": key, "reach": report["reach"]}
            for test in [item.nodeid for item in mine if item.nodeid not in report["reach"]]:
                self.tell(f"fails without a mutant, so it can catch none: {test}")
                record["key"] = "to be measured again"
            self.state.add(record)
        return dict(record["reach"])

    def _trace(self, paths: dict[str, str]) -> None:
        builtins.__reached__ = lambda *place: self.reached.add(place)  # type: ignore[attr-defined]
        for module, path in paths.items():
            source = self.sources[module]
            replace_code(traced(source, module), path)

    def _forked(
        self, tests: list[pytest.Item], prepare: Callable[[], None], seconds: int, *,
        stop: bool = True,
    ) -> dict[str, Any] | None:  # fmt: skip
        """What a process of its own says of the tests; None if it was ended."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "said.json"
            process = os.fork()
            if process == 0:
                try:
                    os.setpgid(0, 0)
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.alarm(30 * seconds)
                    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
                    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
                    prepare()
                    place.write_text(json.dumps(self._ran(tests, stop)), encoding="utf-8")
                    os._exit(0)  # nothing of the parent's is closed or flushed here
                finally:
                    traceback.print_exc()
                    os._exit(OWN_FAULT)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)  # what its tests left running
            if code == OWN_FAULT:
                raise RuntimeError("a mutant could not be tried: see .mutation/pytest.log")
            return json.loads(place.read_text(encoding="utf-8")) if place.exists() else None

    def _ran(self, tests: list[pytest.Item], stop: bool) -> dict[str, Any]:
        reach: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            self.failed, self.reached = None, set()
            began = time.process_time()
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.failed and stop:
                return {"failed": self.failed}
            if not self.failed:  # one that fails without a mutant can catch none
                reach[test.nodeid] = (time.process_time() - began, list(self.reached))
        for test_id, (seconds, lines) in reach.items():
            reach[test_id] = (seconds, sorted({*lines, *self.reached_in_setup}))
        return {"failed": None, "reach": reach if not stop else {}}


def run_group(
    root: Path, group: Group, n_mutants: int, state: State, until: float,
    tell: Callable[[str], None],
) -> int:  # fmt: skip
    """Try one group in a process of its own; returns its exit code."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        log = os.open(state.path.parent / "pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(root, group, n_mutants, state, until, tell)
            options = ["-q", "-p", "no:cacheprovider", "--capture=sys", "-m", "not slow"]
            options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is warm
            options += [f"--rootdir={root}", f"--basetemp={folder}/pytest", *group.tests]
            code = int(pytest.main(options, plugins=[trial]))
        sys.stdout.flush()
        os._exit(code)
    finally:
        traceback.print_exc()
        os._exit(OWN_FAULT)
