"""The parser's process finds kg_loaders and its libraries however they are installed.

And when it does not, through a fault of kept's own, no message blames the user's file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import rdflib
from typer.testing import CliRunner

import kg_loaders
from kept.apps.cli import app
from kg_loaders.budget import ReaderBudget
from kg_loaders.errors import InternalError
from kg_loaders.rdf import documents
from kg_loaders.rdf.documents import Document
from kg_loaders.reading import isolated

E, RDF = "http://e/", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TRIX = "http://www.w3.org/2004/03/trix/trix-1/"
DOCUMENTS = {
    "rdf": f'<r:RDF xmlns:r="{RDF}" xmlns:e="{E}"><r:Description r:about="{E}a">'
    f'<e:p r:resource="{E}b"/></r:Description></r:RDF>',
    "jsonld": f'{{"@id": "{E}a", "{E}p": {{"@id": "{E}b"}}}}',
    "n3": f"<{E}a> <{E}p> <{E}b> .",
    "trix": f'<TriX xmlns="{TRIX}"><graph><triple><uri>{E}a</uri><uri>{E}p</uri>'
    f"<uri>{E}b</uri></triple></graph></TriX>",
    "ttl": f"# {'x' * documents.SMALL}\n<{E}a> <{E}p> <{E}b> .",
    "trig": f"# {'x' * documents.SMALL}\n<{E}a> <{E}p> <{E}b> .",
}
"""One statement in every format that a process of its own parses."""

HOOK = """
import importlib.machinery, sys
class Hook:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None:
            return importlib.machinery.PathFinder.find_spec(name, {folders!r})
sys.meta_path.append(Hook)
"""
READ = """
import json, sys
from pathlib import Path
from kg_loaders.rdf.documents import Document
from kg_loaders.budget import ReaderBudget
assert not [p for p in sys.path if p in {hidden!r}], sys.path
for name in sys.argv[1:]:
    path = Path(name)
    print(json.dumps(list(Document(path, ReaderBudget(), path.suffix[1:], {base!r}).rows())))
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"graph.{suffix}" for suffix in DOCUMENTS]
    for path, text in zip(paths, DOCUMENTS.values(), strict=True):
        path.write_text(text)
    return paths


def libraries() -> list[str]:
    """The folders that hold kg_loaders and its libraries."""
    import msgspec
    import numpy
    import pyarrow
    import pyoxigraph

    modules = (kg_loaders, msgspec, numpy, pyarrow, pyoxigraph, rdflib)
    return sorted({str(Path(module.__file__ or "").parents[1]) for module in modules})


