"""kept inside scikit-learn, Hugging Face data sets and trackers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from entity_linking import LinkedText, gold_link
from kept.apps.cli import app
from kept.apps.cli.training.guide import FILES
from kept.apps.integrations import trackers
from kept.apps.integrations.hf_datasets import add_vectors, from_dataset, to_dataset
from kept.apps.integrations.sklearn_vectors import KnowledgeVectors
from kept.auto import AutoEncoder
from kept.errors import ConfigError, MissingExtraError
from kept.training.log import StepRecord
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import method_encoder

TEXTS = ["the old city of Paris", "a river", "Berlin near Paris", "the French city"]


@pytest.fixture(scope="module")
def saved(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("vectors")
    encoder = method_encoder("colake", small_graph, tokenizer)
    AutoEncoder(encoder, tokenizer).save_pretrained(folder / "model")
    small_graph.save(folder / "kg")
    return str(folder / "model"), str(folder / "kg")


# ---- scikit-learn --------------------------------------------------------------------------------
def test_a_transformer_in_a_pipeline(saved: tuple[str, str]) -> None:
    vectors = KnowledgeVectors(*saved)
    expected = AutoEncoder.from_pretrained(saved[0]).encode(TEXTS, kg=saved[1]).sentences.numpy()
    for texts in (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object)):
        assert np.array_equal(vectors.fit_transform(texts), expected)
    assert vectors.get_feature_names_out().tolist() == [f"kept{i}" for i in range(16)]
    pipeline = make_pipeline(clone(vectors), LogisticRegression())
    answers = pipeline.fit(TEXTS, [0, 1, 0, 1]).predict(TEXTS)
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.predict(TEXTS).tolist() == answers.tolist()
    assert len(pickle.dumps(vectors)) < 2000
    grid = GridSearchCV(pipeline, {"knowledgevectors__kg": [saved[1]]}, cv=2)
    assert grid.fit(TEXTS, [0, 1, 0, 1]).best_score_ >= 0


def test_a_transformer_says_what_it_cannot_take(saved: tuple[str, str], tmp_path: Path) -> None:
    vectors = KnowledgeVectors(*saved)
    with pytest.raises(NotFittedError):
        vectors.transform(TEXTS)
    faulty: list[tuple[Any, str]] = [
        ("one text", "is one text"), ([], "there is no text"), ([1], "is not text"),
    ]  # fmt: skip
    for wrong, what in faulty:
        with pytest.raises(ConfigError, match=what):
            vectors.fit(wrong)
    KnowledgeGraph.from_triples([("a", "b", "c")]).save(tmp_path / "kg")
    with pytest.raises(GraphMismatchError):
        KnowledgeVectors(saved[0], str(tmp_path / "kg")).fit(TEXTS)


CHECKS = (
    "check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types",
    "check_estimator_repr", "check_no_attributes_set_in_init", "check_mixin_order",
    "check_parameters_default_constructible", "check_get_params_invariance", "check_set_params",
)  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_scikit_learns_own_checks(name: str) -> None:
    """Those that ask nothing of texts; the others hand out matrices of numbers."""
    from sklearn.utils import estimator_checks

    getattr(estimator_checks, name)("KnowledgeVectors", KnowledgeVectors())


# ---- data sets -----------------------------------------------------------------------------------
def test_linked_texts_become_a_data_set_and_again_texts(saved: tuple[str, str]) -> None:
    pytest.importorskip("datasets", reason="pip install 'kept[datasets]'")
    link, nil = gold_link(16, 21, "Q90"), gold_link(0, 3, None)
    texts = [LinkedText(TEXTS[0], (nil, link)), LinkedText(TEXTS[1], ())]
    data = to_dataset(texts)
    assert data.column_names == ["text", "links"]
    without_scores = [
        dataclasses.replace(
            text, links=tuple(dataclasses.replace(each, candidates=()) for each in text.links)
        )
        for text in texts
    ]
    assert list(from_dataset(data)) == without_scores
    encoder = AutoEncoder.from_pretrained(saved[0])
    with_vectors = add_vectors(data, encoder, saved[1])
    expected = encoder.encode(list(from_dataset(data)), kg=saved[1]).sentences
    assert torch.allclose(torch.tensor(with_vectors["vector"][:]), expected)
    plain = data.remove_columns("links").rename_column("text", "sentence")
    assert [text.links for text in from_dataset(plain, text="sentence")] == [(), ()]
    with pytest.raises(ConfigError, match="there is no column 'text'"):
        list(from_dataset(plain))
    with pytest.raises(ConfigError, match="row 0"):
        list(from_dataset(with_vectors, text="vector"))


# ---- trackers ------------------------------------------------------------------------------------
def test_a_training_is_tracked(
    finetuned: Path, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="pip install 'kept[trackers]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    arguments = [
        "finetune", "--task", "classification", "--format", "tsv", "--link", "--method", "kbert",
        "--train", str(finetuned / "train.tsv"), "--kg", str(finetuned / "kg"), "--host", str(host),
        "--steps", "3", "--batch-size", "4", "-o", str(tmp_path / "run"), "--device", "cpu",
        "--track", "tensorboard",
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["kept", *arguments])
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3]
    assert "learning_rate" in events.Tags()["scalars"]
    guide = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "| `log.jsonl` | losses" in guide
    assert "| `tensorboard` |" in guide
    files = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    assert files - {"README.md"} <= set(FILES)
    assert f"kept explore --kg {finetuned / 'kg'} --model {tmp_path / 'run'} --open" in guide
    _runs_again_the_same(tmp_path / "run", tmp_path / "again", finetuned / "train.tsv")


def _runs_again_the_same(run: Path, again: Path, train: Path) -> None:
    """By the command that the run's own README gives; and what it depends on is written down."""
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    assert environment["files"][str(train)] == hashlib.sha256(train.read_bytes()).hexdigest()
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["command"].startswith("kept finetune --task classification ")
    line = f"kept finetune --config {run}/finetune.json -o again"
    assert line in (run / "README.md").read_text(encoding="utf-8")
    words = line.removesuffix("again").split()[1:]
    done = CliRunner().invoke(app, [*words, str(again)])
    assert done.exit_code == 0, done.output
    weights = [(folder / "model.safetensors").read_bytes() for folder in (run, again)]
    assert weights[0] == weights[1]


