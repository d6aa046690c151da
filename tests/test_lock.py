"""The lock holds every dependency, at a version that is allowed, with a hash."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def name_of(requirement: Requirement) -> str:
    return requirement.name.lower().replace("_", "-")


@pytest.fixture(scope="module")
def project() -> list[Requirement]:
    """What pyproject.toml asks for, extras resolved; `docs` is installed by `make docs` alone."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [e for name, e in settings["optional-dependencies"].items() if name != "docs"]
    lines = [*settings["dependencies"], *(r for e in extras for r in e)]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != "kept"]


@pytest.fixture(scope="module")
def locked() -> dict[str, str]:
    path = ROOT / "requirements.lock"
    if not path.is_file():
        pytest.skip("requirements.lock lies in a checkout; these tests run outside of one")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    wrong = [line for line in lines if not LINE.fullmatch(line)]
    assert not wrong, "a line without a hash, or with an address"
    return dict(LINE.fullmatch(line).groups() for line in lines)  # type: ignore[union-attr]


def test_every_dependency_is_locked_within_its_bounds(
    project: list[Requirement], locked: dict[str, str]
) -> None:
    assert len(project) > 30
    for requirement in project:
        version = locked[name_of(requirement)]
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{requirement}: {version}"
        )


def test_the_lock_keeps_the_constraints(locked: dict[str, str]) -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pinned = Requirement(line)
            assert pinned.specifier.contains(locked[name_of(pinned)]), line


def test_torch_reads_weights_without_the_known_escapes(project: list[Requirement]) -> None:
    (torch,) = (requirement for requirement in project if requirement.name == "torch")
    assert not torch.specifier.contains("2.9.1")
    assert torch.specifier.contains("2.10.0")


def test_a_report_becomes_lines(tmp_path: Path) -> None:
    script = ROOT / ".ci" / "lock.py"
    if not script.is_file():
        pytest.skip(".ci/ lies in a checkout; these tests run outside of one")
    report = {
        "environment": {
            "implementation_name": "cpython", "python_version": "3.11",
            "sys_platform": "linux", "platform_machine": "x86_64",
        },
        "install": [
            {"metadata": {"name": "kept", "version": "1"}, "download_info": {"dir_info": {}}},
            {"metadata": {"name": "Ruamel_B", "version": "2"},
             "download_info": {"url": "x", "archive_info": {"hashes": {"sha256": "ab" * 32}}}},
        ],
    }  # fmt: skip
    (tmp_path / "report.json").write_text(json.dumps(report))
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "report.json")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    *header, line = run.stdout.splitlines()
    assert line == f"ruamel-b==2 --hash=sha256:{'ab' * 32}"
    assert "cpython, 3.11, linux, x86_64" in header[0]
