"""Every `kept pretrain` and `kept finetune` of the pages is a configuration that can be run."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, Never

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.training import finetune_run, pretrain_run
from kg_loaders import KnowledgeGraph

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WHOLE = re.compile(r"kept (?:pretrain|finetune) --[^`…\n]* -o [\w./-]+")


def commands(page: Path) -> list[str]:
    """Those that end with their folder; a line may go on after a backslash."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    return WHOLE.findall(text)


COMMANDS = [(page.name, command) for page in PAGES for command in commands(page)]


class ReadError(Exception):
    """The configuration was read."""


def stop(*_: Any, **__: Any) -> Never:
    raise ReadError


def test_enough_was_found() -> None:
    assert len(COMMANDS) >= 9
    assert {"commands.md", "results.md"} <= {name for name, _ in COMMANDS}


FOLDERS = ("--kg", "--model", "--adapter")
FILES = ("--text", "--train", "--dev", "--test", "--treebank")


def inputs(command: str) -> list[tuple[str, str]]:
    """The paths that a command reads, each with its option."""
    return [(v, k) for k, v in pairwise(shlex.split(command)) if k in (*FOLDERS, *FILES)]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_the_configuration_is_whole(
    page: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    small_graph: KnowledgeGraph,
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (pretrain_run, finetune_run):
        monkeypatch.setattr(module, "assemble", stop)
    for name, option in inputs(command):
        if option == "--kg":
            small_graph.save(name)
        elif option in FOLDERS:
            Path(name).mkdir(parents=True, exist_ok=True)
        else:
            Path(name).touch()
    result = CliRunner().invoke(app, ["--debug", *shlex.split(command)[1:]])
    assert isinstance(result.exception, ReadError), f"{page}: {command}\n{result.output}"
