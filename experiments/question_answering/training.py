"""What is trained: LoRA that reads facts, LoRA and an adapter that remember them.

Weights are stored in the run's folder; what is there is not trained again.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from pydantic import PositiveFloat, PositiveInt
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.mentions import LinkedText
from experiments.question_answering.questions import Asked
from experiments.question_answering.readers import SoftPromptReader, TreeReader
from kept.adapters.lora import LoraOptions
from kept.batches import IGNORE, Visibility
from kept.decoders import causal_loss, embed, logits, run, running_positions
from kept.decoders.adapters import (
    DecoderAdapter,
    insert_decoder_lora,
    load_lora_state,
    lora_state,
)
from kept.decoders.kblam.knowledge_base import padded
from kept.decoders.kblam.wording import Fact
from kept.decoders.soft_prompts import GraphPrompter, LabelSentences, SoftPromptOptions
from kept.decoders.trees import answer_loss, chances
from kept.randomness import generator, torch_draws
from kept.training.config import RunConfig
from kg_loaders.disk.writing import write_bytes

LORA = LoraOptions(rank=8, alpha=16.0, targets=("query", "value"))
ADAPTER = {"width": 192, "n_heads": 3, "n_layers": 1, "dropout": 0.0}
Announce = Callable[[str], None]


class ReadingPlan(RunConfig):
    """Questions of other bearers with their facts in view, each asked once."""

    n_steps: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat


class SoftPromptPlan(RunConfig):
    """Sizes of a graph network and its prompt, and steps on questions of other bearers."""

    n_soft: PositiveInt
    width: PositiveInt
    n_steps: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat


class RememberingPlan(RunConfig):
    """Statements of the facts that are asked for, again and again."""

    n_epochs: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat


@dataclasses.dataclass(frozen=True, eq=False)
class Shop:
    """What every training needs; `folder` keeps the weights."""

    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    folder: Path
    announce: Announce

    def stored(self, name: str) -> dict[str, Tensor] | None:
        """Weights of that name, None where there are none yet."""
        path = self.folder / f"{name}.safetensors"
        return load_file(path) if path.exists() else None

    def store(self, name: str, state: Mapping[str, Tensor]) -> None:
        """Keep weights under that name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = {key: value.detach().contiguous() for key, value in state.items()}
        write_bytes(self.folder / f"{name}.safetensors", save(plain), force=True)

    def with_lora(self, seed: int) -> PreTrainedModel:
        """A copy of the host with LoRA that changes nothing yet."""
        host = copy.deepcopy(self.host)
        with torch_draws(seed, "initial weights"):
            insert_decoder_lora(host, LORA)
        return host


def reading_lora(
    shop: Shop, name: str, kind: str, train: Asked, plan: ReadingPlan, seed: int
) -> PreTrainedModel:
    """The host with LoRA that has learnt to answer from facts in view (`kind` of `TreeReader`)."""
    host, state = shop.with_lora(seed), shop.stored(name)
    if state is not None:
        load_lora_state(host, state)
        return host
    reader = TreeReader(host, shop.tokenizer, kind)
    order = generator(seed, "reading order").permutation(len(train.questions))
    optimiser = _optimiser([p for p in host.parameters() if p.requires_grad], plan.learning_rate)
    start = time.process_time()
    for step in range(plan.n_steps):
        some = [train.questions[i] for i in order[step * plan.batch_size :][: plan.batch_size]]
        texts = [_answered(q.linked, q.fact.value) for q in some]
        batch = reader.batch(train.graph, texts)
        counts = [len(_pieces(shop.tokenizer, q.fact.value)) for q in some]
        tree = reader.tree(train.graph, batch)
        loss = answer_loss(host, tree, batch, torch.tensor(counts))
        _step(optimiser, loss)
        spent = time.process_time() - start
        shop.announce(f"{name}: step {step + 1}, loss {float(loss.detach()):.3f}, {spent:.0f} s")
    shop.store(name, lora_state(host))
    return host


def reading_prompt(
    shop: Shop, name: str, train: Asked, vectors: LabelSentences, plan: SoftPromptPlan, seed: int
) -> GraphPrompter:
    """A graph network that has learnt to make prompts to answer from; the host stays."""
    options = SoftPromptOptions(
        vector_width=vectors.entities.shape[1], n_soft=plan.n_soft, width=plan.width
    )
    with torch_draws(seed, "initial weights"):
        prompter = GraphPrompter(shop.host, options).eval()
    state = shop.stored(name)
    if state is not None:
        prompter.load_own_state(state)
        return prompter
    reader = SoftPromptReader(shop.host, shop.tokenizer, prompter, vectors)
    optimiser = _optimiser([value for _, value in prompter.trained()], plan.learning_rate)
    start = time.process_time()
    for step in range(plan.n_steps):
        draws = generator(seed, "prompt order", step)
        chosen = draws.permutation(len(train.questions))[: plan.batch_size].tolist()
        some = [train.questions[i] for i in chosen]
        answers = [_pieces(shop.tokenizer, q.fact.value) for q in some]
        words, mask = padded(answers, 0)
        found = chances(shop.host, reader.tree(train.graph, [q.linked for q in some]), words)
        loss = -found[mask].mean()
        _step(optimiser, loss)
        spent = time.process_time() - start
        shop.announce(f"{name}: step {step + 1}, loss {float(loss.detach()):.3f}, {spent:.0f} s")
    shop.store(name, prompter.own_state())
    return prompter


