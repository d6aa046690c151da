"""How word-knowledge graphs are built, and what must not be shown in one.

Axis legend: anchor, triple.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kept.errors import BatchError, ConfigError
from kept.graphs.words import Ids
from kg_loaders.neighbours import POLICIES, TEXT_POLICIES, Policy
from kg_loaders.store import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class BuilderConfig:
    """How a word-knowledge graph is built; raises `ConfigError` naming every faulty field.

    `policy` ranks an anchor's facts; the best `max_neighbours` are shown. `directions` "head" takes
    facts whose head is the anchor (as CoLAKE), "both" also those whose tail it is. With
    `replace_mentions` an anchor takes the place of its words, otherwise it stands beside them at
    the position of the first; with "facts" (not of the paper) it takes their place where a fact
    comes along, and a mention whose entity brings none stays words, without an anchor. `repeats`
    says which mentions of one entity become anchors.
    `drop_probability` drops facts, one by one or all facts of an anchor at once (`drop`); None is
    what the method's paper does while it pre-trains (`Method.in_pretraining`), and 0 elsewhere.
    `max_words` counts word pieces, special tokens included; `max_nodes` everything.
    """

    policy: str | Policy = "random"
    max_neighbours: int = 15
    directions: Literal["head", "both"] = "head"
    replace_mentions: bool | Literal["facts"] = True
    repeats: Literal["all", "first"] = "all"
    drop_probability: float | None = None
    drop: Literal["triple", "anchor"] = "triple"
    max_words: int = 128
    max_nodes: int = 256

    def __post_init__(self) -> None:
        faults = []
        names = sorted([*POLICIES, *TEXT_POLICIES])
        if isinstance(self.policy, str) and self.policy not in names:
            faults.append(f"policy {self.policy!r}: one of {names}, or a function")
        if self.max_neighbours < 0:
            faults.append(f"max_neighbours {self.max_neighbours}: 0 or more")
        if self.directions not in ("head", "both"):
            faults.append(f"directions {self.directions!r}: 'head' or 'both'")
        if self.replace_mentions not in (True, False, "facts"):
            faults.append(f"replace_mentions {self.replace_mentions!r}: true, false or 'facts'")
        if self.repeats not in ("all", "first"):
            faults.append(f"repeats {self.repeats!r}: 'all' or 'first'")
        if self.drop not in ("triple", "anchor"):
            faults.append(f"drop {self.drop!r}: 'triple' or 'anchor'")
        if self.drop_probability is not None and not 0 <= self.drop_probability <= 1:
            faults.append(f"drop_probability {self.drop_probability}: from 0 to 1")
        most_words = self.max_nodes if self.replace_mentions else self.max_nodes // 2
        if not 3 <= self.max_words <= most_words:
            faults.append(
                f"max_words {self.max_words}: from 3 to {most_words}, so that words and anchors "
                f"fit into max_nodes {self.max_nodes}"
            )
        if faults:
            raise ConfigError("BuilderConfig: " + "; ".join(faults))

    def ranker(self, graph: KnowledgeGraph, anchors: Ids) -> Policy:
        """The policy for a text with these anchors: a function that orders triples, best first."""
        if not isinstance(self.policy, str):
            return self.policy
        if self.policy in TEXT_POLICIES:
            return TEXT_POLICIES[self.policy](graph, anchors)
        return POLICIES[self.policy]


@dataclass(frozen=True, eq=False)
class Exclusion:
    """Facts that must not be shown: `triples [n 3]` exactly, and all facts between `pairs [n 2]`.

    Pairs are unordered. Give the pair, not only the triple, where an inverse relation would reveal
    the answer.
    """

    triples: Ids | None = None
    pairs: Ids | None = None

    def __post_init__(self) -> None:
        for name, width in (("triples", 3), ("pairs", 2)):
            value = getattr(self, name)
            if value is not None and (value.ndim != 2 or value.shape[1] != width):
                raise BatchError(f"exclusion {name} need shape [n {width}], not {value.shape}")

    def keeps(self, triples: Ids) -> NDArray[np.bool_]:
        """Which of `triples [n 3]` may be shown, bool `[n]`."""
        keep = np.ones(len(triples), np.bool_)
        if self.triples is not None:
            keep &= ~_matches(triples, self.triples)
        if self.pairs is not None:
            ends = triples[:, [0, 2]]
            keep &= ~(_matches(ends, self.pairs) | _matches(ends[:, ::-1], self.pairs))
        return keep


@dataclass(frozen=True)
class RequiredFacts:
    """Facts that are among those that their head brings, at random places of the first `within`.

    `rows` are those of `graph.triples`. They are never dropped; a text that grows too large can
    lose them.
    """

    rows: tuple[int, ...]
    within: int

    def order(self, rows: NDArray[np.int64], draws: np.random.Generator) -> NDArray[np.int64]:
        """`rows`, best first, with those insisted on near the front, where they are any of them."""
        for row in self.rows:
            matches = np.flatnonzero(rows == row)
            if len(matches) and matches[0] >= self.within > 0:
                rows = np.insert(np.delete(rows, matches), int(draws.integers(self.within)), row)
        return rows


def _matches(rows: Ids, others: Ids) -> NDArray[np.bool_]:
    matches: NDArray[np.bool_] = (rows[:, None] == others[None]).all(axis=2).any(axis=1)
    return matches
