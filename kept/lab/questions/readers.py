"""How facts reach the decoder, and what it writes after each question."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from kept.batches import KnowledgeBatch
from kept.decoders.adapters import DecoderAdapter
from kept.decoders.kblam.knowledge_base import padded
from kept.decoders.soft_prompts import Facts, GraphPrompter, LabelSentences
from kept.decoders.trees import Continuation, LabelVectors, Readers, Tree, knowledge_tree, write
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.views.colake import CoLAKEView
from kept.graphs.views.kbert import KBERTView
from kept.graphs.views.words import WordsView
from kept.lab.questions.items import QuestionSet
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.showing import ItemSet, ShownItem
from kept.training.processes.together import SINGLE_PROCESS, Processes
from kg_loaders import KnowledgeGraph

BATCH = 8
MAX_NODES = 4096
FactsAs = Literal["words", "branches", "nodes"]
Reader = Callable[[ItemSet, Sequence[ShownItem], int], tuple[Continuation, int]]
"""From a condition, some of its items and a number of pieces to what is written, and the number of
nodes read."""


@dataclass(frozen=True)
class Written:
    """What was written to each question; `scores` `[question word]` of the first piece; costs."""

    texts: tuple[str, ...]
    scores: Tensor
    nodes: float
    cpu_ms: float


def write_all(
    reader: Reader,
    prompting: Prompting,
    item_set: ItemSet,
    n_new: int,
    *,
    together: Processes = SINGLE_PROCESS,
) -> Written:
    """What a reader writes to every item, in batches.

    Where several processes call it `together`, each reads its share of the batches, which are those
    of one process, and all get every answer.
    """
    start, parts = time.process_time(), dict[int, tuple[list[str], Tensor, int]]()
    for batch in together.share(-(-len(item_set.items) // BATCH)):
        first = batch * BATCH
        new, n = reader(item_set, item_set.items[first : first + BATCH], n_new)
        parts[first] = prompting.tokenizer.batch_decode(new.words), new.first_scores, n
    spent, n_items = time.process_time() - start, len(item_set.items)
    for others, _ in (gathered := together.from_each((parts, spent))):
        parts |= others
    texts, scores, nodes = zip(*(parts[first] for first in sorted(parts)), strict=True)
    cpu_ms = 1000 * sum(seconds for _, seconds in gathered) / n_items
    every = tuple(text for seconds in texts for text in seconds)
    return Written(every, torch.cat(scores), sum(nodes) / n_items, cpu_ms)


@dataclass(frozen=True, eq=False)
class TreeReader:
    """Facts as words before the question, as K-BERT's branches or as CoLAKE's nodes at the mention.

    `readers`: who reads an injected node (`kept.decoders.trees`).
    """

    host: PreTrainedModel
    prompting: Prompting
    facts_as: FactsAs
    readers: Readers = "later"
    _vectors: list[tuple[object, LabelVectors]] = field(
        default_factory=list, init=False, repr=False
    )

    def batch(
        self, questions: QuestionSet, items: Sequence[ShownItem], values: Sequence[str] = ()
    ) -> KnowledgeBatch:
        """The questions with their facts, and with `values` as answers if there are any."""
        prompting, graph, tokenizer = self.prompting, questions.graph, self.prompting.tokenizer
        n_facts, view = prompting.max_facts, WordsView()  # type: tuple[int, View]
        if self.facts_as == "words":
            n_facts = 0
            texts = [prompting.in_words(questions, each.item, each.entity) for each in items]
        else:
            texts = [prompting.text(each.item, each.entity) for each in items]
            view = CoLAKEView()
            if self.facts_as == "branches":
                view = KBERTView(graph, tokenizer, max_branches=n_facts, max_nodes=MAX_NODES)
        if values:
            texts = [prompting.answered(t, v) for t, v in zip(texts, values, strict=True)]
        config = BuilderConfig(
            policy="file", directions="head", drop_probability=0.0, replace_mentions=False,
            max_neighbours=n_facts, max_words=MAX_NODES // 2, max_nodes=MAX_NODES,
        )  # fmt: skip
        built = build_many(texts, tokenizer, graph, seed=0, config=config)
        pad = tokenizer.pad_token_id or 0
        return KnowledgeBatch.stack([view(each) for each in built], word_pad_id=pad)

    def tree(self, questions: QuestionSet, batch: KnowledgeBatch) -> Tree:
        """What the decoder reads of a batch."""
        vectors = None
        if self.facts_as == "nodes":
            vectors = self._vectors_of(questions.graph)
        return knowledge_tree(self.host, batch, readers=self.readers, vectors=vectors)

    def _vectors_of(self, graph: KnowledgeGraph) -> LabelVectors:
        """Those of a graph's labels, made once for all graphs that differ in triples alone."""
        labels = graph.entity_texts
        if not self._vectors or self._vectors[0][0] is not labels:
            vectors = LabelVectors.of(graph, self.host, self.prompting.tokenizer)
            self._vectors[:] = [(labels, vectors)]
        return self._vectors[0][1]

    def __call__(
        self, item_set: ItemSet, items: Sequence[ShownItem], n_new: int
    ) -> tuple[Continuation, int]:
        batch = self.batch(item_set.questions, items)
        new = write(self.host, self.tree(item_set.questions, batch), n_new=n_new)
        return new, int(batch.node_mask.sum())