def run(setup: str, files: list[Path], hidden: list[str]) -> list[str]:
    """The rows of each file, read by a process whose path `setup` makes."""
    program = setup + READ.format(hidden=hidden, base=E)
    command = [sys.executable, "-I", "-S", "-c", program, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


EXPECTED = [f'[["{E}a", "{E}p", "{E}b"]]'] * len(DOCUMENTS)


def test_everything_is_installed_through_an_import_hook(tmp_path: Path, files: list[Path]) -> None:
    """As `pip install -e` does, and in the folder of a user, which `-I` leaves out."""
    site_packages = tmp_path / "site-packages"
    site_packages.mkdir()
    (site_packages / "hook.py").write_text(HOOK.format(folders=libraries()))
    (site_packages / "hook.pth").write_text("import hook\n")
    for info in Path(rdflib.__file__).parents[1].glob("rdflib-*.dist-info"):
        (site_packages / info.name).symlink_to(info)  # rdflib asks for its own version
    setup = f"import site; site.addsitedir({str(site_packages)!r})\n"
    assert run(setup, files, libraries()) == EXPECTED


def test_kg_loaders_alone_is_found_by_a_hook_of_the_program(files: list[Path]) -> None:
    """A finder that no .pth file brings: the folder of kg_loaders is handed on."""
    library = str(Path(kg_loaders.__file__).parents[1])
    others = [folder for folder in libraries() if folder != library]
    if not others:
        pytest.skip("kept is in the same folder as its libraries here: there is nothing to hide")
    setup = f"import sys; sys.path += {others!r}\n" + HOOK.format(folders=[library])
    assert run(setup, files, [library]) == EXPECTED


def test_a_folder_of_pth_files_and_one_of_links(tmp_path: Path, files: list[Path]) -> None:
    """A .pth file may name a folder, and a package may be a link, as some installers make it."""
    links, site_packages = tmp_path / "links", tmp_path / "site-packages"
    links.mkdir()
    site_packages.mkdir()
    (links / "kg_loaders").symlink_to(Path(kg_loaders.__file__).parent)
    others = [f for f in libraries() if f != str(Path(kg_loaders.__file__).parents[1])]
    folders = [str(links), *others] if others else libraries()
    (site_packages / "more.pth").write_text("\n".join(folders) + "\n")
    setup = f"import site; site.addsitedir({str(site_packages)!r})\n"
    assert run(setup, files, []) == EXPECTED


def test_the_environment_does_not_reach_the_parser(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PYTHONPATH that is set after the start, with a package of the same name in it."""
    (tmp_path / "kg_loaders").mkdir()
    (tmp_path / "kg_loaders" / "__init__.py").write_text("raise SystemExit(3)")
    (tmp_path / "msgspec.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in files:
        assert len(list(Document(path, ReaderBudget(), path.suffix[1:], E).rows())) == 1


def no_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(documents, "PARSER", "kg_loaders.rdf.no_such_module")
    return "No module named 'kg_loaders.rdf.no_such_module'"


def no_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(isolated, "__file__", str(tmp_path / "reading" / "isolated.py"))
    return "can't open file"


def no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    script = tmp_path / "kg_loaders" / "reading" / "isolated.py"
    script.parent.mkdir(parents=True)
    script.write_bytes(Path(isolated.__file__).read_bytes())
    monkeypatch.setattr(isolated, "__file__", str(script))
    return "FileNotFoundError"


def broken_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "msgspec.py").write_text("raise ImportError('half installed')")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "broken"), *sys.path])
    return "half installed"


def no_executable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return "does not start"


@pytest.mark.parametrize("fault", [no_module, no_script, no_package, broken_library, no_executable])
@pytest.mark.parametrize("suffix", DOCUMENTS)
def test_a_fault_of_kepts_own_is_not_the_files(
    fault: object, suffix: str, files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reason = fault(monkeypatch, tmp_path)  # type: ignore[operator]
    path = tmp_path / f"graph.{suffix}"
    with pytest.raises(InternalError) as caught:
        list(Document(path, ReaderBudget(), suffix, E).rows())
    assert reason in str(caught.value)
    assert "hostile" not in str(caught.value)
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["n3", "trix"])
def test_a_library_that_one_format_needs_is_missing(
    suffix: str, files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """rdflib is imported only when a document needs it; its absence is no fault of the document."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "rdflib.py").write_text("raise ImportError('half installed')")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "broken"), *sys.path])
    with pytest.raises(InternalError, match=r"not in the file.*half installed"):
        list(Document(tmp_path / f"graph.{suffix}", ReaderBudget(), suffix, E).rows())


def test_the_command_ends_with_the_code_of_faults(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever is done with damaged lines: a fault of ours is never skipped."""
    reason = no_module(monkeypatch, tmp_path)
    line = ["kg", "build", str(files[0]), "--damage", "skip", "-o", os.fspath(tmp_path / "kg")]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 70
    assert reason in result.output
    assert "a fault in kept, not in the file" in " ".join(result.output.split())
    assert not (tmp_path / "kg").exists()


def test_the_parser_starts_without_numpy() -> None:
    """The start of this process is what a small file waits for, and numpy would double it."""
    code = "import kg_loaders.rdf.document_parser, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
