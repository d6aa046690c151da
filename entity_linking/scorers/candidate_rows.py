"""`CandidateRows`: the candidates of a batch of texts as flat columns, one row per candidate.

Axis legend: text, mention (the links of all texts in order), candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from entity_linking.parts import Scores
from kg_loaders import KnowledgeGraph

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CandidateRows:
    """Rows in the order of texts, links and candidates.

    `entities`, `priors` float64 and `mention_of` int64 `[candidate]`; `text_of` int64 `[mention]`;
    `offsets` int64 `[mention+1]` says where the rows of each mention begin and end.
    """

    texts: tuple[LinkedText, ...]
    entities: tuple[str, ...]
    priors: Scores
    mention_of: Ints
    text_of: Ints
    offsets: Ints
    _known: dict[int, tuple[KnowledgeGraph, Ints]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, texts: Sequence[LinkedText]) -> CandidateRows:
        """The candidates that the links of `texts` bear; of the `texts` of rows, these rows."""
        if isinstance(texts, _Batch):
            return texts.rows
        links = [(i, link) for i, text in enumerate(texts) for link in text.links]
        candidates = [candidate for _, link in links for candidate in link.candidates]
        n_candidates = np.array([len(link.candidates) for _, link in links], np.int64)
        batch = _Batch(texts)
        batch.rows = cls(
            texts=batch,
            entities=tuple(candidate.entity for candidate in candidates),
            priors=np.array([candidate.prior for candidate in candidates], np.float64),
            mention_of=np.repeat(np.arange(len(links)), n_candidates),
            text_of=np.array([i for i, _ in links], np.int64),
            offsets=np.concatenate([[0], np.cumsum(n_candidates)]).astype(np.int64),
        )
        return batch.rows

    def __len__(self) -> int:
        return len(self.entities)

    @property
    def n_mentions(self) -> int:
        return len(self.text_of)

    @property
    def sizes(self) -> Ints:
        """Candidates of each mention."""
        return np.diff(self.offsets)

    def ids(self, graph: KnowledgeGraph) -> Ints:
        """The id of each candidate in `graph`, -1 where it is not there; read-only."""
        if id(graph) not in self._known:
            distinct = {entity: i for i, entity in enumerate(dict.fromkeys(self.entities))}
            ids = graph.entities.ids(list(distinct)).astype(np.int64)
            rows = ids[np.array([distinct[entity] for entity in self.entities], np.int64)]
            rows.flags.writeable = False
            self._known[id(graph)] = graph, rows
        return self._known[id(graph)][1]

    def n_others(self) -> Ints:
        """For each mention the other mentions of its text that have a candidate."""
        has_candidate = (self.sizes > 0).astype(np.int64)
        in_text = np.bincount(self.text_of, has_candidate, minlength=len(self.texts))
        return in_text.astype(np.int64)[self.text_of] - has_candidate

    def split(self, values: Scores) -> list[list[Scores]]:
        """One array per link of each text, from one value per row."""
        parts = iter(np.split(np.asarray(values, np.float64), self.offsets[1:-1]))
        return [[next(parts) for _ in text.links] for text in self.texts]

    def best(self, values: Scores, *, empty: float = 0.0) -> Scores:
        """The highest value of each mention `[mention]`, `empty` where there is no candidate."""
        best = np.full(self.n_mentions, -np.inf)
        np.maximum.at(best, self.mention_of, values)
        return np.where(self.sizes > 0, best, empty)

    def order(self, values: Scores) -> Ints:
        """The rows of each mention by falling value, equal ones as they stand, `[candidate]`."""
        return np.lexsort((-values, self.mention_of))

    def others_best(self, values: Scores, order: Ints | None = None) -> Scores:
        """For each row the highest value among the other rows of its mention; its own if alone.

        `order` is that of `values`, where it is known.
        """
        order = self.order(values) if order is None else order
        first = self.offsets[:-1][self.mention_of]
        second = np.minimum(first + 1, self.offsets[1:][self.mention_of] - 1)
        is_first = np.zeros(len(self), np.bool_)
        is_first[order[self.offsets[:-1][self.sizes > 0]]] = True
        ranked = values[order]
        return np.where(is_first, ranked[second], ranked[first])

    def n_better(self, values: Scores, order: Ints | None = None) -> Ints:
        """For each row the rows of its mention with a higher value; `order` as there."""
        order = self.order(values) if order is None else order
        ranked, mention = values[order], self.mention_of[order]
        new = np.ones(len(self), np.bool_)
        new[1:] = (ranked[1:] != ranked[:-1]) | (mention[1:] != mention[:-1])
        position = np.arange(len(self)) - self.offsets[:-1][mention]
        start = np.maximum.accumulate(np.where(new, np.arange(len(self)), 0))
        result = np.empty(len(self), np.int64)
        result[order] = position[start]
        return result


class _Batch(tuple[LinkedText, ...]):
    """Texts that know their rows: what several scorers read is made once."""

    rows: CandidateRows
