"""A method that would read the graph and gets nothing from it stops, and says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from kept.apps.cli import app
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.training.tiny_pretraining import write_everything

READING = [name for name, line in METHODS.items() if line.view.reads_graph]
OPTIONS = {"ernie": {"vector_epochs": 1, "entity_width": 8}, "knowbert": {"vector_epochs": 1}}


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)])


def message_of(result: Result) -> str:
    assert result.exit_code == 1, result.output
    return " ".join(result.stderr.split())


def triples(graph: KnowledgeGraph) -> list[Triple]:
    names, relations = list(graph.entities), list(graph.relations)
    return [Triple(names[h], relations[r], names[t]) for h, r, t in graph.triples.tolist()]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """Files of a task; graphs of the same and of other ids, with and without names and facts."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "pretrain.yaml").write_text(yaml.safe_dump(write_everything(folder, small_graph)))
    ids = list(small_graph.entities)
    descriptions = [Text(name, TextKind.DESCRIPTION, "a thing", "en") for name in ids]
    nameless = graph_from_records([*triples(small_graph), *descriptions])
    assert nameless.id_space_hash == small_graph.id_space_hash
    assert nameless.content_hash != small_graph.content_hash
    nameless.save(folder / "nameless")
    types = [Text(name, TextKind.TYPE, "thing", "en") for name in ids]
    graph_from_records([*triples(small_graph), *types]).save(folder / "untold")
    names = [Text(n, TextKind.LABEL, small_graph.label(i), "en") for i, n in enumerate(ids)]
    graph_from_records([*names, Triple("Q830149", "P1", "Q830149")]).save(folder / "factless")
    graph_from_records([Triple("x", "r", "y")]).save(folder / "other")
    for name, n_linked in (("texts", 8), ("rare", 2)):
        lines = [
            f"{i % 2}\t{'Paris' if i < n_linked else 'the river'} is old {i}" for i in range(40)
        ]
        (folder / f"{name}.tsv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "unlinked.tsv").write_text("0\tthe old people\n1\tthe capital\n", encoding="utf-8")
    places = {"h": {"id": "Q90", "pos": [0, 1]}, "t": {"id": "Q64", "pos": [2, 3]}}
    rows = [
        {"token": ["Paris", "is", "Berlin", str(i)], **places, "relation": "ab"[i % 2]}
        for i in range(8)
    ]
    (folder / "pairs.txt").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def finetune(world: Path, out: Path, method: str, *flags: object, kg: str | Path = "kg") -> Result:
    options = json.dumps(OPTIONS.get(method, {}))
    return kept(
        "finetune", "--method", method, "--host", world / "host", "--kg", world / kg, "--steps", 1,
        "--batch-size", 4, "--threads", 1, "--set", "training.device=cpu", "--set",
        f"options={options}", "-o", out, *flags,
    )  # fmt: skip


def texts(world: Path, name: str = "texts") -> list[object]:
    return ["--task", "classification", "--format", "tsv", "--train", world / f"{name}.tsv",
            "--set", "dev_share=0.4"]  # fmt: skip


def pairs(world: Path) -> list[object]:
    """Texts that bring their links."""
    return ["--task", "relation", "--format", "wiki80", "--train", world / "pairs.txt", "--dev",
            world / "pairs.txt", "--set", "keep_repeats=true"]  # fmt: skip


@pytest.mark.parametrize("method", READING)
def test_texts_without_a_link_are_refused(method: str, world: Path, tmp_path: Path) -> None:
    error = message_of(finetune(world, tmp_path / "run", method, *texts(world)))
    assert "is shown to the model in train" in error
    assert "link them by the graph's names (--link" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", READING)
def test_links_into_another_graph_are_refused(method: str, world: Path, tmp_path: Path) -> None:
    error = message_of(finetune(world, tmp_path / "run", method, *pairs(world), kg="other"))
    assert "such as 'Q90', is to an entity of the graph, such as 'x'" in error


@pytest.mark.parametrize("method", [name for name in READING if METHODS[name].reads_facts])
def test_entities_without_facts_are_refused(method: str, world: Path, tmp_path: Path) -> None:
    error = message_of(finetune(world, tmp_path / "run", method, *pairs(world), kg="factless"))
    assert "give a graph with facts about these entities" in error


def test_a_method_of_names_needs_no_facts(world: Path, tmp_path: Path) -> None:
    """E-BERT's labels are vectors without a triple, and shuffling triples would change nothing."""
    assert not METHODS["ebert"].reads_facts
    done = finetune(world, tmp_path / "run", "ebert", *pairs(world), kg="factless")
    assert done.exit_code == 0, done.output
    error = message_of(
        finetune(world, tmp_path / "s", "ebert", *pairs(world), "--knowledge", "shuffled")
    )
    assert "changes nothing in the first examples" in error
    for knowledge in ("random-entity", "random-tokens"):
        flags = (*pairs(world), "--knowledge", knowledge)
        done = finetune(world, tmp_path / knowledge, "ebert", *flags)
        assert done.exit_code == 0, done.output


def test_the_same_ids_without_names(world: Path, tmp_path: Path) -> None:
    """Nothing to find in a text; and where links are given, K-BERT would write Q142 into it."""
    for method in READING:
        error = message_of(
            finetune(world, tmp_path / method, method, *texts(world), "--link", kg="nameless")
        )
        assert "no entity of the graph has a name" in error
        assert "kg build … --labels FILE" in error
    error = message_of(finetune(world, tmp_path / "pairs", "kbert", *pairs(world), kg="nameless"))
    assert "facts are written as words" in error
    assert "--labels FILE" in error
    colake = finetune(world, tmp_path / "colake", "colake", *pairs(world), kg="nameless")
    assert colake.exit_code == 0, colake.output  # it reads neighbours by their ids


def test_a_graph_without_names_is_linked_by_its_identifiers(world: Path, tmp_path: Path) -> None:
    graph_from_records([Triple("Paris", "lies_in", "France")]).save(tmp_path / "kg")
    done = finetune(world, tmp_path / "run", "colake", *texts(world), "--link", kg=tmp_path / "kg")
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["coverage"]["train"]["shares"]["link"] > 0
    assert metrics["coverage"]["train"]["shares"]["read"] > 0


def test_a_model_trained_with_names_is_refused_the_graph_without(
    world: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    assert finetune(world, first, "kbert", *pairs(world)).exit_code == 0
    flags = ("finetune", "--model", first, "--kg", world / "nameless", "--steps", 1)
    error = message_of(kept(*flags, "--batch-size", 4, "-o", tmp_path / "second", *pairs(world)))
    assert "about an entity with a name" in error


@pytest.mark.parametrize(("name", "by"), [("kepler", "--model"), ("kadapter", "--adapter")])
def test_a_method_that_was_not_pre_trained_is_refused(
    name: str, by: str, world: Path, tmp_path: Path
) -> None:
    for knowledge in ("true", "shuffled"):
        flags = ("--link", "--knowledge", knowledge)
        error = message_of(finetune(world, tmp_path / knowledge, name, *texts(world), *flags))
        assert f"kept pretrain --method {name}" in error
        assert by in error
        assert "--knowledge off" in error
    off = finetune(world, tmp_path / "off", name, *texts(world), "--link", "--knowledge", "off")
    assert off.exit_code == 0, off.output
    assert "knowledge off: the model gets words alone" in off.stdout


@pytest.mark.parametrize("method", READING)
def test_a_control_without_knowledge_is_what_it_should_be(
    method: str, world: Path, tmp_path: Path
) -> None:
    off = finetune(world, tmp_path, method, *texts(world), "--knowledge", "off")
    assert off.exit_code == 0, off.output
    assert "warning" not in off.stderr
    assert (
        "knowledge off, the model gets facts or entities of the graph in 0.0% of the texts"
        in off.stdout
    )
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["coverage"]["train"]["shares"] == {
        "link": 0.0, "fact": 0.0, "both_facts": None, "read": 0.0,
    }  # fmt: skip


def test_a_low_share_warns_and_stands_in_the_metrics(world: Path, tmp_path: Path) -> None:
    flags = ("--link", "--set", "leave_out=[]", "--dev", world / "texts.tsv")
    task = [*texts(world, "rare")[:-2], "--set", "keep_repeats=true"]
    done = finetune(world, tmp_path, "kbert", *task, *flags)
    assert done.exit_code == 0, done.output
    stderr = " ".join(done.stderr.split())
    assert "train: link 5.0%, fact 5.0%, shown 5.0% of 40 texts" in stderr
    assert (
        "warning: train: the model gets facts or entities of the graph in 5.0% of the samples"
        in stderr
    )
    assert "warning: dev" not in stderr  # 20 % of it
    assert (
        "knowledge true, the model gets facts or entities of the graph in 20.0% of the texts"
        in done.stdout
    )
    metrics: dict[str, Any] = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["coverage"]["train"]["read"] == 2
    assert metrics["dev"]["coverage"]["shares"]["read"] == 0.2


def test_an_asked_set_that_gets_nothing_is_named(world: Path, tmp_path: Path) -> None:
    flags = ("--link", "--dev", world / "unlinked.tsv")
    error = message_of(finetune(world, tmp_path, "kbert", *texts(world)[:-2], *flags))
    assert (
        "is shown to the model in dev (2 texts): none of the names of 10 entities is in a text"
        in error
    )


def test_links_that_are_spoilt_on_purpose_are_no_fault(world: Path, tmp_path: Path) -> None:
    flags = ("--set", "link_errors={kind: drop, share: 1.0, sets: all}")
    done = finetune(world, tmp_path, "kbert", *pairs(world), *flags)
    assert done.exit_code == 0, done.output
    assert "of the graph in 0.0% of the texts" in done.stdout
    assert "warning: train" in done.stderr


def test_mentions_without_ids_are_linked(world: Path, tmp_path: Path) -> None:
    rows = [
        {"token": ["Paris", "is", "Berlin", str(i)], "relation": "ab"[i % 2],
         "h": {"pos": [0, 1]}, "t": {"pos": [2, 3]}}
        for i in range(8)
    ]  # fmt: skip
    path = tmp_path / "rows.txt"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    files = ("--task", "relation", "--format", "wiki80", "--train", path, "--dev", path,
             "--set", "keep_repeats=true")  # fmt: skip
    done = finetune(world, tmp_path / "run", "colake", *files, "--link")
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["links_in_kg"] == {"links": 16, "inside": 16}


def test_the_effect_of_case_is_forecast(world: Path, tmp_path: Path) -> None:
    lines = [f"{i % 2}\t{'PARIS' if i < 2 else 'paris'} is old {i}" for i in range(20)]
    path = tmp_path / "small.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")
    files = ["--task", "classification", "--format", "tsv", "--train", path]
    dev = ["--dev", path, "--set", "keep_repeats=true"]
    done = finetune(world, tmp_path / "a", "kbert", *files, *dev, "--link")
    assert "20 of 20 training texts link without case, 2 with it" in " ".join(done.output.split())
    done = finetune(world, tmp_path / "b", "kbert", *files, *dev, "--link", "--case", "insensitive")
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "b/metrics.json").read_text())
    assert metrics["coverage"]["train"]["with_link"] == 20
    path.write_text("\n".join(lines[2:]), encoding="utf-8")
    error = message_of(finetune(world, tmp_path / "c", "kbert", *files, *dev, "--link"))
    assert "18 of 18 texts link without case (--case insensitive" in error
    error = finetune(world, tmp_path / "d", "kbert", *files, *dev, "--link", "--case", "none")
    assert error.exit_code != 0


