"""Small cheap scorers: what the graph and the text say about a candidate without a network.

All are vectorised over the batch, finite, and see one text at a time, so the size of a batch
changes nothing. A candidate that the graph does not know gets what an entity without names and
triples would get. `entity_linking.scorers.overlap` holds the lexical context scorer,
`entity_linking.scorers.likeness` that of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Candidates, Scores
from entity_linking.scorers.candidate_rows import CandidateRows, Ints
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.indexing import offsets_of

PAIRS_PER_STEP = 1 << 21
MOST_REMEMBERED = 16_384


class PriorScorer:
    """`log(max(prior, floor))`."""

    def __init__(self, floor: float = 1e-4) -> None:
        if not 0.0 < floor <= 1.0:
            raise LinkingError(f"floor is {floor}; it is a probability above 0")
        self._floor = floor
        self._known: dict[int, tuple[Candidates, Scores]] = {}

    def __repr__(self) -> str:
        return f"PriorScorer(floor={self._floor})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`; none is above 0."""
        return [[self.of_candidates(link.candidates) for link in text.links] for text in texts]

    def of_candidates(self, candidates: Candidates) -> Scores:
        """The scores of the candidates of one mention, whatever its text.

        Sources that remember surfaces hand out one tuple again and again.
        """
        known = self._known.get(id(candidates))
        if known is None or known[0] is not candidates:
            priors = np.array([candidate.prior for candidate in candidates], np.float64)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = candidates, np.log(np.maximum(priors, self._floor))
            known[1].flags.writeable = False  # handed out again
            self._known[id(candidates)] = known
        return known[1]


class PopularityScorer:
    """`log(1 + count)`; the count is the degree in the graph, or given.

    `counts` is a mapping from identifiers or one number per entity of the graph `[entity]`, such as
    page views; negative numbers and NaN are refused. Unknown entities have 0.
    """

    def __init__(
        self, graph: KnowledgeGraph, counts: Mapping[str, float] | NDArray[np.float64] | None = None
    ) -> None:
        self._graph = graph
        if counts is None:
            degrees = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
        elif isinstance(counts, Mapping):
            degrees = np.zeros(graph.n_entities)
            names = sorted(counts)
            ids = graph.entities.ids(names)
            values = np.array([counts[name] for name in names], np.float64)
            degrees[ids[ids >= 0]] = values[ids >= 0]
        else:
            degrees = np.asarray(counts, np.float64)
        if degrees.shape != (graph.n_entities,):
            raise LinkingError(
                f"counts have the shape {degrees.shape}; give one number for each of the "
                f"{graph.n_entities} entities"
            )
        if not (np.isfinite(degrees) & (degrees >= 0)).all():
            raise LinkingError("counts must be finite and not negative")
        self._scores = np.append(np.log1p(degrees), 0.0)

    def __repr__(self) -> str:
        return f"PopularityScorer({self._graph!r})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`; none is below 0."""
        rows = CandidateRows.of(texts)
        return rows.split(self._scores[rows.ids(self._graph)])


class NeighbourScorer:
    """The share of the other mentions that mean a neighbour of the candidate.

        score(c, m) = mean over m' != m of sum of prior(c') over c' of m' adjacent to c

    That is coherence of one hop, directions and relations disregarded, weighted by the priors so
    that long candidate lists do not agree by chance. It is divided by the other mentions (with a
    candidate), not by the neighbours: a hub is not punished for its degree. 0 for a lone mention.
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self._offsets, self._neighbours = neighbours_of(graph)

    def __repr__(self) -> str:
        return f"NeighbourScorer({self._graph!r})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`, 0 to 1 where the priors of each mention add up to at most 1."""
        rows = CandidateRows.of(texts)
        return rows.split(_agreement(rows, rows.ids(self._graph), self._offsets, self._neighbours))


class TypeScorer:
    """The share of the other mentions that mean something of the candidate's type.

    As `NeighbourScorer`, with a common type for adjacency; over several types the mean. Types are
    the graph's TYPE texts and the tails of `relations` (in Wikidata P31). A list of cities makes
    the next "Paris" a city.
    """

    def __init__(self, graph: KnowledgeGraph, relations: Iterable[str] = ()) -> None:
        self._graph, self._relations = graph, tuple(relations)
        self._offsets, self._types = _types(graph, [graph.relations.id(r) for r in self._relations])

    def __repr__(self) -> str:
        return f"TypeScorer({self._graph!r}, relations={self._relations})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`, 0 to 1 where the priors of each mention add up to at most 1."""
        rows = CandidateRows.of(texts)
        ids = rows.ids(self._graph)
        owner, kinds = gather(ids, self._offsets, self._types)
        mention = rows.mention_of[owner]
        n_types = int(self._types.max(initial=0)) + 1
        by_text, text_key = np.unique(rows.text_of[mention] * n_types + kinds, return_inverse=True)
        by_mention, key = np.unique(mention * n_types + kinds, return_inverse=True)
        in_text = np.bincount(text_key, rows.priors[owner], minlength=len(by_text))[text_key]
        in_mention = np.bincount(key, rows.priors[owner], minlength=len(by_mention))[key]
        shares = np.maximum(in_text - in_mention, 0.0)
        n_types_of = np.maximum(np.bincount(owner, minlength=len(rows)), 1)
        total = np.bincount(owner, shares, minlength=len(rows)) / n_types_of
        return rows.split(total / np.maximum(rows.n_others(), 1)[rows.mention_of])


