"""Rows of the experiment: how facts reach the host, and what each writes after a question."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.mentions import LinkedText
from kept.batches import KnowledgeBatch
from kept.decoders.adapters import DecoderAdapter
from kept.decoders.kblam.knowledge_base import KnowledgeBase, facts_of_graph, padded
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.values import HostWords
from kept.decoders.kblam.wording import CHATML, Fact
from kept.decoders.soft_prompts import GraphPrompter, LabelSentences
from kept.decoders.trees import Continuation, LabelVectors, Readers, Tree, knowledge_tree, write
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.views.base import View
from kept.graphs.views.colake import CoLAKEView
from kept.graphs.views.kbert import KBERTView
from kept.graphs.views.words import WordsView
from kg_loaders import KnowledgeGraph

N_NEW = 3
"""Pieces that may be written: a value of one or two, and a stop."""
BATCH = 8
USER = "<|im_start|>user\n"
SHOWN: dict[str, Any] = {"policy": "file", "directions": "head", "drop_probability": 0.0}
Reader = Callable[[KnowledgeGraph, Sequence[LinkedText]], tuple[Continuation, int]]
"""From a graph and linked texts to what is written after each, and the number of nodes read."""


@dataclass(frozen=True)
class Written:
    """What was written to each question; `scores` `[question word]` of the first piece; costs."""

    texts: tuple[str, ...]
    scores: Tensor
    nodes: float
    cpu_ms: float


def asked(
    reader: Reader,
    tokenizer: PreTrainedTokenizerBase,
    graph: KnowledgeGraph,
    texts: Sequence[LinkedText],
) -> Written:
    """What a reader writes, in batches."""
    found: list[str] = []
    scores, n_nodes, start = list[Tensor](), 0, time.process_time()
    for first in range(0, len(texts), BATCH):
        new, n = reader(graph, texts[first : first + BATCH])
        found += tokenizer.batch_decode(new.words)
        scores.append(new.first_scores)
        n_nodes += n
    spent = time.process_time() - start
    n_texts = len(texts)
    return Written(tuple(found), torch.cat(scores), n_nodes / n_texts, 1000 * spent / n_texts)


@dataclass(frozen=True, eq=False)
class TreeReader:
    """Facts as branches, as nodes, or as words before the question.

    `kind`: "branches", "nodes", or "words", whose prompt begins with the statements of the linked
    bearer's facts.
    """

    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    kind: str
    readers: Readers = "later"

    def batch(self, graph: KnowledgeGraph, texts: Sequence[LinkedText]) -> KnowledgeBatch:
        """The texts with the facts of their links."""
        fields: dict[str, Any] = {"replace_mentions": False}
        view: View = WordsView()
        if self.kind == "words":
            texts = [with_statements(graph, text) for text in texts]
            fields["max_neighbours"] = 0
        elif self.kind == "branches":
            view = KBERTView(graph, self.tokenizer, max_branches=4)
        else:
            view = CoLAKEView()
        config = BuilderConfig(**SHOWN, **fields)
        built = build_many(texts, self.tokenizer, graph, seed=0, config=config)
        pad = self.tokenizer.pad_token_id or 0
        return KnowledgeBatch.stack([view(each) for each in built], word_pad_id=pad)

    def tree(self, graph: KnowledgeGraph, batch: KnowledgeBatch) -> Tree:
        """That of a batch over this graph."""
        vectors = None
        if self.kind == "nodes":
            vectors = LabelVectors.of(graph, self.host, self.tokenizer)
        return knowledge_tree(self.host, batch, readers=self.readers, vectors=vectors)

    def __call__(
        self, graph: KnowledgeGraph, texts: Sequence[LinkedText]
    ) -> tuple[Continuation, int]:
        batch = self.batch(graph, texts)
        return write(self.host, self.tree(graph, batch), n_new=N_NEW), int(batch.node_mask.sum())


def with_statements(graph: KnowledgeGraph, text: LinkedText) -> LinkedText:
    """The facts of the linked entity as sentences about the mention, before the question."""
    if not text.links:
        return text
    (link,) = text.links
    name = text.text[link.mention.start : link.mention.end]
    facts = graph.outgoing(graph.entities.find(link.entity))
    said = "".join(
        f"The {graph.relation_label(int(r))} of {name} is {graph.label(int(t))}. "
        for _, r, t in facts
    )
    return LinkedText(text.text.replace(USER, USER + said, 1), ())


@dataclass(frozen=True, eq=False)
class AdapterReader:
    """A host with an adapter beside it that was trained on facts; no graph is read."""

    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    adapter: DecoderAdapter

    def __call__(
        self, graph: KnowledgeGraph, texts: Sequence[LinkedText]
    ) -> tuple[Continuation, int]:
        ids, mask = left_padded(self.tokenizer, texts)
        return self.adapter.write(self.host, ids, mask, n_new=N_NEW), int(mask.sum())


@dataclass(frozen=True, eq=False)
class KBLaMReader:
    """The first `n_facts` facts of a graph as keys and values.

    Without links nothing is read; where a link leads to another bearer, the values of the one that
    is named are those of that other.
    """

    model: KBLaM
    tokenizer: PreTrainedTokenizerBase
    encoder: Any
    n_facts: int

    def __call__(
        self, graph: KnowledgeGraph, texts: Sequence[LinkedText]
    ) -> tuple[Continuation, int]:
        facts = facts_of_graph(graph)[: self.n_facts]
        shown = [as_linked(facts, graph, text) for text in texts]
        if all(each == shown[0] for each in shown):
            return self._written(texts, shown[0])
        found = [self._written([text], each) for text, each in zip(texts, shown, strict=True)]
        words, scores = (
            torch.cat([getattr(new, name) for new, _ in found])
            for name in ("words", "first_scores")
        )
        return Continuation(words, scores), sum(n for _, n in found)

    def _written(
        self, texts: Sequence[LinkedText], shown: Sequence[Fact] | None
    ) -> tuple[Continuation, int]:
        ids, mask = left_padded(self.tokenizer, texts)
        facts = None
        if shown is not None:
            words = None
            if self.model.config.value_width is not None:
                words = HostWords(self.model.host, self.tokenizer)
            facts = KnowledgeBase.of_facts(shown, self.encoder, words).tokens(self.model)
        reading = mask if self.model.config.prompt_reads else self._answer(ids, mask)
        new = self.model.generate(ids, mask, facts, n_new=N_NEW, reading=reading)
        with torch.no_grad():
            first = self.model(ids, mask, facts, None, None, reading).logits[:, -1]
        n_facts = 0 if shown is None else len(shown)
        return Continuation(new, first), int(mask.sum()) + n_facts * len(texts)

    def _answer(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The nodes from the last one before the answer on."""
        marker = self.tokenizer.convert_tokens_to_ids(CHATML.marker)
        turns = (ids == marker).long().cumsum(dim=1)
        start = turns.argmax(dim=1, keepdim=True) + CHATML.n_after
        return mask & (torch.arange(ids.shape[1]) >= start)


