"""The ready weights: trained in small, gone on with, packed, and taken by `kept kgc predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from experiments.ready_weights import __main__ as command
from experiments.ready_weights import ultra
from experiments.ready_weights.ultra import UltraPlan, part_of, train, varied
from kept.apps.cli import app
from kept.kgc.completers.folders import open_completer
from kept.packaged import READY_PACKAGE, ready_weights
from kg_loaders import KnowledgeGraph

FILE = Path(ultra.__file__).with_name("ultra.yaml")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two benchmarks: a ring with chords, and a tree."""
    folder = tmp_path / "data"
    rings = [(f"e{i}", f"r{i % 3}", f"e{(i + s) % 30}") for i in range(30) for s in (1, 7)]
    trees = [(f"t{i}", "parent", f"t{(i - 1) // 2}") for i in range(1, 40)]
    for name, rows in (("ring", rings), ("tree", trees)):
        (folder / name).mkdir(parents=True)
        for split, chosen in (("train", rows[3:]), ("valid", rows[:2]), ("test", rows[1:3])):
            lines = "".join("\t".join(row) + "\n" for row in chosen)
            (folder / name / f"{split}.txt").write_text(lines)
    return folder


@pytest.fixture
def plan() -> UltraPlan:
    values = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return UltraPlan(**values).model_copy(
        update={
            "graphs": {"ring": 2, "tree": 1},
            "n_rounds": 4,
            "n_steps": 2,
            "n_triples": 30,
            "width": 4,
            "batch_size": 4,
            "n_negatives": 3,
            "n_warmup": 2,
        }
    )


def test_a_run_that_was_ended_gives_the_same_weights(
    plan: UltraPlan, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(plan, data, tmp_path / "whole")
    real, rounds = ultra._steps, list[int]()

    def ended(*arguments: Any) -> Any:
        rounds.append(arguments[-1])
        if len(rounds) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(ultra, "_steps", ended)
    with pytest.raises(KeyboardInterrupt):
        train(plan, data, tmp_path / "parts")
    folder = train(plan, data, tmp_path / "parts")
    assert rounds == [0, 1, 2, 2, 3]
    for name in ("model.safetensors", "trained_on.safetensors"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    loaded = open_completer(folder)
    assert loaded.trained_on is not None
    ring = KnowledgeGraph.from_triples([("e3", "r0", "e4"), ("e3", "r0", "new")])
    seen = loaded.trained_on.seen(ring).entities.tolist()
    assert seen == [name != "new" for name in ring.entities]
    assert loaded.described["training"]["graphs"] == ["ring", "tree"]


def test_parts_of_a_graph() -> None:
    draws = np.random.default_rng(0)
    rows = np.stack([draws.integers(0, 80, 400), draws.integers(0, 5, 400),
                     draws.integers(0, 80, 400)], 1)  # fmt: skip
    for number in range(20):
        part = part_of(rows, 60, np.random.default_rng(number))
        assert 0 < len(part) <= 60
        assert sorted(set(part[:, [0, 2]].ravel())) == list(range(part[:, [0, 2]].max() + 1))
        assert sorted(set(part[:, 1])) == list(range(part[:, 1].max() + 1))
        other = varied(part, 0.6, np.random.default_rng(number))
        assert 2 <= len(other) <= len(part)
    assert len(part_of(rows, 400, draws)) == 400
    turned = varied(np.array([[0, 0, 1], [1, 0, 2], [2, 1, 0]]), 0.0, np.random.default_rng(1))
    assert len(turned) == 3


def test_the_committed_plan_names_no_graph_that_it_is_evaluated_on() -> None:
    graphs = UltraPlan(**yaml.safe_load(FILE.read_text(encoding="utf-8"))).graphs
    for held in ("umls", "grail", "fb15k", "wn18"):
        assert not any(held in name for name in graphs)


def test_the_package_is_taken_by_name_and_says_so(
    plan: UltraPlan, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")]).save(
        tmp_path / "kg"
    )
    plain = ["kgc", "predict", "a", "r", "--kg", str(tmp_path / "kg")]
    question = [*plain, "-m", "ready:ultra"]
    assert ready_weights("ultra") is None
    without = CliRunner().invoke(app, question)
    assert without.exit_code == 1
    assert "kept-weights" in without.output
    assert "kept kgc train" in without.output
    weights = train(plan, data, tmp_path / "run")
    command.package(weights, plan, tmp_path / "package")
    text = (tmp_path / "package" / "README.md").read_text(encoding="utf-8")
    for part in ("Apache-2.0", "MIT", "CPU-seconds", "ring, tree", "SHA-256"):
        assert part in text
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    assert ready_weights("ultra") == tmp_path / "package" / READY_PACKAGE / "ultra"
    assert READY_PACKAGE not in sys.modules
    assert ready_weights("other") is None
    result = CliRunner().invoke(app, question)
    assert result.exit_code == 0, result.output
    assert "by ready weights in" in result.output.replace("\n", " ")
    rows = json.loads(CliRunner().invoke(app, [*question, "--json"]).output)
    known = {row["id"]: row["known"] for row in rows}
    assert known["b"], "all triples of a graph are read, none is held out"
    evaluated = CliRunner().invoke(app, ["kgc", "eval", str(data / "ring"), "-m", "ready:ultra"])
    assert evaluated.exit_code == 0, evaluated.output


def test_a_tagger_is_taken_by_name(
    plan: UltraPlan, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from entity_linking.errors import LinkingError
    from kept.linking.tagging import tagger_folder

    assert tagger_folder("runs/names") == "runs/names"
    with pytest.raises(LinkingError, match="ready:names: kept-weights is not installed"):
        tagger_folder("ready:names")
    names = tmp_path / "names"
    names.mkdir()
    (names / "manifest.json").write_text("{}")
    weights = train(plan, data, tmp_path / "run")
    command.package(weights, plan, tmp_path / "package", names=names)
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    folder = Path(tagger_folder("ready:names"))
    assert folder == tmp_path / "package" / READY_PACKAGE / "names"
    assert (folder / "manifest.json").read_text() == "{}"


def test_spans_and_links_are_scored(tmp_path: Path) -> None:
    from experiments.ready_weights.names import marked_texts, scores

    (tmp_path / "el").mkdir()
    rows = [
        {"span": [4, 9], "entity_id": "Q1471"}, {"span": [18, 23], "entity_id": "Q90"},
        {"span": [0, 3], "entity_id": "Q0"},
    ]  # fmt: skip
    row = {"text": "The Seine reaches Paris.", "labels": rows}
    (tmp_path / "el" / "tiny.benchmark.jsonl").write_text(json.dumps(row) + "\n")
    labels = {"Q1471": "Seine", "Q90": "Paris"}
    graph = KnowledgeGraph.from_triples([("Q1471", "P", "Q90")], labels)
    texts = list(marked_texts(tmp_path, "tiny"))
    assert scores(graph, texts, None) == {"spans": 0.8, "links": 1.0}


def test_a_damaged_package_is_refused(
    plan: UltraPlan, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KnowledgeGraph.from_triples([("a", "r", "b")]).save(tmp_path / "kg")
    weights = train(plan, data, tmp_path / "run")
    command.package(weights, plan, tmp_path / "package")
    file = tmp_path / "package" / READY_PACKAGE / "ultra" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\1\2\3\4")
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    done = CliRunner().invoke(
        app, ["kgc", "predict", "a", "r", "--kg", str(tmp_path / "kg"), "-m", "ready:ultra"]
    )
    assert done.exit_code == 1
    assert "model.safetensors" in done.output.replace("\n", "")
