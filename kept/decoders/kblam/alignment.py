"""A warm start that is not in the paper: keys are first made to be found, values to be written.

The frozen host has read dialogues up to the first reading layer (`kept.decoders.kblam.texts`); it
goes on from there once, without facts, and what enters its reading layers is kept at a few nodes.
On that alone the maps of queries and keys are trained. Where the name ends in the answer, the node
that knows whom and what is asked, every head gives the right fact most of the attention to facts,
or spreads it where the right one is missing, and facts together get `mass` of all attention; little
at other nodes, whose reading the host needs. No pass of the host is needed for that, which is what
a budget of CPU minutes cannot pay. Values then say their own words (`kept.decoders.kblam.values`).

Axis legend: text, layer, node, head, fact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional

from kept import decoders
from kept.batches import Visibility
from kept.decoders.kblam.knowledge_base import KnowledgeBase
from kept.decoders.kblam.learner import fingerprint_of
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.rectangular import projections, rotated
from kept.decoders.kblam.texts import BATCH, ReadTexts, Texts
from kept.decoders.kblam.values import write_words
from kept.decoders.learning import DecoderBatch, DecoderLearner, Lessons, Training, training_config
from kept.layers.means import mean_of
from kept.randomness import generator
from kept.training.log import Reporter, TrainResult
from kept.training.loop import Resume, train

ELSEWHERE = 0.02
"""The share of attention that facts should get together at other nodes."""
N_OTHER = 2
"""Nodes before the end of the name that are looked at."""
MASS_WEIGHT, SPREAD_WEIGHT = 20.0, 0.5
FEWEST = 16
"""Facts in the smallest graph of a step."""


class AlignmentPlan(BaseModel):
    """`n_steps` of `batch_size` texts, the right fact among up to `n_facts`.

    `strength`: what a layer adds that looks at facts with `mass`, in shares of what is there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_steps: PositiveInt
    batch_size: PositiveInt
    n_facts: PositiveInt
    mass: PositiveFloat
    learning_rate: PositiveFloat
    strength: PositiveFloat


@dataclass(frozen=True, eq=False)
class ReadStates:
    """Of each text, where its name ends, at the node behind, and at `N_OTHER` before them.

    `states` `[text layer node width]` as queries are made of them, `text_scores` (log of the sum)
    `[text layer node head]`, `lengths` `[text layer node]` of what a layer adds to.
    """

    states: Tensor
    text_scores: Tensor
    lengths: Tensor


