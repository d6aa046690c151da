"""A graph as a `KnowledgeBase`: facts as words, their sentence vectors, and answers by a KBLaM.

Wang et al. 2025, "KBLaM: Knowledge Base augmented Language Model" (ICLR): the key of a fact is "the
{relation} of {name}", its value the words of the value. Sentence vectors here have unit numbers
(their length is the root of their width), which the linear maps learn from faster.

Axis legend: fact, vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.parts import SentenceEncoder
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.rectangular import FactTokens
from kept.decoders.kblam.wording import CHATML, ChatFormat, Fact, extracted, is_refusal
from kept.errors import BatchError
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted


def facts_of_graph(graph: KnowledgeGraph) -> list[Fact]:
    """One fact for each head and relation of `graph`, in its order, by labels.

    Several tails are one value, "a, b", in the order of the triples.
    """
    values: dict[tuple[int, int], list[str]] = {}
    for head, relation, tail in graph.triples.tolist():
        values.setdefault((head, relation), []).append(graph.label(tail))
    return [
        Fact(graph.label(head), graph.relation_label(relation), ", ".join(tails))
        for (head, relation), tails in values.items()
    ]


@dataclass(frozen=True, eq=False)
class KnowledgeBase:
    """Facts and the vectors of their keys and values, which any KBLaM of that width encodes."""

    facts: tuple[Fact, ...]
    key_vectors: Float[Tensor, "fact vector"]
    value_vectors: Float[Tensor, "fact vector"]

    def __post_init__(self) -> None:
        rows = {len(self.facts), len(self.key_vectors), len(self.value_vectors)}
        if len(rows) != 1 or not self.facts:
            raise BatchError(f"{len(self.facts)} facts with vectors of {sorted(rows)} rows")

    def __repr__(self) -> str:
        return (
            f"KnowledgeBase({counted(len(self.facts), 'facts')}, vectors "
            f"{self.key_vectors.shape[1]} wide)"
        )

    @classmethod
    def of_facts(
        cls, facts: Sequence[Fact], encoder: SentenceEncoder, values: SentenceEncoder | None = None
    ) -> KnowledgeBase:
        """The base of `facts`; each different sentence is encoded once.

        `values` makes the vectors of values, where it is not `encoder`.
        """
        keys, of_values = [fact.key for fact in facts], [fact.value for fact in facts]
        return cls(
            tuple(facts), unit_vectors(keys, encoder), unit_vectors(of_values, values or encoder)
        )

    @classmethod
    def of_graph(
        cls, graph: KnowledgeGraph, encoder: SentenceEncoder, values: SentenceEncoder | None = None
    ) -> KnowledgeBase:
        """The base of all facts of a graph (`facts_of_graph`)."""
        return cls.of_facts(facts_of_graph(graph), encoder, values)

    def __getitem__(self, rows: Sequence[int]) -> KnowledgeBase:
        """That of the facts at `rows`."""
        facts = tuple(self.facts[row] for row in rows)
        return KnowledgeBase(facts, self.key_vectors[list(rows)], self.value_vectors[list(rows)])

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        """Those of keys, those of values."""
        return self.key_vectors, self.value_vectors

    @torch.no_grad()
    def tokens(self, model: KBLaM) -> FactTokens:
        """What `model` reads of the facts."""
        facts: FactTokens = model.encoder(*self.vectors)
        return facts


def unit_vectors(
    sentences: Sequence[str], encoder: SentenceEncoder
) -> Float[Tensor, "sentence vector"]:
    """Vectors of sentences, as long as the root of their width."""
    different = list(dict.fromkeys(sentences))
    row = {sentence: number for number, sentence in enumerate(different)}
    vectors = torch.from_numpy(encoder.encode(different)) * math.sqrt(encoder.width)
    return vectors[[row[sentence] for sentence in sentences]]


@dataclass(frozen=True)
class Answer:
    """What a model wrote; `value` is what follows its last "is", without the full stop."""

    written: str

    @property
    def value(self) -> str:
        return extracted(self.written.strip()).strip().removesuffix(".")

    @property
    def is_refusal(self) -> bool:
        """Whether it says that it cannot answer."""
        return is_refusal(self.written)


@dataclass(frozen=True, eq=False)
class Prompts:
    """Questions as a host reads them, padded on the left."""

    input_ids: Tensor
    node_mask: Tensor

    @classmethod
    def of(
        cls, questions: Sequence[str], tokenizer: PreTrainedTokenizerBase, chat: ChatFormat = CHATML
    ) -> Prompts:
        """The prompts of `questions` in a host's chat format."""
        rows = tokenizer([chat.prompt(question) for question in questions])["input_ids"]
        return cls(*padded(rows, tokenizer.pad_token_id or 0, side="left"))


def padded(
    rows: Sequence[Sequence[int]], padding: int, *, side: str = "right"
) -> tuple[Tensor, Tensor]:
    """Ids `[batch node]` and which of them are real."""
    widest = max(len(row) for row in rows)
    ids = torch.full((len(rows), widest), padding)
    mask = torch.zeros(len(rows), widest, dtype=torch.bool)
    for number, row in enumerate(rows):
        columns = slice(widest - len(row), widest) if side == "left" else slice(0, len(row))
        ids[number, columns], mask[number, columns] = torch.tensor(row), True
    return ids, mask


def answers(
    model: KBLaM,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    facts: FactTokens | None,
    *,
    n_new: int = 24,
    chat: ChatFormat = CHATML,
    batch_size: int = 16,
) -> list[Answer]:
    """What `model` writes to each question when it reads `facts`, or nothing (None)."""
    end = tokenizer.convert_tokens_to_ids(tokenizer.eos_token)
    generated = []
    for start in range(0, len(questions), batch_size):
        prompts = Prompts.of(questions[start : start + batch_size], tokenizer, chat)
        new = model.generate(prompts.input_ids, prompts.node_mask, facts, n_new=n_new, end_id=end)
        generated += [
            Answer(text) for text in tokenizer.batch_decode(new, skip_special_tokens=True)
        ]
    return generated