class Fake:
    """A tracker of accelerate that notes how it was called."""

    name = "fake"
    requires_logging_directory = False

    def __init__(self, run_name: str, **settings: Any) -> None:
        self.calls: list[Any] = [(run_name, settings)]

    def start(self) -> None:
        self.calls.append("start")

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.calls.append(values)

    def log(self, values: dict[str, float], step: int) -> None:
        self.calls.append((step, values["loss"]))

    def finish(self) -> None:
        self.calls.append("finish")


def tracked(name: str, folder: Path) -> list[Any]:
    """What a tracker hears of a run of one step."""
    record = StepRecord(
        step=1, n_steps=1, epoch=0, losses={"mlm": 2.0}, total_loss=2.0, gradient_norm=None,
        row_gradient_norm=None, learning_rate=0.1, nodes_per_second=1.0, texts_per_second=1.0,
        peak_memory_mib=1.0, seconds=1.0,
    )  # fmt: skip
    with trackers.Tracked(Silent(), [name], folder, {"training": {"steps": 1}}) as reporter:
        reporter.step(record)
        (tracker,) = reporter._trackers
    return list(getattr(tracker, "calls", ()))


class Silent:
    """A reporter that says nothing."""

    def step(self, record: StepRecord) -> None:
        """Nothing."""

    def notice(self, message: str) -> None:
        """Nothing."""


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_files_of_a_tracker_lie_in_the_runs_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As accelerate calls them; that they do so is seen where they are installed (below)."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    addresses: list[str] = []
    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, name, Fake)
    monkeypatch.setattr(f"accelerate.utils.is_{name}_available", lambda: True)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    module = types.ModuleType("mlflow")
    module.set_tracking_uri = addresses.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    (run_name, settings), *rest = tracked(name, tmp_path)
    assert run_name == tmp_path.name
    assert rest == ["start", {"training.steps": 1}, (1, 2.0), "finish"]
    if name == "wandb":
        assert (settings, addresses) == ({"dir": str(tmp_path)}, [])
        return
    assert settings == {"logging_dir": (tmp_path / "mlflow").as_uri()}
    assert addresses == [f"sqlite:///{tmp_path / 'mlflow.db'}"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    tracked(name, tmp_path)
    assert len(addresses) == 1, "a server that the user named is kept"


@pytest.mark.slow
def test_mlflow_itself_keeps_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    tracked("mlflow", tmp_path / "run")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    (experiment,) = [each for each in client.search_experiments() if each.name == "run"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.data.params) == ("FINISHED", {"training.steps": "1"})
    assert [each.value for each in client.get_metric_history(run.info.run_id, "loss")] == [2.0]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_wandb_itself_keeps_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    tracked("wandb", tmp_path / "run")
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"mlm" in kept.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_unknown_tracker_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["pretrain", "-o", str(tmp_path / "run"), "--track", "tensorbord"]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "did you mean tensorboard" in done.output) == (1, True)
    monkeypatch.setattr("accelerate.utils.is_wandb_available", lambda: False)
    with pytest.raises(MissingExtraError, match="pip install wandb"):
        trackers.require_trackers(["wandb"])
