"""From linked texts and a knowledge graph to `WordKnowledgeGraph`s.

Follows CoLAKE (Sun et al., COLING 2020, section 3.1): mentions become anchors, anchors bring facts,
and a fact stands at soft positions just after its anchor. Where we differ from the released code:
every sample has a random generator of its own, nothing carries over from one text to the next,
every mention of an entity becomes an anchor (the first one carries its facts), a fact between two
anchors is shown once, and a text that grows too large loses its lowest-ranked facts instead of
being thrown away. tests/reference/original_colake.py keeps the released behaviour.

Texts are joined in one pass over all of them (`kept/graphs/building`); one text is a pass of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_linking.mentions import LinkedText
from kept.graphs.building.anchors import AllWords, find_anchors, lay_slots
from kept.graphs.building.assembly import connect, of_words
from kept.graphs.building.config import BuilderConfig, Exclusion, RequiredFacts
from kept.graphs.building.facts import choose, fit, with_facts
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.words import Words, encode_words
from kept.randomness import generator
from kg_loaders.store import KnowledgeGraph

__all__ = [
    "BuilderConfig",
    "Exclusion",
    "RequiredFacts",
    "build",
    "build_many",
    "join_all",
    "join_words",
]


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
    if not linked:
        return []
    encoded = encode_words(
        [item.text for item in linked],
        tokenizer,
        max_words=config.max_words,
        pair_starts=[item.pair_start for item in linked],
    )
    draws = [generator(seed, "graph", epoch, sample) for sample in samples]
    return join_all(linked, encoded, graph, generators=draws, config=config, exclude=exclude)


def join_words(
    linked: LinkedText,
    words: Words,
    graph: KnowledgeGraph,
    *,
    generator: np.random.Generator,
    config: BuilderConfig,
    exclude: Exclusion | None = None,
    insist: RequiredFacts | None = None,
) -> WordKnowledgeGraph:
    """`build` for a text whose word pieces are known."""
    (joined,) = join_all(
        [linked],
        [words],
        graph,
        generators=[generator],
        config=config,
        exclude=[exclude],
        insist=[insist],
    )
    return joined


def join_all(
    linked: Sequence[LinkedText],
    words: Sequence[Words],
    graph: KnowledgeGraph,
    *,
    generators: Sequence[np.random.Generator],
    config: BuilderConfig,
    exclude: Sequence[Exclusion | None] | None = None,
    insist: Sequence[RequiredFacts | None] | None = None,
) -> list[WordKnowledgeGraph]:
    """`join_words` of every text, in one pass; each with its own generator and what it must show.

    The arrays of the graphs are pieces of common ones. Raises `ValueError` unless there are as many
    words, generators, exclusions and insistences as texts.
    """
    n = len(linked)
    limits = list(zip(exclude or [None] * n, insist or [None] * n, strict=True))
    if not n == len(words) == len(generators) == len(limits):
        counts = (n, len(words), len(generators), len(limits))
        raise ValueError(f"texts, words, generators and limits are {counts}; give as many each")
    if any(text.links for text in linked) or any(each is not None for _, each in limits):
        graphs = join_linked(linked, words, graph, generators, config, limits)
    else:
        graphs = [of_words(*text, graph) for text in zip(linked, words, strict=True)]
    return [
        built if hidden is None else dataclasses.replace(built, hidden=hidden)
        for built, (hidden, _) in zip(graphs, limits, strict=True)
    ]


def join_linked(
    linked: Sequence[LinkedText],
    words: Sequence[Words],
    graph: KnowledgeGraph,
    generators: Sequence[np.random.Generator],
    config: BuilderConfig,
    limits: Sequence[tuple[Exclusion | None, RequiredFacts | None]],
) -> list[WordKnowledgeGraph]:
    """`join_all` of texts with links, what is hidden left out."""
    pieces = AllWords.of(words)
    anchors = find_anchors(linked, pieces, graph, config)
    facts = choose(graph, anchors, generators, config, limits)
    if config.replace_mentions == "facts":
        anchors, facts = with_facts(anchors, facts, graph)
    is_shown, slots = lay_slots(pieces, anchors, replace=bool(config.replace_mentions))
    anchors = dataclasses.replace(anchors, positions=slots[anchors.pieces[:, 0]])
    kept_spans = pieces[is_shown]
    n_fixed = kept_spans.counts + np.bincount(anchors.texts, minlength=len(linked))
    facts = fit(graph, anchors, facts, config.max_nodes - n_fixed)
    return connect(
        linked,
        kept_spans,
        slots[is_shown],
        anchors,
        facts,
        graph,
        keeps_mentions=not config.replace_mentions,
    )
