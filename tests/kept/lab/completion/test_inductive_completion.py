"""The committed configurations load, and every method runs two epochs on hand-made data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from experiments.inductive_completion import trial as script
from experiments.inductive_completion.tables import to_markdown
from kept.encoders.kepler import KEPLER
from kept.errors import ConfigError
from kept.hosts import load_host, load_tokenizer
from kept.kgc.completers.texts.kepler import open_kepler_run
from kept.kgc.description_links import description_scores
from kept.kgc.kepler_entities import encoded_texts, train_kepler
from kept.kge.inductive import InductiveSplit
from kept.kge.ultra.networks import make_ultra
from kept.lab.completion.inductive import run_method
from kept.lab.completion.inductive_config import (
    DegreeMethod,
    DKRLMethod,
    GraphMethod,
    InductiveConfig,
    KeplerMethod,
    SampledConfig,
    UltraMethod,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.datasets.inductive import VERSIONS, training_graph
from kept.training.config import TrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.lab.completion.inductive_toy import toy_split

FOLDER = Path(__file__).parents[4] / "experiments" / "inductive_completion"
PLANS = sorted(FOLDER.glob("*.yaml"))


def test_there_are_three_plans():
    assert [path.stem for path in PLANS] == ["codex", "grail", "ultra"]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_loads_and_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    plan = InductiveConfig.read(path)
    assert set(plan.splits) <= {*VERSIONS, script.CODEX}
    assert {name for pair in plan.pairs for name in pair} <= set(plan.methods)
    methods = {}
    for name, method in plan.methods.items():
        if isinstance(method, DKRLMethod | KeplerMethod) or getattr(method, "text_from", None):
            continue  # need a host; below
        if isinstance(method, GraphMethod):
            training = method.training | {"n_epochs": 2, "batch_size": 30, "validate_every": 1}
            method = method.model_copy(update={"training": training, "width": 8})
        if isinstance(method, UltraMethod):
            training = method.training and method.training | {"n_epochs": 1}
            method = method.model_copy(update={"training": training, "width": 4, "n_layers": 1})
        methods[name] = method
    for path in (getattr(method, "weights", None) for method in methods.values()):
        if path is not None:
            (tmp_path / path).parent.mkdir()
            save_file(make_ultra(width=4, n_layers=1).state_dict(), tmp_path / path)
    monkeypatch.setenv("KEPT_DATA", str(tmp_path))
    small = {"methods": methods, "splits": plan.splits[:1], "seeds": (0, 1)}
    config = plan.model_copy(update=small)
    split = toy_split()
    text = np.random.default_rng(0).normal(size=(split.graph.n_entities, 6)).astype(np.float32)
    monkeypatch.setattr(script, "read_split", lambda *_: split)
    monkeypatch.setattr(script, "text_vectors", lambda *_: text)
    monkeypatch.setattr(script.InductiveConfig, "read", lambda _: config)
    command = [str(path), "-o", str(tmp_path / "run")]
    script.main(command)
    runs = tmp_path / "run"
    n_runs = sum(1 + script.learns(method) for method in methods.values())
    assert not script.learns(methods["degree"])
    records = list(script.read_records(runs).values())
    assert len(records) == n_runs
    page = to_markdown(config, records, runs)
    assert page in capsys.readouterr().out
    for name in methods:
        assert f"| {name} |" in page
    assert page.count(" against ") >= len(plan.pairs)
    for published in plan.published:
        assert f"| {published.value} |" in page
    # a second command does nothing; a record that was cut is made again, the same
    lines = (runs / "runs.jsonl").read_text().split("\n")
    (runs / "runs.jsonl").write_text("\n".join(lines[:-2]) + "\n" + lines[-2][:50])
    script.main(command)
    assert [r.scores for r in script.read_records(runs).values()] == [r.scores for r in records]
    assert (runs / "results.md").read_text() in capsys.readouterr().out
    assert len(json.loads((runs / "results.json").read_text())) == n_runs


@pytest.fixture(scope="module")
def split() -> InductiveSplit:
    return toy_split()


def test_tables_answer_about_seen_entities_alone(split: InductiveSplit):
    method = GraphMethod(
        kind="graph", features="table", layers="none", width=4,
        training={"n_epochs": 2, "batch_size": 30, "learning_rate": 0.1, "validate_every": 1},
    )  # fmt: skip
    text = np.zeros((split.graph.n_entities, 2), np.float32)
    result = run_method(method, split, text=text, sampled=SampledConfig(), seed=0)
    assert result.skipped == {"test": "an entity has no trained vector"}
    assert set(result.scores) == {"transductive"}
    n = 2 * len(split.parts["transductive"].queries)
    assert result.scores["transductive"]["filtered"]["conditions"]["n_scored"] == n
    assert len(result.questions["transductive/rr"]) == n


def test_text_that_tells_the_answer_is_used(split: InductiveSplit):
    """Entities' texts hold their group; on unseen entities the map beats the degrees by far."""
    groups = np.array([int(name[1:]) % 4 for name in split.graph.entities])
    text = np.eye(4, dtype=np.float32)[groups]
    graph = {"kind": "graph", "features": "text", "layers": "none", "width": 8}
    training = {"n_epochs": 60, "batch_size": 40, "learning_rate": 0.05, "optimiser": "adam"}
    method = GraphMethod(**graph, training=training)
    result = run_method(method, split, text=text, sampled=SampledConfig(), seed=0)
    degree = run_method(
        DegreeMethod(kind="degree"), split, text=text, sampled=SampledConfig(), seed=0
    )
    ours, theirs = (a.scores["test"]["filtered"]["mrr"] for a in (result, degree))
    assert ours > theirs + 0.05
    low, high = result.scores["test"]["mrr_interval"]
    assert low < ours < high


