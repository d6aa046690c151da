"""A second, stupid builder: loops over lists, no arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_linking.mentions import LinkedText
from kept.graphs.builder import BuilderConfig, Exclusion
from kept.graphs.graph import WordKnowledgeGraph
from kg_loaders import KnowledgeGraph


def oracle(
    linked: LinkedText,
    tokenizer: Any,
    graph: KnowledgeGraph,
    generator: np.random.Generator,
    config: BuilderConfig,
    exclude: Exclusion | None = None,
    outgoing: dict[int, list[int]] | None = None,
) -> dict[str, Any]:
    """What `build` should give: ids, kinds, positions, spans, origins, edges, visible pairs.

    `outgoing` are the triple rows of each head; without it all triples are gone through.
    """
    encoded = tokenizer(
        linked.text, return_offsets_mapping=True, truncation=True, max_length=config.max_words
    )
    last = len(encoded["input_ids"]) - 1
    pieces = [
        (token, (-1, -1) if i in (0, last) else tuple(span))
        for i, (token, span) in enumerate(
            zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        )
    ]
    taken: dict[int, int] = {}  # piece -> link
    anchors: dict[int, int] = {}  # link -> entity
    for index, link in enumerate(linked.links):
        covers = [
            i
            for i, (_, (start, stop)) in enumerate(pieces)
            if start >= 0 and start < link.mention.end and stop > link.mention.start
        ]
        entity = None if link.entity is None else graph.entities.find(link.entity)
        is_cut = len(pieces) == config.max_words and link.mention.end > pieces[-2][1][1]
        if is_cut or not covers or entity is None or any(i in taken for i in covers):
            continue
        if config.repeats == "first" and entity in anchors.values():
            continue
        anchors[index] = entity
        taken.update(dict.fromkeys(covers, index))

    words, anchor_positions, mention_words, position = [], {}, [], 0
    for i, (token, span) in enumerate(pieces):
        link_index = taken.get(i)
        starts = link_index is not None and link_index not in anchor_positions
        if starts:
            anchor_positions[link_index] = position
        if link_index is None or not config.replace_mentions:
            if link_index is not None:
                mention_words.append((len(words), link_index))
            words.append((token, span, position))
            position += 1
        elif starts:
            position += 1

    facts = _facts(anchors, graph, generator, config, exclude, outgoing)
    while len(words) + len(anchors) + _n_injected(facts, anchors) > config.max_nodes:
        order = {link: i for i, link in enumerate(anchors)}
        facts.remove(max(facts, key=lambda fact: (fact[2], order[fact[0]])))
    return _lay_out(words, anchors, anchor_positions, mention_words, facts, linked, graph)


def _facts(
    anchors: dict[int, int],
    graph: KnowledgeGraph,
    generator: np.random.Generator,
    config: BuilderConfig,
    exclude: Exclusion | None,
    outgoing: dict[int, list[int]] | None,
) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """(link, triple row, rank, triple) of every fact shown."""
    facts: list[tuple[int, int, int, tuple[int, ...]]] = []
    expanded = []
    triples = graph.triples if outgoing else [tuple(map(int, row)) for row in graph.triples]
    banned = [] if exclude is None or exclude.triples is None else exclude.triples.tolist()
    pairs = [] if exclude is None or exclude.pairs is None else exclude.pairs.tolist()
    for link, entity in anchors.items():
        if entity in expanded:
            continue
        expanded.append(entity)
        if outgoing is None:
            rows = [i for i, triple in enumerate(triples) if triple[0] == entity]
        else:
            rows = outgoing.get(entity, [])
        if config.directions == "both":
            into = [i for i, t in enumerate(triples) if t[2] == entity and t[0] != entity]
            rows += sorted(into, key=lambda i: (triples[i][2], triples[i][1], triples[i][0]))
        rows = [
            i
            for i in rows
            if list(triples[i]) not in banned
            and [triples[i][0], triples[i][2]] not in pairs
            and [triples[i][2], triples[i][0]] not in pairs
        ]
        if not rows:
            continue
        rank = config.ranker(graph, np.array(list(anchors.values()), np.int32))
        order = rank(graph, graph.triples[rows], generator)
        chosen = [(rank, rows[i]) for rank, i in enumerate(order[: config.max_neighbours])]
        if config.drop_probability and config.drop == "anchor":
            chosen = chosen if generator.random() >= config.drop_probability else []
        elif config.drop_probability:
            draws = generator.random(len(chosen))
            chosen = [c for c, u in zip(chosen, draws, strict=True) if u >= config.drop_probability]
        for rank, row in chosen:
            if config.directions == "head" or all(row != fact[1] for fact in facts):
                facts.append((link, row, rank, tuple(int(x) for x in triples[row])))
    return facts


def _n_injected(facts: list[Any], anchors: dict[int, int]) -> int:
    ends = {e for _, _, _, (head, _, tail) in facts for e in (head, tail)}
    return len(facts) + len(ends - set(anchors.values()))


def _lay_out(
    words: list[Any],
    anchors: dict[int, int],
    anchor_positions: dict[int, int],
    mention_words: list[tuple[int, int]],
    facts: list[Any],
    linked: LinkedText,
    graph: KnowledgeGraph,
) -> dict[str, Any]:
    nodes = [(0, token, position, tuple(span), (-1, -1, -1)) for token, span, position in words]
    node_of_link, node_of_entity = {}, {}
    for link, entity in anchors.items():
        node_of_link[link] = len(nodes)
        node_of_entity.setdefault(entity, len(nodes))
        mention = linked.links[link].mention
        nodes.append(
            (1, entity, anchor_positions[link], (mention.start, mention.end), (link, -1, -1))
        )
    block = range(len(nodes))
    for link, row, rank, (head, _, tail) in facts:
        for entity in (tail, head):
            if entity not in node_of_entity:
                node_of_entity[entity] = len(nodes)
                nodes.append((1, entity, anchor_positions[link] + 2, (-1, -1), (link, row, rank)))
    edges = [
        (word, node_of_link[link], 1, np.float32(linked.links[link].confidence))
        for word, link in mention_words
    ]
    seen = {(i, j) for i in block for j in block}
    for link, row, rank, (head, relation, tail) in facts:
        node = len(nodes)
        nodes.append((2, relation, anchor_positions[link] + 1, (-1, -1), (link, row, rank)))
        edges += [(node_of_entity[head], node, 2, 1), (node, node_of_entity[tail], 3, 1)]
        for entity in (head, tail):
            seen |= {(node, node_of_entity[entity]), (node_of_entity[entity], node)}
    seen |= {(i, i) for i in range(len(nodes))}
    names = ("kinds", "ids", "positions", "spans", "origins")
    columns = {name: [node[i] for node in nodes] for i, name in enumerate(names)}
    return columns | {"edges": edges, "seen": sorted(seen)}


def plain(built: WordKnowledgeGraph, visible: Any) -> dict[str, Any]:
    """The same picture of a `WordKnowledgeGraph`."""
    return {
        "kinds": built.kinds.tolist(),
        "ids": built.ids.tolist(),
        "positions": built.positions.tolist(),
        "spans": [tuple(span) for span in built.spans.tolist()],
        "origins": [tuple(origin) for origin in built.origins.tolist()],
        "edges": [
            (*edge, kind, weight)
            for edge, kind, weight in zip(
                built.edges.tolist(), built.edge_kinds.tolist(), built.edge_weights, strict=True
            )
        ],
        "seen": sorted(tuple(pair) for pair in np.argwhere(visible).tolist()),
    }
