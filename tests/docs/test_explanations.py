"""The examples of the pages that explain run, and print what the pages show."""

from __future__ import annotations

import pytest

from tests.test_smoke_pages import FOLDER, loaded

PAGES = FOLDER.parents[1] / "docs" / "explanations"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the scripts are not part of a wheel")


@pytest.mark.parametrize("name", ["leaks", "statistics"])
def test_the_examples_print_what_is_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    programs = loaded("pages").Page(f"{name}.md", text).programs
    assert programs
    assert all(output for _, output in programs)
    loaded("__main__").run_python(programs)
