"""KBLaM's training: labels, loss, what a step is made of, optimiser.

Wang et al. 2025, "KBLaM: Knowledge Base augmented Language Model" (ICLR), as its released script
has it. An example's graph is its own facts, then a context of other facts that a whole micro-batch
shares; one micro-batch in several asks for what is not in the graph and learns to refuse.

Axis legend: batch, node, word, fact, own (facts of a question).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from transformers import Cache

from kept.batches import IGNORE
from kept.decoders import hosts
from kept.decoders.kblam.model import KBLaM
from kept.errors import BatchError, ConfigError
from kept.layers.means import mean_of

Kind = Literal["standard", "extended", "several", "outlier"]
LEARNING_RATE = 1e-4
TINY = 1e-9
LAST_SHARE = 0.01
"""What the cosine leaves of the learning rate at the end."""


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Questions with their answers; `fact_rows` are rows of the vectors of all facts, of each
    question or shared by all.

    `right_facts`, which the attention loss needs: the place among them of the fact that answers,
    -1 where none does. `entering`: what enters the first reading layer, where it is stored. With
    `prompt_mask` and a `cache`, for this batch alone, the prompts were read before, without facts.
    `n_most`: of a part of a batch, the largest number of labels of any text of the whole. Raises
    `BatchError` for shapes that do not fit.
    """

    input_ids: Int[Tensor, "batch node"]
    node_mask: Bool[Tensor, "batch node"]
    labels: Int[Tensor, "batch node"]
    fact_rows: Int[Tensor, "*batch fact"]
    right_facts: Int[Tensor, " batch"] | None = None
    entering: Float[Tensor, "batch node width"] | None = None
    prompt_mask: Bool[Tensor, "batch prompt"] | None = None
    cache: Cache | None = None
    n_most: int | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    def to(self, device: torch.device) -> MicroBatch:
        """The same on `device`; a cache stays where it was made, `BatchError` elsewhere."""
        if device.type == "cpu" == self.input_ids.device.type:  # of several processes: cpu:0
            return self
        if self.cache is not None:
            raise BatchError(f"the cache of this batch is on {self.input_ids.device}, not {device}")
        tensors: dict[str, Any] = {
            name: v.to(device) for name, v in vars(self).items() if isinstance(v, Tensor)
        }
        return dataclasses.replace(self, **tensors)

    def __post_init__(self) -> None:
        shapes = {tuple(each.shape) for each in (self.input_ids, self.node_mask, self.labels)}
        shared = self.fact_rows.ndim == 1
        if len(shapes) != 1 or not (shared or len(self.fact_rows) == len(self.input_ids)):
            raise BatchError(
                f"input_ids, node_mask and labels of one shape, and a row of facts for each: not "
                f"{sorted(shapes)} with {tuple(self.fact_rows.shape)}"
            )
        if (self.prompt_mask is None) != (self.cache is None):
            raise BatchError("prompt_mask and cache: both or neither")

    @property
    def seen(self) -> Bool[Tensor, "batch prompt_and_node"]:
        """Which nodes of prompts that were read before, and of the texts, are real."""
        if self.prompt_mask is None:
            return self.node_mask
        return torch.cat([self.prompt_mask, self.node_mask], dim=1)


def turn_labels(
    input_ids: Int[Tensor, "batch node"],
    marker_id: int,
    *,
    n_after: int,
    turn: int = 1,
    node_mask: Bool[Tensor, "batch node"] | None = None,
) -> Int[Tensor, "batch node"]:
    """Labels of what follows the marker of a turn and the `n_after` pieces of its name.

    The released code learns all from the first turn on: question, answer and padding. Turn 2 is the
    answer alone; with `node_mask` padding is left out. Where the marker is missing, the text counts
    as if it began with it.

    >>> turn_labels(torch.tensor([[9, 3, 4, 5, 6]]), 3, n_after=1).tolist()
    [[-100, -100, -100, 5, 6]]
    """
    marks = (input_ids == marker_id).long().cumsum(dim=1)
    turn_start = (marks >= turn).long().argmax(dim=1)
    positions = torch.arange(input_ids.shape[1], device=input_ids.device)
    is_learned = positions > (turn_start + n_after)[:, None]
    if node_mask is not None:
        is_learned = is_learned & node_mask
    return input_ids.masked_fill(~is_learned, IGNORE)


def training_loss(
    logits: Float[Tensor, "batch node word"], labels: Int[Tensor, "batch node"]
) -> Float[Tensor, ""]:
    """The released loss: texts with few labels weigh as much as the one with most.

    Each text's losses are multiplied by the largest number of labels over its own, then averaged
    over all places, ignored ones included. As published, a label 0 is not counted. Raises
    `BatchError` for a text without any label, whose weight would be infinite.
    """
    losses = functional.cross_entropy(
        logits[:, :-1].mT.float(), labels[:, 1:], ignore_index=IGNORE, reduction="none"
    )
    return _weighted(losses, labels)


def _weighted(losses: Tensor, labels: Tensor, n_most: int | None = None) -> Tensor:
    """The mean over all places of `losses` `[batch node-1]`, by each text's number of labels."""
    counts = (labels[:, 1:] > 0).sum(dim=1)
    if not torch.compiler.is_compiling() and int(counts.min()) == 0:
        raise BatchError(f"text {int(counts.argmin())} has no label to learn")
    most = counts.max() if n_most is None else n_most
    return mean_of((losses * (most / counts)[:, None]).sum(), losses.numel())


