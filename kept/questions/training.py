"""What is trained: LoRA that reads facts, a graph network that prompts, LoRA and an adapter that
remember facts.

Each is small and short, and begins anew where it was stopped; what is finished is stored by the
caller (`kept.questions.workshop`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from kept.adapters.lora import LoraOptions
from kept.batches import IGNORE, Visibility
from kept.decoders import causal_loss, embed, logits, run, running_positions
from kept.decoders.adapters import DecoderAdapter, insert_decoder_lora
from kept.decoders.kblam.knowledge_base import padded
from kept.decoders.soft_prompts import said_words
from kept.decoders.trees import LabelVectors, Readers, answer_loss, chances
from kept.errors import ConfigError
from kept.questions.prompts import Prompting
from kept.questions.readers import FactsAs, SoftPromptReader, TreeReader
from kept.questions.showing import Shown, ShownItem
from kept.randomness import generator, torch_draws

LORA = LoraOptions(rank=8, alpha=16.0, targets=("query", "value"))
Announce = Callable[[str], None]


class Plan(BaseModel):
    """Abstract: options of a row."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NoTraining(Plan):
    """A row that trains nothing; `readers`: who reads an injected node."""

    readers: Readers = "later"


class ReadingPlan(Plan):
    """Questions about other entities with their facts in view, rank-8 LoRA."""

    n_steps: PositiveInt = 8
    batch_size: PositiveInt = 8
    learning_rate: PositiveFloat = 0.002
    readers: Readers = "later"


class RememberingPlan(Plan):
    """Statements of the facts that are asked for, again and again."""

    n_epochs: PositiveInt = 10
    batch_size: PositiveInt = 8
    learning_rate: PositiveFloat = 0.002


class AdapterPlan(RememberingPlan):
    """The same with K-Adapter's blocks, `n_layers` of `width`, beside the host."""

    n_epochs: PositiveInt = 20
    learning_rate: PositiveFloat = 0.001
    width: PositiveInt = 192
    n_heads: PositiveInt = 3
    n_layers: PositiveInt = 1


class SoftPromptPlan(Plan):
    """A graph network of a `width` and its prompt of `n_soft` vectors.

    For `n_aligned` steps of 64 entities it learns to say the words of their facts, without a pass
    of the host (`kept.decoders.soft_prompts.said_words`); then `n_steps` on questions about them.
    """

    n_soft: PositiveInt = 8
    width: PositiveInt = 128
    n_aligned: NonNegativeInt = 1200
    aligned_rate: PositiveFloat = 0.003
    n_steps: PositiveInt = 40
    batch_size: PositiveInt = 8
    learning_rate: PositiveFloat = 0.001


def with_lora(host: PreTrainedModel, seed: int) -> PreTrainedModel:
    """A copy of the host with LoRA that changes nothing yet."""
    copied = copy.deepcopy(host)
    with torch_draws(seed, "initial weights"):
        insert_decoder_lora(copied, LORA)
    return copied


def require_training(given: Shown, n: int) -> None:
    """Raise `ConfigError` unless there are `n` questions to train on."""
    if len(given.items) < n:
        raise ConfigError(
            f"a row that is trained takes {n} questions a step, and there are {len(given.items)}: "
            "give a file of questions as questions.train, a smaller batch_size, or rows that train "
            "nothing (words, branches, nodes)"
        )


