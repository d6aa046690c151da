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
from tests.mutation.blind import Sample, as_markdown, remember
from tests.mutation.mutants import mutants_of, sample
from tests.mutation.targets import GROUPS, N_FILES, drawn, groups_of, name_of, nearest

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
result = score.score_of(root, [group], 12, trial.State(state.path), accepted)
print("sums", result.n_modules, result.n_judged, result.n_caught)
print(result.text)
"""


FREEZES = "import gc\n\n\ndef pytest_collection_finish():\n    gc.freeze()\n"
"""As the suite's own: what is set aside must be found and changed all the same."""


def _run(root: Path, program: str = RUN) -> tuple[dict[str, str], str]:
    """What was tried, with its result, and the table."""
    said = root / "said.txt"
    environment = with_tests(PYTHONPATH=os.pathsep.join([str(IMPORTABLE), str(root)]))
    ran = subprocess.run(
        [sys.executable, "-c", program, str(said)],
        cwd=root, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = said.read_text(encoding="utf-8").splitlines()
    results = {line[10:].removeprefix("toy.py::"): line.split()[0] for line in lines}
    return results, ran.stdout


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
        "nobody_asks::True → False": "unreached",
    }
    assert "| `toy.py` | 7 | 7 | 4 | 1 | 1 | 1 | 0 | 0 | 83 % |" in table
    assert "sums 1 6 5\n" in table
    survivors = table.partition("## Survivors")[2]
    assert survivors.strip() == "- `toy.py::nobody_asks::True → False` (no test reaches it)"

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


