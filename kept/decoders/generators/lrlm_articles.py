"""Articles with facts and spans, cut into segments for a latent relation language model.

Hayashi et al. 2020, section 4; details follow neulab/lrlm. An article is words, the facts of its
topic, and spans of words that say a fact's object by one of its names.

Axis legend: batch, node, fact, alias (of a fact), span (that ends at a node).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kept.errors import BatchError, ConfigError

SPECIAL = ("<unk>", "<pad>", "<s>", "</s>")
UNKNOWN, PAD, START, END = range(4)
ANCHOR = -2
"""The relation of a link to another article; -1 is not a fact, -3 the topic itself."""


@dataclass(frozen=True)
class Fact:
    """A relation (below 0: of a special kind), an object (-1: unknown) and the object's names."""

    relation: int
    object: int
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """Words `start` to `end` (exclusive) are alias number `alias` of fact number `fact`."""

    start: int
    end: int
    fact: int
    alias: int


@dataclass(frozen=True)
class Article:
    """Words, the topic's facts, and where the words say one; spans may overlap and repeat."""

    words: tuple[str, ...]
    facts: tuple[Fact, ...]
    spans: tuple[Span, ...]

    def __post_init__(self) -> None:
        for span in self.spans:
            if not 0 <= span.start < span.end <= len(self.words):
                raise BatchError(f"{span} is not within {len(self.words)} words")
            if not 0 <= span.fact < len(self.facts):
                raise BatchError(f"{span} names one of {len(self.facts)} facts")
            if not 0 <= span.alias < len(self.facts[span.fact].aliases):
                raise BatchError(f"{span} names no alias of {self.facts[span.fact]}")

    def without_anchors(self) -> Article:
        """The same without facts of the relation `ANCHOR` and their spans."""
        kept = [i for i, fact in enumerate(self.facts) if fact.relation != ANCHOR]
        spans = [replace(s, fact=kept.index(s.fact)) for s in self.spans if s.fact in kept]
        return Article(self.words, tuple(self.facts[i] for i in kept), tuple(spans))

    def without_facts(self) -> Article:
        """The words alone."""
        return Article(self.words, (), ())


@dataclass(frozen=True)
class Vocabulary:
    """Words by id: four special ones, then by falling frequency, ties in alphabetical order."""

    words: tuple[str, ...]

    @classmethod
    def count(cls, articles: Iterable[Article], n_words: int) -> Vocabulary:
        """The `n_words` most frequent words of `articles`, the special ones among them."""
        counts = Counter(word for article in articles for word in article.words)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return cls((*SPECIAL, *ordered)[:n_words])

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: Iterable[str]) -> list[int]:
        """The id of each word; `UNKNOWN` for those outside."""
        return [self._ids.get(word, UNKNOWN) for word in words]


@dataclass(frozen=True)
class Unknowns:
    """Natural log-probability of a word given that it is outside the vocabulary.

    `by_word` are those of a character model; without it all `n_outside` words are as likely.
    """

    n_outside: int = 1
    by_word: Mapping[str, float] | None = None

    def __call__(self, word: str) -> float:
        if self.by_word is None:
            return -math.log(self.n_outside)
        if word not in self.by_word:
            raise ConfigError(f"the character model has no log-probability of {word!r}")
        return self.by_word[word]


@dataclass(frozen=True, eq=False)
class Segment:
    """The same stretch of several articles, what is expected, facts, and spans by their end.

    `span_*` at `[batch, node, i]` are the i-th span whose last word is the target of that node;
    its start is a node too. Rows of articles that ended before have length 0.
    """

    ids: Int[Tensor, "batch node"]
    targets: Int[Tensor, "batch node"]
    lengths: Int[Tensor, " batch"]
    unknown: Float[Tensor, "batch node"]
    relations: Int[Tensor, "batch fact"]
    objects: Int[Tensor, "batch fact"]
    fact_mask: Bool[Tensor, "batch fact"]
    alias_ids: Int[Tensor, "batch fact alias"]
    alias_mask: Bool[Tensor, "batch fact alias"]
    span_starts: Int[Tensor, "batch node span"]
    span_facts: Int[Tensor, "batch node span"]
    span_aliases: Int[Tensor, "batch node span"]
    span_mask: Bool[Tensor, "batch node span"]

    @property
    def n_targets(self) -> int:
        """How many words are to be predicted."""
        return int(self.lengths.sum())


def _padded(rows: Sequence[Sequence[int]], fill: int = 0) -> tuple[Tensor, Tensor]:
    """Rows as one tensor, and where they are real; at least one column."""
    width = max(1, *map(len, rows))
    values = torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
    return values, torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]


