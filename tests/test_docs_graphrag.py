"""The page on extracted graphs: its commands, on the files of the tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/how-to/graphrag.md").read_text(encoding="utf-8")
CORPUS = ROOT / "tests" / "fuzz" / "corpus"


def test_the_commands_run_and_say_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, source in (
        ("graph_chunk_entity_relation.graphml", "graphml/lightrag.graphml"),
        ("property_graph_store.json", "llamaindex/property_graph_store.json"),
        ("graph_store.json", "llamaindex/graph_store.json"),
    ):
        (tmp_path / name).write_bytes((CORPUS / source).read_bytes())
    (tmp_path / "gold.tsv").write_text("Padre\tWORKS_IN\tLyon\nPadre\tOWNS\tLyon\n")
    (tmp_path / "notes.txt").write_text("Padre bakes in Lyon.\n")
    blocks = re.findall(r"```\n(kept .*?)```", PAGE, re.DOTALL)
    commands = re.findall(r"`(kept (?:audit|link notes|kg check|kg export)[^`]*)`", PAGE)
    assert (len(blocks), len(commands)) == (4, 5)
    for command in [*"".join(blocks).splitlines(), *commands]:
        if "--decisions" in command:
            pairs = (tmp_path / "pairs.jsonl").read_text(encoding="utf-8")
            assert pairs in PAGE
            (tmp_path / "pairs.jsonl").write_text(pairs.replace("null", "true", 1))
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        found_a_leak = 1 if command.startswith("kept audit") else 0
        assert done.exit_code == found_a_leak, f"{command}\n{done.output}"
        if found_a_leak:
            assert "| triple-in-graph | gold | 2 | 1 | 50.00% |" in done.output
    facts = (tmp_path / "facts.tsv").read_text(encoding="utf-8")
    assert '"LYON"' not in facts
    assert "Padre\tWORKS_IN\tLyon\n" in facts
