"""The sources of the docs site: every page is there, and every link leads to a page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "site.py"
TARGET = re.compile(r"\[[^][]*\]\(([^)\s#]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SCRIPT.is_file():
        pytest.skip("the docs site is built from a clone, not from the wheel")
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, str(SCRIPT), str(out)], check=True)
    return out / "source"


def test_links_of_the_site_lead_to_its_pages(source: Path) -> None:
    pages = sorted(source.rglob("*.md"))
    n_links, lost = 0, []
    for page in pages:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in TARGET.findall(text):
            if "://" not in target:
                n_links += 1
                if not (page.parent / target).exists():
                    lost.append(f"{page.relative_to(source)}: {target}")
    assert not lost
    assert n_links > 200


def test_every_module_has_a_page_and_every_page_is_in_the_menu(source: Path) -> None:
    names = {page.stem for page in (source / "api").glob("*.md")}
    assert {"kept", "kept.methods", "kg_loaders.store", "entity_linking.mentions"} <= names
    menu = (source.parent / "zensical.toml").read_text(encoding="utf-8")
    missing = [
        page.relative_to(source).as_posix()
        for page in sorted(source.rglob("*.md"))
        if f'"{page.relative_to(source).as_posix()}"' not in menu
    ]
    assert not missing
