"""What is trained: LoRA that reads facts, a graph network that prompts, LoRA and an adapter that
remember facts.

Each function returns what `kept.training.loop.train` takes: what learns, its batches by number, and
the settings.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from kept.adapters.lora import LoraOptions
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.decoders import causal_loss, embed, logits, run, running_positions
from kept.decoders.adapters import DecoderAdapter, insert_decoder_lora
from kept.decoders.kblam.knowledge_base import padded
from kept.decoders.learning import (
    DecoderBatch,
    DecoderLearner,
    Lessons,
    Training,
    training_config,
)
from kept.decoders.soft_prompts import Facts, GraphPrompter, said_words
from kept.decoders.trees import LabelVectors, Readers, answer_loss, chances
from kept.errors import ConfigError
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.readers import FactsAs, SoftPromptReader, TreeReader
from kept.lab.questions.showing import ItemSet, ShownItem
from kept.layers.means import mean_of
from kept.randomness import generator, torch_draws

LORA = LoraOptions(rank=8, alpha=16.0, targets=("query", "value"))
N_ALIGNED_AT_ONCE = 64
"""Entities of a step in which prompts are aligned with words."""


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


def require_training(item_set: ItemSet, n: int) -> None:
    """Raise `ConfigError` unless there are `n` questions to train on."""
    if len(item_set.items) < n:
        raise ConfigError(
            f"a row that is trained takes {n} questions a step, and there are "
            f"{len(item_set.items)}: give a file of questions as questions.train, a smaller "
            "batch_size, or rows that train nothing (words, branches, nodes)"
        )


# ---- questions with facts in view ----------------------------------------------------------------
@dataclass(frozen=True, eq=False, kw_only=True)
class AnsweredBatch(DecoderBatch):
    """Texts with their facts; the last `n_answer` words of each are learnt."""

    texts: KnowledgeBatch
    n_answer: Tensor


def reading(
    host: PreTrainedModel, prompting: Prompting, facts_as: FactsAs, item_set: ItemSet,
    plan: ReadingPlan, seed: int,
) -> Training:  # fmt: skip
    """LoRA inside `host` learns to answer from facts in view."""
    require_training(item_set, plan.batch_size)
    reader = TreeReader(host, prompting, facts_as, plan.readers)

    def make(some: Sequence[ShownItem], part: slice) -> AnsweredBatch:
        values = [each.right[0] for each in some[part]]
        texts = reader.batch(item_set.questions, some[part], values)
        counts = torch.tensor([len(prompting.ended(value)) for value in values])
        return AnsweredBatch(node_mask=texts.node_mask, texts=texts, n_answer=counts)

    def loss(batch: AnsweredBatch) -> Tensor:
        tree = reader.tree(item_set.questions, batch.texts)
        mean: Tensor = answer_loss(host, tree, batch.texts, batch.n_answer)
        return mean

    lessons = _questions(item_set, plan.batch_size, make)
    config = training_config(seed, plan.n_steps, plan.batch_size, plan.learning_rate)
    return Training(DecoderLearner({"host": host}, loss), lessons, config)


@dataclass(frozen=True, eq=False, kw_only=True)
class PromptedBatch(DecoderBatch):
    """Questions, whose `facts` become prompts before the word numbered in `before`, and answers."""

    facts: Sequence[Facts | None]
    ids: Tensor
    before: Sequence[int]
    answers: Tensor
    answer_mask: Tensor


def prompting_by_answers(
    reader: SoftPromptReader, item_set: ItemSet, plan: SoftPromptPlan, seed: int
) -> Training:
    """The graph network of `reader` learns by answers to questions about other entities."""
    require_training(item_set, plan.batch_size)
    host, prompter = reader.host, reader.prompter

    def make(some: Sequence[ShownItem], part: slice) -> PromptedBatch:
        facts, ids, mask, before = reader.texts(item_set.questions, some[part])
        pieces = [reader.prompting.ended(each.right[0]) for each in some[part]]
        answers, answer_mask = padded(pieces, 0)
        return PromptedBatch(
            node_mask=mask, facts=facts, ids=ids, before=before, answers=answers,
            answer_mask=answer_mask,
        )  # fmt: skip

    def loss(batch: PromptedBatch) -> Tensor:
        tree = prompter.tree(host, batch.facts, batch.ids, batch.node_mask, batch.before)
        log_chances = chances(host, tree, batch.answers)[batch.answer_mask]
        return -mean_of(log_chances.sum(), len(log_chances))

    lessons = _questions(item_set, plan.batch_size, make)
    config = training_config(seed, plan.n_steps, plan.batch_size, plan.learning_rate)
    return Training(_of_prompter(host, prompter, loss), lessons, config)


@dataclass(frozen=True, eq=False, kw_only=True)
class FactsBatch(DecoderBatch):
    """Facts of entities, each a node here, and the prompts that they should become."""

    facts: Sequence[Facts]
    targets: Tensor


def prompting_by_words(
    reader: SoftPromptReader, item_set: ItemSet, plan: SoftPromptPlan, seed: int
) -> Training:
    """The graph network of `reader` learns to say words of facts, without a pass of the host."""
    graph, prompter = item_set.graph, reader.prompter
    words = LabelVectors.of(graph, reader.host, reader.prompting.tokenizer)
    entities = {each.entity for each in item_set.items if each.entity is not None}
    numbers = sorted(graph.entities.id(entity) for entity in entities)
    by_entity = {n: part for n in numbers if (part := reader.vectors.around(graph, n)) is not None}
    targets, facts = (
        said_words(graph, list(by_entity), words, plan.n_soft),
        list(by_entity.values()),
    )
    spread = targets.var(dim=0).sum(dim=-1).mean().clamp(min=1e-6)
    n_at_once = min(N_ALIGNED_AT_ONCE, len(facts))

    def draw(seed: int, number: int) -> list[int]:
        draws = generator(seed, "prompt alignment", number)
        some: list[int] = draws.choice(len(facts), n_at_once, replace=False).tolist()
        return some

    def make(some: list[int], part: slice) -> FactsBatch:
        rows = some[part]
        real = torch.ones(len(rows), 1, dtype=torch.bool)
        return FactsBatch(node_mask=real, facts=[facts[row] for row in rows], targets=targets[rows])

    def loss(batch: FactsBatch) -> Tensor:
        errors = ((prompter(batch.facts) - batch.targets) ** 2).sum(dim=-1)
        mean: Tensor = mean_of(errors.sum(), errors.numel()) / spread
        return mean

    lessons = Lessons(_fingerprint(item_set), -(-len(facts) // n_at_once), draw, make)
    config = training_config(seed, plan.n_aligned, n_at_once, plan.aligned_rate, schedule="cosine")
    return Training(_of_prompter(reader.host, prompter, loss), lessons, config)


def _of_prompter(
    host: PreTrainedModel, prompter: GraphPrompter, loss: Callable[..., Tensor]
) -> DecoderLearner:
    """A learner of the network and the layers behind it."""
    parts: dict[str, nn.Module] = {
        "host": host, "gnn": prompter.retriever.gnn, "projector": prompter.retriever.projector
    }  # fmt: skip
    return DecoderLearner(parts, loss)


def _questions(
    item_set: ItemSet, n: int, make: Callable[[Sequence[ShownItem], slice], DecoderBatch]
) -> Lessons[Sequence[ShownItem], DecoderBatch]:
    """`n` questions a step: all of them in turn, in an order drawn for each round."""
    per_round = len(item_set.items) // n

    def draw(seed: int, number: int) -> list[ShownItem]:
        order = generator(seed, "question order", number // per_round).permutation(
            len(item_set.items)
        )
        start = number % per_round * n
        return [item_set.items[i] for i in order[start : start + n].tolist()]

    return Lessons(_fingerprint(item_set), per_round, draw, make)


def _fingerprint(item_set: ItemSet) -> str:
    """Changes with the graph, the items and whose facts are shown."""
    state = hashlib.sha256(item_set.graph.content_hash.encode())
    for each in item_set.items:
        state.update(repr(dataclasses.astuple(each)).encode())
    return state.hexdigest()[:16]


# ---- facts to remember ---------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, kw_only=True)
class StatementBatch(DecoderBatch):
    """Statements of facts, labels of the values alone; `states` `[batch state node width]` of the
    host, where it has read them before."""

    ids: Tensor
    labels: Tensor
    states: Tensor | None = None


def remembering(
    host: PreTrainedModel, prompting: Prompting, item_set: ItemSet, plan: RememberingPlan, seed: int
) -> Training:
    """LoRA inside `host` learns the facts that are asked for, as statements."""
    ids, mask, labels = statements(prompting, item_set)

    def make(rows: list[int], part: slice) -> StatementBatch:
        some = torch.tensor(rows[part])
        return StatementBatch(node_mask=mask[some], ids=ids[some], labels=labels[some])

    def loss(batch: StatementBatch) -> Tensor:
        scores = host(batch.ids, attention_mask=batch.node_mask.long()).logits
        mean: Tensor = causal_loss(scores, batch.labels)
        return mean

    return _in_epochs(DecoderLearner({"host": host}, loss), item_set, make, plan, seed)


def remembering_with_adapter(
    host: PreTrainedModel, adapter: DecoderAdapter, prompting: Prompting, item_set: ItemSet,
    plan: AdapterPlan, seed: int,
) -> Training:  # fmt: skip
    """An adapter beside `host` learns the same; the host reads each statement once, here."""
    ids, mask, labels = statements(prompting, item_set)
    host.requires_grad_(False)
    with torch.no_grad():
        positions, visibility = running_positions(mask), Visibility.causal(mask)
        hidden = embed(host, host.get_input_embeddings()(ids), positions)
        states = torch.stack(run(host, hidden, visibility, positions), dim=1)

    def make(rows: list[int], part: slice) -> StatementBatch:
        some = torch.tensor(rows[part])
        return StatementBatch(
            node_mask=mask[some], ids=ids[some], labels=labels[some], states=states[some]
        )

    def loss(batch: StatementBatch) -> Tensor:
        assert batch.states is not None
        read = adapter(batch.states.unbind(dim=1), Visibility.causal(batch.node_mask))
        texts, places = (batch.labels != IGNORE).nonzero(as_tuple=True)
        scores = logits(host, read[texts, places - 1])
        expected = batch.labels[texts, places]
        total = functional.cross_entropy(scores, expected, reduction="sum")
        return mean_of(total, len(expected))

    learner = DecoderLearner({"host": host, "adapter": adapter}, loss)
    return _in_epochs(learner, item_set, make, plan, seed)


def statements(prompting: Prompting, item_set: ItemSet) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask, and labels of the values alone, of each item's fact: the answer's beginning and
    the value, or the relation's statement where no beginning is given.
    """
    rows, counts = [], []
    for each in item_set.items:
        value, relation = each.right[0], item_set.questions.fact_of(each.item)[1]
        statement = f"{each.item.begin} {value}."
        if not each.item.begin:
            statement = item_set.questions.statement(each.item.name, relation, value)
        pieces = list(prompting.tokenizer(statement)["input_ids"])
        rows.append(pieces)
        counts.append(min(len(prompting.ended(value)), len(pieces) - 1))
    ids, mask = padded(rows, prompting.tokenizer.pad_token_id or 0)
    is_value = mask & (
        torch.arange(ids.shape[1]) >= (mask.sum(dim=1) - torch.tensor(counts))[:, None]
    )
    return ids, mask, ids.masked_fill(~is_value, IGNORE)


def _in_epochs(
    learner: DecoderLearner, item_set: ItemSet, make: Callable[[list[int], slice], StatementBatch],
    plan: RememberingPlan, seed: int,
) -> Training:  # fmt: skip
    """All facts, epoch by epoch, each in an order drawn anew."""
    n_facts = len(item_set.items)
    per_epoch = -(-n_facts // plan.batch_size)

    def draw(seed: int, number: int) -> list[int]:
        epoch, batch_number = divmod(number, per_epoch)
        order = generator(seed, "remembering order", epoch).permutation(n_facts).tolist()
        rows: list[int] = order[
            batch_number * plan.batch_size : (batch_number + 1) * plan.batch_size
        ]
        return rows

    n_steps = plan.n_epochs * per_epoch
    config = training_config(seed, n_steps, plan.batch_size, plan.learning_rate)
    return Training(learner, Lessons(_fingerprint(item_set), per_epoch, draw, make), config)
