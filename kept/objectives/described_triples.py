"""The data of a knowledge-embedding loss: triples, negatives, and descriptions as word pieces.

Wang et al. 2021 (KEPLER, TACL), section "Knowledge Embedding". Triples are sampled per batch; a
text that occurs several times in it is encoded once (the released code encodes every occurrence).

Axis legend: triple, negative, text, node, entity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, TripleBatch, Visibility
from kept.errors import BatchError, ConfigError
from kg_loaders import KnowledgeGraph, TextKind

Relations = Literal["table", "conditioned", "described"]
Cut = Literal["text", "sequence"]
Pieces = Sequence[int]
Ids = NDArray[np.int64]
ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """How word pieces of descriptions become inputs of at most `n_tokens`.

    `n_separators` end tokens stand between two texts (BERT 1, RoBERTa 2). `cut` "text" shortens
    texts, so that end tokens and the relation's description stay. "sequence" cuts the finished
    sequence as the released code does: end tokens may be lost, and a long entity description
    leaves nothing of the relation's.
    """

    start: int
    end: int
    n_separators: int = 1
    n_tokens: int = 64
    n_relation_tokens: int = 16
    cut: Cut = "text"

    @classmethod
    def of(cls, tokenizer: Any, *, n_tokens: int, n_relation_tokens: int, cut: Cut) -> Sequences:
        """With the tokenizer's own start and end; raises `ConfigError` where it has none."""
        start = _first(tokenizer.cls_token_id, tokenizer.bos_token_id)
        end = _first(tokenizer.sep_token_id, tokenizer.eos_token_id)
        if start is None or end is None:
            raise ConfigError(
                f"{type(tokenizer).__name__} has no start or no end token; descriptions need both"
            )
        pair = tokenizer("a", "a")["input_ids"]
        return cls(
            start=start,
            end=end,
            n_separators=max(1, pair.count(end) - 1),
            n_tokens=n_tokens,
            n_relation_tokens=n_relation_tokens,
            cut=cut,
        )

    def entity(self, pieces: Pieces) -> tuple[int, ...]:
        """The input that is read as an entity."""
        return self._single(pieces, self.n_tokens)

    def relation(self, pieces: Pieces) -> tuple[int, ...]:
        """The input that is read as a relation."""
        return self._single(pieces, self.n_relation_tokens)

    def conditioned(self, entity: Pieces, relation: Pieces) -> tuple[int, ...]:
        """An entity's description followed by that of the relation (KEPLER-Cond)."""
        between = [self.end] * self.n_separators
        if self.cut == "sequence":
            whole = [self.start, *entity, *between, *relation, self.end]
            return tuple(whole[: self.n_tokens])
        relation = relation[: max(self.n_relation_tokens - 2, 1)]
        room = max(self.n_tokens - len(relation) - len(between) - 2, 1)
        return (self.start, *entity[:room], *between, *relation, self.end)

    def _single(self, pieces: Pieces, limit: int) -> tuple[int, ...]:
        if self.cut == "sequence":
            return (self.start, *pieces, self.end)[:limit]
        return (self.start, *pieces[: max(limit - 2, 1)], self.end)


def text_batch(sequences: Sequence[Sequence[int]], *, pad_id: int) -> KnowledgeBatch:
    """Rows of word pieces as a batch of words, padded to the longest."""
    lengths = torch.tensor([len(row) for row in sequences])
    positions = torch.arange(int(lengths.max())).expand(len(sequences), -1)
    real = positions < lengths[:, None]
    ids = torch.full(real.shape, pad_id)
    ids[real] = torch.tensor([piece for row in sequences for piece in row])
    nothing = torch.zeros_like(ids)
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=nothing,
        node_mask=real,
        positions=positions.where(real, 0),
        segment_ids=nothing,
        visibility=Visibility.among(real),
    )


@dataclass(frozen=True, eq=False)
class Questions:
    """Triples by id with their negatives.

    Shapes: `triples` int64 `[triple 3]`; `negative_heads`, `negative_tails` `[triple negative]`.
    """

    triples: Ids
    negative_heads: Ids
    negative_tails: Ids


