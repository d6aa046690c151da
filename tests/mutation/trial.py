"""Trying mutants: one process collects the tests of all modules, and forks for every mutant.

That process is itself forked from one that has imported what is heavy (torch, transformers, …) and
nothing of the three packages. For every mutant its child replaces the code of the changed function,
wherever it is held, and runs the tests that reach the changed line, the quickest first, until one
fails. What the tests of a file reach is measured once for all modules of the run.

A test that runs kept in a process started anew does not see the mutant there. What is called while
a module is imported is not tried again.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutation.mutants import Mutant, mutants_of, mutated, sample, traced
from tests.mutation.state import State, files_sha, holds, is_final, path_of, test_sha
from tests.mutation.targets import N_FILES, name_of

BASE_SECONDS = 5
"""Of processor time that a test may take, besides five times what it takes without a mutant."""
MOST_WALL = 12
"""So many times that limit a test may take by the clock, as the machine may be busy or it waits."""
MEASURED_SECONDS = 30
"""The tests of a file are measured, and so tried, in its order until so much processor time
is used, or four times as much has gone by: a busy machine is no reason to try fewer tests."""
TRIED_SECONDS = 10
"""Of the tests of one file that reach a line, the quickest ones are tried up to so much."""
FURTHER_FILES = 6
"""A survivor is also tried on so many files that reach its line though they are not near."""
MOST_BYTES = 6 << 30
OWN_FAULT = 70  # how a process ends that did not get to the end of its tests by itself


@dataclass(frozen=True)
class Attempt:
    """A mutant and the test files that are to be tried on it, in this order."""

    module: str
    mutant: Mutant
    files: tuple[str, ...]


def attempts(
    root: Path, targets: dict[str, tuple[str, ...]], n_mutants: int, state: State, *,
    accepted: Collection[str] = (), further: bool,
) -> list[Attempt]:  # fmt: skip
    """Return what is to be tried of the first `n_mutants` of each module in `targets`.

    First those of which nothing is known that holds, on the first files of their modules and the
    file whose test caught them once; with `further`, what survived, on all other files, but for
    the equivalent ones in `accepted`.
    """
    plan = []
    for module, tests in targets.items():
        source = (root / module).read_text(encoding="utf-8")
        for mutant in sample(mutants_of(source, module), n_mutants):
            record = state.known.get(mutant.name)
            if is_final(record, module, tests, root):
                continue
            if record is None or not holds(record, module, root):
                files = [*_earlier(record, tests, root), *tests[:N_FILES]]
            elif further and mutant.name not in accepted:
                known = sorted(state.files_that_reach(module, mutant.line, root))
                distant = [file for _, file in known if file not in tests][:FURTHER_FILES]
                tried = {*record["files"]}
                files = [file for file in (*tests, *distant) if file not in tried]
            else:
                continue
            plan.append(Attempt(module, mutant, tuple(dict.fromkeys(files))))
    return plan


def _earlier(record: dict[str, Any] | None, tests: Sequence[str], root: Path) -> list[str]:
    """The file, or the single test, that caught a mutant before it or its module changed."""
    if record is None or not record["by"]:
        return []
    if record["by"] in tests:
        return [record["by"]]
    file = record["by"].split("::")[0]
    return [file] if (root / file).is_file() else []


class Functions:
    """The functions of modules, wherever they are held: their code can be replaced."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._of: dict[str, list[FunctionType]] = {path: [] for path in paths}
        gc.disable()
        gc.unfreeze()  # what the suite set aside would not be among the objects
        for held in gc.get_objects():
            if type(held) is FunctionType and held.__code__.co_filename in self._of:
                self._of[held.__code__.co_filename].append(held)
        gc.freeze()
        gc.enable()

    def replace(self, path: str, code: CodeType) -> None:
        """Give every function of the file `path` the code that it has in a compiled module."""
        codes: dict[tuple[str, int], CodeType] = {}
        waiting = [code]
        while waiting:
            part = waiting.pop()
            codes[part.co_qualname, part.co_firstlineno] = part
            waiting += [each for each in part.co_consts if isinstance(each, CodeType)]
        for function in self._of[path]:
            old = function.__code__
            new = codes[old.co_qualname, old.co_firstlineno]
            if new != old:
                function.__code__ = new