@dataclass(frozen=True, eq=False)
class AloneReader:
    """A host that reads the questions without any fact, whatever is shown."""

    host: PreTrainedModel
    prompting: Prompting

    def __call__(
        self, item_set: ItemSet, items: Sequence[ShownItem], n_new: int
    ) -> tuple[Continuation, int]:
        without_entity = [ShownItem(each.index, each.item, None, each.right) for each in items]
        return TreeReader(self.host, self.prompting, "words")(item_set, without_entity, n_new)


@dataclass(frozen=True, eq=False)
class AdapterReader:
    """A host with an adapter beside it that was trained on facts; no graph is read."""

    host: PreTrainedModel
    prompting: Prompting
    adapter: DecoderAdapter

    def __call__(
        self, item_set: ItemSet, items: Sequence[ShownItem], n_new: int
    ) -> tuple[Continuation, int]:
        ids, mask = left_padded(self.prompting, items)
        return self.adapter.write(self.host, ids, mask, n_new=n_new), int(mask.sum())


@dataclass(frozen=True, eq=False)
class SoftPromptReader:
    """Facts of an entity as the prompt of a graph network (`kept.decoders.soft_prompts`).

    `vectors` are those of the labels of a graph with the ids of every graph that is asked.
    """

    host: PreTrainedModel
    prompting: Prompting
    prompter: GraphPrompter
    vectors: LabelSentences

    def texts(
        self, questions: QuestionSet, items: Sequence[ShownItem]
    ) -> tuple[list[Facts | None], Tensor, Tensor, list[int]]:
        """Facts, ids and mask of the texts, and the numbers of words that prompts stand before."""
        tokenizer, graph = self.prompting.tokenizer, questions.graph
        texts = [self.prompting.text(each.item, each.entity) for each in items]
        rows: Any = tokenizer([text.text for text in texts])
        ids, mask = padded(rows["input_ids"], tokenizer.pad_token_id or 0)
        before = [
            self.prompting.question_begins(text.text, each.item)
            for text, each in zip(texts, items, strict=True)
        ]
        facts = [
            None
            if each.entity is None
            else self.vectors.around(graph, graph.entities.id(each.entity))
            for each in items
        ]
        return facts, ids, mask, before

    def tree(self, questions: QuestionSet, items: Sequence[ShownItem]) -> Tree:
        """What the decoder reads."""
        return self.prompter.tree(self.host, *self.texts(questions, items))

    def __call__(
        self, item_set: ItemSet, items: Sequence[ShownItem], n_new: int
    ) -> tuple[Continuation, int]:
        tree = self.tree(item_set.questions, items)
        return write(self.host, tree, n_new=n_new), int(tree.read_on.sum())


def left_padded(prompting: Prompting, items: Sequence[ShownItem]) -> tuple[Tensor, Tensor]:
    """Ids and mask of the questions without facts, padded on the left."""
    tokenizer = prompting.tokenizer
    rows: Any = tokenizer([prompting.text(each.item, None).text for each in items])["input_ids"]
    return padded(rows, tokenizer.pad_token_id or 0, side="left")
