"""Encoders of kept in the loops of transformers and sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from transformers import Trainer, TrainingArguments

from entity_linking.mentions import LinkedText
from kept.apps.integrations.hf_trainer import KnowledgeClassifier, KnowledgeDataset
from kept.apps.integrations.sentence_module import KnowledgeSentences
from kept.auto import AutoEncoder
from kept.batches.tensors import batch_of, tensors_of
from kept.errors import BatchError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.methods import METHODS
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import TAGGING
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import method_encoder

TEXTS = ["the old city of Paris", "a river", "Berlin near Paris", "the French city", "Berlin"]
LABELS = ["old", "new", "old", "new", "new"]
CLASSES = ["new", "old"]


def opened(method: str, graph: KnowledgeGraph, tokenizer: Any) -> AutoEncoder:
    return AutoEncoder(method_encoder(method, graph, tokenizer), tokenizer)


@pytest.fixture
def encoder(small_graph: KnowledgeGraph, tokenizer: Any) -> AutoEncoder:
    return opened("colake", small_graph, tokenizer)


def trainer(encoder: AutoEncoder, graph: KnowledgeGraph, folder: Path, epochs: int) -> Trainer:
    """A new model over all texts; it evaluates and saves after each epoch."""
    data = KnowledgeDataset(encoder, graph, TEXTS, LABELS, classes=CLASSES)
    arguments = TrainingArguments(
        str(folder), num_train_epochs=epochs, per_device_train_batch_size=2, learning_rate=1e-2,
        save_strategy="epoch", eval_strategy="epoch", report_to=[], use_cpu=True, seed=1,
        lr_scheduler_type="constant", disable_tqdm=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = KnowledgeClassifier(encoder, CLASSES, head="pooled", read="mean", dropout=0.0)
    return Trainer(
        model=model, args=arguments, train_dataset=data, eval_dataset=data,
        data_collator=data.collator,
        compute_metrics=lambda p: {"right": float((p.predictions.argmax(1) == p.label_ids).mean())},
    )  # fmt: skip


# ---- batches as tensors --------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_a_batch_comes_back_from_its_tensors(
    method: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = opened(method, small_graph, tokenizer)
    batch, is_token = encoder.batch(TEXTS, small_graph)
    tensors = tensors_of(batch)
    assert all(isinstance(value, torch.Tensor) for value in tensors.values())
    assert batch_of(tensors).same_as(batch)
    assert is_token.shape == batch.node_mask.shape
    assert not bool((is_token & ~batch.node_mask).any())
    with torch.no_grad():
        states = encoder.encoder(batch_of(tensors)).node_states
    vectors = torch.stack([row[keep].mean(0) for row, keep in zip(states, is_token, strict=True)])
    expected = encoder.encode(TEXTS, small_graph).sentences
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=1e-5)


def test_a_name_that_is_no_field_is_refused(
    encoder: AutoEncoder, small_graph: KnowledgeGraph
) -> None:
    tensors = tensors_of(encoder.batch(TEXTS, small_graph)[0])
    for name in ("input_ids", "extra_ids", "node_ids.sense"):
        with pytest.raises(BatchError, match=f"{name}' is no field"):
            batch_of({**tensors, name: tensors["node_ids"]})


# ---- Trainer -------------------------------------------------------------------------------------
def test_trainer_learns_evaluates_and_saves(
    encoder: AutoEncoder, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in encoder.encoder.state_dict().items()}
    run = trainer(encoder, small_graph, tmp_path / "run", 30)
    first = run.evaluate()
    run.train()
    last = run.evaluate()
    assert last["eval_loss"] < first["eval_loss"] / 2
    assert last["eval_right"] == 1.0
    after = encoder.encoder.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    run.model.save_pretrained(tmp_path / "model")
    saved = KnowledgeForTask.from_pretrained(tmp_path / "model", graph=small_graph)
    batch, _ = encoder.batch(TEXTS, small_graph)
    with torch.no_grad():
        logits = run.model.eval()(**tensors_of(batch))["logits"]
        assert torch.equal(saved.eval()(batch).class_logits, logits)
    assert logits.argmax(1).tolist() == [CLASSES.index(label) for label in LABELS]
    trained = AutoEncoder.from_pretrained(tmp_path / "model").encode(TEXTS, small_graph).sentences
    assert not torch.allclose(trained, encoder.encode(TEXTS, small_graph).sentences)


def test_a_run_that_was_ended_goes_on_to_the_same_weights(
    encoder: AutoEncoder, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    whole = trainer(encoder, small_graph, tmp_path / "whole", 3)
    whole.train()
    trainer(encoder, small_graph, tmp_path / "parts", 1).train()
    second = trainer(encoder, small_graph, tmp_path / "parts", 3)
    second.train(resume_from_checkpoint=True)
    expected, weights = whole.model.state_dict(), second.model.state_dict()
    assert second.state.global_step == whole.state.global_step
    assert all(torch.equal(value, weights[name]) for name, value in expected.items())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_a_step(
    method: str, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    encoder = opened(method, small_graph, tokenizer)
    run = trainer(encoder, small_graph, tmp_path, 1)
    run.args.max_steps, run.args.eval_strategy = 1, "no"
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    run.train()
    after = run.model.state_dict()
    assert not all(torch.equal(value, after[name]) for name, value in before.items())
    assert (tmp_path / "checkpoint-1" / "model.safetensors").is_file()


def test_facts_change_with_the_epoch_alone(
    encoder: AutoEncoder, small_graph: KnowledgeGraph
) -> None:
    data = KnowledgeDataset(encoder, small_graph, TEXTS, LABELS, classes=CLASSES)
    first = [data[i] for i in range(len(data))]
    assert all(data[i].same_as(one) for i, one in enumerate(first))
    data.set_epoch(1)
    expected = [data.data.sample(i, epoch=1, seed=0) for i in range(len(data))]
    assert all(data[i].same_as(one) for i, one in enumerate(expected))


def test_examples_with_labels_of_words(encoder: AutoEncoder, small_graph: KnowledgeGraph) -> None:
    (linked,) = encoder.linked(["Berlin near Paris"], small_graph)
    mentions = tuple(link.mention for link in linked.links)
    example = TaskExample(linked, ("B", "B"), mentions)
    data = KnowledgeDataset(
        encoder, small_graph, [example], classes=["B", "O"], problem_type=TAGGING
    )
    tensors = data.collator([data[0]])
    assert tensors["labels"].shape == tensors["node_ids"].shape
    model = KnowledgeClassifier(encoder, ["B", "O"], head="tagging", problem_type=TAGGING)
    output = model(**tensors)
    assert output["logits"].shape == (*tensors["node_ids"].shape, 2)
    assert torch.isfinite(output["loss"])


def test_labels_that_do_not_fit_are_named(
    encoder: AutoEncoder, small_graph: KnowledgeGraph
) -> None:
    faulty: list[tuple[Any, str]] = [
        (None, "has no label"), (["old"], "1 labels for 5 texts"),
        (["odd", *LABELS[1:]], "'odd' is none of the classes new, old"),
    ]  # fmt: skip
    for labels, what in faulty:
        with pytest.raises(ConfigError, match=what):
            KnowledgeDataset(encoder, small_graph, TEXTS, labels, classes=CLASSES)
    other = KnowledgeGraph.from_triples([("a", "b", "c")])
    with pytest.raises(GraphMismatchError):
        KnowledgeDataset(encoder, other, TEXTS, LABELS, classes=CLASSES)


# ---- sentence-transformers -----------------------------------------------------------------------
def test_the_vectors_are_kepts(encoder: AutoEncoder, small_graph: KnowledgeGraph) -> None:
    expected = encoder.encode(TEXTS, small_graph).sentences.numpy()
    model = SentenceTransformer(modules=[KnowledgeSentences(encoder, small_graph)], device="cpu")
    linked = encoder.linked(TEXTS, small_graph)
    inputs: list[list[str | LinkedText]] = [
        [*TEXTS],
        [*linked],
        [linked[0], *TEXTS[1:3], *linked[3:]],
    ]
    for texts in inputs:
        np.testing.assert_allclose(model.encode(texts, batch_size=2), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(linked[2]), expected[2], atol=1e-5)
    assert model.get_embedding_dimension() == expected.shape[1]
    assert model.similarity(expected, expected).shape == (5, 5)
    without = LinkedText(TEXTS[0], ())
    assert not np.allclose(model.encode(without), expected[0], atol=1e-5)
    tokens = model.encode(TEXTS[:1], output_value="token_embeddings")[0]
    assert tokens.shape[1] == expected.shape[1]


def test_saved_and_loaded(
    encoder: AutoEncoder, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    model = SentenceTransformer(modules=[KnowledgeSentences(encoder, small_graph)], device="cpu")
    folder = str(tmp_path / "model")
    for _ in range(2):  # the second replaces the first
        model.save(folder)
        again = SentenceTransformer(folder, trust_remote_code=True, device="cpu")
        assert np.array_equal(again.encode(TEXTS), model.encode(TEXTS))
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(folder, device="cpu")


def test_its_evaluators(encoder: AutoEncoder, small_graph: KnowledgeGraph) -> None:
    model = SentenceTransformer(modules=[KnowledgeSentences(encoder, small_graph)], device="cpu")
    vectors = model.encode(TEXTS)
    alike = [float(model.similarity(vectors[:1], vectors[i : i + 1])) for i in range(1, 5)]
    evaluate = EmbeddingSimilarityEvaluator([TEXTS[0]] * 4, TEXTS[1:], alike, name="own")
    scores = evaluate(model)
    assert scores["own_spearman_cosine"] == pytest.approx(1.0)


def test_a_gradient_reaches_the_encoder(encoder: AutoEncoder, small_graph: KnowledgeGraph) -> None:
    model = SentenceTransformer(modules=[KnowledgeSentences(encoder, small_graph)], device="cpu")
    vectors = model(model.preprocess(TEXTS))["sentence_embedding"]
    vectors.pow(2).sum().backward()
    touched = [p for p in encoder.encoder.host.parameters() if p.grad is not None]
    assert any(bool(p.grad.abs().sum() > 0) for p in touched if p.grad is not None)


def test_prompts_and_other_inputs(encoder: AutoEncoder, small_graph: KnowledgeGraph) -> None:
    model = SentenceTransformer(modules=[KnowledgeSentences(encoder, small_graph)], device="cpu")
    expected = encoder.encode(["the old Berlin"], small_graph).sentences.numpy()
    np.testing.assert_allclose(model.encode(["Berlin"], prompt="the old "), expected, atol=1e-5)
    (linked,) = encoder.linked(["Berlin"], small_graph)
    with pytest.raises(ConfigError, match="would move the links"):
        model.encode([linked], prompt="the old ")
    with pytest.raises(ConfigError, match="neither a string nor a linked text"):
        model.encode([("a", "b")])
    other = KnowledgeGraph.from_triples([("a", "b", "c")])
    with pytest.raises(GraphMismatchError):
        KnowledgeSentences(encoder, other)
