"""Shared fixtures: a world of ten entities, paths to real data, and shape checking of `kept`.

Nothing here is random from run to run: torch is seeded before every test, hypothesis tries the same
examples. `make test-long` tries others, and `LONGER` times as many.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
IMPORTABLE = ROOT / "tests" / "importable"

# as a user has it: packages where they are installed, the checkout on no path, of no child either
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]
sys.path.insert(0, str(IMPORTABLE))  # first: some packages install a `tests` of their own
os.environ.pop("PYTHONPATH", None)
N_THREADS = int(os.environ.setdefault("OMP_NUM_THREADS", "1"))
"""Of torch, which is not loaded yet: a core for each worker."""
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # what has more threads shares a core with them

from tests import shape_checks  # noqa: E402

shape_checks.install()

from kg_loaders import (  # noqa: E402
    KnowledgeGraph,
    Text,
    TextKind,
    Triple,
    graph_from_records,
)
from kg_loaders.disk import seals  # noqa: E402
from kg_loaders.errors import SourceError  # noqa: E402
from kg_loaders.formats.wordnet import find_wordnet  # noqa: E402

LONGER = 40
LONGEST = (
    "kept/encoders/test_encoder_contract.py", "parity/test_other_sizes.py", "kills/test_kills.py",
    "kept/test_cluster.py", "test_benchmark_scripts.py", "kept/training/test_shards.py",
    "kept/training/test_processes.py", "kept/training/test_comparison_processes.py",
    "kept/training/test_adaptation_contract.py", "kept/lab/reading/test_reading_trial.py",
    "fuzz/test_fuzz.py", "kept/training/test_decoder_processes.py", "kept/lab/demo/test_demo.py",
    "kept/lab/comparison/test_experiment_runs.py",
    "kept/training/pretraining/test_wordnet_runs.py",
    "kept/training/finetuning/test_budget_warnings.py",
    "experiments/test_committed_experiments.py", "kg_loaders/test_budget.py",
    "kept/decoders/answering/test_answers.py", "kept/lab/probing/test_probe_kept_models.py",
    "kept/test_model_files.py", "kept/apps/cli/kgc/test_kgc_processes.py",
    "kept/lab/comparison/test_tuning.py", "kept/apps/cli/test_bounds_agree.py",
    "test_light_core.py", "kept/training/finetuning/test_runs_without_knowledge.py",
    "kept/lab/comparison/test_experiment_left_out.py", "kg_loaders/rdf/test_rdf.py",
    "kept/heads/test_head_contract.py", "kept/training/test_stream.py",
    "kept/training/test_finetune_command.py", "kept/training/test_loop.py",
    "mutation/test_mutation.py", "kept/objectives/lexical/test_lexical_relations.py",
)  # fmt: skip
"""Files that come first: begun last, a long one would leave all workers but one without work."""
settings.register_profile("same", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=50)
settings.load_profile("same")


def reset_torch() -> None:
    """Seed and threads, where torch is loaded; before that it has its first seed in any case.

    A command in this process may leave torch with a thread for each core, and then every later
    test would take several times as much processor time, for threads that wait for one another.

    Without a device only the processor's generator: `torch.manual_seed` notes the whole stack for
    each kind of device that may yet come, which takes a millisecond a test.
    """
    if "torch" not in sys.modules:
        return
    torch = sys.modules["torch"]
    if torch.get_num_threads() != N_THREADS:
        torch.set_num_threads(N_THREADS)
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:
        torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True)
def _reset() -> None:
    """The draws and the threads of a test depend on no other test."""
    reset_torch()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Nor do those of what several tests share, whichever of them is the first."""
    if fixturedef.scope != "function":
        reset_torch()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that a module brings is ever garbage: never searched, it costs a third less.

    Later the young are searched a fiftieth as often as by default, which costs a tenth less.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first; in the profile `long`, more examples than a test says that it tries."""
    numbers = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
    if gone := [str(path) for path in numbers if not path.is_file()]:
        raise pytest.UsageError(f"LONGEST of tests/conftest.py names {gone}")
    items.sort(key=lambda item: numbers.get(item.path, len(LONGEST)))
    if config.getoption("--hypothesis-profile") != "long":
        return
    tests = {item.obj for item in items if isinstance(item, pytest.Function)}
    for test in tests:  # there is no public way to a test's settings
        if getattr(test, "is_hypothesis_test", False):
            profile = test._hypothesis_internal_use_settings
            longer = settings(profile, max_examples=LONGER * profile.max_examples)
            test._hypothesis_internal_use_settings = longer


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden",
        type=Path,
        default=Path(__file__).parent / "golden",
        help="folder of golden vectors, one sub-folder a method (default: tests/golden)",
    )


@pytest.fixture(autouse=True, scope="session")
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests, and the commands that they start, run in an empty folder and not in the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What was verified is remembered for this run alone, not in the home of whoever runs it."""
    folder = tmp_path_factory.mktemp("verified")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seals, "memory", lambda: folder)
        yield