class Trial:
    """A plugin of pytest that tries mutants in place of tests.

    Args:
        root: the folder of the sources.
        plan: what is to be tried.
        state: what is known, and where to write.
        until: `time.monotonic` at which nothing new is begun.
        tell: gets a line about each mutant.
    """

    def __init__(
        self, root: Path, plan: Sequence[Attempt], state: State, until: float,
        report: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.root, self.plan, self.state, self.until, self.report = root, plan, state, until, report
        self.modules = [*dict.fromkeys(attempt.module for attempt in plan)]
        # read once: what changes while it is tried changes no finding
        self.sources = {m: (root / m).read_text(encoding="utf-8") for m in self.modules}
        self.shas = {m: files_sha([m], root) for m in self.modules}
        self.items: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
        self.paths: dict[str, str] = {}
        self.failed: str | None = None
        self.seconds_of_setup = 0.0
        self.reached: set[tuple[str, int]] = set()
        self.reached_in_setup: set[tuple[str, int]] = set()

    def pytest_configure(self) -> None:
        """No test fails because the machine is slow, and no example is made smaller."""
        same = settings.get_profile("default")
        settings.register_profile(
            "mutation", same, derandomize=True, deadline=None, database=None,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        settings.load_profile("mutation")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say which files have no tests here because they cannot be collected."""
        if report.failed:
            self.report(f"cannot be collected: {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, and what preparing a test took and reached."""
        if report.failed:
            self.failed = report.nodeid
        if report.when == "setup":
            self.seconds_of_setup += report.duration
            self.reached_in_setup |= self.reached

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant of the plan."""
        files = {file for attempt in self.plan for file in attempt.files}
        for item in session.items:
            for file in {item.nodeid, item.nodeid.split("::")[0]} & files:
                self.items[file][item.nodeid] = item
        for module in self.modules:
            self.paths[module] = str(importlib.import_module(name_of(module)).__file__)
        self.functions = Functions([*self.paths.values()])
        for attempt in self.plan:
            if time.monotonic() > self.until:
                break
            self._try(attempt)
        return True

    def _try(self, attempt: Attempt) -> None:
        """Try a mutant on one file after another until it is caught, and remember what came."""
        module, mutant = attempt.module, attempt.mutant
        known = self.state.known.get(mutant.name)
        earlier = known if known and holds(known, module, self.root) else None
        n_tests = earlier["n_tests"] if earlier else 0
        tree = mutated(self.sources[module], mutant)
        code = compile(tree, self.paths[module], "exec")
        result, by = "survived", None
        for file in attempt.files:
            tests = self._tests(file, module, mutant.line, known["by"] if known else None)
            n_tests += len(tests)
            result, by = self._result(tests, self.paths[module], code)
            if result != "survived":
                break
        files = [*(earlier["files"] if earlier else []), *attempt.files]
        tests_sha = test_sha(path_of(by, self.root), by) if by else files_sha(files, self.root)
        self.state.add(
            {"name": mutant.name, "result": result, "by": by, "n_tests": n_tests,
             "module": self.shas[module], "tests": tests_sha, "files": files, "line": mutant.line}
        )  # fmt: skip
        self.report(f"{result if n_tests else 'unreached':<10}{mutant.name}")

    def _tests(
        self, file: str, module: str, line: int, first: str | None
    ) -> list[tuple[pytest.Item, float]]:
        """The tests of a file that reach a line, with their limits: `first`, then the quickest."""
        reach = self._reach(file)
        ranked = sorted(
            (test != first, seconds, test)
            for test, (seconds, lines) in reach.items()
            if [module, line] in lines and test in self.items[file]
        )
        setup = self.state.known[f"reach of {file}"]["setup"] if ranked else 0.0
        tests, total = [], 0.0
        for _, seconds, test in ranked:
            total += seconds
            if tests and total > TRIED_SECONDS:
                break
            tests.append((self.items[file][test], BASE_SECONDS + 5 * (seconds + setup)))
        return tests

    def _result(
        self, tests: list[tuple[pytest.Item, float]], path: str, code: CodeType
    ) -> tuple[str, str | None]:
        """What becomes of a mutant in these tests, and the test that caught it.

        A test that fails without the mutant, too, where it runs alone, catches nothing; nor does
        a limit say anything that is met without the mutant.
        """
        while tests:
            report = self._forked(tests, lambda: self.functions.replace(path, code))
            if report is None:  # ended by its limits, or by a crash
                if self._forked(tests, lambda: None) is not None:
                    return "ended", None
                self.report(
                    f"ends without a mutant: {tests[0][0].nodeid} and {len(tests) - 1} more"
                )
                return "survived", None
            failed = report["failed"]
            if failed is None:
                break
            alone = [each for each in tests if each[0].nodeid == failed]
            again = self._forked(alone, lambda: None)
            if again is not None and again["failed"] is None:
                return "caught", failed
            self.report(f"fails without a mutant, so it can catch none: {failed}")
            tests = [each for each in tests if each[0].nodeid != failed]
        return "survived", None

    def _reach(self, file: str) -> dict[str, Any]:
        """What each test of a file takes and reaches: its seconds, and [module, line] in a list."""
        if not self.items[file]:
            return {}  # all of them are slow, or the file cannot be collected
        reach = self.state.reach(file, self.modules, self.root)
        if reach is None:
            tests = [(item, 10.0 * MEASURED_SECONDS) for item in self.items[file].values()]
            report = self._forked(tests, self._trace, measure=True)
            if report is None:
                self.report(f"ends without a mutant: {file}")
                report = {"reach": {}, "setup": 0.0, "failures": []}
            for test in report["failures"]:
                self.report(f"fails without a mutant, so it can catch none: {test}")
            reach = report["reach"]
            self.state.add(
                {"name": f"reach of {file}", "tests": files_sha([file], self.root),
                 "modules": self.shas, "setup": report["setup"], "reach": reach}
            )  # fmt: skip
        return reach

    def _trace(self) -> None:
        """Have every function of the modules note the lines that it comes to."""
        builtins.__reached__ = lambda *reached: self.reached.add(reached)  # type: ignore[attr-defined]
        for module, path in self.paths.items():
            tree = traced(self.sources[module], module)
            self.functions.replace(path, compile(tree, path, "exec"))

    def _forked(
        self, tests: list[tuple[pytest.Item, float]], prepare: Callable[[], None], *,
        measure: bool = False,
    ) -> dict[str, Any] | None:  # fmt: skip
        """What a process of its own reports of the tests; None if it was ended."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.json"
            process = os.fork()
            if process == 0:
                try:
                    os.setpgid(0, 0)
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
                    prepare()
                    report = self._measured(tests) if measure else self._first_failure(tests)
                    file.write_text(json.dumps(report), encoding="utf-8")
                    os._exit(0)  # nothing of the parent's is closed or flushed here
                finally:
                    traceback.print_exc()
                    os._exit(OWN_FAULT)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)  # what its tests left running
            if code == OWN_FAULT:
                raise RuntimeError("a mutant could not be tried: see .mutation/pytest.log")
            return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def _first_failure(self, tests: list[tuple[pytest.Item, float]]) -> dict[str, Any]:
        self.failed = None
        for number, (test, limit) in enumerate(tests):
            self._run(test, tests[number + 1][0] if number + 1 < len(tests) else None, limit)
            if self.failed:
                break
        return {"failed": self.failed}

    def _measured(self, tests: list[tuple[pytest.Item, float]]) -> dict[str, Any]:
        reach: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        failures = []
        start, start_of_wall = _seconds(), time.monotonic()
        for number, (test, limit) in enumerate(tests):
            self.failed, self.reached = None, set()
            began = _seconds()
            self._run(test, tests[number + 1][0] if number + 1 < len(tests) else None, limit)
            if self.failed:
                failures.append(self.failed)
            else:
                reach[test.nodeid] = (_seconds() - began, list(self.reached))
            if max(_seconds() - start, (time.monotonic() - start_of_wall) / 4) > MEASURED_SECONDS:
                break
        for test_id, (seconds, lines) in reach.items():
            reach[test_id] = (seconds, sorted({*lines, *self.reached_in_setup}))
        return {"failures": failures, "setup": self.seconds_of_setup, "reach": reach}

    def _run(self, test: pytest.Item, following: pytest.Item | None, limit: float) -> None:
        """Run one test; the process ends if it takes longer than its limit."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        signal.alarm(int(MOST_WALL * limit) + 1)
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)


def _seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def run_plan(
    root: Path, plan: Sequence[Attempt], state: State, until: float, report: Callable[[str], None]
) -> int:
    """Try what is planned in a process of its own; returns its exit code."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        log = os.open(state.path.parent / "pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(root, plan, state, until, report)
            options = ["-q", "-p", "no:cacheprovider", "--capture=sys", "-m", "not slow"]
            options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is warm
            options += ["--continue-on-collection-errors"]
            options += [f"--rootdir={root}", f"--basetemp={folder}/pytest"]
            files = dict.fromkeys(file for attempt in plan for file in attempt.files)
            code = int(pytest.main([*options, *files], plugins=[trial]))
        sys.stdout.flush()
        os._exit(code)
    finally:
        traceback.print_exc()
        os._exit(OWN_FAULT)
