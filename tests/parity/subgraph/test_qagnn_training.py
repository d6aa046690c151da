"""QA-GNN's own training on our model: logits, losses and parameters of every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kept.batches import KnowledgeBatch
from kept.convert import qagnn as keys
from kept.convert.tables import to_original
from kept.heads.model import KnowledgeForTask
from tests.parity.subgraph import subgraph_golden as golden
from tests.parity.subgraph import subgraph_training as training
from tests.parity.subgraph import test_qagnn as parity

METHOD = "qagnn"
ATOL = 1e-5
PARAMETERS_AFTER = {0: 1e-5}
LATER = 2e-4
Trained = tuple[list[list[tuple[Tensor, float]]], dict[int, dict[str, Tensor]], list[Tensor]]


def original_name(model: KnowledgeForTask, name: str) -> str:
    """Ours under the original's name."""
    if name.startswith("encoder.host."):
        return name.removeprefix("encoder.host.")
    if name.startswith(keys.OURS_ALONE):
        return name
    rules = keys.decoder_rules(model.encoder.config.n_layers, model.config.head["layers"])
    return next(iter(to_original({name: torch.zeros(())}, rules)))


@pytest.fixture(scope="module")
def trained(folder: Path) -> Trained:
    """Logits and losses by epoch, weights after each, and scores of all questions after each."""
    record, config = golden.read(folder, "training"), golden.read(folder, "config")
    model = parity.model_of(folder, "with_lm", torch.float32)
    whole, n_choices = parity.texts_of(folder), config["num_choice"]
    whole = whole.replace(subgraph_scores=whole.subgraph_scores.float())

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
    record = golden.read(folder, "training")
    ours = [micro for epoch in trained[0] for micro in epoch]
    theirs = list(training.micro_batches(record["micro_batches_logits_labels_loss"]))
    assert len(ours) == len(theirs) > 0
    for (logits, loss), (expected, _, expected_loss) in zip(ours, theirs, strict=True):
        golden.close(training.centred(logits), training.centred(expected), atol=ATOL, rtol=0)
        assert abs(loss - expected_loss) < ATOL


def test_parameters(folder: Path, trained: Trained) -> None:
    stored, n_compared = golden.load(folder, "training"), 0
    for name, value in stored.items():
        epoch_name, part, parameter = name.split(".", 2)
        epoch = int(epoch_name.removeprefix("epoch"))
        if golden.NO_GRADIENT.search(parameter) or golden.NONE_IN_TRAINING.search(parameter):
            continue
        if parameter.endswith(".bias") and parameter.startswith(("fc.", "pooler.w_vs")):
            continue
        weights = trained[1][epoch]
        ours = weights[ours_of(folder, part, parameter)]
        if parameter.endswith("num_batches_tracked"):
            assert int(ours) == int(value), name
            continue
        if parameter.endswith("word_embeddings.weight"):
            continue_rows = torch.arange(len(value)) != pad_of(folder)
            ours, value = ours[continue_rows], value[continue_rows]
        tolerance = PARAMETERS_AFTER.get(epoch, LATER)
        golden.close(ours, value, atol=tolerance, rtol=0)
        n_compared += 1
    assert n_compared


def pad_of(folder: Path) -> int:
    pad: int = golden.read(folder, "config")["lm"]["pad_token_id"]
    return pad


def ours_of(folder: Path, part: str, name: str) -> str:
    if part == "encoder":
        starts = ("embeddings.", "encoder.layer", "pooler.")
        return "encoder.host." + name[max(name.find(start) for start in starts) :]
    settings = parity.config_of(folder, "main")
    rules = keys.decoder_rules(settings["k"], settings["n_fc_layer"])
    return next(iter(keys.to_ours({name: torch.zeros(())}, rules)))


def test_accuracy_and_answers(folder: Path, trained: Trained) -> None:
    record: Any = golden.read(folder, "training")
    labels = golden.load(folder, "inputs")["labels"]
    head, *rows = record["accuracy_log"]
    for column in ("dev_acc", "test_acc"):
        training.accuracies_agree(trained[2], labels, [row[head.index(column)] for row in rows])
    last = trained[2][-1]
    letters = [answer.partition(",")[2] for answer in record["predictions_last_epoch"]]
    ours = [chr(ord("A") + int(i)) for i in last.argmax(1)]
    clear = training.is_clear(last).tolist()
    for letter, answer, is_clear in zip(letters, ours, clear, strict=True):
        assert letter == answer or not is_clear
