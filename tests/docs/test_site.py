"""The sources of the docs site: every page is there, and every link leads to a page."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "site.py"
TARGET = re.compile(r"\[[^][]*\]\(([^)\s#]+)(?:#[^)]*)?\)")
KINDS = {"tutorials", "how-to", "reference", "explanations", "results", "decisions"}
pytestmark = pytest.mark.skipif(
    not SCRIPT.is_file(), reason="the docs site is built from a clone, not from the wheel"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, str(SCRIPT), str(out)], check=True)
    return out / "source"


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = spec_from_file_location("docs_site", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_every_page_is_in_the_menu_once_and_the_first_is_a_tutorial(source: Path) -> None:
    settings = (source.parent / "zensical.toml").read_text(encoding="utf-8")
    menu = re.findall(r'"([^"]+\.md)"', settings.partition("nav = [")[2].partition("\n]")[0])
    pages = {page.relative_to(source).as_posix() for page in source.rglob("*.md")}
    assert sorted(menu) == sorted(pages)
    assert menu[0] == "index.md"
    first = (source / "index.md").read_text(encoding="utf-8")
    assert first.startswith("# A private graph in ten minutes")


@pytest.mark.parametrize("package", ["kept", "kg_loaders", "entity_linking"])
def test_the_api_has_each_public_name_on_one_page(site: ModuleType, package: str) -> None:
    pages = [page for page, (_, top, _) in site.SUBJECTS.items() if top == package]
    names = [name for page in pages for name in site.public_names(page)]
    assert sorted(names) == sorted(import_module(package).__all__)


def test_the_page_of_options_has_every_command(source: Path) -> None:
    page = (source / "api" / "options.md").read_text(encoding="utf-8")
    titles = set(re.findall(r"^## kept (.+)$", page, re.MULTILINE))
    assert {"fit", "ask", "kg build", "link score", "kgc train", "check reading"} <= titles
    assert "--budget" in page


def test_pages_lie_in_the_folder_of_their_kind() -> None:
    folders = {path.name for path in (ROOT / "docs").iterdir() if path.is_dir()}
    assert folders == KINDS | {"examples"}
    assert {path.suffix for path in (ROOT / "docs" / "examples").iterdir()} == {".py"}
    assert [path.name for path in (ROOT / "docs").glob("*.md")] == ["README.md"]
