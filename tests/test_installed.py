"""kept is tested as installed: neither here nor in a process started here is the checkout a path.

An editable install leads to the checkout through an import hook, as `make venv` makes it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.children import IMPORTABLE, ROOT, with_tests
from tests.forked import Forked

PACKAGES = ("kept", "kg_loaders", "entity_linking")
SHOW = "import json, sys; print(json.dumps(sys.path))"


def paths_to_the_checkout(path: list[str]) -> list[str]:
    """The entries where a package of ours, or a folder of its tests, is found in the checkout."""
    places = {(folder / name).resolve() for folder in (ROOT, ROOT / "tests") for name in PACKAGES}
    return [entry for entry in path if places & {Path(entry, n).resolve() for n in PACKAGES}]


def path_here() -> list[str]:
    return sys.path


def of_command(environment: dict[str, str] | None) -> list[str]:
    command = [sys.executable, "-c", SHOW]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    return list(json.loads(done.stdout))


def test_the_rule_finds_a_checkout() -> None:
    assert paths_to_the_checkout([str(ROOT), str(ROOT / "tests"), str(IMPORTABLE)]) == [
        str(ROOT), str(ROOT / "tests"),
    ]  # fmt: skip


def test_in_this_process() -> None:
    assert paths_to_the_checkout(sys.path) == []
    assert "PYTHONPATH" not in os.environ
    assert ROOT not in (Path.cwd(), *Path.cwd().parents)


@pytest.mark.parametrize("environment", [None, with_tests()], ids=["a user's", "with tests"])
def test_in_a_command(environment: dict[str, str] | None) -> None:
    assert paths_to_the_checkout(of_command(environment)) == []


def test_in_a_spawned_worker() -> None:
    """It imports this very module, too, to find the function that it is to run."""
    with get_context("spawn").Pool(1) as pool:
        assert paths_to_the_checkout(pool.apply(path_here)) == []


def test_in_a_forked_process(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    output, _ = Forked([script], os.environ).communicate()
    assert paths_to_the_checkout(json.loads(output)) == []
