"""Lexical relations of two terms: LIBERT's second task (`lexical`).

Lauscher et al. 2019, "Specializing Unsupervised Pretraining Models for Word-Level Semantic
Similarity" (COLING 2020), section 3: synonyms and direct hypernyms of WordNet are one class, terms
with similar vectors that are not related the other. Steps of this task alternate with those on
texts. Where we differ: pairs are sampled for every step, not once; the alternation depends on the
step's number alone.

Axis legend: batch, node, width, class.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.coverage import look
from kept.graphs.words import PairTemplate, Words
from kept.layers.means import mean_of
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.objectives.described_triples import text_batch
from kept.objectives.lexical.terms import (
    Example,
    Lexicon,
    WordVectors,
    entity_names,
    graph_pairs,
    of_terms,
    read_pairs,
    terms_of,
    with_neighbours,
)
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

RELATED, UNRELATED = 0, 1
"""Classes, in the released code's order."""
VOCABULARY = "lexical"
"""The name in `extra_labels` of the class, at a pair's first node."""


@dataclass(frozen=True, kw_only=True)
class LexicalOptions:
    """Where pairs come from, and how many there are per step.

    `constraints` is a file of pairs (`read_pairs`); without it the names in the run's graph are
    joined (`graph_pairs`), by `relations`, or by what means "is a" there. `vectors_from` finds near
    terms (`WordVectors`); without it a partner is any other term of the step. Every `every`-th step
    is one of `n_pairs` pairs and their neighbours, the first one included; 1 leaves texts out.
    Pairs are cut to `n_pieces` word pieces.
    """

    constraints: str | None = None
    relations: tuple[str, ...] | None = None
    vectors_from: str | None = None
    n_pairs: int = 32
    every: int = 2
    n_pieces: int = 128
    dropout: float = 0.1

    def __post_init__(self) -> None:
        least = {"n_pairs": 1, "every": 1, "n_pieces": 5}
        low = [
            f"{n} {getattr(self, n)}: {k} or more" for n, k in least.items() if getattr(self, n) < k
        ]
        if low:
            raise ConfigError("objective lexical: " + "; ".join(low))
        if self.constraints is not None and self.relations is not None:
            raise ConfigError("objective lexical: constraints or relations, not both")
        if self.relations is not None:
            object.__setattr__(self, "relations", tuple(self.relations))


class LexicalPreparation(Preparation):
    """Gives every `every`-th step a batch of its own; the texts of that step are skipped."""

    remedy = (
        "no two names of the graph are joined; build it with aliases (kept kg build … --labels "
        "FILE), name relations, or give a file of constraints"
    )

    def __init__(
        self,
        options: LexicalOptions,
        lexicon: Lexicon,
        tokenizer: PreTrainedTokenizerBase,
        graph: KnowledgeGraph,
    ) -> None:
        self.options, self.lexicon, self.tokenizer, self.graph = options, lexicon, tokenizer, graph
        self.template = PairTemplate.of(tokenizer)
        source = options.vectors_from
        self.vectors = None if source is None else WordVectors(source, lexicon.terms)

    @classmethod
    def of(cls, options: LexicalOptions, world: PreparationContext) -> Self:
        pairs = (
            graph_pairs(world.graph, options.relations)
            if options.constraints is None
            else read_pairs(options.constraints)
        )
        return cls(options, Lexicon(pairs), world.tokenizer, world.graph)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.lexicon.terms).encode())
        digest.update(self.lexicon.pairs.tobytes())
        pieces = sorted(self.tokenizer.get_vocab().items())
        digest.update(repr(pieces).encode())
        return f"{self.options} {digest.hexdigest()}"

    def share_read(self, texts: object) -> float | None:
        """The share of the graph's entities one of whose names is in a pair."""
        if not len(self.lexicon):
            return 0.0
        if self.options.constraints is not None:
            return None
        n, n_read = look(np.ones(self.graph.n_entities, np.bool_), self._is_joined)
        return n_read / n

    def _is_joined(self, entity: int) -> bool:
        return any(name in self.lexicon for name in entity_names(self.graph, entity))

    @property
    def period(self) -> int:
        return self.options.every

    def own_batch(self, step: int, draws: np.random.Generator) -> KnowledgeBatch | None:
        if step % self.options.every:
            return None
        rows = draws.choice(
            len(self.lexicon), min(self.options.n_pairs, len(self.lexicon)), replace=False
        )
        pairs = [self.lexicon[row] for row in rows.tolist()]
        terms = terms_of(pairs)
        if self.vectors is None:
            alike = draws.random((len(terms), len(terms)))
        else:
            vectors = of_terms(terms, self.vectors.vectors_by_word)
            alike = vectors @ vectors.T
        return self.read(with_neighbours(pairs, self.lexicon, alike))

    def read(self, examples: list[Example]) -> KnowledgeBatch:
        """Pairs of terms as texts of two parts, with their classes."""
        terms = [term for example in examples for term in example[:2]]
        pieces = self.tokenizer(terms, add_special_tokens=False)["input_ids"]
        template = self.template
        n_special = sum(map(len, (template.before, template.between, template.after)))
        rows: list[Words] = []
        for first, second in zip(pieces[::2], pieces[1::2], strict=True):
            n_first, n_second = cut(len(first), len(second), self.options.n_pieces - n_special)
            parts = (_words(first[:n_first]), _words(second[:n_second]))
            rows.append(template.join(*parts, shift=0, max_words=self.options.n_pieces))
        batch = text_batch([row.ids.tolist() for row in rows], pad_id=self.tokenizer.pad_token_id)
        segments = torch.zeros_like(batch.node_ids)
        labels = torch.full_like(batch.node_ids, IGNORE)
        for i, (row, (*_, joined)) in enumerate(zip(rows, examples, strict=True)):
            segments[i, : len(row.ids)] = torch.from_numpy(row.segment_ids.astype(np.int64))
            labels[i, 0] = RELATED if joined else UNRELATED
        return dataclasses.replace(
            batch, segment_ids=segments, extra_labels={VOCABULARY: labels[..., None]}
        )


def cut(n_first: int, n_second: int, most: int) -> tuple[int, int]:
    """Return how many pieces of two terms are kept: the longer loses one at a time, the second at a
    tie.

    >>> cut(2, 2, 3)
    (2, 1)
    """
    while n_first + n_second > max(most, 0):
        if n_first > n_second:
            n_first -= 1
        else:
            n_second -= 1
    return n_first, n_second


def _words(pieces: list[int]) -> Words:
    return Words(np.array(pieces, np.int32), np.zeros((len(pieces), 2), np.int32))


class LexicalRelations(Objective):
    """Two classes on the host's pooler over the first node, with dropout before them."""

    def __init__(self, *, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(width, 2)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: LexicalOptions) -> Self:
        return cls(width=encoder.host.config.hidden_size, dropout=options.dropout)

    def logits(
        self, output: KnowledgeOutput, encoder: KnowledgeEncoder
    ) -> Float[Tensor, "batch class"]:
        """Scores of related and unrelated."""
        pooled = hosts.pooled(encoder.host, output.node_states)
        return self.classes(self.dropout(pooled))

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`lexical`: the mean over pairs; none in a batch of texts."""
        labels = (batch.extra_labels or {}).get(VOCABULARY)
        if labels is None:
            return {}
        logits = self.logits(output, encoder)
        total = F.cross_entropy(logits, labels[:, 0, 0], reduction="sum")
        return {VOCABULARY: mean_of(total, len(labels))}
