"""KBLaM as a row: aligned and trained on questions about other entities, asked over all facts.

Wang et al. 2025, ICLR. The training, and where it differs from the paper, is that of
`experiments/kblam`; the question and the beginning of the answer are the items' own. What it reads
at a question are all facts of the entities that are asked about, as keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from transformers import PreTrainedModel

from entity_linking.parts import SentenceEncoder
from kept.decoders.hosts import layers
from kept.decoders.kblam.alignment import AlignmentPlan, align, read_states, say_values
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import load_kblam, save_kblam
from kept.decoders.kblam.knowledge_base import KnowledgeBase, unit_vectors
from kept.decoders.kblam.learner import Learner, TrainingPlan
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.rectangular import FactTokens
from kept.decoders.kblam.texts import StoredVectors, read_texts, texts_of
from kept.decoders.kblam.values import HostWords
from kept.decoders.kblam.wording import UNKNOWN, Dialogue, Fact
from kept.decoders.trees import Continuation
from kept.lab.questions.items import QuestionSet
from kept.lab.questions.making import ALIGNMENT, TRAINING
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.readers import Reader, left_padded
from kept.lab.questions.showing import ItemSet, ShownItem
from kept.lab.questions.training import Plan, require_training
from kept.lab.questions.training_context import TrainingContext
from kept.lab.study.store import remove_other_files
from kept.randomness import generator, torch_draws
from kept.training.checkpoint import list_checkpoints
from kept.training.processes.together import processes

TRAINED = "trained"
SHARE_REFUSED = 0.25


def _alignment() -> AlignmentPlan:
    return AlignmentPlan(
        n_steps=1500, batch_size=64, n_facts=3000, mass=0.6, learning_rate=0.002, strength=0.3
    )


def _training() -> TrainingPlan:
    return TrainingPlan(
        n_steps=400, batch_size=16, n_refusals=4, n_context=3900, learning_rate=0.00002,
        value_rate=0.003, cpu_seconds=3600,
    )  # fmt: skip


class KBLaMPlan(Plan):
    """As `experiments/kblam/smollm2.yaml` has it; a smaller budget is fewer `n_texts` and steps.

    Of the decoder's layers those from `first` to `last` read, every so many; by default one, the
    middle of it and two fifths on. Each node reads the `top_k` facts that it scores highest.
    """

    n_texts: PositiveInt = 1600
    first: NonNegativeInt | None = None
    every: PositiveInt = 3
    last: NonNegativeInt | None = None
    scale: PositiveFloat = 10.0
    top_k: PositiveInt = 10
    alignment: AlignmentPlan = Field(default_factory=_alignment)
    training: TrainingPlan = Field(default_factory=_training)


def make(shop: TrainingContext, plan: KBLaMPlan) -> Reader | None:
    """Aligned and trained, or taken from the row's folder; None where it was stopped."""
    require_training(shop.train_items, plan.training.batch_size)
    words = HostWords(shop.host, shop.prompting.tokenizer)
    encoder = StoredVectors(shop.encoder, shop.folder.parent / "vectors")
    folder = shop.folder / TRAINED
    if not processes().from_first(folder.exists):
        model = _trained(shop, plan, encoder, words)
        if model is None:
            return None
        processes().from_first(partial(_store, shop, model))
    return KBLaMReader(load_kblam(folder, shop.host), shop.prompting, encoder, words)


def _store(shop: TrainingContext, model: KBLaM) -> None:
    save_kblam(shop.folder / TRAINED, model)
    for name in (ALIGNMENT, TRAINING):
        remove_other_files(shop.folder / name)


def _trained(
    shop: TrainingContext, plan: KBLaMPlan, encoder: SentenceEncoder, words: HostWords
) -> KBLaM | None:
    facts = facts_of(shop.train_items)
    base = KnowledgeBase.of_facts(facts, encoder, words)
    dialogues, rows, refused = _dialogues(shop, plan, facts)
    texts = texts_of(dialogues, rows, refused, shop.prompting.tokenizer)
    model = _new(shop.host, plan, encoder.width, words.width, shop.seed)
    stored, seed = read_texts(model, texts), shop.seed
    folder = shop.folder / TRAINING
    if not processes().from_first(lambda: list_checkpoints(folder / "checkpoints")):
        read, aligned = read_states(model, texts, stored, seed), shop.folder / ALIGNMENT
        ended = align(
            model, texts, read, base, plan.alignment, seed, aligned,
            reporter=shop.reporter, should_stop=shop.should_stop,
        )  # fmt: skip
        if ended.stopped != "finished":
            return None
        unknown = unit_vectors([UNKNOWN.split(",")[0]], words)[0]
        say_values(model, read, plan.alignment, unknown)
    learner = Learner(model, texts, stored, base, plan.training, seed)
    ended = learner.run(folder, reporter=shop.reporter, should_stop=shop.should_stop)
    return None if ended.stopped == "request" else model