def graph_size(step: int, size: int | None) -> int:
    """How many facts the context of a step has: `size`, or 4 more every 100 steps.

    >>> [graph_size(step, None) for step in (0, 99, 100, 250)], graph_size(250, 7)
    ([4, 4, 8, 12], 7)
    """
    return size or 4 * (step // 100 + 1)


def kind_of(number: int, n_micro: int, *, n_outliers: int, several: bool, extended: bool) -> Kind:
    """What a step's micro-batch of that number is; as published, `n_outliers` + 1 are outliers.

    >>> [kind_of(i, 5, n_outliers=0, several=True, extended=True) for i in range(5)]
    ['several', 'extended', 'standard', 'several', 'outlier']
    """
    if number >= n_micro - 1 - n_outliers:
        return "outlier"
    if number % 3 == 0 and several:
        return "several"
    return "extended" if number % 3 == 1 and extended else "standard"


def with_context(
    rows: Int[Tensor, "batch own"], context: Int[Tensor, " fact"]
) -> Int[Tensor, "batch fact"]:
    """The facts of every example: its own first, then the shared context."""
    return torch.cat([rows, context.expand(len(rows), -1)], dim=1)


def attention_loss(
    weights: Mapping[int, Float[Tensor, "batch head node fact"]],
    predicting: Bool[Tensor, "batch node"],
    right: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Mean of -log of the right fact's share in the attention that facts get, 0 without any fact.

    Over reading layers and the nodes from which the words of an answer are predicted; shares are
    means over heads. Not in the paper, whose attention follows from the words alone. Texts whose
    `right` is -1 are left out; none may be pruned.
    """
    there = right >= 0
    if not bool(there.any()):
        return next(iter(weights.values())).new_zeros(())
    losses = []
    for of_layer in weights.values():
        shares = of_layer[there].mean(dim=1)
        right_shares = shares.gather(2, right[there][:, None, None].expand(-1, shares.shape[1], 1))[
            ..., 0
        ]
        logs = shares.sum(dim=2).clamp(min=TINY).log() - right_shares.clamp(min=TINY).log()
        losses.append(logs[predicting[there]].mean())
    return torch.stack(losses).mean()


def loss_of(
    model: KBLaM,
    batch: MicroBatch,
    key_vectors: Float[Tensor, "fact vector"],
    value_vectors: Float[Tensor, "fact vector"],
    *,
    attention: float = 0.0,
) -> Float[Tensor, ""]:
    """`training_loss` of a micro-batch; facts are encoded once each, words scored where learnt.

    Plus `attention` times `attention_loss`, for which the batch says which facts are right; raises
    `BatchError` where it does not, or the model prunes facts.
    """
    if attention and (batch.right_facts is None or model.config.top_k is not None):
        raise BatchError("the attention loss needs right_facts, and a model that prunes no facts")
    rows, inverse = batch.fact_rows.unique(return_inverse=True)
    facts = model.encoder(key_vectors[rows], value_vectors[rows])[inverse]
    read = model.read(
        batch.input_ids, batch.seen, facts, cache=batch.cache, entering=batch.entering
    )
    expected = batch.labels[:, 1:]
    is_learned = expected != IGNORE
    scores = hosts.logits(model.host, read.hidden_states[-1][:, :-1][is_learned]).float()
    each = functional.cross_entropy(scores, expected[is_learned], reduction="none")
    losses = scores.new_zeros(expected.shape).masked_scatter(is_learned, each)
    loss = _weighted(losses, batch.labels, batch.n_most)
    if attention and batch.right_facts is not None:
        predicting = functional.pad(is_learned, (0, 1))
        right_loss = attention_loss(read.fact_weights, predicting, batch.right_facts)
        loss = loss + attention * right_loss
    return loss


def new_optimiser(
    model: KBLaM,
    n_steps: int,
    *,
    learning_rate: float = LEARNING_RATE,
    decay: bool = True,
    value_rate: float | None = None,
) -> tuple[AdamW, LambdaLR]:
    """AdamW without weight decay over what is trained, and its cosine (or constant) schedule.

    `value_rate` is the learning rate of the map of values, where it is not that of all others.
    """
    if n_steps < 1:
        raise ConfigError(f"{n_steps} steps: 1 or more")
    groups: list[list[torch.nn.Parameter]] = [[], []]
    for name, parameter in model.trained():
        of_values = value_rate is not None and name.startswith("encoder.value_projector.")
        groups[of_values].append(parameter)
    optimiser = AdamW([{"params": groups[0]}], lr=learning_rate, weight_decay=0.0)
    if value_rate is not None:
        optimiser.add_param_group({"params": groups[1], "lr": value_rate})

    def share(step: int) -> float:
        cosine = (1 + math.cos(math.pi * min(step, n_steps) / n_steps)) / 2
        return LAST_SHARE + (1 - LAST_SHARE) * cosine if decay else 1.0

    return optimiser, LambdaLR(optimiser, share)


def train_step(
    model: KBLaM,
    batches: Sequence[MicroBatch],
    vectors: tuple[Tensor, Tensor],
    optimiser: AdamW,
    schedule: LambdaLR,
    *,
    attention: float = 0.0,
) -> list[float]:
    """One step on the sum of the micro-batches' losses (`loss_of`), which are returned.

    The released script's, which golden vectors hold; what is trained at length goes by the common
    loop (`kept.decoders.kblam.learner`).

    `vectors` are those of all facts: of keys and of values.
    """
    optimiser.zero_grad()
    losses = []
    for batch in batches:
        loss = loss_of(model, batch, *vectors, attention=attention)
        loss.backward()
        losses.append(float(loss.detach()))
    optimiser.step()
    schedule.step()
    return losses
