"""`CoherenceScorer`: entities of one text that are near each other support each other.

Personalised PageRank over the candidates of a document (Agirre and Soroa 2009, "Personalizing
PageRank for Word Sense Disambiguation"; for entities Pershina et al. 2015, "Personalized Page Rank
for Named Entity Disambiguation"). Axis legend: node (a distinct candidate of the text), mention.

For a mention m the walk restarts at the candidates of the *other* mentions, each mention with one
vote that its candidates share by their priors, and candidates of m have no vote at all, also where
another mention proposes them too. The score of a candidate of m is

    log(share of m's walk at the candidate + floor)

Edges between candidates a and b weigh: 1 if a triple joins them, and with two hops the sum of
1 / degree(v) over their common neighbours v of at most `hub_limit` triples (resource allocation,
Zhou et al. 2009), so that a shared country says little and a shared band much. Two candidates of
one mention have no edge (as in Pershina et al.).

Where we differ: Agirre and Soroa walk the whole knowledge base, as `sense_walks` does; here the
walk stays among the candidates, which needs no pass over the graph. Pershina et al. restart at one
candidate at a time, keep what the best candidate of each other mention sends, and weigh it with
how likely the candidates are by themselves; here all other mentions restart at once, so a walk is
solved a mention and not a candidate, and the prior of the candidate itself is left to the scorer
that this one is mixed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scores
from entity_linking.scorers.walks import n_steps, personalised_pagerank, walkable
from kg_loaders import KnowledgeGraph

Ids = NDArray[np.int64]


class CoherenceScorer:
    """Scores candidates by how much of the other mentions' walk reaches them.

    Only the `max_candidates` first candidates of a link enter the text's graph; the others, and
    those that `graph` does not know, score log(`floor`), and so does everything in a text with one
    mention. `hops` 1 uses triples between candidates alone. `use_priors` shares a mention's vote by
    the priors of all its candidates (what goes to an unknown candidate is lost), else evenly.
    Raises `LinkingError` for options out of range.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-9,
        max_candidates: int = 30,
        hops: Literal[1, 2] = 2,
        hub_limit: int = 1_000,
        use_priors: bool = True,
        floor: float = 1e-4,
    ) -> None:
        n_steps(damping, tolerance)
        if max_candidates < 1 or hub_limit < 2 or hops not in (1, 2):
            raise LinkingError(
                f"max_candidates {max_candidates}, hub_limit {hub_limit} and hops {hops}: give at "
                "least 1, at least 2, and 1 or 2"
            )
        if not 0 < floor < 1:
            raise LinkingError(f"floor is {floor}; give more than 0 and below 1, such as 1e-4")
        self._graph, self._damping, self._tolerance = graph, damping, tolerance
        self._max_candidates, self._hops, self._hub_limit = max_candidates, hops, hub_limit
        self._use_priors, self._floor = use_priors, floor

    def __repr__(self) -> str:
        return (
            f"CoherenceScorer({self._graph!r}, hops={self._hops}, hub_limit={self._hub_limit}, "
            f"damping={self._damping}, use_priors={self._use_priors})"
        )

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """For each link of each text one score per candidate."""
        return [self._score(text) for text in texts]

    def _score(self, text: LinkedText) -> list[Scores]:
        places, nodes = self._places(text)
        votes = self._votes(text, places, len(nodes))
        membership = _membership(places, len(nodes))
        shares = np.zeros(membership.shape)
        if len(nodes) and len(places) > 1:
            shares = self._walk(nodes, membership, votes)
        scores = []
        for mention, (link, at) in enumerate(zip(text.links, places, strict=True)):
            mass = np.zeros(len(link.candidates))
            mass[: len(at)] = np.where(at >= 0, shares[at, mention], 0.0)
            scores.append(np.log(mass + self._floor))
        return scores

    def _places(self, text: LinkedText) -> tuple[list[Ids], Ids]:
        """Node of each candidate of each link (-1: unknown), and the graph id of each node."""
        numbers: dict[int, int] = {}
        places = []
        for link in text.links:
            ids = [
                self._graph.entities.find(c.entity) for c in link.candidates[: self._max_candidates]
            ]
            at = [-1 if i is None else numbers.setdefault(i, len(numbers)) for i in ids]
            places.append(np.array(at, np.int64))
        return places, np.array(list(numbers), np.int64)

    def _votes(self, text: LinkedText, places: list[Ids], n_nodes: int) -> NDArray[np.float64]:
        """How each mention shares its vote, `[node mention]`."""
        votes = np.zeros((n_nodes + 1, len(places)))  # the last row takes what is lost
        for mention, (link, at) in enumerate(zip(text.links, places, strict=True)):
            priors = np.array([c.prior for c in link.candidates[: len(at)]])
            if not self._use_priors or not priors.any():
                priors = np.ones(len(at))
            np.add.at(votes[:, mention], at, priors / max(priors.sum(), 1e-300))
        return votes[:-1]

    def _walk(
        self, nodes: Ids, membership: NDArray[np.bool_], votes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shares `[node mention]` of the walk of each mention; all 0 where nobody else votes."""
        restarts = np.where(membership, 0.0, votes.sum(axis=1, keepdims=True) - votes)
        restarts = restarts.clip(min=0.0)
        total = restarts.sum(axis=0)
        restarts /= np.where(total > 0, total, 1.0)
        rivals = membership.astype(np.float32) @ membership.T.astype(np.float32) > 0
        weights = self._weights(nodes)
        weights.data[rivals[weights.row, weights.col]] = 0.0
        weights.eliminate_zeros()
        shares = personalised_pagerank(
            walkable(weights.tocsr()), restarts, damping=self._damping, tolerance=self._tolerance
        )
        total = shares.sum(axis=0)
        return np.maximum(shares / np.where(total > 0, total, 1.0), 0.0)

    def _weights(self, nodes: Ids) -> Any:
        """Edges between nodes, scipy COO `[node node]`."""
        row, neighbours = self._neighbours(nodes)
        order = np.argsort(nodes)
        at = np.searchsorted(nodes, neighbours, sorter=order).clip(max=len(nodes) - 1)
        inside = nodes[order[at]] == neighbours
        shape = (len(nodes), len(nodes))
        ends = (row[inside], order[at[inside]])
        weights = sparse.csr_matrix((np.ones(len(ends[0])), ends), shape=shape)
        weights.sum_duplicates()
        weights.data[:] = 1.0
        if self._hops == 2:
            weights = weights + self._shared(row, neighbours, len(nodes))
        return weights.tocoo()

    def _shared(self, row: Ids, neighbours: Ids, n_nodes: int) -> Any:
        """Common neighbours of nodes, each weighing 1 / degree, `[node node]`."""
        middle, column = np.unique(neighbours, return_inverse=True)
        degree = self._degrees(middle)
        share = np.where(degree <= self._hub_limit, 1 / np.sqrt(degree), 0.0)
        reach = sparse.csr_matrix(
            (np.ones(len(row)), (row, column.ravel())), shape=(n_nodes, len(middle))
        )
        reach.sum_duplicates()
        reach.data = share[reach.indices]
        return reach @ reach.T

    def _degrees(self, entities: Ids) -> NDArray[np.float64]:
        out, into = self._graph.out_offsets, self._graph.in_offsets
        degree = out[entities + 1] - out[entities] + into[entities + 1] - into[entities]
        return np.asarray(degree, np.float64)

    def _neighbours(self, nodes: Ids) -> tuple[Ids, Ids]:
        """`(row in nodes, neighbour)` over the triples of the nodes, both ways, no node its own."""
        graph = self._graph
        row_out, at_out = _ranges(graph.out_offsets[nodes], graph.out_offsets[nodes + 1])
        row_in, at_in = _ranges(graph.in_offsets[nodes], graph.in_offsets[nodes + 1])
        tails = graph.triples[at_out, 2]
        heads = graph.triples[graph.in_order[at_in], 0]
        row = np.concatenate([row_out, row_in])
        neighbours = np.concatenate([tails, heads]).astype(np.int64)
        other = neighbours != nodes[row]
        return row[other], neighbours[other]


def _membership(places: list[Ids], n_nodes: int) -> NDArray[np.bool_]:
    """Which nodes are candidates of which mention, `[node mention]`."""
    membership = np.zeros((n_nodes, len(places)), np.bool_)
    for mention, at in enumerate(places):
        membership[at[at >= 0], mention] = True
    return membership


def _ranges(starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """`(i, starts[i]), (i, starts[i] + 1), ..., (i, ends[i] - 1)` for every i."""
    lengths = ends - starts
    row = np.repeat(np.arange(len(starts)), lengths)
    first = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return row, first + np.arange(int(lengths.sum()))
