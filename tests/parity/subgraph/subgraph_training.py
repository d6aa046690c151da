"""The originals' training as they do it, on our models: RAdam, micro-batches, frozen first epochs.

torch's own RAdam with decoupled decay is theirs: five plain updates, then rectified ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from kept.batches import KnowledgeBatch
from kept.heads.model import KnowledgeForTask

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
) -> Iterator[list[tuple[Tensor, float]]]:
    """After every epoch the logits and losses of its micro-batches; `batch_of` takes questions."""
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
                loss = output.losses["class"]
                seen.append((output.class_logits.detach().view(end - start, -1), loss.item()))
                (loss * (end - start) / (stop - first)).backward()
            torch.nn.utils.clip_grad_norm_(
                [p for p in model.parameters() if p.grad is not None], settings["max_grad_norm"]
            )
            rules.step()
        yield seen


def centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(-1, keepdim=True)


def micro_batches(stored: Any) -> Iterator[tuple[Tensor, list[int], float]]:
    for logits, labels, loss in stored:
        yield torch.tensor(logits), labels, loss
