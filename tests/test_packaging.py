"""The package's types hold in strict code of users; a release is published without a secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
USER = """
from __future__ import annotations

from pathlib import Path

from kept import (
    AutoEncoder, DictionaryLinker, KnowledgeGraph, LinkedText, atlas, build,
    kg_to_networkx, link, load_tokenizer,
)
from kg_loaders import Source, Triple, graph_from_records, load


def linked(texts: list[str], graph: KnowledgeGraph) -> list[LinkedText]:
    return DictionaryLinker(graph).link(texts)


graph: KnowledgeGraph = KnowledgeGraph.from_triples([("Padre", "works as", "baker")])
facts: list[tuple[str, str, str]] = graph.facts("Padre")
other: KnowledgeGraph = graph_from_records([Triple("a", "r", "b")])
loaded, report = load([Source(Path("x.tsv"), "tsv")], policy="skip")
n: int = loaded.n_triples + report.n_rejected
world: KnowledgeGraph = atlas.graph()
names: list[str] = [link.entity or "" for text in linked(["Paris"], world) for link in text.links]
made = build(linked(["Paris"], world)[0], world, tokenizer=load_tokenizer("minilm"), seed=0)
one: LinkedText = link("Paris", world)
several: list[LinkedText] = link(["Paris"], world)
encoder: AutoEncoder = AutoEncoder.from_pretrained("minilm")
width: int = encoder.encode(["Paris"], kg=world).sentences.shape[1]
n_nodes: int = kg_to_networkx(world).number_of_nodes()
"""


@pytest.mark.slow
def test_strict_code_of_a_user_is_checked_against_our_types(tmp_path: Path) -> None:
    user, wrong = tmp_path / "user.py", tmp_path / "wrong.py"
    user.write_text(USER, encoding="utf-8")
    wrong.write_text("from kept import atlas\nx: int = atlas.graph()\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--strict"]
    done = subprocess.run(
        [*command, str(user), str(wrong)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    errors = [line for line in done.stdout.splitlines() if str(tmp_path.name) in line]
    assert errors, done.stdout
    assert all("wrong.py" in line for line in errors), done.stdout


def test_a_release_is_attested_and_needs_no_token() -> None:
    path = ROOT / ".github" / "workflows" / "release.yml"
    if not path.is_file():
        pytest.skip("the workflow lies in a checkout; these tests run outside of one")
    text = path.read_text(encoding="utf-8")
    workflow: dict[Any, Any] = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert set(jobs) == {"build", "try", "publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "try"
    assert jobs["try"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert "secrets." not in text
    assert "attestations: true" in text
