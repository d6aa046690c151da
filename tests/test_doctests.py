"""Every example in a docstring of the packages runs and says what it shows."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("kg_loaders", "entity_linking", "kept", "experiments")


def folder_of(package: str) -> Path:
    """Where a package lies: beside the tests, or installed."""
    return Path(str(importlib.import_module(package).__file__)).parent


def modules_with_examples() -> list[str]:
    """Names of the modules whose text shows an example."""
    names = []
    for package in PACKAGES:
        folder = folder_of(package)
        for path in sorted(folder.rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                parts = path.relative_to(folder.parent).with_suffix("").parts
                names.append(".".join(parts).removesuffix(".__init__"))
    return names


def examples_of(module: ModuleType) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


MODULES = modules_with_examples()


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(name)
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    tests = examples_of(module)
    assert sum(len(test.examples) for test in tests) == text.count(">>> "), "examples outside docs"
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert not runner.summarize(verbose=False).failed, capsys.readouterr().out


def test_every_package_has_examples() -> None:
    assert {name.split(".")[0] for name in MODULES} >= {"kg_loaders", "entity_linking", "kept"}
    assert len(MODULES) > 40