@pytest.fixture(autouse=True, scope="session")
def _pictures_undrawn(_own_memory: None) -> Iterator[None]:
    """A training in this process leaves an empty file for its curves, where it is not about them.

    To draw them takes several times as long as the rest of a run on a toy. Trainings in processes
    of their own draw; so do tests that ask for `drawn_curves`.
    """
    loop = sys.modules.get("kept.training.loop")  # tests that train have loaded it by now
    with pytest.MonkeyPatch.context() as patch:
        if loop is not None:
            patch.setattr(loop, "draw_curves", lambda log, png: png.touch())
        yield


@pytest.fixture(autouse=True, scope="session")
def _commands_made_once() -> Iterator[None]:
    """A command line called in this process has its options made once, not at every call.

    typer makes those of every command anew each time, which takes an eighth of a second.
    """
    testing = sys.modules.get("typer.testing")  # tests that call commands have loaded it by now
    with pytest.MonkeyPatch.context() as patch:
        if testing is not None:
            patch.setattr(testing, "_get_command", cache(vars(testing)["_get_command"]))
        yield


@pytest.fixture(autouse=True, scope="session")
def _unsynced() -> Iterator[None]:
    """Nothing written in this process is waited for until it is on the disk: no power fails here.

    Commands in processes of their own do wait; so do those that the kill tests stop at each wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def drawn_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings draw their curves, as they do for a user."""
    from kept.training import log, loop

    monkeypatch.setattr(loop, "draw_curves", log.draw_curves)


@dataclass
class Comparisons:
    """Counts what parity tests compare; the sum is printed at the end of the run."""

    n_values: dict[str, int] = field(default_factory=dict)

    def close(self, name: str, actual: Any, expected: Any, *, atol: float, rtol: float = 0) -> None:
        """Both array-likes agree; NaN equals NaN."""
        actual, expected = np.asarray(actual), np.asarray(expected)
        np.testing.assert_allclose(actual, expected, atol=atol, rtol=rtol, err_msg=name)
        self.n_values[name] = self.n_values.get(name, 0) + max(expected.size, 1)

    def equal(self, name: str, actual: Any, expected: Any) -> None:
        """Exactly equal; nested lists count their leaves."""
        assert actual == expected, name
        self.n_values[name] = self.n_values.get(name, 0) + _n_leaves(expected)


def _n_leaves(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_n_leaves, value)) if isinstance(value, (list, tuple)) else 1


_COMPARISONS = Comparisons()


@pytest.fixture
def compared() -> Comparisons:
    """The counter of the whole run."""
    return _COMPARISONS


