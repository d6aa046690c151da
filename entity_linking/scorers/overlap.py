"""`OverlapScorer`: words that a mention's context shares with what the graph says of an entity."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scores
from entity_linking.scorers.candidate_rows import CandidateRows
from entity_linking.scorers.context_words import FUNCTION_WORDS, words_of
from entity_linking.scorers.features import neighbours_of
from kg_loaders import KnowledgeGraph, TextKind

TEXTS_PER_CHUNK = 65_536
ROWS_PER_STEP = 8192
OWN_KINDS = (TextKind.LABEL, TextKind.DESCRIPTION, TextKind.TYPE)


class OverlapScorer:
    """Cosine of the context's words and the entity's card, both weighted by inverse frequency.

    The card holds the words of the entity's labels, descriptions and types with weight 1, those of
    its neighbours' labels with `neighbour_weight`. A word's weight is `log(1 + cards / cards that
    hold it)`. The context is the `window` words on either side of the mention, without the mention
    itself; words that no card holds and `function_words` (English unless given) count nowhere.
    It is Lesk's (1986) overlap of gloss and context with weights, and needs no network.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        window: int = 50,
        neighbour_weight: float = 0.5,
        function_words: Collection[str] = FUNCTION_WORDS,
    ) -> None:
        if window < 1 or not 0.0 <= neighbour_weight <= 1.0:
            raise LinkingError(
                f"window is {window} and neighbour_weight {neighbour_weight}; "
                "give 1 or more words and a weight from 0 to 1"
            )
        self._graph, self._window, self._neighbour_weight = graph, window, neighbour_weight
        self._word_ids: dict[str, int] = {}
        self._function_words = frozenset(function_words)
        entity_words = self._words_of_entities(OWN_KINDS)
        labels = self._words_of_entities((TextKind.LABEL,))
        width = (graph.n_entities, len(self._word_ids))
        entity_words.resize(width)
        labels.resize(width)
        offsets, others = neighbours_of(graph)
        links = sp.csr_matrix((np.ones(len(others)), others, offsets), (width[0], width[0]))
        near = links @ labels
        near.data[:] = neighbour_weight
        cards = entity_words.maximum(near).tocsr()
        cards.eliminate_zeros()
        n_cards = np.bincount(cards.indices, minlength=width[1])
        self._idf = np.log1p(graph.n_entities / np.maximum(n_cards, 1))
        # one empty card more, for entities that the graph does not know
        self._cards = _unit_rows(sp.vstack([cards, sp.csr_matrix((1, width[1]))]), self._idf)

    def __repr__(self) -> str:
        return f"OverlapScorer({self._graph!r}, window={self._window})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`, 0 to 1."""
        rows = CandidateRows.of(texts)
        contexts = self._contexts(texts)
        ids = rows.ids(self._graph)
        overlaps = np.zeros(len(rows))
        for start in range(0, len(rows), ROWS_PER_STEP):
            step = slice(start, start + ROWS_PER_STEP)
            shared = self._cards[ids[step]].multiply(contexts[rows.mention_of[step]]).tocoo()
            overlaps[step] = np.bincount(shared.row, shared.data, minlength=shared.shape[0])
        return rows.split(overlaps)

    def _words_of_entities(self, kinds: Sequence[TextKind]) -> Any:
        """Which words each entity's texts of these kinds hold, 0 or 1, CSR `[entity word]`."""
        texts = self._graph.entity_texts
        rows = np.flatnonzero(np.isin(np.asarray(texts.kinds), kinds))
        owners = texts.nodes()[rows]
        nodes, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for start in range(0, len(rows), TEXTS_PER_CHUNK):
            chunk = slice(start, start + TEXTS_PER_CHUNK)
            words = words_of(texts.values.take(rows[chunk]).to_pylist())
            known = self._word_ids
            ids = [
                -1 if word in self._function_words else known.setdefault(word, len(known))
                for word in words.values
            ]
            column = np.array(ids, np.int64)
            nodes.append(owners[chunk][words.text_of[column >= 0]].astype(np.int64))
            columns.append(column[column >= 0])
        pair = (np.concatenate(nodes), np.concatenate(columns))
        shape = (self._graph.n_entities, len(self._word_ids))
        table = sp.csr_matrix((np.ones(len(pair[0])), pair), shape)
        table.data[:] = 1.0  # repeats were added up
        return table

    def _contexts(self, texts: Sequence[LinkedText]) -> Any:
        """Weights of the words round each mention, CSR `[mention word]`, rows of length 1."""
        words = words_of([text.text for text in texts])
        ids = np.array([self._word_ids.get(word, -1) for word in words.values], np.int64)
        firsts = np.searchsorted(words.text_of, np.arange(len(texts) + 1))
        mentions: list[NDArray[np.int64]] = []
        for i, text in enumerate(texts):
            mine = slice(int(firsts[i]), int(firsts[i + 1]))
            starts, words_here = words.starts[mine], ids[mine]
            for link in text.links:
                low, high = np.searchsorted(starts, [link.mention.start, link.mention.end])
                before = words_here[max(low - self._window, 0) : low]
                near = np.concatenate([before, words_here[high : high + self._window]])
                mentions.append(np.unique(near[near >= 0]))
        offsets = np.concatenate([[0], np.cumsum([len(m) for m in mentions])]).astype(np.int64)
        columns = np.concatenate([*mentions, np.zeros(0, np.int64)])
        table = sp.csr_matrix(
            (np.ones(len(columns)), columns, offsets), (len(mentions), len(self._word_ids))
        )
        return _unit_rows(table, self._idf)


def _unit_rows(table: Any, idf: Scores) -> Any:
    """The table times the weight of each word, every row then of length 1 or 0."""
    table = table.tocsr()
    table.sort_indices()
    weighted = table.data * idf[table.indices]
    owner = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    norm = np.sqrt(np.bincount(owner, weighted**2, minlength=table.shape[0]))
    data = weighted / np.where(norm > 0, norm, 1.0)[owner]
    return sp.csr_matrix((data, table.indices, table.indptr), table.shape)
