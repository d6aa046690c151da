"""The top of the package: names, import direction, quick start."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Container, Iterable
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kept
from kept.apps.cli import app

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "kg_loaders": {"kg_loaders"},
    "entity_linking": {"kg_loaders", "entity_linking"},
    "kept": {"kg_loaders", "entity_linking", "kept"},
}
FLOORS = (
    (
        "bounds",
        "cache_folder",
        "csv_text",
        "errors",
        "help_texts",
        "outputs",
        "randomness",
        "telemetry",
        "values",
    ),
    ("model_settings",),
    (
        "batches",
        "host_facts",
        "options",
        "packaged",
        "plotting",
        "prepared",
        "results",
        "suggestions",
        "vectors",
    ),
    ("evaluation", "graphs", "layers", "model_files"),
    ("host_families",),
    ("cluster", "hosts", "kge"),
    ("adapters", "tasks"),
    ("encoders",),
    ("heads", "linking", "methods", "objectives"),
    ("convert", "inputs"),
    ("auto",),
    ("training",),
    ("decoders", "joint", "kgc"),
    ("lab",),
    ("apps",),
    ("__main__",),
)
"""Rooms of `kept`, from the ground up: each imports only from floors below its own."""


def _imports(file: Path) -> set[str]:
    """Modules, and names in modules, that a file imports, wherever in the file."""
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    return imported


def _modules(top: Path) -> dict[str, Path]:
    """The files of a package by the names of their modules."""
    modules = {}
    for file in sorted(top.rglob("*.py")):
        parts = file.relative_to(top.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return modules


def _modules_among(names: Iterable[str], modules: Container[str]) -> set[str]:
    """Names of modules, and the modules of names in modules."""
    return {name if name in modules else name.rpartition(".")[0] for name in names}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    folder = Path(__import__(package).__file__ or "").parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 5
    ours = {"kg_loaders", "entity_linking", "kept", "experiments", "tests"}
    for file in files:
        packages = {name.split(".")[0] for name in _imports(file)}
        forbidden = (packages & ours) - MAY_IMPORT[package]
        assert not forbidden, f"{file} imports {forbidden}"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_modules_do_not_import_each_other_in_a_circle(package: str) -> None:
    """Neither at the top of a file, nor in a function, nor for its types alone."""
    modules = _modules(Path(__import__(package).__file__ or "").parent)
    imported = {module: _modules_among(_imports(file), modules) for module, file in modules.items()}
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle


def test_no_room_imports_from_a_floor_that_is_not_below() -> None:
    """So the core imports no study (`lab`), and a study no application (`apps`)."""
    folder = Path(kept.__file__ or "").parent
    floor = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
    files = [file for file in sorted(folder.rglob("*.py")) if file != folder / "__init__.py"]
    rooms = {file: file.relative_to(folder).with_suffix("").parts[0] for file in files}
    assert set(rooms.values()) == floor.keys()
    for file, room in rooms.items():
        names = {name.split(".")[1] for name in _imports(file) if name.startswith("kept.")}
        wrong = {name for name in names - {room} if floor.get(name, -1) >= floor[room]}
        assert not wrong, f"{file} imports from {sorted(wrong)}"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_folders_do_not_import_each_other_in_a_circle(package: str) -> None:
    """Neither do the folders and modules of any folder: each can be read from the ground up."""
    top = Path(__import__(package).__file__ or "").parent
    modules = _modules(top)
    folders = {name.rpartition(".")[0] for name in modules} - {""}
    edges = {
        (module, name)
        for module, file in modules.items()
        for name in _modules_among(_imports(file), modules)
    }
    for folder in sorted(folders):
        depth = folder.count(".") + 2
        inside: dict[str, set[str]] = {}
        for pair in edges:
            if not all(name.startswith(f"{folder}.") for name in pair):
                continue
            importer, imported = (".".join(name.split(".")[:depth]) for name in pair)
            if importer != imported:
                inside.setdefault(importer, set()).add(imported)
        TopologicalSorter(inside).prepare()  # raises CycleError, which names the circle


def test_no_two_test_files_share_a_name() -> None:
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, n in names.items() if n > 1] == []


def test_every_everyday_name_is_there() -> None:
    assert set(kept.__all__) == set(kept._PLACES)
    for name in kept.__all__:
        assert getattr(kept, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        kept.nonsense  # noqa: B018


def test_version_and_dir() -> None:
    assert kept.__version__ == version("kept")
    assert {*kept.__all__, "__version__"} <= set(dir(kept))
    run = CliRunner().invoke(app, ["--version"])
    assert (run.exit_code, run.output) == (0, f"kept {kept.__version__}\n")


def test_linking_by_names_loads_no_library_that_it_does_not_need() -> None:
    code = (
        "import sys; from kept.linking.linkers import open_linker; "
        "import entity_linking.dictionary, kept.apps.cli.link.run; "
        "sys.exit(any(n in sys.modules for n in ('torch', 'scipy', 'sklearn', 'rapidfuzz')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_loads_no_torch() -> None:
    code = (
        "import sys; from kept.apps.cli import app; "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_that_draws_nothing_loads_no_library_that_draws() -> None:
    code = (
        "import sys; import kept.lab.comparison.report; "
        "import kept.training.finetuning.link_error_curve; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
