"""The Python of docs/how-to/probing.md and docs/explanations/controls.md runs on a small world."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder
from tests.kept.tiny_lama import write_lama

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph, tokenizer: Any
) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    small_graph.save(folder / "kg")
    model = KnowledgeForPreTraining.of(method_encoder("kbert", small_graph, tokenizer), {"mlm": {}})
    for name in ("run", "runs/kbert"):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    write_lama(folder / "lama")
    return folder


def run(page: str) -> dict[str, Any]:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    names: dict[str, Any] = {}
    exec(compile(blocks[0], page, "exec"), names)
    return names


def test_a_collection_is_probed(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    names = run("how-to/probing.md")
    assert {row.name: row.n_scored for row in names["rows"]} == {"P17": 4, "P37": 2}
    assert names["result"].mode == "graph"


def test_edits_are_probed(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world)
    names = run("explanations/controls.md")
    assert len(names["edits"]) > 3
    n = len(names["edits"])
    assert f"| edited | {n} | {n} | {n} |" in capsys.readouterr().out
