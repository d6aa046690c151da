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
from tests.mutation.targets import (
    LISTED,
    MOST_FILES,
    N_FILES,
    draw,
    files_of,
    modules_of,
    name_of,
    nearest,
)

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
from pathlib import Path
from tests.mutation import score, trial
from tests.mutation.state import State

trial.BASE_SECONDS = 1
root = Path.cwd()
targets = {"toy.py": ("test_toy.py",)}
accepted = {"toy.py::larger::a < b → a <= b": "of two equal numbers either is the larger"}
path = root / ".mutation/findings.jsonl"
screen = open(sys.argv[1], "w", buffering=1, encoding="utf-8")
tell = lambda line: screen.write(line + "\\n")
for further in (False, True):
    plan = trial.attempts(root, targets, 12, State(path), accepted=accepted, further=further)
    code = trial.run_plan(root, plan, State(path), float("inf"), tell) if plan else 0
    assert code == 0, code
result = score.score_of(root, targets, 12, State(path), accepted)
print("sums", result.n_modules, result.n_judged, result.n_caught)
print(result.text)
"""


FREEZES = "import gc\n\n\ndef pytest_collection_finish():\n    gc.freeze()\n"
"""As the suite's own: what is set aside must be found and changed all the same."""


def _run(root: Path, program: str = RUN) -> tuple[dict[str, str], str]:
    """What was tried, with its result, and the table."""
    report = root / "said.txt"
    environment = with_tests(PYTHONPATH=os.pathsep.join([str(IMPORTABLE), str(root)]))
    run = subprocess.run(
        [sys.executable, "-c", program, str(report)],
        cwd=root, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = report.read_text(encoding="utf-8").splitlines()
    results = {line[10:].removeprefix("toy.py::"): line.split()[0] for line in lines}
    return results, run.stdout


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

    state = tmp_path / ".mutation/findings.jsonl"
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


def test_mutants_that_no_test_reaches_survive(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    results, table = _run(tmp_path)
    assert len(results) == 7
    assert {*results.values()} == {"unreached"}
    assert "| 0 % |" in table
    assert table.count("(no test reaches it)") == 6, "all but the accepted one"


def test_a_single_test_is_tried_alone(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text(TESTS, encoding="utf-8")
    program = RUN.replace('("test_toy.py",)', '("test_toy.py::test_down",)')
    results, _ = _run(tmp_path, program)
    caught = {name.split("::")[0] for name, result in results.items() if result == "caught"}
    assert caught == {"down"}
    assert _run(tmp_path, program)[0] == {}, "all is known"


def _many_files(folder: Path) -> list[str]:
    """The names of more test files than are tried first; only the first one reaches the module."""
    (folder / "toy.py").write_text(MODULE, encoding="utf-8")
    names = [f"test_toy_{number}.py" for number in range(N_FILES + 2)]
    for name in names:
        (folder / name).write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    (folder / names[0]).write_text(TESTS, encoding="utf-8")
    return names


REACHES = "import toy\n\n\ndef test_nobody():\n    assert toy.nobody_asks()\n"


def test_survivors_are_tried_on_further_files(tmp_path: Path) -> None:
    """What the first files catch is not tried on them."""
    names = _many_files(tmp_path)
    (tmp_path / names[-1]).write_text(REACHES, encoding="utf-8")
    files = ", ".join(f'"{name}"' for name in names)
    results, table = _run(tmp_path, RUN.replace('("test_toy.py",)', f"({files})"))
    assert results["nobody_asks::True → False"] == "caught"
    assert results["larger::a < b → a <= b"] == "survived"
    assert "None." in table
    findings = (tmp_path / ".mutation/findings.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in findings]
    tried = {r["name"]: r["files"] for r in records if not r["name"].startswith("reach")}
    assert tried["toy.py::larger::a < b → a <= b"] == names[:N_FILES], "it is accepted"
    assert tried["toy.py::down::n -= 1 → n += 1"] == names[:N_FILES]
    assert tried["toy.py::down::0 → 1"] == names[:N_FILES]


def test_survivors_are_tried_on_distant_files_that_are_known_to_reach_them(tmp_path: Path) -> None:
    """A file was measured for another module, so that it is known which of its tests do."""
    names = _many_files(tmp_path)
    other = "def other():\n    return 1\n"
    (tmp_path / "other.py").write_text(other, encoding="utf-8")
    reaches = REACHES.replace("import toy", "import other, toy")
    (tmp_path / "test_other.py").write_text(
        f"{reaches}\n\ndef test_other():\n    assert other.other() == 1\n", encoding="utf-8"
    )
    files = ", ".join(f'"{name}"' for name in names)
    targets = f'({files}), "other.py": ("test_other.py",)'
    results, _ = _run(tmp_path, RUN.replace('("test_toy.py",)', targets))
    assert results["nobody_asks::True → False"] == "caught"


def test_a_test_that_fails_in_another_order_catches_nothing(tmp_path: Path) -> None:
    """The quicker test is run first on a mutant, and fails there without one, too."""
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    tests = (
        "import time\nimport toy\n\ndone = []\n\n\n"
        "def test_slower():\n    done.append(1)\n    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end:\n        pass\n    toy.larger(1, 2)\n\n\n"
        "def test_quicker():\n    toy.larger(2, 1)\n    assert done\n"
    )
    (tmp_path / "test_toy.py").write_text(tests, encoding="utf-8")
    results, _ = _run(tmp_path)
    of_larger = {result for name, result in results.items() if name.startswith("larger")}
    assert of_larger == {"survived"}
    report = (tmp_path / "said.txt").read_text(encoding="utf-8")
    assert "fails without a mutant, so it can catch none: test_toy.py::test_quicker" in report


def test_a_file_that_cannot_be_collected_is_named(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text("import gone\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="AssertionError: 1"):
        _run(tmp_path)
    report = (tmp_path / "said.txt").read_text(encoding="utf-8")
    assert "cannot be collected: test_toy.py" in report


def test_a_change_that_drops_a_variable_of_the_scope_around_is_made(tmp_path: Path) -> None:
    """Without `super()` a method has no variable `__class__`, and yet its code is replaced."""
    module = (
        "class Base:\n    def __init__(self):\n        self.is_ready = True\n\n\n"
        "class Child(Base):\n    def __init__(self):\n        super().__init__()\n"
    )
    test = "import toy\n\n\ndef test_child():\n    assert toy.Child().is_ready\n"
    (tmp_path / "toy.py").write_text(module, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text(test, encoding="utf-8")
    results, _ = _run(tmp_path, RUN.replace("State(path), accepted)", "State(path), {})"))
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
    remember(path, Sample(10, 40, 6, 20), 0, 0, 0)
    assert as_markdown(path) == "", "a run that tried no module says nothing"
    remember(path, Sample(10, 40, 6, 20), 30, 200, 150)
    remember(path, Sample(2, 60, 6, 20), 60, 300, 270)
    remember(path, Sample(10, 40, 6, 20), 40, 200, 199)
    rows = [line for line in as_markdown(path).splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| 2 | 60 | 60 | 6 | 20 | 300 | 270 | 90 % |",
        "| 10 | 40 | 30 | 6 | 20 | 200 | 150 | 75 % |",
    ]


def test_a_file_of_slow_tests_alone_ends_no_run(tmp_path: Path) -> None:
    """None of its tests is collected, so that there is nothing to measure in it."""
    (tmp_path / "toy.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_toy.py").write_text(TESTS, encoding="utf-8")
    marked = "import pytest\n\n\n@pytest.mark.slow\ndef test_slow():\n    pass\n"
    (tmp_path / "test_slow.py").write_text(marked, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n", encoding="utf-8")
    files = '("test_slow.py", "test_toy.py")'
    results, _ = _run(tmp_path, RUN.replace('("test_toy.py",)', files))
    assert results["larger::if a < b → if False"] == "caught"
    assert len(results) == 7


EQUIVALENT = """\
import numpy as np


def write(path, rows, generator, device):
    if generator.random() < 0.5:
        rows = np.zeros((0, 3))
    if abs(rows.sum()) < 1e-9:
        rows = rows.to(device=device)
    if len(path.known) + 1 > MOST:
        path.known.clear()
        rows = abs(rows)
    return path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
"""


def test_kinds_of_change_that_are_equivalent_are_not_tried() -> None:
    changes = [mutant.name.split("::")[2] for mutant in mutants_of(EQUIVALENT, "toy.py")]
    assert changes == [
        "if generator.random() < 0.5 → if False",
        "0.5 → 1.0",
        "0 → 1",
        "3 → 4",
        "if abs(rows.sum()) < 1e-09 → if False",
        "abs(rows.sum()) < 1e-09 → abs(rows.sum()) <= 1e-09",
        "abs(rows.sum()) → rows.sum()",
        "abs(rows) → rows",
    ]


@SOURCES
def test_every_module_of_the_tree_has_tests() -> None:
    modules = modules_of(ROOT)
    assert len(modules) == len({*modules}) > 600
    assert {module.split("/")[0] for module in modules} == {"kg_loaders", "entity_linking", "kept"}
    assert [len(files_of(module, ROOT)) for module in modules[::100]] == [MOST_FILES] * len(
        modules[::100]
    )


@SOURCES
def test_a_sample_is_the_same_for_a_seed_and_another_for_another() -> None:
    modules = modules_of(ROOT)
    samples = [draw(modules, 20, seed) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]
    assert [len({*sample}) for sample in samples] == [20, 20, 20]
    assert draw(modules, 0, 0) == ()
    assert draw(modules, 5, 0) == samples[0][:5], "a run that is ended has tried a sample, too"


@SOURCES
def test_a_modules_own_examples_are_tried_on_it() -> None:
    module = "kg_loaders/rdf/query_words.py"
    examples = "tests/test_doctests.py::test_examples[kg_loaders.rdf.query_words]"
    assert files_of(module, ROOT)[:2] == (nearest(module, ROOT)[0], examples)
    without = files_of("kg_loaders/rdf/query_process.py", ROOT)
    assert not any("test_doctests" in test for test in without)


@SOURCES
def test_listed_files_are_tried_first() -> None:
    modules, tests = LISTED[0]
    for module in modules:
        assert list(files_of(module, ROOT)[: len(tests)]) == tests


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
    assert [path for _, tests in LISTED for path in tests if not (ROOT / path).is_file()] == []
    accepted = json.loads((Path(__file__).parent / "accepted.json").read_text(encoding="utf-8"))
    listed = {module for modules, _ in LISTED for module in modules}
    names = set()
    for module in listed | {name.split("::")[0] for name in accepted}:
        spec = find_spec(name_of(module))  # of a wheel too, where the sources are elsewhere
        assert spec is not None
        source = Path(str(spec.origin)).read_text(encoding="utf-8")
        names |= {mutant.name for mutant in mutants_of(source, module)}
    assert set(accepted) <= names, "a function changed: is its mutant still equivalent?"
    assert all(len(reason) > 20 for reason in accepted.values())
