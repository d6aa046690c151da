"""What every command that writes has in common: nothing replaced unasked, one writer at a time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from entity_linking import DictionaryLinker, write_jsonl
from kept.apps.cli import app
from kg_loaders import KnowledgeGraph

FILES = {
    "export": "kg export KG -o OUT.tsv",
    "show": "show Paris --kg KG --tokenizer HOST -o OUT.html",
    "link": "link NOTES --kg KG -o OUT.jsonl",
    "corrupt": "link corrupt LINKS -o OUT.jsonl --drop 1",
    "audit": "audit --triples train=CLEAN --triples test=CLEAN -o OUT.md",
    "quarantine": "kg build TRIPLES --quarantine OUT.bad -o NEW",
}
FOLDERS = {
    "build": "kg build CLEAN -o OUT",
    "index": "link index KG -o OUT",
    "extend": "extend HOST --kg KG -o OUT",
    "kgc": "kgc train KG -o OUT --epochs 1 --width 4",
    "pretrain": "pretrain --kg KG --host HOST --text NOTES --method colake --batch-size 2 "
    "--steps 1 -o OUT",
    "finetune": "finetune --task relation --format wiki80 --train NOTES --kg KG --host HOST "
    "--method kbert --batch-size 2 --steps 1 -o OUT",
}
WITHOUT_FORCE = {
    "demo": "goes on with its folder",
    "compare": "goes on with its folder",
    "fit": "goes on with its folder",
    "reading": "goes on with its folder",
    "pretrain": "goes on with --resume",
    "finetune": "goes on with --resume",
    "train": "kept vectors: goes on with --resume",
}


@pytest.fixture
def paths(tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: object) -> dict[str, Path]:
    """Inputs by the words that stand for them."""
    small_graph.save(tmp_path / "kg")
    (tmp_path / "t.tsv").write_text("Q90\tP36\tQ142\nbroken\nQ2\tP1\tQ3\n" * 2)
    (tmp_path / "clean.tsv").write_text("Q90\tP36\tQ142\n")
    (tmp_path / "notes.txt").write_text("In Paris.\n")
    write_jsonl(DictionaryLinker(small_graph).link(["In Paris."]), tmp_path / "links.jsonl")
    tokenizer.save_pretrained(tmp_path / "host")  # type: ignore[attr-defined]
    return {
        "KG": tmp_path / "kg", "TRIPLES": tmp_path / "t.tsv", "NOTES": tmp_path / "notes.txt",
        "CLEAN": tmp_path / "clean.tsv",
        "LINKS": tmp_path / "links.jsonl", "HOST": tmp_path / "host",
        "OUT": tmp_path / "out", "NEW": tmp_path / "new",
    }  # fmt: skip


def run(line: str, paths: dict[str, Path], *flags: str) -> Result:
    words = [re.sub("|".join(paths), lambda m: str(paths[m[0]]), word) for word in line.split()]
    return CliRunner().invoke(app, [*words, *flags], env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_others_is_replaced_with_force_alone(name: str, paths: dict[str, Path]) -> None:
    line = FILES[name]
    out = paths["OUT"].with_suffix("." + line.split("OUT.")[1].split()[0])
    out.write_text("mine")
    refused = run(line, paths)
    assert refused.exit_code == 1, refused.output
    assert "exists; choose another name, or replace it with --force" in refused.stderr
    assert out.read_text() == "mine"
    assert run(line, paths, "--force").exit_code in (0, 1)
    assert "mine" not in out.read_text()
    assert not any(path.name.startswith(".") for path in out.parent.iterdir())


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_others_is_never_replaced(name: str, paths: dict[str, Path]) -> None:
    paths["OUT"].mkdir()
    (paths["OUT"] / "config.json").write_text("mine")
    for flags in ((), ("--force",)):
        refused = run(FOLDERS[name], paths, *flags)
        assert refused.exit_code == (2 if flags and name in WITHOUT_FORCE else 1), refused.output
        if refused.exit_code == 1:
            assert re.search("exists and is no |holds 'config.json' and no run", refused.stderr)
        assert os.listdir(paths["OUT"]) == ["config.json"]
        assert (paths["OUT"] / "config.json").read_text() == "mine"


def test_every_command_with_an_output_can_be_forced() -> None:
    """Or goes on with what it finds, and says so."""

    def walk(command: object, name: str) -> list[str]:
        inner = getattr(command, "commands", {})
        if inner:
            return [each for key, sub in inner.items() for each in walk(sub, key)]
        options = {option for p in command.params for option in p.opts}  # type: ignore[attr-defined]
        return [name] if {"--output", "--out"} & options and "--force" not in options else []

    assert sorted(walk(get_command(app), "kept")) == sorted(WITHOUT_FORCE)


def test_a_page_of_ones_own_is_drawn_anew(paths: dict[str, Path]) -> None:
    for suffix in ("html", "svg"):
        line = FILES["show"].replace("html", suffix)
        assert run(line, paths).exit_code == 0
        again = run(line, paths)
        assert again.exit_code == 0, again.output


WAITING = """
import sys, time
from pathlib import Path
from kept.apps.cli import app
import kg_loaders.build
Path(sys.argv[1]).touch()
while not Path("go").exists():
    time.sleep(0.001)
app(["kg", "build", "t.tsv", "--damage", "skip", "-o", "kg"])
"""


def test_of_two_builds_into_one_new_folder_one_is_told(tmp_path: Path) -> None:
    """Both once ended well, and one graph was gone."""
    rows = "".join(f"a{i}\tr\tb{i}\n" for i in range(20000))
    (tmp_path / "t.tsv").write_text(rows)
    builds = [
        subprocess.Popen(
            [sys.executable, "-c", WAITING, name], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
            stdout=subprocess.DEVNULL,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    while not all((tmp_path / name).exists() for name in ("one", "two")):
        time.sleep(0.05)
    (tmp_path / "go").touch()
    errors = [build.communicate()[1] for build in builds]
    assert sorted(build.returncode for build in builds) == [0, 1], errors
    assert any("exists;" in text or "is being written by another" in text for text in errors)
    assert sorted(os.listdir(tmp_path)) == ["go", "kg", "one", "t.tsv", "two"]
    assert KnowledgeGraph.open(tmp_path / "kg", verify=True).n_triples == 20000


@pytest.mark.parametrize("key", ["labels", "sources"])
def test_a_build_keeps_its_sources(tmp_path: Path, key: str) -> None:
    """A source inside of the graph that would be replaced goes with the graph."""
    (tmp_path / "t.tsv").write_text("a\tr\tb\n")
    build: Callable[..., Result] = lambda *flags: CliRunner().invoke(  # noqa: E731
        app, ["kg", "build", *map(str, flags), "-o", str(tmp_path / "kg"), "--force"]
    )
    assert build(tmp_path / "t.tsv").exit_code == 0
    inside = tmp_path / "kg" / "more.tsv"
    inside.write_text("a\tb\n" if key == "labels" else "a\tr\tc\n")
    flags = [tmp_path / "t.tsv", "--labels", inside] if key == "labels" else [inside]
    refused = build(*flags)
    assert refused.exit_code == 1
    assert "holds the input" in refused.stderr
    assert inside.exists()
    assert json.loads((tmp_path / "kg" / "manifest.json").read_text())
