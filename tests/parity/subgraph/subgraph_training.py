"""The originals' training as they do it, on our models: RAdam, micro-batches, frozen first epochs.

torch's own RAdam with decoupled decay is theirs: five plain updates, then rectified ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kept.batches import KnowledgeBatch
from kept.heads.model import KnowledgeForTask

LATE = 1e-3
"""Scores this near to each other may change places between two runs of the same training."""


def margin_rank(logits: Tensor, labels: Tensor) -> Tensor:
    """The originals' other loss, on torch's own."""
    wrong = ~F.one_hot(labels, logits.shape[1]).bool()
    right = logits.gather(1, labels[:, None]).expand_as(logits)[wrong]
    return F.margin_ranking_loss(right, logits[wrong], torch.ones_like(right), margin=0.1)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cross_entropy": lambda ours, _logits, _labels: ours,
    "margin_rank": lambda _ours, logits, labels: margin_rank(logits, labels),
}
NO_DECAY = ("bias", "LayerNorm.bias", "LayerNorm.weight")


def optimiser(
    model: KnowledgeForTask, settings: Mapping[str, Any], theirs: Callable[[str], str]
) -> torch.optim.Optimizer:
    """Two learning rates; decay goes by the original's names."""
    assert settings["optim"] == "radam"
    assert settings["lr_schedule"] == "fixed"
    groups = []
    for name, parameter in model.named_parameters():
        if name.startswith("encoder.entity_vectors."):
            assert settings["freeze_ent_emb"]
            continue
        is_host = name.startswith("encoder.host.")
        keeps = any(part in theirs(name) for part in NO_DECAY)
        groups.append({
            "params": [parameter],
            "lr": settings["encoder_lr" if is_host else "decoder_lr"],
            "weight_decay": 0.0 if keeps else settings["weight_decay"],
        })  # fmt: skip
    return torch.optim.RAdam(groups, decoupled_weight_decay=True)


def epochs(
    model: KnowledgeForTask,
    batch_of: Callable[[int, int], KnowledgeBatch],
    settings: Mapping[str, Any],
    n_questions: int,
    theirs: Callable[[str], str],
    labels: Tensor,
) -> Iterator[list[tuple[Tensor, float]]]:
    """After every epoch the logits and losses of its micro-batches; `batch_of` takes questions."""
    loss_of = LOSSES[settings["loss"]]
    rules = optimiser(model, settings, theirs)
    model.encoder.entity_vectors.requires_grad_(False)
    size, micro = settings["batch_size"], settings["mini_batch_size"]
    for epoch in range(settings["n_epochs"]):
        model.train()
        model.encoder.host.requires_grad_(epoch >= settings["unfreeze_epoch"])
        seen = []
        for first in range(0, n_questions, size):
            rules.zero_grad(set_to_none=True)
            stop = min(first + size, n_questions)
            for start in range(first, stop, micro):
                end = min(start + micro, stop)
                output = model(batch_of(start, end))
                logits = output.class_logits.view(end - start, -1)
                loss = loss_of(output.losses["class"], logits, labels[start:end])
                seen.append((logits.detach(), loss.item()))
                (loss * (end - start) / (stop - first)).backward()
            torch.nn.utils.clip_grad_norm_(
                [p for p in model.parameters() if p.grad is not None], settings["max_grad_norm"]
            )
            rules.step()
        yield seen


def accuracies_agree(scores: Sequence[Tensor], labels: Tensor, stored: Sequence[str]) -> None:
    """After every epoch, up to the last stored digit and to questions without a clear answer."""
    assert len(scores) == len(stored) > 0
    for ours, theirs in zip(scores, stored, strict=True):
        accuracy = float((ours.argmax(1) == labels).double().mean())
        unit = 0.5 * 10.0 ** -len(theirs.partition(".")[2])
        n_open = int((~is_clear(ours)).sum())
        assert abs(accuracy - float(theirs)) <= n_open / len(labels) + unit


def is_clear(scores: Tensor) -> Tensor:
    """Of each question whether its best choice is ahead of the next."""
    best = scores.topk(2, dim=1).values
    return best[:, 0] - best[:, 1] > LATE


def centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(-1, keepdim=True)


def micro_batches(stored: Any) -> Iterator[tuple[Tensor, list[int], float]]:
    for logits, labels, loss in stored:
        yield torch.tensor(logits), labels, loss