def read_states(model: KBLaM, texts: Texts, stored: ReadTexts, seed: int) -> ReadStates:
    """What the host makes of texts without facts, from the first reading layer on."""
    nodes = _nodes(texts, generator(seed, "kblam nodes"))
    every = torch.split(torch.arange(len(texts)), BATCH)
    parts = [_read(model, texts, stored, some, nodes[some]) for some in every]
    return ReadStates(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _nodes(texts: Texts, draws: np.random.Generator) -> Tensor:
    """The node that should read, the one behind it, then `N_OTHER` drawn before them."""
    share = torch.from_numpy(draws.random((len(texts), N_OTHER)))
    return torch.cat([texts.places, (share * texts.places[:, :1]).long()], dim=1)


@torch.no_grad()
def _read(
    model: KBLaM, texts: Texts, stored: ReadTexts, some: Tensor, nodes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    host, rows, hidden = model.host, torch.arange(len(some))[:, None], stored.entering[some]
    mask = torch.cat([texts.prompt_mask[some], texts.mask[some]], dim=1)
    n_new, cache = hidden.shape[1], stored.cache(model, some)
    positions = decoders.running_positions(mask)[:, -n_new:]
    added = Visibility.causal(mask).attention("eager", host.dtype)[:, :, -n_new:]
    rotary = host.base_model.rotary_emb(hidden, position_ids=positions)
    step = decoders.masked_stepper(host, added, positions, cache)
    states, scores, lengths = [], [], []
    for number in range(model.config.first, model.reading_layers[-1] + 1):
        layer: Any = decoders.layers(host)[number]
        if number in model.reading_layers:
            normed = layer.input_layernorm(hidden)
            query, key, _ = projections(layer.self_attn, normed)
            query, key = rotated(query, rotary), rotated(key, rotary)
            key = torch.cat([cache.layers[number].keys, key], dim=2)
            key = key.repeat_interleave(model.n_heads // key.shape[1], dim=1)
            text = query * layer.self_attn.scaling @ key.mT + added
            states.append(normed[rows, nodes])
            scores.append(text.logsumexp(-1).transpose(1, 2)[rows, nodes])
            lengths.append(hidden[rows, nodes].norm(dim=-1))
        hidden = step(layer, hidden)
    return torch.stack(states, 1), torch.stack(scores, 1), torch.stack(lengths, 1)


def head_shares(
    model: KBLaM, states: Tensor, text_scores: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Scores of facts `[text layer node head fact]`, and log of the share of all attention that
    those get which a node reads (`top_k`).
    """
    n_read = min(len(keys), model.config.top_k or len(keys))
    split = keys.view(len(keys), model.n_slices, model.n_heads, -1)
    shift = 0.0 if model.config.scale is None else float(np.log(model.config.scale / n_read))
    every = []
    for index, number in enumerate(model.reading_layers):
        query = model.queries[str(number)](states[:, index]).unflatten(-1, (model.n_heads, -1))
        scores = torch.einsum("bnhw,fhw->bnhf", query, split[:, index]) * query.shape[-1] ** -0.5
        every.append(scores + shift)
    scores = torch.stack(every, 1)
    read = _best(scores, n_read).logsumexp(-1)
    return scores, read - torch.logaddexp(read, text_scores)


def _best(scores: Tensor, k: int) -> Tensor:
    """The scores by head of the `k` facts with the highest sums over heads."""
    if k == scores.shape[-1]:
        return scores
    best = scores.sum(dim=-2, keepdim=True).topk(k, dim=-1).indices
    return scores.gather(-1, best.expand(*scores.shape[:-1], -1))


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadBatch(DecoderBatch):
    """Rows of `ReadStates`, and the facts of a step, `fact_rows`, the same for all.

    `right` is the place of each text's fact among them, -1 in texts from which it is left out.
    """

    states: Tensor
    text_scores: Tensor
    right: Tensor
    fact_rows: Tensor


@dataclass(frozen=True, eq=False)
class Aligned:
    """Texts of a step with the facts of its graph, and the places of their own among them."""

    chosen: Tensor
    right: Tensor
    facts: Tensor

    def __len__(self) -> int:
        return len(self.chosen)


def aligning(
    model: KBLaM,
    texts: Texts,
    read: ReadStates,
    base: KnowledgeBase,
    plan: AlignmentPlan,
    seed: int,
) -> Training:
    """The maps of queries and keys learn to find; in every fourth text the right fact is left out.

    What the training loop takes.
    """

    def draw(seed: int, step: int) -> Aligned:
        draws = generator(seed, "kblam alignment", step)
        sample = torch.from_numpy(draws.permutation(len(texts))[: plan.batch_size])
        there = torch.arange(len(sample)) % 4 != 3
        fact_rows, inverse = torch.unique(texts.rows[sample][there], return_inverse=True)
        others = np.setdiff1d(np.arange(len(base.facts)), texts.rows[sample].numpy())
        size = int(FEWEST * (max(plan.n_facts, FEWEST) / FEWEST) ** draws.random())
        more = torch.from_numpy(draws.permutation(others)[: max(size - len(fact_rows), 1)])
        right = torch.full((len(sample),), -1).masked_scatter(there, inverse)
        return Aligned(sample, right, torch.cat([fact_rows, more]))

    def make(batch: Aligned, local: slice) -> ReadBatch:
        some = batch.chosen[local]
        states = read.states[some]
        real = torch.ones(states.shape[0], states.shape[2], dtype=torch.bool)
        return ReadBatch(
            node_mask=real,
            states=states,
            text_scores=read.text_scores[some],
            right=batch.right[local],
            fact_rows=batch.facts,
        )

    def loss(batch: ReadBatch) -> Tensor:
        facts = model.encoder(*(each[batch.fact_rows] for each in base.vectors))
        scores, mass = head_shares(model, batch.states, batch.text_scores, facts.keys)
        n_read = min(len(batch.fact_rows), model.config.top_k or len(batch.fact_rows))
        return _loss(scores, mass, batch.right, plan.mass, n_read)

    parts = {"queries": model.queries, "key_projector": model.encoder.key_projector}
    learner = DecoderLearner(parts, loss)
    lessons = Lessons(fingerprint_of(texts, base), -(-len(texts) // plan.batch_size), draw, make)
    config = training_config(
        seed, plan.n_steps, plan.batch_size, plan.learning_rate, schedule="cosine"
    )
    return Training(learner, lessons, config)


def align(
    model: KBLaM,
    texts: Texts,
    read: ReadStates,
    base: KnowledgeBase,
    plan: AlignmentPlan,
    seed: int,
    folder: Path,
    *,
    reporter: Reporter | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Train as `aligning` says, or go on from the last checkpoint in `folder`."""
    training = aligning(model, texts, read, base, plan, seed)
    ended = train(
        *training, folder, reporter=reporter, resume=Resume.IF_ANY, should_stop=should_stop
    )
    model.eval()
    return ended


def _loss(scores: Tensor, mass: Tensor, right: Tensor, expected: float, n_read: int) -> Tensor:
    """`scores` `[text layer node head fact]`, `mass` (log) `[text layer node head]`.

    Where the right fact is missing, the `n_read` best should share evenly.
    """
    reading, absent = scores[:, :, 0], right < 0
    logs = reading - reading.logsumexp(-1, keepdim=True)
    there = logs[~absent]
    right_scores = there[torch.arange(len(there)), ..., right[~absent]]
    target = torch.full_like(mass, ELSEWHERE)
    target[:, :, 0] = expected
    of_mass = functional.mse_loss(mass.exp(), target, reduction="sum")
    even = _best(reading[absent], n_read).log_softmax(-1) + float(np.log(n_read))
    spread = mean_of(even.sum(), even.numel())
    right_one = mean_of(right_scores.sum(), right_scores.numel())
    return -right_one - SPREAD_WEIGHT * spread + MASS_WEIGHT * mean_of(of_mass, mass.numel())


def say_values(model: KBLaM, read: ReadStates, plan: AlignmentPlan, otherwise: Tensor) -> None:
    """Set the value map so that a reading layer adds a value's words with `plan.strength`.

    `otherwise` is the vector of what is said where no fact stands out.
    """
    lengths = read.lengths[:, :, 0].mean(dim=0).tolist()
    gains = [plan.strength * length / plan.mass for length in lengths]
    write_words(model, dict(zip(model.reading_layers, gains, strict=True)), otherwise)
