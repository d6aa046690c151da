"""What is known of mutants and of what tests reach, in a file with one line for each finding."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.mutation.mutants import source_of


class State:
    """The findings by name; the last of a name holds.

    A mutant's finding holds as long as its module and the test that caught it, or for a survivor
    all the files that were tried, stay as they are.
    """

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

    def reach(self, file: str, modules: Sequence[str], root: Path) -> dict[str, Any] | None:
        """What the tests of a file take and reach, if it holds for all these modules.

        By the name of each test that passes, its seconds and a list of [module, line].
        """
        record = self.known.get(f"reach of {file}")
        if record is None or record["tests"] != files_sha([file], root):
            return None
        if any(record["modules"].get(m) != files_sha([m], root) for m in modules):
            return None
        return dict(record["reach"])

    def files_that_reach(self, module: str, line: int, root: Path) -> Iterator[tuple[float, str]]:
        """Test files of which it is known that they reach a line, with their seconds for it."""
        for name, record in self.known.items():
            if not name.startswith("reach of "):
                continue
            file = name.removeprefix("reach of ")
            if not path_of(file, root).is_file() or self.reach(file, [module], root) is None:
                continue
            tests = [each[0] for each in record["reach"].values() if [module, line] in each[1]]
            if tests:
                yield sum(tests), file


def holds(record: dict[str, Any] | None, module: str, root: Path) -> bool:
    """Whether a finding about a mutant is still true of these files."""
    if record is None or record["module"] != files_sha([module], root):
        return False
    if record["result"] == "caught":
        path = path_of(record["by"], root)
        return path.exists() and record["tests"] == test_sha(path, record["by"])
    return bool(record["tests"] == files_sha(record["files"], root))


def is_final(record: dict[str, Any] | None, module: str, tests: Sequence[str], root: Path) -> bool:
    """Whether a finding holds and, of a survivor, no file of its module is left to try."""
    if record is None or not holds(record, module, root):
        return False
    return record["result"] != "survived" or {*tests} <= {*record["files"]}


def sha(text: str) -> str:
    """The hash of a text, short."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def path_of(test: str, root: Path) -> Path:
    """The file of a test, which is named by its path or as pytest names a single one."""
    return root / test.split("::")[0]


def files_sha(tests: Sequence[str], root: Path) -> str:
    """The hash of several files; of one that is gone, as if it were empty."""
    places = [path_of(test, root) for test in tests]
    return sha("\n".join(p.read_text(encoding="utf-8") if p.is_file() else "" for p in places))


def test_sha(path: Path, test: str) -> str:
    """The hash of a test with all that its file holds but other tests."""
    name = test.split("::")[1].split("[")[0]
    parts = [
        source_of(node)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if not getattr(node, "name", "").startswith("test_") or getattr(node, "name", "") == name
    ]
    return sha("\n".join(parts))
