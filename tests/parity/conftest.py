"""The golden folder of the method that a test module names as its `METHOD`.

Golden files are part of the repository: where one is missing a test fails, it does not skip.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, golden_root: Path) -> Path:
    name: str = request.module.METHOD
    path = golden_root / name
    if not path.is_dir():
        pytest.fail(
            f"no golden vectors of {name} under {golden_root}: restore tests/golden, or give the "
            "folder that holds them with --golden"
        )
    return path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cases that only the golden folder can count: `PARAMETERS` of a module, by fixture.

    Each is a function of the folder. Where it fails or finds nothing, one case is left, so that the
    tests fail on the missing file and are not skipped as tests without cases.
    """
    for name, cases_of in getattr(metafunc.module, "PARAMETERS", {}).items():
        if name in metafunc.fixturenames:
            folder = metafunc.config.getoption("--golden").resolve() / metafunc.module.METHOD
            try:
                cases = list(cases_of(folder))
            except FileNotFoundError:
                cases = []
            ids = ["-".join(c) if isinstance(c, tuple) else str(c) for c in cases]
            metafunc.parametrize(
                name, cases or ["none"], ids=ids or ["none"], indirect=True, scope="module"
            )