def drawn(given: Shown, n: int, seed: int, step: int) -> list[ShownItem]:
    """The `n` items of a step: all of them in turn, in an order drawn for each round."""
    n_items = len(given.items)
    per_round = n_items // n
    order = generator(seed, "question order", step // per_round).permutation(n_items)
    start = step % per_round * n
    return [given.items[i] for i in order[start : start + n].tolist()]


def read_with_lora(
    host: PreTrainedModel, prompting: Prompting, facts_as: FactsAs, given: Shown,
    plan: ReadingPlan, seed: int, announce: Announce,
) -> None:  # fmt: skip
    """Train LoRA inside `host` to answer from facts in view."""
    require_training(given, plan.batch_size)
    reader = TreeReader(host, prompting, facts_as, plan.readers)
    optimiser = optimiser_of([p for p in host.parameters() if p.requires_grad], plan.learning_rate)
    for step in range(plan.n_steps):
        some = drawn(given, plan.batch_size, seed, step)
        values = [each.right[0] for each in some]
        batch = reader.batch(given.questions, some, values)
        counts = torch.tensor([len(prompting.ended(value)) for value in values])
        loss = answer_loss(host, reader.tree(given.questions, batch), batch, counts)
        take_step(optimiser, loss)
        announce(f"step {step + 1} of {plan.n_steps}, loss {float(loss.detach()):.3f}")


def learn_to_prompt(
    reader: SoftPromptReader, given: Shown, plan: SoftPromptPlan, seed: int, announce: Announce
) -> None:
    """Train the graph network of `reader`: aligned to words first, then by answers."""
    require_training(given, plan.batch_size)
    parameters = [value for _, value in reader.prompter.trained()]
    if plan.n_aligned:
        say_words(reader, given, plan, seed, announce)
    optimiser = optimiser_of(parameters, plan.learning_rate)
    for step in range(plan.n_steps):
        some = drawn(given, plan.batch_size, seed, step)
        answers = [reader.prompting.ended(each.right[0]) for each in some]
        words, mask = padded(answers, 0)
        found = chances(reader.host, reader.tree(given.questions, some), words)
        loss = -found[mask].mean()
        take_step(optimiser, loss)
        announce(f"step {step + 1} of {plan.n_steps}, loss {float(loss.detach()):.3f}")


def say_words(
    reader: SoftPromptReader, given: Shown, plan: SoftPromptPlan, seed: int, announce: Announce
) -> None:
    """Align prompts with the words of facts: a regression that takes no pass of the host."""
    graph, prompter = given.graph, reader.prompter
    words = LabelVectors.of(graph, reader.host, reader.prompting.tokenizer)
    entities = {each.entity for each in given.items if each.entity is not None}
    numbers = sorted(graph.entities.id(entity) for entity in entities)
    facts = {n: own for n in numbers if (own := reader.vectors.around(graph, n)) is not None}
    targets = said_words(graph, list(facts), words, plan.n_soft)
    spread = targets.var(dim=0).sum(dim=-1).mean().clamp(min=1e-6)
    heads = list(facts)
    parameters = [value for _, value in prompter.trained()]
    optimiser = optimiser_of(parameters, plan.aligned_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, plan.n_aligned)
    for step in range(plan.n_aligned):
        draws = generator(seed, "prompt alignment", step)
        some = draws.choice(len(heads), min(64, len(heads)), replace=False).tolist()
        made = prompter([facts[heads[i]] for i in some])
        loss = ((made - targets[some]) ** 2).sum(dim=-1).mean() / spread
        take_step(optimiser, loss)
        schedule.step()
        if (step + 1) % 100 == 0:
            announce(f"alignment {step + 1} of {plan.n_aligned}: {float(loss.detach()):.3f} of "
                     "the words' variance is left")  # fmt: skip


def remember_with_lora(
    host: PreTrainedModel, prompting: Prompting, given: Shown, plan: RememberingPlan, seed: int,
    announce: Announce,
) -> None:  # fmt: skip
    """Train LoRA inside `host` on the facts that are asked for, as statements."""
    ids, mask, labels = statements(prompting, given)
    trained = [p for p in host.parameters() if p.requires_grad]

    def loss_of(rows: Sequence[int]) -> Tensor:
        some = torch.tensor(list(rows))
        scores = host(ids[some], attention_mask=mask[some].long()).logits
        loss: Tensor = causal_loss(scores, labels[some])
        return loss

    in_epochs(loss_of, trained, len(ids), plan, seed, announce)


def remember_with_adapter(
    host: PreTrainedModel, adapter: DecoderAdapter, prompting: Prompting, given: Shown,
    plan: AdapterPlan, seed: int, announce: Announce,
) -> None:  # fmt: skip
    """Train an adapter beside `host` on the same; the host reads each statement once."""
    ids, mask, labels = statements(prompting, given)
    with torch.no_grad():
        positions, visibility = running_positions(mask), Visibility.causal(mask)
        hidden = embed(host, host.get_input_embeddings()(ids), positions)
        states = run(host, hidden, visibility, positions)

    def loss_of(rows: Sequence[int]) -> Tensor:
        chosen = torch.tensor(list(rows))
        read = adapter(tuple(each[chosen] for each in states), visibility[chosen])
        places = (labels[chosen] != IGNORE).nonzero(as_tuple=True)
        scores = logits(host, read[places[0], places[1] - 1])
        return functional.cross_entropy(scores, labels[chosen][places])

    in_epochs(loss_of, list(adapter.parameters()), len(ids), plan, seed, announce)


def statements(prompting: Prompting, given: Shown) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask, and labels of the values alone, of each item's fact: the answer's beginning and
    the value, or the relation's statement where no beginning is given.
    """
    rows, counts = [], []
    for each in given.items:
        value, relation = each.right[0], given.questions.fact_of(each.item)[1]
        said = f"{each.item.begin} {value}."
        if not each.item.begin:
            said = given.questions.statement(each.item.name, relation, value)
        pieces = list(prompting.tokenizer(said)["input_ids"])
        rows.append(pieces)
        counts.append(min(len(prompting.ended(value)), len(pieces) - 1))
    ids, mask = padded(rows, prompting.tokenizer.pad_token_id or 0)
    learnt = mask & (
        torch.arange(ids.shape[1]) >= (mask.sum(dim=1) - torch.tensor(counts))[:, None]
    )
    return ids, mask, ids.masked_fill(~learnt, IGNORE)


def in_epochs(
    loss_of: Callable[[Sequence[int]], Tensor], trained: list[torch.nn.Parameter], n_facts: int,
    plan: RememberingPlan, seed: int, announce: Announce,
) -> None:  # fmt: skip
    """Steps on all facts, epoch by epoch."""
    optimiser = optimiser_of(trained, plan.learning_rate)
    for epoch in range(plan.n_epochs):
        order = generator(seed, "remembering order", epoch).permutation(n_facts).tolist()
        losses = []
        for first in range(0, n_facts, plan.batch_size):
            loss = loss_of(order[first : first + plan.batch_size])
            take_step(optimiser, loss)
            losses.append(float(loss.detach()))
        mean = sum(losses) / len(losses)
        announce(f"epoch {epoch + 1} of {plan.n_epochs}, loss {mean:.3f}")


def optimiser_of(trained: list[torch.nn.Parameter], rate: float) -> torch.optim.AdamW:
    """AdamW without weight decay."""
    return torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)


def take_step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down the gradient of a loss."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