def test_where_the_nearest_tests_do_not_reach_all_survive(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    results, table = _run(tmp_path, RUN.replace('("test_toy.py",))', '("test_toy.py",), False)'))
    assert len(results) == 7
    assert {*results.values()} == {"unreached"}
    assert "| 0 % |" in table
    assert table.count("(no test reaches it)") == 6, "all but the accepted one"


def test_further_files_are_tried_until_every_line_is_reached(tmp_path: Path) -> None:
    """The first files of a module that is not listed leave a line; the last is not needed."""
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    names = [f"test_toy_{number}.py" for number in range(N_FILES + 2)]
    for name in names:
        (tmp_path / name).write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    (tmp_path / names[0]).write_text(TESTS, encoding="utf-8")
    reaches = "import toy\n\n\ndef test_nobody():\n    assert toy.nobody_asks()\n"
    (tmp_path / names[N_FILES]).write_text(reaches, encoding="utf-8")
    files = ", ".join(f'"{name}"' for name in names)
    program = RUN.replace('("test_toy.py",))', f"({files}), False)")
    assert _run(tmp_path, program)[0]["nobody_asks::True → False"] == "caught"
    state = (tmp_path / ".mutation/state.jsonl").read_text(encoding="utf-8")
    assert f"reach of {names[N_FILES]}" in state
    assert f"reach of {names[N_FILES + 1]}" not in state


def test_a_change_that_drops_a_variable_of_the_scope_around_is_made(tmp_path: Path) -> None:
    """Without `super()` a method has no variable `__class__`, and yet its code is replaced."""
    module = (
        "class Base:\n    def __init__(self):\n        self.is_ready = True\n\n\n"
        "class Child(Base):\n    def __init__(self):\n        super().__init__()\n"
    )
    test = "import toy\n\n\ndef test_child():\n    assert toy.Child().is_ready\n"
    (tmp_path / "toy.py").write_text(module, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text(test, encoding="utf-8")
    program = "\n".join(line for line in RUN.splitlines() if "accepted = " not in line)
    results, _ = _run(tmp_path, program.replace("path), accepted)", "path), {})"))
    assert results == {
        "Base.__init__::True → False": "caught",
        "Child.__init__::super().__init__() → pass": "caught",
    }


def test_the_sample_is_the_same_whatever_stands_before_it() -> None:
    names = [mutant.name for mutant in sample(mutants_of(MODULE, "toy.py"), 4)]
    longer = "import os\n\n\ndef other(a):\n    return None\n\n\n" + MODULE
    assert [mutant.name for mutant in sample(mutants_of(longer, "toy.py"), 4)] == names


SOURCES = pytest.mark.skipif(not (ROOT / "kept").is_dir(), reason="of a wheel")


def test_the_first_score_of_a_seed_stays(tmp_path: Path) -> None:
    path = tmp_path / "blind.json"
    assert as_markdown(path) == ""
    remember(path, Sample(10, 40, 6), 0, 0, 0)
    assert as_markdown(path) == "", "a run that tried no module says nothing"
    remember(path, Sample(10, 40, 6), 30, 200, 150)
    remember(path, Sample(2, 60, 6), 60, 300, 270)
    remember(path, Sample(10, 40, 6), 40, 200, 199)
    rows = [line for line in as_markdown(path).splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| 2 | 60 | 60 | 6 | 300 | 270 | 90 % |", "| 10 | 40 | 30 | 6 | 200 | 150 | 75 % |",
    ]  # fmt: skip


def test_a_file_of_slow_tests_alone_ends_no_run(tmp_path: Path) -> None:
    """None of its tests is collected, so that there is nothing to measure in it."""
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text(TESTS, encoding="utf-8")
    marked = "import pytest\n\n\n@pytest.mark.slow\ndef test_slow():\n    pass\n"
    (tmp_path / "test_slow.py").write_text(marked, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n", encoding="utf-8")
    files = '("test_slow.py", "test_toy.py"), False)'
    results, _ = _run(tmp_path, RUN.replace('("test_toy.py",))', files))
    assert results["larger::if a < b → if False"] == "caught"
    assert len(results) == 7


@SOURCES
def test_every_module_of_the_tree_has_tests() -> None:
    groups = groups_of(ROOT)
    modules = [module for group in groups for module in group.modules]
    assert len(modules) == len({*modules}) > 600
    assert {module.split("/")[0] for module in modules} == {"kg_loaders", "entity_linking", "kept"}
    assert [group.modules for group in groups if not group.tests] == []


@SOURCES
def test_a_sample_is_the_same_for_a_seed_and_another_for_another() -> None:
    groups = groups_of(ROOT)
    samples = [[m for g in drawn(groups, 20, seed) for m in g.modules] for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]
    assert [len(sample) for sample in samples] == [20, 20, 20]
    assert drawn(groups, 0, 0) == ()


@SOURCES
@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("kept/apps/serve/batching.py", "tests/kept/apps/serve/test_batching.py"),
        ("kept/lab/questions/items.py", "tests/kept/lab/questions/test_question_items.py"),
        ("kg_loaders/growth/duplicates.py", "tests/kg_loaders/growth/test_duplicates.py"),
        ("kg_loaders/large/spilled.py", "tests/kg_loaders/large/test_beyond_memory.py"),
        ("entity_linking/scorers/asking.py", "tests/entity_linking/scorers/test_dear_scorers.py"),
        ("kept/training/extending/extend.py", "tests/kept/training/extending/test_extending.py"),
    ],
)
def test_the_nearest_tests_of_a_module(module: str, test: str) -> None:
    assert test in nearest(module, ROOT)


def test_every_target_is_there() -> None:
    """And no accepted mutant is one that is gone or comes without a reason."""
    assert [path for group in GROUPS for path in group.tests if not (ROOT / path).is_file()] == []
    accepted = json.loads((Path(__file__).parent / "accepted.json").read_text(encoding="utf-8"))
    listed = {module for group in GROUPS for module in group.modules}
    names = set()
    for module in listed | {name.split("::")[0] for name in accepted}:
        spec = find_spec(name_of(module))  # of a wheel too, where the sources are elsewhere
        assert spec is not None
        source = Path(str(spec.origin)).read_text(encoding="utf-8")
        names |= {mutant.name for mutant in mutants_of(source, module)}
    assert set(accepted) <= names, "a function changed: is its mutant still equivalent?"
    assert all(len(reason) > 20 for reason in accepted.values())
