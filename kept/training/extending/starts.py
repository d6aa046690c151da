"""Where the rows of new entities start: from their neighbours' rows, their names, descriptions.

How good each start is, a table says itself: rows of some old entities are guessed as if they were
new, and compared with what they are.

Axis legend: entity (by the new graph's ids), triple, width, word (of the host's space).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kept.randomness import generator
from kept.vectors import LABELS_AT_ONCE, mean_pieces
from kg_loaders import KnowledgeGraph

MEAN = "mean"
"""The mean of all old rows: what is left where no start is better than nothing."""
N_GUESSED, N_FITTED = 1000, 20_000
"""Old entities that are guessed, and those on which a map from words is fitted."""
TRIPLES_AT_ONCE = ROWS_AT_ONCE = 1 << 18
RIDGE = 1e-2
"""What is added to the map's normal equations, as a share of their mean diagonal."""


@dataclass(frozen=True, eq=False)
class StartContext:
    """What starts may read: the new graph, which of its entities are new, and the host's words."""

    graph: KnowledgeGraph
    is_old: Bool[Tensor, " entity"]
    words: Float[Tensor, "word width"]
    tokenizer: PreTrainedTokenizerBase

    @cached_property
    def triples(self) -> Int[Tensor, "triple 3"]:
        """Those of the graph, without loops."""
        triples = torch.from_numpy(np.array(self.graph.triples, np.int64))
        return triples[triples[:, 0] != triples[:, 2]]

    @cached_property
    def guessed(self) -> Int[Tensor, " guessed"]:
        """The old entities that starts are tried on: a fifth, at most `N_GUESSED`."""
        old = self.is_old.nonzero()[:, 0].numpy()
        n = min(N_GUESSED, len(old) // 5)
        draws = generator(0, "entities whose rows are guessed")
        return torch.from_numpy(np.sort(draws.choice(old, n, replace=False)).astype(np.int64))

    def texts(
        self, entities: Int[Tensor, " some"], *, described: bool
    ) -> tuple[Float[Tensor, "some width"], Bool[Tensor, " some"]]:
        """The mean vector of the pieces of each name, and which have any.

        `described`: of the name and what the graph says of it; an entity without a description has
        none.
        """
        vectors, known_parts = [self.words[:0]], [torch.zeros(0, dtype=torch.bool)]
        for ids in entities.split(LABELS_AT_ONCE):
            texts = self.graph.labels(ids.numpy())
            if described:
                descriptions = map(self.graph.description, ids.tolist())
                texts = [f"{a} {b}" if b else "" for a, b in zip(texts, descriptions, strict=True)]
            means, has_pieces = self.names(texts)
            vectors.append(means)
            known_parts.append(has_pieces)
        return torch.cat(vectors), torch.cat(known_parts)

    def names(
        self, names: Sequence[str]
    ) -> tuple[Float[Tensor, "some width"], Bool[Tensor, " some"]]:
        """The mean vector of the pieces of each name, and which have any."""
        return mean_pieces(names, self.words, self.tokenizer)


Start = Callable[
    [Float[Tensor, "entity width"], Bool[Tensor, " entity"], StartContext, bool],
    tuple[Float[Tensor, "unknown width"], Bool[Tensor, " unknown"]],
]
"""`(rows, is_known, world, in_words)` to a row for each other entity, and which of them have one.

`rows` where `is_known` is False are not read. `in_words`: rows are in the space of words.
"""


def from_neighbours(
    rows: Tensor, is_known: Tensor, world: StartContext, in_words: bool
) -> tuple[Tensor, Tensor]:
    """The mean of all neighbours' rows, as long as these are on average.

    What only new entities lead to is reached in further passes.
    """
    steps = rows.new_zeros(world.graph.n_relations, rows.shape[1])
    return _passed_on(rows, is_known, world, steps)


def from_translations(
    rows: Tensor, is_known: Tensor, world: StartContext, in_words: bool
) -> tuple[Tensor, Tensor]:
    """As `from_neighbours`, each moved by how far its relation leads on average (TransE's view)."""
    steps = rows.new_zeros(world.graph.n_relations, rows.shape[1])
    counts = rows.new_zeros(world.graph.n_relations)
    for triples in world.triples.split(TRIPLES_AT_ONCE):
        known_triples = triples[is_known[triples[:, 0]] & is_known[triples[:, 2]]]
        heads, relations, tails = known_triples.unbind(1)
        steps.index_add_(0, relations, rows[tails] - rows[heads])
        counts.index_add_(0, relations, rows.new_ones(len(known_triples)))
    return _passed_on(rows, is_known, world, steps / counts.clamp_min(1)[:, None])


def _passed_on(
    rows: Tensor, is_known: Tensor, world: StartContext, steps: Float[Tensor, "relation width"]
) -> tuple[Tensor, Tensor]:
    unknown = (~is_known).nonzero()[:, 0]
    row_numbers = torch.zeros(len(is_known), dtype=torch.int64)
    row_numbers[unknown] = torch.arange(len(unknown))
    passed_rows, has_row = rows.new_zeros(len(unknown), rows.shape[1]), is_known[unknown]
    touching = ~is_known[world.triples[:, 0]] | ~is_known[world.triples[:, 2]]
    heads, relations, tails = world.triples[touching].unbind(1)
    passes = ((heads, tails, -1), (tails, heads, 1))

    def read(ids: Tensor) -> Tensor:
        return torch.where(is_known[ids][:, None], rows[ids], passed_rows[row_numbers[ids]])

    while True:
        total, length = torch.zeros_like(passed_rows), rows.new_zeros(len(unknown))
        count, has_any = rows.new_zeros(len(unknown)), is_known.clone()
        has_any[unknown] = has_row
        for ends, sources, sign in passes:
            receives = has_any[sources] & ~has_any[ends]
            to, vectors = row_numbers[ends[receives]], read(sources[receives])
            length.index_add_(0, to, vectors.norm(dim=1))
            total.index_add_(0, to, vectors + sign * steps[relations[receives]])
            count.index_add_(0, to, rows.new_ones(len(to)))
        reached = count > 0
        if not reached.any():
            return passed_rows, has_row
        means = total[reached] / count[reached, None]
        norms = means.norm(dim=1).clamp_min(1e-12)
        passed_rows[reached] = means * (length[reached] / count[reached] / norms)[:, None]
        has_row |= reached


def from_names(
    rows: Tensor, is_known: Tensor, world: StartContext, in_words: bool
) -> tuple[Tensor, Tensor]:
    """The mean of the pieces of the name; in a space of its own, mapped as old entities' are."""
    return _from_texts(rows, is_known, world, in_words, described=False)


def from_descriptions(
    rows: Tensor, is_known: Tensor, world: StartContext, in_words: bool
) -> tuple[Tensor, Tensor]:
    """As `from_names`, of the name and the description; none without a description."""
    return _from_texts(rows, is_known, world, in_words, described=True)


def _from_texts(
    rows: Tensor, is_known: Tensor, world: StartContext, in_words: bool, *, described: bool
) -> tuple[Tensor, Tensor]:
    texts, has_text = world.texts((~is_known).nonzero()[:, 0], described=described)
    if in_words:
        return texts.to(rows), has_text
    read = _map(rows, is_known, world, described)
    if read is None:
        return rows.new_zeros(len(texts), rows.shape[1]), torch.zeros_like(has_text)
    return read(texts).to(rows), has_text


def _map(
    rows: Tensor, is_known: Tensor, world: StartContext, described: bool
) -> Callable[[Tensor], Tensor] | None:
    """The ridge regression of rows on texts, fitted on known entities; None without two."""
    known_ids = is_known.nonzero()[:, 0].numpy()
    draws = generator(0, "entities on which names are mapped", int(described))
    some = draws.choice(known_ids, min(N_FITTED, len(known_ids)), replace=False)
    sample = torch.from_numpy(np.sort(some).astype(np.int64))
    texts, has_text = world.texts(sample, described=described)
    source, target = texts[has_text].double(), rows[sample[has_text]].double()
    if len(source) < 2:
        return None
    middle, centre = source.mean(0), target.mean(0)
    source, target = source - middle, target - centre
    gram = source.T @ source
    gram += torch.eye(len(gram), dtype=gram.dtype) * (RIDGE * gram.diagonal().mean() + 1e-12)
    solved = torch.linalg.solve(gram, source.T @ target)
    return lambda vectors: (vectors.double() - middle) @ solved + centre


STARTS: dict[str, Start] = {
    "neighbours": from_neighbours,
    "translations": from_translations,
    "names": from_names,
    "descriptions": from_descriptions,
}


def scores(
    rows: Float[Tensor, "entity width"], world: StartContext, *, in_words: bool
) -> dict[str, float | None]:
    """By the name of each start the mean cosine of guessed rows of old entities and their own.

    Both less the mean row, so that this mean itself scores 0. None where there is none to guess; an
    entity for which a start has no row counts 0. Rows of zeros, which stand for none, are left out.
    """
    is_known = has_row(rows, world)
    guessed = world.guessed[is_known[world.guessed]]
    if not len(guessed):
        return dict.fromkeys(STARTS)
    is_known[guessed] = False
    centre = mean_row(rows, is_known)
    guessed_rows = torch.searchsorted((~is_known).nonzero()[:, 0], guessed)
    by_start: dict[str, float | None] = {}
    for name, start in STARTS.items():
        guesses, has_guess = (each[guessed_rows] for each in start(rows, is_known, world, in_words))
        likeness = torch.cosine_similarity(guesses - centre, rows[guessed] - centre)
        by_start[name] = float(likeness.where(has_guess, 0.0).mean())
    return by_start


def has_row(rows: Float[Tensor, "entity width"], world: StartContext) -> Bool[Tensor, " entity"]:
    """Which old entities have a row that is not all zeros."""
    return world.is_old & torch.cat([(part != 0).any(1) for part in rows.split(ROWS_AT_ONCE)])


def mean_row(
    rows: Float[Tensor, "entity width"], is_known: Bool[Tensor, " entity"]
) -> Float[Tensor, " width"]:
    """The mean of the known rows; zeros without any."""
    total = torch.zeros(rows.shape[1], dtype=torch.float64)
    for part, known_part in zip(
        rows.split(ROWS_AT_ONCE), is_known.split(ROWS_AT_ONCE), strict=True
    ):
        total += part[known_part].double().sum(0)
    return (total / max(int(is_known.sum()), 1)).to(rows)


def best_first(scores: dict[str, float | None], starts: Sequence[str] = ()) -> list[str]:
    """The starts to try one after the other: those `starts`, else by score, without those below 0.

    >>> best_first({"neighbours": 0.2, "names": 0.5, "descriptions": -0.1})
    ['names', 'neighbours']
    """
    rest = [n for n, score in scores.items() if n not in starts and (score is None or score > 0)]
    rest.sort(key=lambda name: -(scores[name] or 0.0))
    return [*starts, *rest]
