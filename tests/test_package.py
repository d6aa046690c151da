"""The top of the package: names, import direction, quick start."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kept

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "kg_loaders": {"kg_loaders"},
    "entity_linking": {"kg_loaders", "entity_linking"},
    "kept": {"kg_loaders", "entity_linking", "kept"},
}


def _imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    folder = Path(__import__(package).__file__ or "").parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 5
    ours = {"kg_loaders", "entity_linking", "kept", "experiments", "tests"}
    for file in files:
        forbidden = (_imports(file) & ours) - MAY_IMPORT[package]
        assert not forbidden, f"{file} imports {forbidden}"


def test_every_everyday_name_is_there() -> None:
    assert set(kept.__all__) == set(kept._PLACES)
    for name in kept.__all__:
        assert getattr(kept, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        kept.nonsense  # noqa: B018


def test_help_loads_no_torch() -> None:
    code = (
        "import sys; from kept.cli import app; "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
