"""`kept extend` on the command line, and what goes on from what it makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything


def kept(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def runs(tmp_path: Path, small_graph: KnowledgeGraph) -> Path:
    """A pre-trained run, and the graph that has grown since."""
    values = write_everything(tmp_path, small_graph)
    values["training"] |= {"steps": 2}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    kept("pretrain", "-c", tmp_path / "run.yaml", "-o", tmp_path / "run")
    (tmp_path / "new.tsv").write_text("A9\tP36\tQ90\n")
    (tmp_path / "labels.tsv").write_text("A9\tthe old river\n")
    kept("kg", "add", tmp_path / "kg", tmp_path / "new.tsv", "--labels", tmp_path / "labels.tsv",
         "-o", tmp_path / "kg2")  # fmt: skip
    return tmp_path


def test_a_run_follows_and_goes_on(runs: Path) -> None:
    output = kept("extend", runs / "run", "--kg", runs / "kg2", "-o", runs / "run2")
    assert "1 new entities, 0 new relations, 1 more facts" in output
    assert "encoder.entity_embeddings.weight: 10 rows as they were, 1 new (1 from " in output
    grown = KnowledgeGraph.open(runs / "kg2")
    KnowledgeForPreTraining.from_pretrained(runs / "run2", graph=grown)
    encoded = AutoEncoder.from_pretrained(runs / "run2").encode(["The old river."], kg=grown)
    entities = encoded[0].entities
    assert entities is not None
    assert "A9" in entities.names
    refused = kept("pretrain", "-o", runs / "run2", "--resume", code=1)
    assert "has no checkpoint to go on from" in refused
    kept("pretrain", "-c", runs / "run.yaml", "--kg", runs / "kg2", "--set",
         f"start_from={runs / 'run2'}", "-o", runs / "on")  # fmt: skip
    output = kept("extend", runs / "run", "--kg", runs / "kg2", "-o", runs / "run2", "--force",
                "--json", "--start", "names", "--before", runs / "kg")  # fmt: skip
    assert json.loads(output[output.index("{") :])["tables"][0]["starts"] == {"names": 1}


def test_the_old_graph_is_still_asked_for_the_old_run(runs: Path) -> None:
    before = (runs / "run/model.safetensors").read_bytes()
    kept("extend", runs / "run", "--kg", runs / "kg2", "-o", runs / "run2")
    assert (runs / "run/model.safetensors").read_bytes() == before
    AutoEncoder.from_pretrained(runs / "run").encode(["Paris."], kg=runs / "kg")
    refusal = kept("extend", runs / "run2", "--kg", runs / "kg", "-o", runs / "back", code=1)
    assert "lacks entities of the run's graph (A9)" in refusal
