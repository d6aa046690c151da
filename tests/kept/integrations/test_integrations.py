"""kept inside scikit-learn, Hugging Face data sets and trackers."""

from __future__ import annotations

import dataclasses
import pickle
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
from tiny_hosts import method_encoder
from typer.testing import CliRunner

from entity_linking import LinkedText, gold_link
from kept.auto import AutoEncoder
from kept.cli import app
from kept.cli.training.guide import FILES
from kept.errors import ConfigError, MissingExtraError
from kept.integrations import trackers
from kept.integrations.hf_datasets import add_vectors, from_dataset, to_dataset
from kept.integrations.sklearn_vectors import KnowledgeVectors
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError

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
    for given in (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object)):
        assert np.array_equal(vectors.fit_transform(given), expected)
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
        ("one text", "is one text"), ([], "there is no text"), ([1], "is no text"),
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
    bare = [
        dataclasses.replace(
            text, links=tuple(dataclasses.replace(each, candidates=()) for each in text.links)
        )
        for text in texts
    ]
    assert list(from_dataset(data)) == bare
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
def test_a_training_is_tracked(finetuned: Path, host: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="pip install 'kept[trackers]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    arguments = [
        "finetune", "--task", "classification", "--format", "tsv", "--link", "--method", "kbert",
        "--train", str(finetuned / "train.tsv"), "--kg", str(finetuned / "kg"), "--host", str(host),
        "--steps", "3", "--batch-size", "4", "-o", str(tmp_path / "run"), "--device", "cpu",
        "--track", "tensorboard",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3]
    assert "learning_rate" in events.Tags()["scalars"]
    guide = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "| `log.jsonl` | losses" in guide
    assert "| `tensorboard` |" in guide
    made = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    assert made - {"README.md"} <= set(FILES)
    assert f"kept explore --kg {finetuned / 'kg'} --model {tmp_path / 'run'} --open" in guide


def test_an_unknown_tracker_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["pretrain", "-o", str(tmp_path / "run"), "--track", "tensorbord"]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "did you mean tensorboard" in done.output) == (1, True)
    monkeypatch.setattr("accelerate.utils.is_wandb_available", lambda: False)
    with pytest.raises(MissingExtraError, match="pip install wandb"):
        trackers.require_trackers(["wandb"])