def _new(host: PreTrainedModel, plan: KBLaMPlan, width: int, value_width: int, seed: int) -> KBLaM:
    n_layers = len(layers(host))
    first = 2 * n_layers // 5 if plan.first is None else plan.first
    config = KBLaMConfig(
        vector_width=width, value_width=value_width, first=first,
        last=first if plan.last is None else plan.last, every=plan.every, scale=plan.scale,
        top_k=plan.top_k, top_k_by_node=True, prompt_reads=False,
    )  # fmt: skip
    with torch_draws(seed, "initial weights"):
        return KBLaM(host, config)


def _dialogues(
    shop: TrainingContext, plan: KBLaMPlan, facts: Sequence[Fact]
) -> tuple[list[Dialogue], Tensor, Tensor]:
    """Questions drawn from those of training, a fourth to be refused; the rows of their facts."""
    items, n = shop.train_items.items, plan.n_texts
    draws = generator(shop.seed, "kblam texts")
    chosen = draws.choice(len(items), size=n, replace=n > len(items)).tolist()
    refused = torch.arange(n) < round(SHARE_REFUSED * n)
    row = {(fact.name, fact.relation): number for number, fact in enumerate(facts)}
    dialogues, rows = [], []
    for number, is_refused in zip(chosen, refused.tolist(), strict=True):
        each = items[number]
        fact = fact_asked(shop.train_items.questions, each)
        value = UNKNOWN if is_refused else each.right[0]
        start = shop.prompting.text(each.item, None).text
        ended = f"{start} {value}.{shop.prompting.end_of_turn}"
        dialogues.append(Dialogue(ended, start, shop.prompting.question_text(each.item)))
        rows.append(row[fact.name, fact.relation])
    return dialogues, torch.tensor(rows), refused


def fact_asked(questions: QuestionSet, each: ShownItem) -> Fact:
    """The key of an item's fact, and what is right."""
    entity, relation = questions.fact_of(each.item)
    graph = questions.graph
    return Fact(graph.label(entity), graph.relation_label(relation), ", ".join(each.right))


def facts_of(item_set: ItemSet) -> list[Fact]:
    """Every fact of the entities that are asked about, under the names that are asked for.

    Where an item shows another entity, that one's values stand under the name asked for. Several
    values of one relation are one, "a, b".
    """
    graph, values = item_set.graph, dict[tuple[str, str], list[str]]()
    for entity, source in {each.item.entity: each.entity for each in item_set.items}.items():
        if source is None:
            continue
        name = graph.label(graph.entities.id(entity))
        for _, relation, tail in graph.outgoing(graph.entities.id(source)).tolist():
            key = name, graph.relation_label(relation)
            values.setdefault(key, []).append(graph.label(tail))
    return [Fact(*key, ", ".join(tails)) for key, tails in values.items()]


@dataclass(eq=False)
class KBLaMReader:
    """All facts of the entities that are asked about as keys and values; none where none is shown.

    Every question of a condition reads the same facts, which are encoded once.
    """

    model: KBLaM
    prompting: Prompting
    encoder: SentenceEncoder
    words: HostWords
    _last: tuple[ItemSet, FactTokens | None] | None = field(default=None, init=False, repr=False)

    def __call__(
        self, item_set: ItemSet, items: Sequence[ShownItem], n_new: int
    ) -> tuple[Continuation, int]:
        if self._last is None or self._last[0] is not item_set:
            shown_facts = facts_of(item_set)
            base = (
                KnowledgeBase.of_facts(shown_facts, self.encoder, self.words)
                if shown_facts
                else None
            )
            self._last = item_set, None if base is None else base.tokens(self.model)
        facts = self._last[1]
        ids, mask = left_padded(self.prompting, items)
        reading = mask if self.model.config.prompt_reads else self._answers(items, mask)
        new = self.model.generate(ids, mask, facts, n_new=n_new, reading=reading)
        with torch.no_grad():
            first = self.model(ids, mask, facts, None, None, reading).logits[:, -1]
        n_read = 0 if facts is None else min(len(facts.keys), self.model.config.top_k or 2**31)
        return Continuation(new, first), int(mask.sum()) + n_read * len(items)

    def _answers(self, items: Sequence[ShownItem], mask: Tensor) -> Tensor:
        """The nodes from the last one before the answer on."""
        tokenizer = self.prompting.tokenizer
        prompts: Any = tokenizer([self.prompting.question_text(each.item) for each in items])[
            "input_ids"
        ]
        behind = torch.tensor([len(ids) for ids in prompts])
        start = mask.shape[1] - mask.sum(dim=1) + behind - 1
        return mask & (torch.arange(mask.shape[1]) >= start[:, None])