# ---- pre-training --------------------------------------------------------------------------------
def pretrain(world: Path, out: Path, method: str, *flags: object) -> Result:
    options = json.dumps(OPTIONS.get(method, {}))
    return kept("pretrain", "-c", world / "pretrain.yaml", "--method", method, "--steps", 1,
                "--set", f"options={options}", "-o", out, *flags)  # fmt: skip


def test_pre_training_by_texts_needs_texts_of_entities(world: Path, tmp_path: Path) -> None:
    error = message_of(pretrain(world, tmp_path / "a", "kepler", "--kg", world / "untold"))
    assert "objective ke gets nothing" in error
    assert "--descriptions FILE" in error
    described = pretrain(world, tmp_path / "b", "kepler", "--kg", world / "nameless")
    assert described.exit_code == 0, described.output
    coverage = json.loads((tmp_path / "b/coverage.json").read_text())
    assert coverage["objectives"] == {"ke": 1.0}
    assert coverage["shares"]["read"] is None


def test_pre_training_by_pairs_needs_joined_pairs(world: Path, tmp_path: Path) -> None:
    lone = {"text": "Paris is old", "mentions": [{"start": 0, "end": 5, "entity": "Q90"}]}
    (tmp_path / "lone.jsonl").write_text(f"{json.dumps(lone)}\n" * 20, encoding="utf-8")
    flags = ("--text", tmp_path / "lone.jsonl")
    error = message_of(pretrain(world, tmp_path / "a", "kadapter", *flags))
    assert "objective relation_pairs gets nothing" in error
    assert "two entities that a triple of the graph joins" in error
    whole = pretrain(world, tmp_path / "b", "kadapter")
    assert whole.exit_code == 0, whole.output
    shares = json.loads((tmp_path / "b/coverage.json").read_text())["objectives"]
    assert shares == {"relation_pairs": 0.5}  # 4 of the 8 sentences
    pair = [{"start": 0, "end": 5, "entity": "Q90"}, {"start": 6, "end": 12, "entity": "Q142"}]
    with (tmp_path / "lone.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": "Paris France", "mentions": pair}) + "\n")
    few = pretrain(world, tmp_path / "c", "kadapter", *flags)
    assert few.exit_code == 0, few.output
    assert "relation_pairs learns from 4.8%" in few.stderr


@pytest.mark.parametrize(("method", "kg"), [("kbert", "nameless"), ("ernie", "factless")])
def test_pre_training_by_links_needs_what_the_view_shows(
    method: str, kg: str, world: Path, tmp_path: Path
) -> None:
    error = message_of(pretrain(world, tmp_path, method, "--kg", world / kg))
    assert "is shown to the model in the texts (24 texts)" in error
