"""SentiLARE's states, scores, four losses and fine-tuning against the original's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kept import hosts
from kept.batches import IGNORE
from kept.graphs.views.sentilare import RATING
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import MULTI, SINGLE, TAGGING
from tests.parity.sentilare.sentilare_golden import (
    ATOL,
    LOSSES,
    RTOL,
    SHORT,
    batch_of,
    ignored,
    is_pretrained,
    load,
    new_model,
    ours,
    read,
    task_batch,
    task_model,
)

METHOD = "sentilare"


@pytest.fixture(scope="module")
def model(folder: Path) -> KnowledgeForPreTraining:
    return new_model(folder)


# ---- model ------------------------------------------------------------------------------------
@torch.no_grad()
def test_states_scores_and_losses(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    batch, expected, meta = batch_of(folder), load(folder, "outputs"), read(folder, "meta")
    output, mask = model(batch), batch.node_mask
    states = {"embedding_output": output.hidden_states[0]}
    states |= {f"layer.{i}": state for i, state in enumerate(output.hidden_states[1:])}
    for name, value in states.items():
        compared.close(name, value[mask], expected[name][mask], atol=ATOL, rtol=RTOL)
    pooled = hosts.pooled(model.encoder.host, output.node_states)
    compared.close("pooled", pooled, expected["pooled"], atol=ATOL, rtol=RTOL)
    words = hosts.word_table(model.encoder.host).weight
    logits = model.objectives["mlm"].logits(output.node_states, words)
    n_rows = len(expected["lm_logits"])
    theirs = expected["lm_logits"][mask[:n_rows]]
    actual = logits[:n_rows][mask[:n_rows]]
    compared.close("word scores", actual, theirs, atol=ATOL, rtol=RTOL)
    for name, short in SHORT.items():
        scores = model.objectives["sentiment"].logits(name, output.node_states, model.encoder)
        theirs = expected[f"{short}_logits"][mask]
        compared.close(f"{name} scores", scores[mask], theirs, atol=ATOL, rtol=RTOL)
    for name, theirs_name in LOSSES.items():
        wanted = expected[f"loss.{theirs_name}"]
        compared.close(f"{name} loss", output.losses[name], wanted, atol=0, rtol=RTOL)
    total = torch.stack(list(output.losses.values())).sum()
    compared.close("total", total, expected["loss.total"], atol=0, rtol=RTOL)
    assert batch.extra_labels is not None
    late = (batch.extra_labels[RATING] != IGNORE).any(1)[:, 0]
    rows = {"late_supervision": int(late.sum()), "early_fusion": int((~late).sum())}
    compared.equal("rows", rows, meta["batch_rows"])
    messages = [float(value) for value in meta["early_fusion_only_losses"]]
    early = (~late).nonzero()[:, 0]
    parts = [model(batch.take(early[: n + 1])).losses for n in range(len(early))]
    first = np.array([losses["mlm"].item() for losses in parts])
    losses = parts[int(np.abs(first - messages[0]).argmin())]  # of how many rows is not told
    for name, theirs in zip(LOSSES, messages, strict=True):
        wanted = 0.0 if math.isnan(theirs) else theirs  # theirs divides by no text
        compared.close("early fusion alone", losses[name], wanted, atol=0, rtol=RTOL)


def test_gradients(folder: Path, compared: Any) -> None:
    model, meta = new_model(folder), read(folder, "meta")
    torch.stack(list(model(batch_of(folder)).losses.values())).sum().backward()
    actual = dict(model.named_parameters())
    for name, theirs in load(folder, "grads").items():
        gradient = actual[ours(name)].grad
        assert gradient is not None
        atol = 1e-4 * float(theirs.abs().max())
        compared.close("gradients", gradient, theirs, atol=atol)
    state = [name for name in load(folder, "state_dict") if is_pretrained(name)]
    silent = sorted(name for name in state if actual[ours(name)].grad is None)
    compared.equal("without gradient", silent, sorted(meta["parameters_without_gradient"]))
    assert all(meta["tied_same_tensor"].values())
    for theirs in meta["tied"].values():
        assert ours(theirs) in actual


@torch.no_grad()
def test_fine_tuning_heads(folder: Path, compared: Any) -> None:
    expected, batch = load(folder, "finetune_outputs"), task_batch(folder)
    features = read(folder, "finetune_features")["cases"][0]["features"]
    n = expected["sequence.logits"].shape[1]
    gold = torch.tensor([row["label_id"] for row in features])
    output = task_model(folder, "pooled", "sequence", n, SINGLE)(batch.replace(labels=gold))
    close(compared, "sequence", output.class_logits, output.losses["class"], expected)
    gold = expected["multilabel.labels"]
    output = task_model(folder, "pooled", "multilabel", n, MULTI)(batch.replace(labels=gold))
    shares = output.class_logits.sigmoid()
    close(compared, "multilabel", shares, output.losses["class"], expected)
    gold = ignored(expected["token.labels"]).masked_fill(~batch.node_mask, IGNORE)
    output = task_model(folder, "tagging", "token", n, TAGGING)(batch.replace(node_labels=gold))
    real, theirs = batch.node_mask, expected["token.logits"]
    actual = output.class_logits[real]
    compared.close("token logits", actual, theirs[real], atol=ATOL, rtol=RTOL)
    loss = output.losses["class"]
    compared.close("token loss", loss, expected["token.loss"], atol=0, rtol=RTOL)
    output = task_model(folder, "pooled", "choice", 1, SINGLE)(batch)
    theirs = expected["choice.logits"]  # of as many rows as make whole questions
    scores = output.class_logits.flatten()[: theirs.numel()].view(theirs.shape)
    loss = torch.nn.functional.cross_entropy(scores, expected["choice.labels"])
    close(compared, "choice", scores, loss, expected)


def close(
    compared: Any, name: str, logits: Tensor, loss: Tensor, expected: dict[str, Tensor]
) -> None:
    compared.close(f"{name} logits", logits, expected[f"{name}.logits"], atol=ATOL, rtol=RTOL)
    compared.close(f"{name} loss", loss, expected[f"{name}.loss"], atol=0, rtol=RTOL)