@pytest.fixture(scope="session")
def golden_root(request: pytest.FixtureRequest) -> Path:
    """The folder given by --golden."""
    root: Path = request.config.getoption("--golden")
    return (request.config.invocation_params.dir / root).resolve()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = Counter(
        report.nodeid.split("::")[0]
        for report in terminalreporter.stats.get("passed", [])
        if "contract" in report.nodeid.split("::")[0]
    )
    for suite, count in sorted(passed.items()):
        terminalreporter.write_line(f"contract: {count} cases passed in {suite}")
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
    if _COMPARISONS.n_values:
        total = sum(_COMPARISONS.n_values.values())
        terminalreporter.write_line(
            f"parity: {total} values compared under {len(_COMPARISONS.n_values)} names"
        )


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of public data sets; skips where it is not there."""
    root = os.environ.get("KEPT_DATA")
    if not root:
        pytest.skip("KEPT_DATA is not set: the public data sets are not on this machine")
    return Path(root)


@pytest.fixture(scope="session")
def wordnet_files() -> Path:
    """The folder of WordNet's WNDB files; skips where they are not there."""
    try:
        return find_wordnet()
    except SourceError as error:
        pytest.skip(str(error))  # names the Debian package that brings them


@pytest.fixture(scope="session")
def wordnet(wordnet_files: Path, tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    """The graph that `kept kg build` makes of WordNet's files: once a run, for all its workers."""
    from typer.testing import CliRunner

    from kept.apps.cli import app

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wordnet"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            result = CliRunner().invoke(app, ["kg", "build", str(wordnet_files), "-o", str(folder)])
            assert result.exit_code == 0, result.output
    return KnowledgeGraph.open(folder)


LABELS = {
    "Q90": ("Paris", "capital of France", ["City of Light"]),
    "Q142": ("France", "country in Western Europe", ["French Republic"]),
    "Q64": ("Berlin", "capital of Germany", []),
    "Q183": ("Germany", "country in Central Europe", ["Federal Republic of Germany"]),
    "Q150": ("French", "Romance language", []),
    "Q188": ("German", "West Germanic language", []),
    "Q46": ("Europe", "continent", []),
    "Q1471": ("Seine", "river in France", []),
    "Q2": ("Bonn", "city in Germany", []),
    "Q830149": ("Paris", "city in Texas", []),
}
TRIPLES = [
    ("Q90", "P1376", "Q142"), ("Q142", "P36", "Q90"), ("Q64", "P1376", "Q183"),
    ("Q183", "P36", "Q64"), ("Q142", "P37", "Q150"), ("Q183", "P37", "Q188"),
    ("Q142", "P30", "Q46"), ("Q183", "P30", "Q46"), ("Q142", "P47", "Q183"),
    ("Q183", "P47", "Q142"), ("Q90", "P206", "Q1471"), ("Q1471", "P17", "Q142"),
    ("Q90", "P17", "Q142"), ("Q64", "P17", "Q183"), ("Q2", "P17", "Q183"),
]  # fmt: skip
TYPES = {
    "city": ["Q90", "Q64", "Q2", "Q830149"], "country": ["Q142", "Q183"],
    "language": ["Q150", "Q188"], "continent": ["Q46"], "river": ["Q1471"], "place": ["Q90", "Q46"],
}  # fmt: skip
RELATIONS = {
    "P1376": "capital of", "P36": "capital", "P37": "official language", "P30": "continent",
    "P47": "shares border with", "P206": "located next to body of water", "P17": "country",
}  # fmt: skip


@pytest.fixture(scope="session")
def small_graph() -> KnowledgeGraph:
    """Ten entities around Paris and Berlin; "Paris" is ambiguous; Q830149 has no triples."""
    records: list[Triple | Text] = [Triple(*row) for row in TRIPLES]
    for node, (label, description, aliases) in LABELS.items():
        records.append(Text(node, TextKind.LABEL, label, "en"))
        records.append(Text(node, TextKind.DESCRIPTION, description, "en"))
        records.extend(Text(node, TextKind.ALIAS, alias, "en", 3) for alias in aliases)
    records.extend(
        Text(node, TextKind.TYPE, kind) for kind, nodes in TYPES.items() for node in nodes
    )
    records.extend(
        Text(node, TextKind.LABEL, label, "en", 0, True) for node, label in RELATIONS.items()
    )
    return graph_from_records(records, licence="CC0-1.0")
