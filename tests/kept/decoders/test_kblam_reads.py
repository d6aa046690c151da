"""A positive control: on a small frozen host KBLaM learns to read, not to remember.

Facts get new values at every step, so that only reading answers; then graphs that were never seen.
"""

from __future__ import annotations

import torch

from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.measures import attention_accuracy, attention_sums
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import MicroBatch, new_optimiser, train_step
from tests.kept.tiny_decoders import tiny_decoder

N_NAMES, N_RELATIONS, N_VALUES = 8, 3, 4
FIRST_NAME, FIRST_RELATION, FIRST_VALUE = 3, 12, 16
N_FACTS = N_NAMES * N_RELATIONS


def vectors(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys say name and relation, values the value; all as ones among zeros."""
    places = torch.arange(N_FACTS)
    keys = torch.zeros(N_FACTS, 16)
    keys[places, places // N_RELATIONS] = 3
    keys[places, N_NAMES + places % N_RELATIONS] = 3
    of_values = torch.zeros(N_FACTS, 16)
    of_values[places, values] = 3
    return keys, of_values


def texts(questions: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A name, a relation, the value of that fact."""
    columns = FIRST_NAME + questions // N_RELATIONS, FIRST_RELATION + questions % N_RELATIONS
    return torch.stack([*columns, FIRST_VALUE + values[questions]], dim=1)


def random_values(draws: torch.Generator) -> torch.Tensor:
    return torch.randint(N_VALUES, (N_FACTS,), generator=draws)


def trained(n_steps: int) -> KBLaM:
    host = tiny_decoder("llama", hidden_size=32, num_attention_heads=4, intermediate_size=64)
    torch.manual_seed(0)
    model = KBLaM(host, KBLaMConfig(vector_width=16, every=1, first=1, scale=8.0))
    optimiser, schedule = new_optimiser(model.train(), n_steps, learning_rate=0.01)
    draws = torch.Generator().manual_seed(1)
    every = torch.arange(N_FACTS)
    for _ in range(n_steps):
        values = random_values(draws)
        questions = torch.randperm(N_FACTS, generator=draws)[:16]
        ids = texts(questions, values)
        labels = ids.clone()
        labels[:, :2] = -100
        batch = MicroBatch(
            ids, torch.ones_like(ids, dtype=torch.bool), labels, every.expand(16, -1), questions
        )
        train_step(model, [batch], vectors(values), optimiser, schedule, attention=2.0)
    return model.eval()


def test_facts_that_were_never_seen_are_read_and_edits_are_followed() -> None:
    model = trained(300)
    draws = torch.Generator().manual_seed(2)
    hits = [measured(model, random_values(draws)) for _ in range(5)]
    right, looked, followed, old = (sum(each) / 5 for each in zip(*hits, strict=True))
    assert right > 0.75  # one in four by chance
    assert looked > 0.9
    assert followed > 0.75
    assert old < 0.1


@torch.no_grad()
def measured(model: KBLaM, values: torch.Tensor) -> tuple[float, float, float, float]:
    """Shares of questions answered rightly, whose fact has most attention, and after an edit."""
    questions, edited = torch.arange(N_FACTS), (values + 1) % N_VALUES
    ids = texts(questions, values)[:, :2]
    mask = torch.ones_like(ids, dtype=torch.bool)
    before = model(ids, mask, model.encoder(*vectors(values)))
    after = model(ids, mask, model.encoder(*vectors(edited)))
    written, rewritten = (each.logits[:, -1].argmax(-1) - FIRST_VALUE for each in (before, after))
    last = mask & (torch.arange(2) == 1)
    sums = attention_sums(before.states.fact_weights[2], last)
    return (
        float((written == values).float().mean()),
        attention_accuracy(sums, questions).first,
        float((rewritten == edited).float().mean()),
        float((rewritten == values).float().mean()),
    )
