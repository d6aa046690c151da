"""The mutation run itself, on a module of three functions. `make mutate` runs it on kept's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.children import IMPORTABLE, with_tests
from tests.mutation.mutants import mutants_of, sample
from tests.mutation.targets import GROUPS, name_of

ROOT = Path(__file__).parents[2]
MODULE = '''\
"""A toy."""


def larger(a: int, b: int) -> int:
    """The larger of two."""
    if a < b:
        return b
    return a


def down(n: int) -> int:
    while n > 0:
        n -= 1
    return n


def nobody_asks() -> bool:
    return True
'''
TESTS = """\
import toy


def test_larger() -> None:
    assert (toy.larger(1, 2), toy.larger(2, 1)) == (2, 2)


def test_down() -> None:
    assert toy.down(3) == 0
"""
RUN = """\
import sys
from importlib.util import find_spec
from pathlib import Path
from tests.mutation import score, trial
from tests.mutation.targets import Group

trial.BASE_SECONDS = 1
root = Path.cwd()
group = Group(("toy.py",), ("test_toy.py",))
accepted = {"toy.py::larger::a < b → a <= b": "of two equal numbers either is the larger"}
state = trial.State(root / ".mutation/state.jsonl")
lines = []
screen = open(sys.argv[1], "w", buffering=1, encoding="utf-8")
tell = lambda line: screen.write(line + "\\n")
code = trial.run_group(root, group, 12, state, float("inf"), tell)
assert code == 0, code
print(score.told(root, [group], 12, trial.State(state.path), accepted)[0])
"""


FREEZES = "import gc\n\n\ndef pytest_collection_finish():\n    gc.freeze()\n"
"""As the suite's own: what is set aside must be found and changed all the same."""


def _run(root: Path) -> tuple[dict[str, str], str]:
    """What was tried, with its result, and the table."""
    said = root / "said.txt"
    environment = with_tests(PYTHONPATH=os.pathsep.join([str(IMPORTABLE), str(root)]))
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(said)],
        cwd=root, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = said.read_text(encoding="utf-8").splitlines()
    return {line.split("  ")[-1].removeprefix("toy.py::"): line.split()[0] for line in lines}, (
        ran.stdout
    )


def test_faults_are_caught_or_survive_and_nothing_is_tried_twice(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(FREEZES, encoding="utf-8")
    results, table = _run(tmp_path)
    assert results == {
        "larger::if a < b → if False": "caught",
        "larger::a < b → a <= b": "survived",
        "down::n > 0 → n >= 0": "caught",
        "down::0 → 1": "caught",
        "down::n -= 1 → n += 1": "ended",
        "down::1 → 2": "caught",
        "nobody_asks::True → False": "survived",
    }
    assert "| `toy.py` | 7 | 7 | 4 | 1 | 1 | 1 | 0 | 0 | 83 % |" in table
    survivors = table.partition("## Survivors")[2]
    assert survivors.split() == ["-", "`toy.py::nobody_asks::True", "→", "False`"]

    state = tmp_path / ".mutation/state.jsonl"
    whole = state.read_bytes()
    assert _run(tmp_path) == ({}, table), "all is known"
    kept = whole[: whole.rindex(b"\n", 0, -1) + 9]
    state.write_bytes(kept)
    last = json.loads(whole.splitlines()[-1])["name"].removeprefix("toy.py::")
    assert _run(tmp_path) == ({last: results[last]}, table), "a line half written is written anew"

    more = "\n\ndef test_nobody() -> None:\n    assert toy.nobody_asks()\n"
    (tmp_path / "test_toy.py").write_text(TESTS + more, encoding="utf-8")
    survived = {name: "survived" for name, result in results.items() if result == "survived"}
    tried, table = _run(tmp_path)
    again = {name: result for name, result in tried.items() if result != "ended"}
    assert again == {**survived, "nobody_asks::True → False": "caught"}
    assert "None." in table

    (tmp_path / "toy.py").write_text(MODULE + "\n", encoding="utf-8")
    assert set(_run(tmp_path)[0]) == set(results), "another module: everything again"


def test_modules_that_no_test_reaches_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="AssertionError: 4"):
        _run(tmp_path)
    log = (tmp_path / ".mutation/pytest.log").read_text(encoding="utf-8")
    assert "no test of the group reaches a line of toy.py" in log


def test_the_sample_is_the_same_whatever_stands_before_it() -> None:
    names = [mutant.name for mutant in sample(mutants_of(MODULE, "toy.py"), 4)]
    longer = "import os\n\n\ndef other(a):\n    return None\n\n\n" + MODULE
    assert [mutant.name for mutant in sample(mutants_of(longer, "toy.py"), 4)] == names


def test_every_target_is_there() -> None:
    """And no accepted mutant is one that is gone or comes without a reason."""
    names = set()
    for group in GROUPS:
        assert all((ROOT / path).is_file() for path in group.tests)
        for module in group.modules:
            found = find_spec(name_of(module))  # of a wheel too, where the sources are elsewhere
            assert found is not None
            source = Path(str(found.origin)).read_text(encoding="utf-8")
            names |= {mutant.name for mutant in mutants_of(source, module)}
    accepted = json.loads((Path(__file__).parent / "accepted.json").read_text(encoding="utf-8"))
    assert set(accepted) <= names, "a function changed: is its mutant still equivalent?"
    assert all(len(reason) > 20 for reason in accepted.values())
