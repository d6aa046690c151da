"""Corrupts links on purpose, so that experiments can plot a task's score against linking error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from scipy.special import betaincinv

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText
from entity_linking.parts import CandidateSource
from entity_linking.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.records import TextKind

Origin = Literal["candidates", "type", "degree", "any"]
ORIGINS: tuple[Origin, ...] = ("candidates", "type", "degree", "any")


@dataclass(frozen=True, slots=True)
class CorruptionReport:
    """How many links there were, were dropped, and were swapped, by where the wrong entity is from.

    "candidates": of the link's own, or of the source's; "type": an entity of the graph that shares
    a type; "degree": one with about as many triples; "any": any other.
    """

    n_links: int
    n_dropped: int
    n_swapped: int
    swapped_by: dict[Origin, int]

    def __str__(self) -> str:
        parts = ", ".join(f"{n} {origin}" for origin, n in self.swapped_by.items() if n)
        swapped = f"{self.n_swapped} swapped" + (f" ({parts})" if parts else "")
        return f"{self.n_dropped} dropped, {swapped} of {counted(self.n_links, 'links')}"


def corrupt(
    texts: Sequence[LinkedText],
    *,
    drop: float = 0.0,
    swap: float = 0.0,
    seed: int,
    graph: KnowledgeGraph | None = None,
    source: CandidateSource | None = None,
    wrong: Literal["likely", "any"] = "likely",
    spread: float | None = None,
) -> tuple[list[LinkedText], CorruptionReport]:
    """The texts with a share `drop` of all links removed and a share `swap` linked wrongly.

    Links to an entity are counted and corrupted, NILs stay. A share of n links is n times it,
    rounded, halves upwards (for `swap` at most what `drop` leaves). Every link has a random number
    that depends on `seed`, its text with its id, and its place in it; drops take the lowest ones,
    swaps the highest, so links that are corrupted at one rate are so at every higher one, and
    whichever rate is raised leaves the links of the other alone.

    A swapped link is linked to its best wrong candidate (ties: the first); one that has none takes
    the best wrong one of `source`, then an entity of `graph`, drawn evenly from those of the same
    type, else of the same degree up to a factor of two, else from all. The two trade places
    among the candidates and keep the prior and score of the place, so that readers of candidates
    are misled, too; an entity from outside replaces the right one. With `wrong` "any" the wrong
    entity is drawn evenly from all of `graph`, whatever the candidates.

    The confidence stays: a linker that errs does not know it. With a `spread` all links get that of
    a linker that errs as often and knows how sure it may be: of those with confidence c a share c
    is right. Confidences are then drawn from Beta(spread (1 - swap), spread swap), right ones as
    they are among the right, which tells the less of right and wrong the larger the spread.

    LinkingError: a rate or a spread that is none, or nothing to swap to.
    """
    _check(drop, swap, spread)
    places = [
        (i, j) for i, text in enumerate(texts) for j, link in enumerate(text.links) if link.entity
    ]
    draws = [_draws(text, seed, n) for text, n in zip(texts, _occurrences(texts), strict=True)]
    places.sort(key=lambda link: (draws[link[0]][link[1], 0], link))
    n_dropped = _share(drop, len(places))
    n_swapped = min(_share(swap, len(places)), len(places) - n_dropped)
    to_swap = sorted(places[len(places) - n_swapped :])
    is_likely = wrong == "likely"
    proposed = _proposed(texts, to_swap, source) if is_likely else {}
    outside = None if graph is None else _Outside(graph, is_likely=is_likely)
    changed: dict[tuple[int, int], Link | None] = dict.fromkeys(places[:n_dropped])
    by: dict[Origin, int] = dict.fromkeys(ORIGINS, 0)
    for i, j in to_swap:
        other, origin = _wrong(
            texts[i], texts[i].links[j], proposed.get((i, j), ()), outside, draws[i][j, 1]
        )
        changed[i, j] = _swapped(texts[i].links[j], other)
        by[origin] += 1
    if spread is not None:
        sure = _SimulatedConfidence(spread, n_swapped / max(len(places) - n_dropped, 1))
        for i, j in places[n_dropped:]:
            link = changed.get((i, j), texts[i].links[j])
            if link is not None:
                is_right = (i, j) not in changed
                changed[i, j] = replace(link, confidence=sure(draws[i][j, 2], is_right))
    corrupted = [
        replace(
            text,
            links=tuple(
                link
                for j, old in enumerate(text.links)
                if (link := changed.get((i, j), old)) is not None
            ),
        )
        for i, text in enumerate(texts)
    ]
    return corrupted, CorruptionReport(len(places), n_dropped, n_swapped, by)


@dataclass(frozen=True, slots=True)
class _SimulatedConfidence:
    """The confidences of a calibrated linker that errs in a share of its links."""

    spread: float
    share: float

    def __call__(self, draw: float, is_right: bool) -> float:
        """By Bayes: Beta(a, b) times c is Beta(a + 1, b), times 1 - c it is Beta(a, b + 1)."""
        if self.share in (0.0, 1.0):
            return 1.0 - self.share
        a, b = self.spread * (1 - self.share), self.spread * self.share
        return float(betaincinv(a + is_right, b + (not is_right), draw))


def _check(drop: float, swap: float, spread: float | None) -> None:
    if spread is not None and not 0.0 < spread < np.inf:
        raise LinkingError(f"spread is {spread}; give a number above 0, 1 for most links sure")
    for name, rate in (("drop", drop), ("swap", swap)):
        if not 0.0 <= rate <= 1.0:
            raise LinkingError(f"{name} is {rate}; give a share of the links, 0 to 1")
    if drop + swap > 1.0 + 1e-9:
        raise LinkingError(f"drop {drop} and swap {swap} are more than all links; sum to 1 at most")


def _share(rate: float, n: int) -> int:
    return int(np.floor(round(rate * n, 6) + 0.5))


def _occurrences(texts: Sequence[LinkedText]) -> Iterator[int]:
    """How many texts before each have the same id and text."""
    seen: dict[tuple[str, str], int] = {}
    for text in texts:
        key = (text.id, text.text)
        yield seen.setdefault(key, 0)
        seen[key] += 1


def _draws(text: LinkedText, seed: int, occurrence: int) -> NDArray[np.float64]:
    """Three numbers a link `[link 3]`: its turn, its place in a draw, and how sure it is."""
    key = (text.id, text.text, occurrence)
    turns = generator(seed, "corrupt links", *key).random((len(text.links), 2))
    sure = generator(seed, "sure links", *key).random((len(text.links), 1))
    return np.concatenate([turns, sure], axis=1)


def _proposed(
    texts: Sequence[LinkedText], places: list[tuple[int, int]], source: CandidateSource | None
) -> dict[tuple[int, int], tuple[Candidate, ...]]:
    """Candidates of the source for the links that bear no wrong one."""
    poor = [(i, j) for i, j in places if _best_wrong(texts[i].links[j]) is None]
    if source is None or not poor:
        return {}
    rows = sorted({i for i, _ in poor})
    proposals = dict(zip(rows, source.candidates([texts[i] for i in rows]), strict=True))
    return {(i, j): proposals[i][j] for i, j in poor}


def _best_wrong(link: Link, candidates: tuple[Candidate, ...] | None = None) -> str | None:
    choices = link.candidates if candidates is None else candidates
    return next((c.entity for c in choices if c.entity != link.entity), None)


def _wrong(
    text: LinkedText,
    link: Link,
    proposed: tuple[Candidate, ...],
    outside: _Outside | None,
    draw: float,
) -> tuple[str, Origin]:
    if outside is None or outside.is_likely:
        wrong = _best_wrong(link) or _best_wrong(link, proposed)
        if wrong is not None:
            return wrong, "candidates"
    other = None if outside is None else outside.draw(str(link.entity), draw)
    if other is None:
        raise LinkingError(
            f"{link.mention} of text {text.id or text.text[:40]!r} has no candidate but "
            f"{link.entity}, and nothing else to be swapped to; give a graph of two entities or "
            "more, or links with candidates"
        )
    return other


def _swapped(link: Link, wrong: str) -> Link:
    """Both entities trade places; what is known of a place (prior, score) stays there."""
    right = str(link.entity)
    reasons = {c.entity: c.reason for c in link.candidates}
    trade = {right: wrong, wrong: right} if wrong in reasons else {right: wrong}
    moved = tuple(
        structs.replace(
            c, entity=trade[c.entity], reason=reasons.get(trade[c.entity], "swapped on purpose")
        )
        if c.entity in trade
        else c
        for c in link.candidates
    )
    return replace(link, entity=wrong, candidates=moved)


@dataclass(slots=True)
class _Outside:
    """Entities of a graph, by type and by degree first if it `is_likely` that they are confused.

    The indices are made when first asked for.
    """

    graph: KnowledgeGraph
    is_likely: bool = True
    _by_type: dict[str, NDArray[np.int64]] | None = None
    _levels: NDArray[np.int64] | None = None

    def draw(self, entity: str, at: float) -> tuple[str, Origin] | None:
        """Another entity than this, evenly by `at` in [0, 1); None when there is none."""
        node = self.graph.entities.find(entity)
        for origin, pool in self._pools(node):
            others = pool[pool != (-1 if node is None else node)]
            if len(others):
                row = int(others[int(at * len(others))])
                return self.graph.entities.name(row), origin
        return None

    def _pools(self, node: int | None) -> Iterator[tuple[Origin, NDArray[np.int64]]]:
        if node is not None and self.is_likely:
            if self._by_type is None:
                self._by_type = _entities_by_type(self.graph)
            for name in self.graph.types(node):
                yield "type", self._by_type[name]
            if self._levels is None:
                degrees = np.diff(self.graph.out_offsets) + np.diff(self.graph.in_offsets)
                self._levels = np.frexp(degrees.astype(np.float64))[1].astype(np.int64)
            yield "degree", np.flatnonzero(self._levels == self._levels[node])
        yield "any", np.arange(self.graph.n_entities)


def _entities_by_type(graph: KnowledgeGraph) -> dict[str, NDArray[np.int64]]:
    texts = graph.entity_texts
    rows = np.flatnonzero(texts.kinds == TextKind.TYPE)
    nodes = texts.nodes()[rows]
    members: dict[str, dict[int, None]] = {}
    for node, name in zip(nodes.tolist(), texts.values.take(rows).to_pylist(), strict=True):
        members.setdefault(name, {})[node] = None
    return {name: np.array(list(ids), np.int64) for name, ids in members.items()}
