"""The weights of released files are those of the folder that --golden names."""

from __future__ import annotations

import pytest

from tests.kept.convert import releases


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module here is imported."""
    releases.GOLDEN = config.getoption("--golden").resolve()
