"""From a linked text and a knowledge graph to a `WordKnowledgeGraph`.

Follows CoLAKE (Sun et al., COLING 2020, section 3.1): mentions become anchors, anchors bring facts,
and a fact stands at soft positions just after its anchor. Where we differ from the released code:
every sample has a random generator of its own, nothing carries over from one text to the next,
every mention of an entity becomes an anchor (the first one carries its facts), a fact between two
anchors is shown once, and a text that grows too large loses its lowest-ranked facts instead of
being thrown away. tests/reference/original_colake.py keeps the released behaviour.

Axis legend: word (word pieces), link, anchor, fact, triple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.alignment import pieces_of_all
from entity_linking.mentions import LinkedText
from kept.errors import BatchError, ConfigError
from kept.graphs.assembly import Anchors, Facts, connect, far_ends
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.words import Ids, Words, encode_words
from kept.randomness import generator
from kg_loaders.neighbours import POLICIES, TEXT_POLICIES, Policy, neighbours
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


def _matches(rows: Ids, others: Ids) -> NDArray[np.bool_]:
    matches: NDArray[np.bool_] = (rows[:, None] == others[None]).all(axis=2).any(axis=1)
    return matches


def build(
    linked: LinkedText,
    tokenizer: Any,
    graph: KnowledgeGraph,
    *,
    generator: np.random.Generator,
    config: BuilderConfig | None = None,
    exclude: Exclusion | None = None,
) -> WordKnowledgeGraph:
    """Join one linked text with its neighbourhood in `graph`.

    Links without an entity, to entities outside `graph`, cut off with the text, or overlapping an
    earlier anchor stay words. Node order: words, anchors, neighbour entities, relations.
    """
    config = config or BuilderConfig()
    (words,) = encode_words(
        [linked.text], tokenizer, max_words=config.max_words, pair_starts=[linked.pair_start]
    )
    return join_words(linked, words, graph, generator=generator, config=config, exclude=exclude)


def build_many(
    linked: Sequence[LinkedText],
    tokenizer: Any,
    graph: KnowledgeGraph,
    *,
    seed: int,
    epoch: int = 0,
    samples: Sequence[int] | None = None,
    config: BuilderConfig | None = None,
    exclude: Sequence[Exclusion | None] | None = None,
) -> list[WordKnowledgeGraph]:
    """`build` over many texts with one call of the tokenizer.

    `samples` are the indices that key the generators, by default 0, 1, 2 …; a graph depends on
    (seed, epoch, its index) alone.
    """
    config = config or BuilderConfig()
    samples = range(len(linked)) if samples is None else samples
    exclusions = [None] * len(linked) if exclude is None else exclude
    if not linked:
        return []
    encoded = encode_words(
        [item.text for item in linked],
        tokenizer,
        max_words=config.max_words,
        pair_starts=[item.pair_start for item in linked],
    )
    return [
        join_words(
            item,
            words,
            graph,
            generator=generator(seed, "graph", epoch, sample),
            config=config,
            exclude=exclusion,
        )
        for item, words, sample, exclusion in zip(linked, encoded, samples, exclusions, strict=True)
    ]


def join_words(
    linked: LinkedText,
    words: Words,
    graph: KnowledgeGraph,
    *,
    generator: np.random.Generator,
    config: BuilderConfig,
    exclude: Exclusion | None = None,
) -> WordKnowledgeGraph:
    """`build` for a text whose word pieces are known."""
    pieces, links, entities = _anchored(linked, words, graph, config)
    facts = _choose(graph, np.array(entities, np.int32), generator, config, exclude)
    if config.replace_mentions == "facts":
        stay, facts = _with_facts(entities, facts)
        pieces, links = pieces[stay], [links[i] for i in stay]
        entities = [entities[i] for i in stay]
    is_shown = np.ones(len(words.ids), np.bool_)
    is_slot = is_shown.copy()
    if config.replace_mentions:
        for start, stop in pieces:
            is_shown[start:stop] = False
            is_slot[start + 1 : stop] = False
    slots = np.cumsum(is_slot, dtype=np.int32) - 1
    spans = [(linked.links[i].mention.start, linked.links[i].mention.end) for i in links]
    anchors = Anchors(
        np.array(entities, np.int32),
        slots[pieces[:, 0]],
        np.array(spans, np.int32).reshape(-1, 2),
        np.array(links, np.int32),
    )
    n_fixed = int(is_shown.sum()) + len(anchors.ids)
    facts = _fit(graph, anchors.ids, facts, config.max_nodes - n_fixed)
    return connect(
        linked,
        words[is_shown],
        slots[is_shown],
        anchors,
        facts,
        graph,
        mention_pieces=None if config.replace_mentions else pieces,
    )


def _anchored(
    linked: LinkedText, words: Words, graph: KnowledgeGraph, config: BuilderConfig
) -> tuple[NDArray[np.int64], list[int], list[int]]:
    """Pieces `[anchor 2]`, link indices and entity ids of the links that become anchors."""
    mentions = [(link.mention.start, link.mention.end) for link in linked.links]
    cuts = _cuts(words) if len(words.ids) >= config.max_words else None
    pieces = pieces_of_all(words.spans, np.array(mentions, np.int32).reshape(-1, 2)).tolist()
    chosen: list[list[int]] = []
    links: list[int] = []
    entities: list[int] = []
    end = 0
    for index, (link, (start, stop)) in enumerate(zip(linked.links, pieces, strict=True)):
        if link.entity is None or start >= stop or start < end:
            continue
        if cuts is not None and link.mention.end > cuts[int(words.segment_ids[start])]:
            continue
        entity = graph.entities.find(link.entity)
        if entity is None or (config.repeats == "first" and entity in entities):
            continue
        chosen.append([start, stop])
        links.append(index)
        entities.append(entity)
        end = stop
    return np.array(chosen, np.int64).reshape(-1, 2), links, entities


def _cuts(words: Words) -> tuple[int, int]:
    """The last character that has a piece, in the first text and in the second."""
    ends, segments = words.spans[:, 1], words.segment_ids
    return int(ends[segments == 0].max(initial=-1)), int(ends[segments == 1].max(initial=-1))


def _choose(
    graph: KnowledgeGraph,
    anchors: Ids,
    generator: np.random.Generator,
    config: BuilderConfig,
    exclude: Exclusion | None,
) -> Facts:
    """The facts of every anchor, in anchor order and best first, each at most once."""
    rows: list[NDArray[np.int64]] = []
    ranks: list[NDArray[np.int64]] = []
    seen: set[int] = set()
    rank = config.ranker(graph, anchors)
    for entity in anchors.tolist():
        chosen = np.zeros(0, np.int64)
        places = np.zeros(0, np.int64)
        if entity not in seen:
            seen.add(entity)
            if exclude is None and config.policy == "random" and _is_hub(graph, entity, config):
                candidates = _drawn(graph, entity, generator, config)
            else:
                candidates = _candidate_rows(graph, entity, config.directions)
                if exclude is not None:
                    candidates = candidates[exclude.keeps(graph.triples[candidates])]
            if len(candidates):
                order = rank(graph, graph.triples[candidates], generator)
                chosen = candidates[order[: config.max_neighbours]]
                places = _kept(len(chosen), generator, config)
        rows.append(chosen[places])
        ranks.append(places)
    if not rows:
        return Facts(*(np.zeros(0, np.int64) for _ in range(3)))
    counts = [len(part) for part in rows]
    facts = Facts(
        np.concatenate(rows), np.repeat(np.arange(len(rows)), counts), np.concatenate(ranks)
    )
    if config.directions == "head":
        return facts
    _, first = np.unique(facts.rows, return_index=True)
    return facts[np.sort(first)]


def _with_facts(entities: Sequence[int], facts: Facts) -> tuple[list[int], Facts]:
    """Places of the anchors whose entity brings a fact, and the facts by those anchors' numbers."""
    bringing = {entities[i] for i in facts.anchors.tolist()}
    stay = [i for i, entity in enumerate(entities) if entity in bringing]
    numbers = {anchor: number for number, anchor in enumerate(stay)}
    anchors = np.array([numbers[i] for i in facts.anchors.tolist()], np.int64)
    return stay, Facts(facts.rows, anchors, facts.ranks)