def segments(
    articles: Sequence[Article],
    vocabulary: Vocabulary,
    n_nodes: int,
    *,
    unknowns: Unknowns | None = None,
    alias_rows: Mapping[str, int] | None = None,
    as_released: bool = False,
) -> Iterator[Segment]:
    """Cut a batch of articles into segments of `n_nodes`, to be read in this order.

    A span that crosses the border of segments is left out. The released program computes positions
    modulo `n_nodes`, by which a span about as long as a segment may survive at a wrong place, in
    the segment of its first word: `as_released` keeps it there.
    `alias_rows` are rows of a table of alias vectors. Raises `BatchError` without an article and
    `ConfigError` for an alias without a row.
    """
    if not articles or n_nodes < 1:
        raise BatchError(f"{len(articles)} articles cannot be cut into segments of {n_nodes}")
    texts = [[SPECIAL[START], *article.words, SPECIAL[END]] for article in articles]
    facts = _fact_tensors(articles, alias_rows)
    for begin in range(0, max(map(len, texts)) - 1, n_nodes):
        cut = [text[begin : begin + n_nodes + 1] for text in texts]
        targets, real = _padded([vocabulary.ids(part[1:]) for part in cut], PAD)
        ids, _ = _padded([vocabulary.ids(part[: targets.shape[1]]) for part in cut], PAD)
        unknown = torch.zeros(ids.shape)
        if unknowns is not None:
            for b, i in (real & (targets == UNKNOWN)).nonzero().tolist():
                unknown[b, i] = unknowns(cut[b][i + 1])
        within = _spans_as_released if as_released else _spans_within
        spans = [within(article, begin, n_nodes) for article in articles]
        yield Segment(
            ids=ids,
            targets=targets,
            lengths=real.sum(dim=1),
            unknown=unknown,
            **facts,
            **_span_tensors(spans, ids.shape[1]),
        )


def _fact_tensors(
    articles: Sequence[Article], alias_rows: Mapping[str, int] | None
) -> dict[str, Tensor]:
    relations, mask = _padded([[f.relation for f in a.facts] for a in articles])
    objects, _ = _padded([[f.object for f in a.facts] for a in articles])
    n_aliases = max([1, *(len(f.aliases) for a in articles for f in a.facts)])
    alias_ids = torch.zeros(*relations.shape, n_aliases, dtype=torch.long)
    alias_mask = torch.zeros(alias_ids.shape, dtype=torch.bool)
    for b, article in enumerate(articles):
        for f, fact in enumerate(article.facts):
            alias_mask[b, f, : len(fact.aliases)] = True
            if alias_rows is None:
                continue
            missing = [name for name in fact.aliases if name not in alias_rows]
            if missing:
                raise ConfigError(f"the aliases {missing} have no row in the table of vectors")
            alias_ids[b, f, : len(fact.aliases)] = torch.tensor(
                [alias_rows[name] for name in fact.aliases]
            )
    return {
        "relations": relations,
        "objects": objects,
        "fact_mask": mask,
        "alias_ids": alias_ids,
        "alias_mask": alias_mask,
    }


def _spans_within(article: Article, begin: int, n_nodes: int) -> list[Span]:
    """Spans of a segment: `start` and `end` become the nodes of their first and last word."""
    end = begin + n_nodes
    inside = [span for span in article.spans if begin <= span.start and span.end <= end]
    return [replace(s, start=s.start - begin, end=s.end - 1 - begin) for s in inside]


def _spans_as_released(article: Article, begin: int, n_nodes: int) -> list[Span]:
    """Spans that begin in a segment, at positions modulo `n_nodes`, unless that reverses them."""
    inside = [span for span in article.spans if begin <= span.start < begin + n_nodes]
    moved = [replace(s, start=s.start % n_nodes, end=(s.end - 1) % n_nodes) for s in inside]
    return [span for span in moved if span.start <= span.end]


def _span_tensors(spans: Sequence[Sequence[Span]], n_nodes: int) -> dict[str, Tensor]:
    by_end: list[list[list[Span]]] = [[[] for _ in range(n_nodes)] for _ in spans]
    for row, spans_of_row in zip(by_end, spans, strict=True):
        for span in spans_of_row:
            row[span.end].append(span)
    n_spans = max(1, *(len(at) for row in by_end for at in row))
    table = torch.zeros(3, len(spans), n_nodes, n_spans, dtype=torch.long)
    mask = torch.zeros(table.shape[1:], dtype=torch.bool)
    for b, row in enumerate(by_end):
        for i, at in enumerate(row):
            for k, span in enumerate(at):
                table[:, b, i, k] = torch.tensor([span.start, span.fact, span.alias])
                mask[b, i, k] = True
    return {
        "span_starts": table[0],
        "span_facts": table[1],
        "span_aliases": table[2],
        "span_mask": mask,
    }


def batches(articles: Sequence[Article], size: int) -> Iterator[list[Article]]:
    """Articles by growing length (then in file order), `size` at a time."""
    if size < 1:
        raise ConfigError(f"a batch of {size} articles is none; give 1 or more")
    ordered = sorted(articles, key=lambda article: len(article.words))
    for begin in range(0, len(ordered), size):
        yield ordered[begin : begin + size]
