"""`SenseWalk`: word sense disambiguation by personalised PageRank over the whole of WordNet.

UKB: Agirre and Soroa (2009), "Personalizing PageRank for Word Sense Disambiguation";
Agirre, López de Lacalle and Soroa (2014), "Random Walks for Knowledge-Based Word Sense
Disambiguation". Axis legend: node (an entity of the graph), word (a distinct tuple of candidates).

The words of a context restart a walk at their senses, one vote an occurrence. "ppr" takes one walk
for the context; "ppr_w2w" takes one for each word, in which the word itself, wherever it stands in
the context, has no vote, so that its senses do not lift each other. Walks are linear in their
restarts: one is solved for every distinct word, and that of a context is a sum of them.

The context of a word is its sentence (a line of the text) and, while that has fewer than
`context_words` words, the sentences next to it on both sides (20 in the paper of 2009).

Where we differ: the paper of 2009 makes a node of each context word and stops after 30 power steps;
here, as in UKB's released code, words restart directly at their senses, which is the same up to
scale, and the walk is solved to `tolerance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText
from entity_linking.parts import Scores
from entity_linking.scorers.walks import n_steps, personalised_pagerank, walkable
from entity_linking.senses.corpus import sentence_of
from kg_loaders import KnowledgeGraph

Method = Literal["ppr", "ppr_w2w"]
Word = tuple[tuple[int, float], ...]
WORDS_PER_BLOCK = 64


def relations(graph: KnowledgeGraph) -> Any:
    """The triples of a graph as undirected edges of weight 1, scipy CSR `[entity entity]`."""
    heads, tails = graph.triples[:, 0], graph.triples[:, 2]
    apart = heads != tails
    shape = (graph.n_entities, graph.n_entities)
    return undirected(
        sparse.csr_matrix((np.ones(int(apart.sum())), (heads[apart], tails[apart])), shape=shape)
    )


def undirected(*links: Any) -> Any:
    """All `links` together, `[entity entity]`, both ways; a pair weighs as in its heaviest link."""
    total = None
    for weights in links:
        folded = weights.maximum(weights.T).tocsr()
        folded.data = folded.data.clip(max=1.0)
        total = folded if total is None else total.maximum(folded)
    return total


class SenseWalk:
    """Scores senses by log(share of the context's walk at the sense + floor).

    `edges` are symmetric weights over the entities of `graph`: `relations(graph)`, or
    `undirected(relations(graph), gloss_links(graph, lexicon))`. `restart_priors` shares a word's
    vote by the priors of its candidates, else evenly; `own_prior` adds the log of a candidate's
    prior to its score. UKB's w2w with sense frequencies does both. A candidate that the graph does
    not know has no share and no vote.
    Raises `LinkingError` for options out of range and edges of another size.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        edges: Any,
        *,
        method: Method = "ppr_w2w",
        restart_priors: bool = True,
        own_prior: bool = False,
        context_words: int = 20,
        damping: float = 0.85,
        tolerance: float = 1e-5,
        floor: float = 1e-9,
    ) -> None:
        if method not in get_args(Method):
            raise LinkingError(f"method is {method!r}; choose one of {', '.join(get_args(Method))}")
        if edges.shape != (graph.n_entities, graph.n_entities):
            raise LinkingError(f"edges of shape {edges.shape} are not those of {graph}")
        if context_words < 1 or not 0 < floor < 1:
            raise LinkingError(
                f"context_words {context_words} and floor {floor}: give at least 1, and a number "
                "above 0 and below 1"
            )
        n_steps(damping, tolerance)
        self._graph = graph
        self._walkable = walkable(edges, dtype=np.float32)
        self._method, self._context_words = method, context_words
        self._restart_priors, self._own_prior = restart_priors, own_prior
        self._damping, self._tolerance, self._floor = damping, tolerance, floor

    def __repr__(self) -> str:
        return (
            f"SenseWalk({self._graph!r}, method={self._method!r}, "
            f"restart_priors={self._restart_priors}, own_prior={self._own_prior}, "
            f"context_words={self._context_words})"
        )

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """For each link of each text one score per candidate.

        One walk for each distinct word of all the texts, so fewer calls with more texts are faster.
        """
        words: dict[Word, int] = {}
        word_numbers = [[self._number(link, words) for link in text.links] for text in texts]
        nodes = np.unique(np.array([node for word in words for node, _ in word], np.int64))
        shares = self._walks(list(words), nodes)
        return [
            self._score(text, np.array(numbers, np.int64), nodes, shares)
            for text, numbers in zip(texts, word_numbers, strict=True)
        ]

    def _number(self, link: Link, words: dict[Word, int]) -> int:
        """The number of a link's word; -1 if the graph knows none of its candidates."""
        word = self._word(link.candidates)
        return words.setdefault(word, len(words)) if word else -1

    def _word(self, candidates: Sequence[Candidate]) -> Word:
        senses = [(self._graph.entities.find(c.entity), c.prior) for c in candidates]
        if not self._restart_priors or not any(prior for _, prior in senses):
            senses = [(node, 1.0) for node, _ in senses]
        total = sum(prior for _, prior in senses)
        return tuple((node, prior / total) for node, prior in senses if node is not None)

    def _walks(self, words: Sequence[Word], nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Share at each of `nodes` of the walk of each word, `[node+1 word]`; the last row is all.

        The last row, the whole of a walk, is below 1 where senses have no edges.
        """
        shares = np.zeros((len(nodes) + 1, len(words)), np.float32)
        for start in range(0, len(words), WORDS_PER_BLOCK):
            block = words[start : start + WORDS_PER_BLOCK]
            restarts = np.zeros((self._graph.n_entities, len(block)), np.float32)
            for column, word in enumerate(block):
                for node, weight in word:
                    restarts[node, column] += weight
            walks = personalised_pagerank(
                self._walkable, restarts, damping=self._damping, tolerance=self._tolerance
            )
            stop = start + len(block)
            shares[:-1, start:stop] = walks[nodes].clip(min=0.0)
            shares[-1, start:stop] = walks.sum(axis=0, dtype=np.float64)
        return shares

    def _score(
        self,
        text: LinkedText,
        words: NDArray[np.int64],
        nodes: NDArray[np.int64],
        shares: NDArray[np.float32],
    ) -> list[Scores]:
        contexts = _contexts(text, words, self._context_words)
        scores = []
        for link, word, context in zip(text.links, words.tolist(), contexts, strict=True):
            voters = context[context >= 0]
            if self._method == "ppr_w2w":
                voters = voters[voters != word]
            ids = [self._graph.entities.find(c.entity) for c in link.candidates]
            known = np.array([i is not None for i in ids], np.bool_)
            at = np.searchsorted(nodes, [i for i in ids if i is not None])
            mass = np.zeros(len(ids))
            if len(voters):
                total = shares[-1, voters].astype(np.float64).sum()
                mass[known] = shares[np.ix_(at, voters)].astype(np.float64).sum(axis=1) / total
            score = np.log(mass + self._floor)
            if self._own_prior:
                score += np.log([max(c.prior, self._floor) for c in link.candidates])
            scores.append(score)
        return scores


def _contexts(text: LinkedText, words: NDArray[np.int64], n_wanted: int) -> list[NDArray[np.int64]]:
    """Words of the context of each link, occurrence by occurrence."""
    lines = sentence_of(text)
    known = words >= 0
    n_lines = text.text.count("\n") + 1
    by_line: dict[int, NDArray[np.int64]] = {}
    for line in dict.fromkeys(lines.tolist()):
        first = last = line
        while True:
            inside = (lines >= first) & (lines <= last)
            if int((inside & known).sum()) >= n_wanted or (first == 0 and last >= n_lines - 1):
                break
            first, last = max(first - 1, 0), last + 1
        by_line[line] = words[inside]
    return [by_line[line] for line in lines.tolist()]