class Texts:
    """Distinct input rows, each with its index."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], int] = {}

    def index(self, row: tuple[int, ...]) -> int:
        """The index of `row`, which joins the batch if it is new."""
        return self._rows.setdefault(row, len(self._rows))

    def batch(self, pad_id: int) -> KnowledgeBatch:
        return text_batch(list(self._rows), pad_id=pad_id)


def triple_batch(
    questions: Questions,
    *,
    entity: Callable[[int], Pieces],
    relation: Callable[[int], Pieces],
    sequences: Sequences,
    relations: Relations,
    pad_id: int,
) -> TripleBatch:
    """`questions` with every text they need; `entity` and `relation` give pieces by id.

    Negatives are always read from their plain descriptions, also where partners are conditioned.
    """
    texts = Texts()

    def entities(ids: Ids) -> Tensor:
        rows = [texts.index(sequences.entity(entity(int(i)))) for i in ids.ravel()]
        return torch.tensor(rows).view(ids.shape)

    def partners(ids: Ids) -> Tensor:
        pairs = zip(ids.tolist(), named.tolist(), strict=True)
        rows = [sequences.conditioned(entity(i), relation(r)) for i, r in pairs]
        return torch.tensor([texts.index(row) for row in rows])

    heads, named, tails = questions.triples.T
    parts: dict[str, Tensor] = {
        "heads": entities(heads),
        "tails": entities(tails),
        "negative_heads": entities(questions.negative_heads),
        "negative_tails": entities(questions.negative_tails),
    }
    if relations == "conditioned":
        parts |= {"head_partners": partners(heads), "tail_partners": partners(tails)}
    if relations == "described":
        rows = [texts.index(sequences.relation(relation(int(r)))) for r in named]
        parts["relation_texts"] = torch.tensor(rows)
    return TripleBatch(
        texts=texts.batch(pad_id), relations=torch.from_numpy(named + N_SPECIAL_ROWS), **parts
    )


def draw_questions(
    graph: KnowledgeGraph,
    draws: np.random.Generator,
    *,
    n_triples: int,
    n_negatives: int,
    from_batch: bool = False,
    reject_known: bool = True,
) -> Questions:
    """Sample distinct triples of `graph`, each with negative heads and tails, uniformly.

    `from_batch` samples negatives among the entities of the batch's own triples, which needs no
    further text, or from the whole graph where all of those are true answers. `reject_known`
    excludes all answers that are true in the graph; otherwise only the triple's own is excluded.
    """
    if not graph.n_triples:
        raise ConfigError(f"{graph} has no triples to draw")
    rows = draws.choice(graph.n_triples, min(n_triples, graph.n_triples), replace=False)
    triples = graph.triples[np.sort(rows)].astype(np.int64)
    pool = np.unique(triples[:, [0, 2]]) if from_batch else None
    heads, tails = (
        negatives_of(graph, triples, slot, n_negatives, draws, pool, reject_known=reject_known)
        for slot in (0, 2)
    )
    return Questions(triples, heads, tails)


def negatives_of(
    graph: KnowledgeGraph,
    triples: Ids,
    slot: int,
    n: int,
    draws: np.random.Generator,
    pool: Ids | None,
    *,
    reject_known: bool,
) -> Ids:
    """Sample entities `[triple n]` for `slot` uniformly from those that make no true triple.

    They come of `pool` (None: of all), or of the whole graph where all of the pool are true.
    """
    positives = np.repeat(triples, n, axis=0)
    n_pool = graph.n_entities if pool is None else len(pool)

    def wrong(rows: Ids, sampled: Ids) -> NDArray[np.bool_]:
        corrupted = positives[rows]
        is_gold: NDArray[np.bool_] = corrupted[:, slot] == sampled
        corrupted[:, slot] = sampled
        return is_gold | graph.contains(corrupted.astype(np.int32)) if reject_known else is_gold

    negatives = np.empty(len(positives), np.int64)
    open_ = np.arange(len(positives))
    for _ in range(ROUNDS):
        sampled = draws.integers(n_pool, size=len(open_))
        negatives[open_] = sampled if pool is None else pool[sampled]
        open_ = open_[wrong(open_, negatives[open_])]
    everything = np.arange(graph.n_entities)
    for row in open_.tolist():
        for choice in (everything if pool is None else pool, everything):
            allowed = choice[~wrong(np.full(len(choice), row), choice)]
            if len(allowed):
                negatives[row] = draws.choice(allowed)
                break
        else:
            name = "head" if slot == 0 else "tail"
            raise BatchError(
                f"every entity is a true {name} of triple {positives[row].tolist()}, so it has no "
                "negative; set reject_known=False"
            )
    return negatives.reshape(len(triples), n)


def entity_text(graph: KnowledgeGraph, entity: int, read: str) -> str:
    """Return the text of an entity: its "description", its "label", or "both" (label: description).

    Without a description it is the label.
    """
    description = None if read == "label" else graph.description(entity)
    if description is None:
        return graph.label(entity)
    return description if read == "description" else f"{graph.label(entity)}: {description}"


def relation_text(graph: KnowledgeGraph, relation: int, read: str) -> str:
    """As `entity_text`, of a relation."""
    descriptions = graph.relation_texts.of(relation, TextKind.DESCRIPTION)
    label = graph.relation_label(relation)
    if read == "label" or not descriptions:
        return label
    return descriptions[0][0] if read == "description" else f"{label}: {descriptions[0][0]}"


def _first(*ids: int | None) -> int | None:
    return next((i for i in ids if i is not None), None)