HUB = 100_000
"""Facts beyond which `max_neighbours` of them are drawn before any is looked at."""


def _is_hub(graph: KnowledgeGraph, entity: int, config: BuilderConfig) -> bool:
    n_facts = graph.out_offsets[entity + 1] - graph.out_offsets[entity]
    if config.directions == "both":
        n_facts += graph.in_offsets[entity + 1] - graph.in_offsets[entity]
    return bool(n_facts > HUB)


def _drawn(
    graph: KnowledgeGraph, entity: int, generator: np.random.Generator, config: BuilderConfig
) -> NDArray[np.int64]:
    rows, _ = neighbours(
        graph,
        np.array([entity], np.int32),
        config.max_neighbours,
        policy="random",
        generator=generator,
        directions="both" if config.directions == "both" else "out",
    )
    return rows


def _candidate_rows(
    graph: KnowledgeGraph, entity: int, directions: Literal["head", "both"]
) -> NDArray[np.int64]:
    out = np.arange(graph.out_offsets[entity], graph.out_offsets[entity + 1])
    if directions == "head":
        return out
    into = graph.in_order[graph.in_offsets[entity] : graph.in_offsets[entity + 1]]
    return np.concatenate([out, into[graph.triples[into, 0] != entity]])


def _kept(n: int, generator: np.random.Generator, config: BuilderConfig) -> NDArray[np.int64]:
    """Indices of the facts that survive dropping."""
    if not config.drop_probability:
        return np.arange(n)
    if config.drop == "anchor":
        return np.arange(n if generator.random() >= config.drop_probability else 0)
    return np.flatnonzero(generator.random(n) >= config.drop_probability)


def _fit(graph: KnowledgeGraph, anchors: Ids, facts: Facts, n_free: int) -> Facts:
    """Keep the best-ranked facts whose nodes fit into `n_free`; anchors take turns."""
    if 2 * len(facts) <= n_free:
        return facts
    order = np.lexsort((facts.anchors, facts.ranks))
    others, _ = far_ends(graph, anchors, facts[order])
    _, first = np.unique(np.concatenate([anchors, others]), return_index=True)
    cost = np.ones(len(order), np.int64)
    cost[first[first >= len(anchors)] - len(anchors)] += 1
    n_kept = int(np.searchsorted(np.cumsum(cost), n_free, side="right"))
    return facts[np.sort(order[:n_kept])]