def _answered(text: LinkedText, value: str) -> LinkedText:
    return dataclasses.replace(text, text=f"{text.text} {value}.")


def _pieces(tokenizer: PreTrainedTokenizerBase, value: str) -> list[int]:
    """The pieces of a value and a stop, as they follow a text."""
    pieces: list[int] = tokenizer(f" {value}.", add_special_tokens=False)["input_ids"]
    return pieces


def remembering_lora(
    shop: Shop, name: str, facts: Sequence[Fact], plan: RememberingPlan, seed: int
) -> PreTrainedModel:
    """The host with LoRA that was trained on the statements of facts."""
    host, state = shop.with_lora(seed), shop.stored(name)
    if state is not None:
        load_lora_state(host, state)
        return host
    trained = [p for p in host.parameters() if p.requires_grad]

    def loss_of(rows: Sequence[int]) -> Tensor:
        ids, mask, labels = _statements([facts[i] for i in rows], shop.tokenizer)
        return causal_loss(host(ids, attention_mask=mask.long()).logits, labels)

    _epochs(shop, name, loss_of, trained, len(facts), plan, seed)
    shop.store(name, lora_state(host))
    return host


def remembering_adapter(
    shop: Shop, name: str, facts: Sequence[Fact], plan: RememberingPlan, seed: int
) -> DecoderAdapter:
    """An adapter beside the host, trained on the same; the host reads each statement once."""
    with torch_draws(seed, "initial weights"):
        n = shop.host.config.num_hidden_layers
        adapter = DecoderAdapter(shop.host, {"layers": (n // 3, 2 * n // 3, n), **ADAPTER}).eval()
    state = shop.stored(name)
    if state is not None:
        adapter.load_state_dict(state)
        return adapter
    ids, mask, labels = _statements(facts, shop.tokenizer)
    with torch.no_grad():
        positions, visibility = running_positions(mask), Visibility.causal(mask)
        hidden = embed(shop.host, shop.host.get_input_embeddings()(ids), positions)
        states = run(shop.host, hidden, visibility, positions)

    def loss_of(rows: Sequence[int]) -> Tensor:
        chosen = torch.tensor(list(rows))
        read = adapter(tuple(each[chosen] for each in states), visibility[chosen])
        places = (labels[chosen] != IGNORE).nonzero(as_tuple=True)
        scores = logits(shop.host, read[places[0], places[1] - 1])
        return functional.cross_entropy(scores, labels[chosen][places])

    _epochs(shop, name, loss_of, list(adapter.parameters()), len(facts), plan, seed)
    shop.store(name, adapter.state_dict())
    return adapter


def _epochs(
    shop: Shop,
    name: str,
    loss_of: Callable[[Sequence[int]], Tensor],
    trained: list[torch.nn.Parameter],
    n_facts: int,
    plan: RememberingPlan,
    seed: int,
) -> None:
    optimiser, start = _optimiser(trained, plan.learning_rate), time.process_time()
    for epoch in range(plan.n_epochs):
        order = generator(seed, "remembering order", epoch).permutation(n_facts).tolist()
        losses = []
        for first in range(0, n_facts, plan.batch_size):
            loss = loss_of(order[first : first + plan.batch_size])
            _step(optimiser, loss)
            losses.append(float(loss.detach()))
        spent = time.process_time() - start
        mean = sum(losses) / len(losses)
        shop.announce(f"{name}: epoch {epoch + 1}, loss {mean:.3f}, {spent:.0f} s")


def _statements(
    facts: Sequence[Fact], tokenizer: PreTrainedTokenizerBase
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask, and labels of the values alone."""
    rows = tokenizer([fact.answer for fact in facts])["input_ids"]
    ids, mask = padded(rows, tokenizer.pad_token_id or 0)
    counts = torch.tensor([len(_pieces(tokenizer, fact.value)) for fact in facts])
    ends = mask.sum(dim=1)
    places = torch.arange(ids.shape[1])
    learnt = mask & (places >= (ends - counts)[:, None])
    return ids, mask, ids.masked_fill(~learnt, IGNORE)


def _optimiser(trained: list[torch.nn.Parameter], rate: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