# ---- the graph as arrays ---------------------------------------------------
def neighbours_of(graph: KnowledgeGraph) -> tuple[Ints, Ints]:
    """Distinct neighbours of every entity in both directions, CSR, none its own neighbour."""
    heads, tails = graph.triples[:, 0].astype(np.int64), graph.triples[:, 2].astype(np.int64)
    apart = heads != tails
    n = max(graph.n_entities, 1)
    keys = np.concatenate([heads[apart] * n + tails[apart], tails[apart] * n + heads[apart]])
    keys.sort()
    keys = np.concatenate([keys[:1], keys[1:][keys[1:] != keys[:-1]]])
    nodes, others = np.divmod(keys, n)
    return offsets_of(nodes.astype(np.int32), graph.n_entities), others


def gather(ids: Ints, offsets: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Rows of a CSR table: for each value found, which of `ids` it belongs to, and the value."""
    known = ids >= 0
    start = np.where(known, offsets[ids * known], 0)
    size = np.where(known, offsets[ids * known + 1], 0) - start
    owner = np.repeat(np.arange(len(ids)), size)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
    return owner, values[start[owner] + position].astype(np.int64)


def _types(graph: KnowledgeGraph, relations: Sequence[int]) -> tuple[Ints, Ints]:
    """Types of every entity, CSR; numbers of TYPE texts come after the entity ids."""
    texts = graph.entity_texts
    rows = np.flatnonzero(np.asarray(texts.kinds) == TextKind.TYPE)
    values = texts.values.take(rows).to_pylist()
    number = {value: i for i, value in enumerate(dict.fromkeys(values), graph.n_entities)}
    typed = graph.triples[np.isin(graph.triples[:, 1], relations)]
    nodes = np.concatenate([texts.nodes()[rows], typed[:, 0]]).astype(np.int64)
    kinds = np.concatenate([np.array([number[v] for v in values], np.int64), typed[:, 2]])
    pairs = np.unique(np.stack([nodes, kinds], axis=1), axis=0)
    return offsets_of(pairs[:, 0].astype(np.int32), graph.n_entities), pairs[:, 1].astype(np.int64)


def _agreement(rows: CandidateRows, ids: Ints, offsets: Ints, neighbours: Ints) -> Scores:
    """For each candidate the prior mass of its neighbours in other mentions, a mention."""
    n = len(offsets)
    text = rows.text_of[rows.mention_of]
    known = np.flatnonzero(ids >= 0)
    order = known[np.argsort(text[known] * n + ids[known], kind="stable")]
    keys = text[order] * n + ids[order]  # candidates by text and entity
    total = np.zeros(len(rows))
    degrees = np.where(ids >= 0, offsets[ids + 1] - offsets[ids], 0)
    steps = np.searchsorted(np.cumsum(degrees), np.arange(0, degrees.sum(), PAIRS_PER_STEP))
    for step in np.split(np.arange(len(rows)), np.unique(steps)[1:]):
        owner, other = gather(ids[step], offsets, neighbours)
        owner = step[owner]
        wanted_keys = text[owner] * n + other
        low = np.searchsorted(keys, wanted_keys, side="left")
        size = np.searchsorted(keys, wanted_keys, side="right") - low
        hit = size > 0
        pair, position = gather(
            np.arange(int(hit.sum())),
            np.concatenate([[0], np.cumsum(size[hit])]),
            np.arange(int(size.sum())),
        )
        first = np.cumsum(size[hit]) - size[hit]
        positions = order[low[hit][pair] + position - first[pair]]
        source = owner[hit][pair]
        elsewhere = rows.mention_of[positions] != rows.mention_of[source]
        weight = np.where(elsewhere, rows.priors[positions], 0.0)
        total += np.bincount(source, weight, minlength=len(rows))
    return total / np.maximum(rows.n_others(), 1)[rows.mention_of]
