"""`kept vectors train`: every model learns, resumes to the same bits and is a provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from entity_linking import write_jsonl
from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText
from kept.apps.cli import app
from kept.batches import N_SPECIAL_ROWS
from kept.errors import CheckpointError, ConfigError, TrainingError
from kept.joint.assembly import MODELS, Assembled, JointConfig
from kept.joint.training import train
from kept.kge.vectors import entity_vectors
from kept.vectors import Wikipedia2VecFile
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

CITIES = ["Paris", "Lyon", "Bonn", "Kiel"]
LANDS = {"Paris": "France", "Lyon": "France", "Bonn": "Germany", "Kiel": "Germany"}
SMALL = ("--width", 8, "--epochs", 3, "--min-count", 1, "--set", "min_tokens=2")


def kept(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with labels and descriptions, and linked sentences."""
    folder = tmp_path_factory.mktemp("world")
    records: list[Any] = [Triple(city, "in", land) for city, land in LANDS.items()]
    for name in [*CITIES, "France", "Germany"]:
        records.append(Text(name, TextKind.LABEL, name, "en"))
        description = f"{name} lies in {LANDS.get(name, 'Europe')}"
        records.append(Text(name, TextKind.DESCRIPTION, description, "en"))
    graph_from_records(records).save(folder / "kg")
    texts = []
    for i in range(40):
        city = CITIES[i % 4]
        text = f"the city of {city} lies in {LANDS[city]}"
        at = len("the city of ")
        links = (
            gold_link(at, at + len(city), city),
            gold_link(text.index(LANDS[city]), len(text), LANDS[city]),
        )
        texts.append(LinkedText(text, links))
    write_jsonl(texts, folder / "text.jsonl")
    return folder


def assembled(world: Path, model: str, **changes: Any) -> Assembled:
    config = JointConfig(
        model=model, kg=world / "kg", text=(world / "text.jsonl",), width=8, epochs=3,  # type: ignore[arg-type]
        min_word_count=1, min_tokens=2, **changes,
    )  # fmt: skip
    return Assembled(config)


def of_steps(
    assembled_: Assembled, folder: Path, *, resume: bool = False, stop_after: int = 10**9
) -> Any:
    folder.mkdir(exist_ok=True)
    seen: list[int] = []
    return train(
        assembled_.space, folder, epochs=3, fingerprint=assembled_.fingerprint, resume=resume,
        checkpoint_seconds=0.0, should_stop=lambda: len(seen) >= stop_after,
        on_step=lambda step, loss: seen.append(step),
    )  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_a_cut_training_ends_with_the_same_bits(model: str, world: Path, tmp_path: Path) -> None:
    options = {"triples_per_step": 2} if model == "xu2017" else {"pages_per_step": 16}
    whole = assembled(world, model, options=options)
    run = of_steps(whole, tmp_path / "whole")
    assert run.losses[-1] < run.losses[0]
    first = assembled(world, model, options=options)
    cut = of_steps(first, tmp_path / "cut", stop_after=whole.space.n_steps + 1)
    assert cut.step == whole.space.n_steps + 1
    second = assembled(world, model, options=options)
    again = of_steps(second, tmp_path / "cut", resume=True)
    assert (again.step, again.losses) == (run.step, run.losses)
    for one, other in zip(whole.vectors(), second.vectors(), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
    other = assembled(world, model, options=options, seed=1)
    with pytest.raises(CheckpointError, match="of another training"):
        of_steps(other, tmp_path / "cut", resume=True)


@pytest.mark.parametrize("model", MODELS)
def test_the_files_are_a_provider(model: str, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = kept("vectors", "train", "--kg", world / "kg", "--text", world / "text.jsonl",
                "--model", model, *SMALL, "-o", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "pass 3: mean loss" in done.output
    graph = KnowledgeGraph.open(world / "kg")
    file = Wikipedia2VecFile(out / "vectors.txt")
    vectors = file(graph)
    assert vectors.known.all()
    assert set(file.words(["city", "lies", "nowhere"])) == {"city", "lies"}
    rows = entity_vectors(graph, width=8, seed=0, path=out / "vectors.txt")
    mean = vectors.vectors.norm(dim=1).mean()
    assert torch.allclose(rows[N_SPECIAL_ROWS:], vectors.vectors / mean)
    assert (out / "scorer").exists() == (model != "wikipedia2vec")
    if model != "wikipedia2vec":
        scored = entity_vectors(graph, width=8, seed=0, path=out / "scorer")
        assert torch.allclose(scored, rows, atol=1e-6)
    refused = kept("vectors", "train", "--kg", world / "kg", "-o", out)
    assert refused.exit_code == 1
    assert "continue it with --resume" in refused.stderr
    before = (out / "vectors.txt").read_bytes()
    again = kept("vectors", "train", "-o", out, "--resume")
    assert again.exit_code == 0, again.output
    assert (out / "vectors.txt").read_bytes() == before


def test_what_is_held_out_is_scored_by_kgc(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = kept("vectors", "train", "--kg", world / "kg", "--text", world / "text.jsonl",
                "--model", "wang2014", *SMALL, "--holdout", 0.25, "-o", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    evaluation = kept("kgc", "eval", world / "kg", "-m", out / "scorer", "--json", "--pooled")
    assert evaluation.exit_code == 0, evaluation.output
    assert json.loads(evaluation.stdout)["n_scored"] == 2


def test_attention_reads_for_relations_and_leaves_no_scorer(world: Path, tmp_path: Path) -> None:
    assembled_ = assembled(world, "xu2017", options={"encoder": "alstm"})
    of_steps(assembled_, tmp_path / "run")
    assert assembled_.write(tmp_path / "run", []) == [tmp_path / "run/vectors.txt"]


def test_faults_are_told(world: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="wang2014 has no option 'windows'"):
        assembled(world, "wang2014", options={"windows": 3})
    with pytest.raises(ConfigError, match="no text to learn from"):
        Assembled(JointConfig(kg=world / "kg"))
    graph_from_records([Text("a", TextKind.LABEL, "a", "en")]).save(tmp_path / "kg")
    with pytest.raises(ConfigError, match="has no triple"):
        Assembled(JointConfig(model="xu2017", kg=tmp_path / "kg"))
    refused = kept("vectors", "train", "--kg", world / "kg", "--width", 7, "-o", tmp_path / "o")
    assert "7 is odd" in refused.stderr
    assembled_ = assembled(world, "wang2014")
    assert not isinstance(assembled_.space, type(None))
    assembled_.space.load({n: t * float("nan") for n, t in assembled_.space.state().items()})
    with pytest.raises(TrainingError, match="lower learning_rate"):
        of_steps(assembled_, tmp_path / "nan")
