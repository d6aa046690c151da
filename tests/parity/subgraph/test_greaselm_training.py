"""GreaseLM's own training on our model: logits, losses, parameters and evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kept.batches import KnowledgeBatch
from kept.convert import greaselm as keys
from kept.convert.qagnn import OURS_ALONE
from kept.convert.tables import to_original, to_ours
from kept.heads.model import KnowledgeForTask
from tests.parity.subgraph import subgraph_golden as golden
from tests.parity.subgraph import subgraph_training as training
from tests.parity.subgraph import test_greaselm as parity

METHOD = "greaselm"
ATOL, EVALUATED = 1e-5, 3e-4
PARAMETERS_AFTER = {0: 1e-5}
LATER = 5e-4
SPLITS = 2
"""Development and test, which are the same questions here."""
Trained = tuple[list[list[tuple[Tensor, float]]], dict[int, dict[str, Tensor]], list[Tensor]]


def original_name(model: KnowledgeForTask, name: str) -> str:
    if name.startswith(OURS_ALONE):
        return name
    rules = keys.rules(model.encoder.config, model.config.head["layers"])
    return next(iter(to_original({name: torch.zeros(())}, rules)))


@pytest.fixture(scope="module")
def trained(folder: Path) -> Trained:
    """Logits and losses by epoch, weights after each, and scores of all questions after each."""
    record, config = golden.read(folder, "training"), golden.read(folder, "config")
    model = parity.model_of(folder, "main", torch.float32)
    whole, n_choices = parity.batch_of(folder, "main", torch.float32), config["num_choice"]

    def batch_of(start: int, stop: int) -> KnowledgeBatch:
        return whole.take(slice(start * n_choices, stop * n_choices))

    seen, weights, scores = [], {}, []
    for epoch, micro in enumerate(
        training.epochs(
            model, batch_of, record["settings"], config["num_questions"],
            lambda name: original_name(model, name), golden.load(folder, "inputs")["labels"],
        )
    ):  # fmt: skip
        seen.append(micro)
        weights[epoch] = {k: v.clone() for k, v in model.state_dict().items()}
        model.eval()
        with torch.no_grad():
            scores.append(model(whole).class_logits.view(-1, n_choices))
    return seen, weights, scores


def test_logits_and_losses(folder: Path, trained: Trained) -> None:
    """Of each epoch: the training's micro-batches, then the evaluations of two splits."""
    record = golden.read(folder, "training")
    labels = golden.load(folder, "inputs")["labels"]
    theirs = training.micro_batches(record["micro_batches_and_evaluations_logits_labels_loss"])
    for micro, scores in zip(trained[0], trained[2], strict=True):
        for logits, loss in micro:
            expected, _, expected_loss = next(theirs)
            golden.close(training.centred(logits), training.centred(expected), atol=ATOL, rtol=0)
            assert abs(loss - expected_loss) < ATOL
        for _ in range(SPLITS):
            first = 0
            while first < len(labels):
                expected, losses_, _ = next(theirs)
                part = scores[first : first + len(losses_)]
                assert labels[first : first + len(losses_)].tolist() == losses_
                ours = training.centred(part)
                golden.close(ours, training.centred(expected), atol=EVALUATED, rtol=0)
                first += len(losses_)
    assert next(theirs, None) is None


def test_parameters(folder: Path, trained: Trained) -> None:
    stored, n_compared = golden.load(folder, "training"), 0
    model = parity.model_of(folder, "main")
    rules = keys.rules(model.encoder.config, model.config.head["layers"])
    pad = golden.read(folder, "config")["lm_config"]["pad_token_id"]
    for name, value in stored.items():
        epoch_name, parameter = name.split(".", 1)
        epoch = int(epoch_name.removeprefix("epoch"))
        if golden.NO_GRADIENT.search(parameter) or golden.NONE_IN_TRAINING.search(parameter):
            continue
        if parameter.endswith(".bias") and parameter.startswith(
            (f"{keys.MODEL}fc.", f"{keys.MODEL}pooler.w_vs")
        ):
            continue
        ours = trained[1][epoch][next(iter(to_ours({parameter: value}, rules)))]
        if parameter.endswith("num_batches_tracked"):
            assert int(ours) == int(value), name
            continue
        if parameter.endswith("word_embeddings.weight"):
            rows = torch.arange(len(value)) != pad
            ours, value = ours[rows], value[rows]
        golden.close(ours, value, atol=PARAMETERS_AFTER.get(epoch, LATER), rtol=0)
        n_compared += 1
    assert n_compared


def test_accuracy(folder: Path, trained: Trained) -> None:
    record: Any = golden.read(folder, "training")
    labels = golden.load(folder, "inputs")["labels"]
    head, *rows = record["log"]
    for column in ("dev_acc", "test_acc"):
        training.accuracies_agree(trained[2], labels, [row[head.index(column)] for row in rows])


def test_who_learns_slowly(folder: Path) -> None:
    """The loaded language model's names get the small rate, and none of the new parts."""
    names = golden.read(folder, "training")["small_learning_rate_names"]
    model = parity.model_of(folder, "main")
    slow = {
        original_name(model, name)
        for name, _ in model.named_parameters()
        if name.startswith("encoder.host.")
    }
    named = {name for name in names if name.startswith(keys.MODEL)}
    assert named <= slow
