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

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional

from kept import decoders
from kept.batches import Visibility
from kept.decoders.kblam.knowledge_base import KnowledgeBase
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.rectangular import projections, rotated
from kept.decoders.kblam.texts import BATCH, ReadTexts, Texts
from kept.decoders.kblam.values import write_words
from kept.randomness import generator

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
    seen = torch.cat([texts.prompt_mask[some], texts.mask[some]], dim=1)
    n_new, cache = hidden.shape[1], stored.cache(model, some)
    positions = decoders.running_positions(seen)[:, -n_new:]
    added = Visibility.causal(seen).attention("eager", host.dtype)[:, :, -n_new:]
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
    for place, number in enumerate(model.reading_layers):
        query = model.queries[str(number)](states[:, place]).unflatten(-1, (model.n_heads, -1))
        scores = torch.einsum("bnhw,fhw->bnhf", query, split[:, place]) * query.shape[-1] ** -0.5
        every.append(scores + shift)
    scores = torch.stack(every, 1)
    read = _best(scores, n_read).logsumexp(-1)
    return scores, read - torch.logaddexp(read, text_scores)


def _best(scores: Tensor, k: int) -> Tensor:
    """The scores by head of the `k` facts with the highest sums over heads."""
    if k == scores.shape[-1]:
        return scores
    chosen = scores.sum(dim=-2, keepdim=True).topk(k, dim=-1).indices
    return scores.gather(-1, chosen.expand(*scores.shape[:-1], -1))


def align(
    model: KBLaM, texts: Texts, read: ReadStates, base: KnowledgeBase, plan: AlignmentPlan,
    seed: int, announce: Callable[[str], None],
) -> None:  # fmt: skip
    """Train the maps of queries and keys; in every fourth text the right fact is left out."""
    model.train()
    trained = [*model.queries.parameters(), *model.encoder.key_projector.parameters()]
    optimiser = torch.optim.AdamW(trained, lr=plan.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, plan.n_steps)
    start = time.process_time()
    for step in range(plan.n_steps):
        draws = generator(seed, "kblam alignment", step)
        chosen = torch.from_numpy(draws.permutation(len(texts))[: plan.batch_size])
        absent = torch.arange(len(chosen)) % 4 == 3
        own, right = torch.unique(texts.rows[chosen][~absent], return_inverse=True)
        others = np.setdiff1d(np.arange(len(base.facts)), texts.rows[chosen].numpy())
        size = int(FEWEST * (max(plan.n_facts, FEWEST) / FEWEST) ** draws.random())
        more = torch.from_numpy(draws.permutation(others)[: max(size - len(own), 1)])
        rows = torch.cat([own, more])
        facts = model.encoder(*(each[rows] for each in base.vectors))
        scores, mass = head_shares(model, read.states[chosen], read.text_scores[chosen], facts.keys)
        read_of_each = min(len(rows), model.config.top_k or len(rows))
        loss, first = _loss(scores, mass, right, absent, plan.mass, read_of_each)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if (step + 1) % 50 == 0:
            shown = " ".join(f"{each:.2f}" for each in first.tolist())
            spent = f"loss {float(loss.detach()):.3f}, {time.process_time() - start:.0f} s"
            announce(f"alignment {step + 1}: {spent}; first of {len(rows)} by layer: {shown}")
    model.eval()


def _loss(
    scores: Tensor, mass: Tensor, right: Tensor, absent: Tensor, wanted: float, n_read: int
) -> tuple[Tensor, Tensor]:
    """The loss, and by layer how often the right fact has most attention where names end.

    `scores` `[text layer node head fact]`, `mass` (log) `[text layer node head]`. Where the right
    one is missing, the `n_read` best should share evenly.
    """
    reading = scores[:, :, 0]
    logs = reading - reading.logsumexp(-1, keepdim=True)
    there = logs[~absent]
    chosen = there[torch.arange(len(there)), ..., right]
    target = torch.full_like(mass, ELSEWHERE)
    target[:, :, 0] = wanted
    of_mass = functional.mse_loss(mass.exp(), target)
    sums = there.detach().exp().sum(2)
    first = (sums.argmax(-1) == right[:, None]).float().mean(0)
    even = _best(reading[absent], n_read).log_softmax(-1) + float(np.log(n_read))
    spread = even.mean() if bool(absent.any()) else logs.new_zeros(())
    return -chosen.mean() - SPREAD_WEIGHT * spread + MASS_WEIGHT * of_mass, first


def say_values(model: KBLaM, read: ReadStates, plan: AlignmentPlan, otherwise: Tensor) -> None:
    """Set the value map so that a reading layer adds a value's words with `plan.strength`.

    `otherwise` is the vector of what is said where no fact stands out.
    """
    lengths = read.lengths[:, :, 0].mean(dim=0).tolist()
    gains = [plan.strength * length / plan.mass for length in lengths]
    write_words(model, dict(zip(model.reading_layers, gains, strict=True)), otherwise)