def as_linked(
    facts: Sequence[Fact], graph: KnowledgeGraph, text: LinkedText
) -> Sequence[Fact] | None:
    """`facts`, with the values of the linked bearer for those of the named one; None for none."""
    if not text.links:
        return None
    (link,) = text.links
    named = text.text[link.mention.start : link.mention.end]
    linked = graph.label(graph.entities.find(link.entity))
    values = {f.relation: f.value for f in facts_of_graph(graph) if f.name == linked}
    return [Fact(f.name, f.relation, values[f.relation]) if f.name == named else f for f in facts]


@dataclass(frozen=True, eq=False)
class SoftPromptReader:
    """Facts of the linked bearer as a prompt of a graph network (`kept.decoders.soft_prompts`).

    `vectors` are those of labels of a graph with the ids of every graph that is asked.
    """

    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompter: GraphPrompter
    vectors: LabelSentences

    def tree(self, graph: KnowledgeGraph, texts: Sequence[LinkedText]) -> Tree:
        """What the host reads."""
        rows = self.tokenizer([text.text for text in texts])["input_ids"]
        ids, mask = padded(rows, self.tokenizer.pad_token_id or 0)
        facts = [
            self.vectors.around(graph, graph.entities.id(text.links[0].entity or ""))
            if text.links
            else None
            for text in texts
        ]
        return self.prompter.tree(self.host, facts, ids, mask)

    def __call__(
        self, graph: KnowledgeGraph, texts: Sequence[LinkedText]
    ) -> tuple[Continuation, int]:
        tree = self.tree(graph, texts)
        return write(self.host, tree, n_new=N_NEW), int(tree.read_on.sum())


def left_padded(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[LinkedText]
) -> tuple[Tensor, Tensor]:
    """Ids and mask of texts, padded on the left."""
    rows = tokenizer([text.text for text in texts])["input_ids"]
    return padded(rows, tokenizer.pad_token_id or 0, side="left")
