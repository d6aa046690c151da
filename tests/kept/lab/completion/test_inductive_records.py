"""Tables of inductive completion hold the runs of their configuration as it is now, each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.inductive_completion import trial as script
from kept.errors import ConfigError
from kept.kgc.kepler_entities import read_kepler_state, train_kepler
from kept.kge.inductive import InductiveSplit
from kept.lab.completion.inductive_config import (
    GraphMethod,
    InductiveConfig,
    KeplerMethod,
    KeplerTraining,
    Method,
)
from kept.tasks.datasets.inductive import training_graph
from kept.training.config import TrainConfig
from tests.kept.lab.completion.inductive_toy import toy_split


@pytest.fixture(scope="module")
def split() -> InductiveSplit:
    return toy_split()


@pytest.fixture
def toy(split: InductiveSplit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every split is the toy's, with vectors of zeros."""
    text = np.zeros((split.graph.n_entities, 2), np.float32)
    monkeypatch.setattr(script, "read_split", lambda *_: split)
    monkeypatch.setattr(script, "text_vectors", lambda *_: text)
    monkeypatch.setenv("KEPT_DATA", "unused")


def graph_method(n_epochs: int, **more: object) -> GraphMethod:
    training = {"n_epochs": n_epochs, "batch_size": 60, "learning_rate": 0.1}
    return GraphMethod.model_validate(
        {"kind": "graph", "features": "text", "layers": "none", "width": 4, "training": training,
         **more}
    )  # fmt: skip


def command(
    methods: dict[str, Method],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kepler: KeplerTraining | None = None,
) -> str:
    """The page of one command."""
    config = InductiveConfig(
        name="toy", splits=("a",), seeds=(0,), methods=methods, kepler=kepler, differs="in all"
    )
    monkeypatch.setattr(script.InductiveConfig, "read", lambda _: config)
    extra = ["--kepler"] if kepler is not None else []
    script.main(["toy.yaml", "-o", str(folder), *extra])
    return (folder / "results.md").read_text()


@pytest.mark.usefixtures("toy")
def test_a_run_of_another_configuration_is_no_more_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    before = command({"map": graph_method(1)}, tmp_path, monkeypatch)
    assert "left out" not in capsys.readouterr().out
    after = command({"map": graph_method(2)}, tmp_path, monkeypatch)
    assert "left out, of other settings, data or weights: 1 records" in capsys.readouterr().out
    assert len(list(script.read_records(tmp_path).values())) == 2
    lines = (tmp_path / "runs.jsonl").read_text()
    (tmp_path / "runs.jsonl").write_text(lines * 2)  # as two commands at once may leave it
    assert command({"map": graph_method(2)}, tmp_path, monkeypatch) == after
    for page in (before, after):
        assert page.count("| map | 1 |") == 2  # two parts


@pytest.mark.usefixtures("toy")
def test_a_kepler_run_trained_further_is_asked_again_and_its_steps_are_told(
    tmp_path: Path, host: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    training = TrainConfig(
        steps=3, batch_size=2, budget_cpu_minutes=1e-6, gradient_norms_every=None
    )
    kepler = KeplerTraining(host=str(host), options={"n_tokens": 24}, training=training)
    methods = {
        "KEPLER": KeplerMethod(kind="kepler", folder=Path("kepler-a")),
        "map": graph_method(1, text_from="kepler-a"),
    }
    for step in (1, 2):
        page = command(methods, tmp_path, monkeypatch, kepler=kepler)
        assert f"The KEPLER run was read after step {step} of 3: KEPLER, map." in page
        assert page.count("| KEPLER | 1 |") == page.count("| map | 1 |") == 2
    assert len(list(script.read_records(tmp_path).values())) == 4
    capsys.readouterr()
    other = kepler.model_copy(update={"options": {"n_tokens": 24, "gamma": 2.0}})
    monkeypatch.setattr(script, "kepler_run", lambda *_: None)
    assert "| KEPLER |" not in command(methods, tmp_path, monkeypatch, kepler=other)
    output = capsys.readouterr().out
    assert "kepler-a was trained with options: {'n_tokens': 24}, now" in output
    assert "weights: 4 records" in output


def test_a_cut_kepler_run_and_one_on_other_triples_are_not_taken(
    split: InductiveSplit, host: Path, tmp_path: Path
):
    graph, options = training_graph(split), {"n_tokens": 24}
    training = TrainConfig(steps=1, batch_size=2, gradient_norms_every=None)
    train_kepler(graph, tmp_path, host=str(host), options=options, training=training)
    state = read_kepler_state(tmp_path)
    assert state is not None
    assert (state["step"], state["n_steps"], state["triples"]) == (1, 1, graph.content_hash)
    smaller = graph.with_triples(graph.triples[1:], note="fewer")
    with pytest.raises(ConfigError, match="holds another graph"):
        train_kepler(smaller, tmp_path, host=str(host), options=options, training=training)
    with (tmp_path / "model.safetensors").open("ab") as weights:
        weights.write(b" ")
    assert read_kepler_state(tmp_path) is None
    assert read_kepler_state(tmp_path / "kg") is None
