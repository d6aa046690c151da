"""A warm start that is not in the paper: queries are first taught to find their fact's key.

The frozen host reads training dialogues once, without facts, and what enters its reading layers is
kept. On that alone the maps of queries and keys are trained: at the nodes that write the answer the
right fact gets most of the attention to facts (mean over heads), and facts together get `mass` of
all attention; little where the right one is missing, and at the question, whose reading the host
needs. No pass of the host is needed for that, which is what a budget of CPU minutes cannot pay.

Axis legend: text, node, layer, head, fact.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from kept import decoders
from kept.batches import Visibility
from kept.decoders.kblam import KBLaM
from kept.decoders.kblam_text import CHATML, TEMPLATES
from kept.decoders.knowledge_base import KnowledgeBase, padded
from kept.decoders.rectangular import projections, rotated
from kept.randomness import generator
from kept.training.config import RunConfig

ABSENT = 0.02
"""The share of attention that facts should get together where they do not help."""


class AlignmentPlan(RunConfig):
    """`n_texts` dialogues are read once; `n_steps` of `batch_size` of them, among `n_facts`."""

    n_texts: PositiveInt
    n_steps: PositiveInt
    batch_size: PositiveInt
    n_facts: PositiveInt
    mass: PositiveFloat
    learning_rate: PositiveFloat


@dataclass(frozen=True, eq=False)
class ReadStates:
    """Of each text: what enters the reading layers, and how much its words draw attention.

    `states` `[text layer node width]`, `text_scores` (log of the sum) `[text layer node head]`;
    `answering` are the nodes that write the answer, among the `real` ones.
    """

    rows: Tensor
    states: Tensor
    text_scores: Tensor
    real: Tensor
    answering: Tensor


def read_states(
    model: KBLaM, tokenizer: PreTrainedTokenizerBase, base: KnowledgeBase, plan: AlignmentPlan,
    seed: int,
) -> ReadStates:  # fmt: skip
    """What the host makes of dialogues about randomly chosen facts."""
    draws = generator(seed, "kblam alignment texts")
    rows = draws.permutation(len(base.facts))[: plan.n_texts]
    texts, n_prompts = [], []
    for row in rows:
        fact, template = base.facts[row], int(draws.integers(len(TEMPLATES)))
        texts.append(CHATML.dialogue(fact.question(template), fact.answer))
        n_prompts.append(len(tokenizer(CHATML.prompt(fact.question(template)))["input_ids"]))
    ids, mask = padded(tokenizer(texts)["input_ids"], tokenizer.pad_token_id or 0)
    answering = mask & (torch.arange(ids.shape[1]) >= torch.tensor(n_prompts)[:, None] - 1)
    parts = [_read(model, ids[i : i + 16], mask[i : i + 16]) for i in range(0, len(ids), 16)]
    states, scores = (torch.cat(part) for part in zip(*parts, strict=True))
    return ReadStates(torch.from_numpy(rows), states, scores, mask, answering)


@torch.no_grad()
def _read(model: KBLaM, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    host = model.host
    positions = decoders.running_positions(mask)
    visibility = Visibility.causal(mask)
    hidden = decoders.embed(host, host.get_input_embeddings()(ids), positions)
    every = decoders.run(host, hidden, visibility, positions)
    added = visibility.attention("eager", host.dtype)
    rotary = host.base_model.rotary_emb(hidden, position_ids=positions)
    states, scores = [], []
    for number in model.reading_layers:
        layer: Any = decoders.layers(host)[number]
        normed = layer.input_layernorm(every[number])
        query, key, _ = projections(layer.self_attn, normed)
        query, key = rotated(query, rotary), rotated(key, rotary)
        key = key.repeat_interleave(model.n_heads // key.shape[1], dim=1)
        text = query * layer.self_attn.scaling @ key.mT + added
        states.append(normed)
        scores.append(text.logsumexp(-1).transpose(1, 2))
    return torch.stack(states, 1), torch.stack(scores, 1)


def fact_shares(
    model: KBLaM, states: Tensor, text_scores: Tensor, keys: Tensor, scale: float
) -> Tensor:
    """Attention to each fact, the mean over heads: `[batch layer node fact]`."""
    n_facts = len(keys)
    split = keys.view(n_facts, model.n_slices, model.n_heads, -1)
    shares = []
    for place, number in enumerate(model.reading_layers):
        query = model.queries[str(number)](states[:, place]).unflatten(-1, (model.n_heads, -1))
        scores = torch.einsum("bnhw,fhw->bnhf", query, split[:, place]) * query.shape[-1] ** -0.5
        scores = scores + float(np.log(scale / n_facts))
        both = torch.cat([scores, text_scores[:, place][..., None]], dim=-1)
        shares.append(both.softmax(-1)[..., :-1].mean(2))
    return torch.stack(shares, 1)


def align(
    model: KBLaM, read: ReadStates, base: KnowledgeBase, plan: AlignmentPlan, seed: int,
    announce: Callable[[str], None],
) -> None:  # fmt: skip
    """Train the maps of queries and keys; in every fourth text the right fact is left out."""
    model.train()
    trained = [*model.queries.parameters(), *model.encoder.key_projector.parameters()]
    optimiser = torch.optim.AdamW(trained, lr=plan.learning_rate, weight_decay=0.0)
    scale, start = model.config.scale or float(plan.n_facts), time.process_time()
    for step in range(plan.n_steps):
        draws = generator(seed, "kblam alignment", step)
        texts = torch.from_numpy(draws.permutation(len(read.rows))[: plan.batch_size])
        absent = torch.arange(len(texts)) % 4 == 3
        own = read.rows[texts]
        others = np.setdiff1d(np.arange(len(base.facts)), own.numpy())
        n_others = plan.n_facts - int((~absent).sum())
        more = torch.from_numpy(draws.permutation(others)[:n_others])
        facts = model.encoder(*(each[torch.cat([own[~absent], more])] for each in base.vectors))
        shares = fact_shares(model, read.states[texts], read.text_scores[texts], facts.keys, scale)
        nodes = read.real[texts], read.answering[texts]
        loss, first = _loss(shares, nodes, absent, plan.mass)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if (step + 1) % 50 == 0:
            found = " ".join(f"{each:.2f}" for each in first.tolist())
            spent = f"loss {float(loss.detach()):.3f}, {time.process_time() - start:.0f} s"
            announce(f"alignment {step + 1}: {spent}; first by layer: {found}")
    model.eval()


def _loss(
    shares: Tensor, nodes: tuple[Tensor, Tensor], absent: Tensor, mass: float
) -> tuple[Tensor, Tensor]:
    """The loss, and by layer how often the right fact has most attention of the answer."""
    real, answering = nodes
    right = torch.arange(int((~absent).sum()))
    there, writing = shares[~absent], answering[~absent]
    logs = (there + 1e-9).log()
    chosen = logs[right, ..., right] - logs.logsumexp(-1)
    counted = writing[:, None].expand_as(chosen)
    masses = shares.sum(-1)
    helped = answering & ~absent[:, None]
    wanted = torch.where(helped, mass, ABSENT)[:, None].expand_as(masses)
    of_mass = functional.mse_loss(masses, wanted, reduction="none")
    loss = -chosen[counted].mean() + 20 * of_mass[real[:, None].expand_as(masses)].mean()
    sums = (there * writing[:, None, :, None]).sum(2)
    return loss, (sums.argmax(-1) == right[:, None]).float().mean(0)