@pytest.fixture(scope="module")
def kepler(split: InductiveSplit, host: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two steps on the split's training triples."""
    folder = tmp_path_factory.mktemp("kepler")
    training = TrainConfig(steps=2, batch_size=2, gradient_norms_every=None)
    result = train_kepler(
        training_graph(split), folder, host=str(host), options={"n_tokens": 24}, training=training
    )
    assert (result.step, result.last.losses.keys()) == (2, {"ke"})
    return folder


def test_a_kepler_run_answers_about_unseen_entities(split: InductiveSplit, kepler: Path) -> None:
    """Scores are those of the descriptions read one by one, under the run's own relations."""
    graph = KnowledgeGraph.open(kepler / "kg")
    assert graph.n_entities == split.train.n_entities < split.graph.n_entities
    answerer = open_kepler_run(kepler).on(split.graph, split.train.context)
    entities = split.parts["test"].entities
    part = answerer.of(entities)
    triples = torch.from_numpy(split.parts["test"].queries[:3])
    model = KnowledgeForPreTraining.from_pretrained(kepler)
    slow = description_scores(
        model, split.graph, load_tokenizer(kepler), trained_on=graph, batch_size=1
    )
    moved = triples.clone()
    moved[:, [0, 2]] = torch.from_numpy(entities)[triples[:, [0, 2]]]
    for direction in ("head", "tail"):
        expected = slow.scores(direction, moved)[:, torch.from_numpy(entities)]
        torch.testing.assert_close(part.scores(direction, triples), expected, rtol=0, atol=1e-4)
    vectors = encoded_texts(kepler, split.graph, n_tokens=24)
    assert vectors.shape == (split.graph.n_entities, 16)
    states = torch.nn.functional.normalize(slow.scorer.entities, dim=1)
    torch.testing.assert_close(vectors, states, rtol=0, atol=1e-4)


def test_conditioned_kepler_is_refused(split: InductiveSplit, host: Path, tmp_path: Path) -> None:
    encoder = KEPLER.from_host(load_host(host), split.graph)
    options = {"ke": {"n_tokens": 24, "relations": "conditioned"}}
    KnowledgeForPreTraining.of(encoder, options).save_pretrained(tmp_path)
    load_tokenizer(host).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="a vector per relation"):
        open_kepler_run(tmp_path)


def test_text_methods_answer_every_part(split: InductiveSplit, host: Path, kepler: Path) -> None:
    text = np.zeros((split.graph.n_entities, 2), np.float32)
    training = {"n_epochs": 1, "batch_size": 30, "learning_rate": 0.1}
    mapped = GraphMethod(
        kind="graph", features="text", layers="none", width=4, text_from=kepler, training=training
    )
    methods = (
        DKRLMethod(kind="dkrl", host=str(host), training={"n_epochs": 1, "n_negatives": 8}),
        KeplerMethod(kind="kepler", folder=kepler),
        mapped,
    )
    for method in methods:
        result = run_method(method, split, text=text, sampled=SampledConfig(), seed=0)
        assert set(result.scores) == {"test", "transductive"}
        assert not result.skipped
    assert result.costs["n_parameters"] == 16 * 4 + 4 + 2 * split.graph.n_relations * 4
