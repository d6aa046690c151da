"""Why each node of a word-knowledge graph is there, in words."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import is_anchor
from kg_loaders.counting import counted
from kg_loaders.errors import GraphMismatchError
from kg_loaders.store import KnowledgeGraph

N_CANDIDATES = 3
N_DESCRIBED = 120
"""Characters of a description that are shown."""
N_LABEL, N_REASON = 300, 1200
"""Characters of a label, and of a sentence about it, that are shown: a graph may hold any."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One node for a reader: `role` is word, special, anchor, neighbour or relation.

    An anchor is ambiguous where another entity was as likely.
    """

    role: str
    label: str
    position: int
    why: tuple[str, ...]
    is_ambiguous: bool = False


def explain(
    built: WordKnowledgeGraph, graph: KnowledgeGraph, tokenizer: Any
) -> tuple[Explained, ...]:
    """Label, role and reason of every node, in node order.

    Raises `GraphMismatchError` when `built` has another graph's ids.
    """
    if built.id_space_hash != graph.id_space_hash:
        raise GraphMismatchError(
            f"the drawn graph was built with ids of {built.id_space_hash[:12]}, "
            f"{graph!r} has {graph.id_space_hash[:12]}; open the graph it was built with"
        )
    tokens = tokenizer.convert_ids_to_tokens(built.ids[built.kinds == NodeKind.WORD].tolist())
    anchor = is_anchor(built)
    explained = []
    for node in range(built.n_nodes):
        if built.kinds[node] == NodeKind.WORD:
            role, label, why = _word(built, node, tokens[node])
        elif anchor[node]:
            role, label, why = _anchor(built, graph, node)
        else:
            role, label, why = _fact_node(built, graph, node)
        position = int(built.positions[node])
        link = built.links[built.origins[node, 0]] if role == "anchor" else None
        explained.append(
            Explained(
                role,
                _shorten(label, N_LABEL),
                position,
                tuple(_shorten(w, N_REASON) for w in why),
                link is not None and link.is_ambiguous,
            )
        )
    return tuple(explained)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _word(built: WordKnowledgeGraph, node: int, token: str) -> tuple[str, str, list[str]]:
    start, stop = built.spans[node].tolist()
    where = ["It belongs to the second text."] if built.segments[node] else []
    if start < 0:
        return "special", token, ["The tokenizer adds this token to every text.", *where]
    why = [f"Characters {start} to {stop} of the text; word piece {token!r}.", *where]
    return "word", built.text[start:stop], why


def _anchor(
    built: WordKnowledgeGraph, graph: KnowledgeGraph, node: int
) -> tuple[str, str, list[str]]:
    link = built.links[built.origins[node, 0]]
    start, stop = built.spans[node].tolist()
    entity = int(built.ids[node])
    why = [
        (
            f"The text says “{built.text[start:stop]}” (characters {start} to {stop}), linked to "
            f"{_entity(graph, entity)} with confidence {link.confidence:.2f}."
        )
    ]
    if described := _label_and_description(graph, entity):
        why.append(described)
    if link.is_ambiguous:
        equals = ", ".join(_candidate(graph, name) for name in link.equals[:N_CANDIDATES])
        why.append(f"Ambiguous: {equals} is as likely; the first of them was taken.")
    others = [c for c in link.candidates if c.entity != link.entity][:N_CANDIDATES]
    if others:
        names = [f"{_candidate(graph, c.entity)} (prior {c.prior:.2f})" for c in others]
        why.append(f"Passed over: {', '.join(names)}.")
    return "anchor", graph.label(entity), why


def _fact_node(
    built: WordKnowledgeGraph, graph: KnowledgeGraph, node: int
) -> tuple[str, str, list[str]]:
    link, row, rank = built.origins[node].tolist()
    if row < 0:
        why = ["A relation added as the prediction target; not a fact of the graph."]
        return "relation", graph.relation_label(int(built.ids[node])), why
    mention = built.links[link].mention
    surface = built.text[mention.start : mention.end]
    fact = fact_in_words(graph, row)
    rank_text = f"ranked {rank + 1} among the facts of the mention “{surface}”"
    if built.kinds[node] == NodeKind.RELATION:
        relation = int(built.ids[node])
        why = [f"The fact {fact}, {rank_text}."]
        why.append(f"Relation {graph.relations.name(relation)}; row {row} of the graph.")
        return "relation", graph.relation_label(relation), why
    entity = int(built.ids[node])
    n_facts = int((built.edges == node).any(axis=1).sum())
    why = [f"It came with the fact {fact}, {rank_text}."]
    why.append(f"{_entity(graph, entity)} is part of {n_facts} of the facts above.")
    if described := _label_and_description(graph, entity):
        why.append(described)
    return "neighbour", graph.label(entity), why


def fact_in_words(graph: KnowledgeGraph, row: int) -> str:
    """The triple in `row`, by labels."""
    head, relation, tail = graph.triples[row].tolist()
    return f"{graph.label(head)} — {graph.relation_label(relation)} → {graph.label(tail)}"


def ends_of(built: WordKnowledgeGraph, relation: int) -> tuple[int, int]:
    """Head and tail node of a relation node."""
    into = built.edges[built.edges[:, 1] == relation, 0]
    out = built.edges[built.edges[:, 0] == relation, 1]
    return int(into[0]), int(out[0])


def facts_of(built: WordKnowledgeGraph) -> dict[int, list[int]]:
    """Relation nodes of every anchor node, in node order."""
    nodes = np.flatnonzero(is_anchor(built)).tolist()
    anchor_of_link = {int(built.origins[node, 0]): node for node in nodes}
    facts: dict[int, list[int]] = {node: [] for node in nodes}
    for node in np.flatnonzero(built.kinds == NodeKind.RELATION).tolist():
        facts[anchor_of_link[int(built.origins[node, 0])]].append(node)
    return facts


def _entity(graph: KnowledgeGraph, entity: int) -> str:
    return f"{graph.label(entity)} [{graph.entities.name(entity)}]"


def _candidate(graph: KnowledgeGraph, name: str) -> str:
    entity = graph.entities.find(name)
    return name if entity is None else _entity(graph, entity)


def _label_and_description(graph: KnowledgeGraph, entity: int) -> str:
    """The label with its description, cut at a word: some are a page long."""
    description = shorten(graph.description(entity) or "", N_DESCRIBED, placeholder=" …")
    return f"{graph.label(entity)}: {description.rstrip('.')}." if description else ""


def left_out(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> list[str]:
    """What of the text, its links and their facts `built` leaves out: one sentence each."""
    sentences = links_left_out(built)
    heads = np.unique(built.ids[is_anchor(built)])
    n_facts = int((graph.out_offsets[heads + 1] - graph.out_offsets[heads]).sum())
    rows = built.origins[built.kinds == NodeKind.RELATION, 1]
    visible_rows = np.unique(rows[rows >= 0])
    n_shown = int(np.isin(graph.triples[visible_rows, 0], heads).sum())
    if n_shown < n_facts:
        sentences.append(
            f"{n_shown} of {counted(n_facts, 'facts')} about linked entities are in the drawing."
        )
    return sentences


def ambiguous_links(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> list[str]:
    """Return a sentence about each anchor of whose entity another one is as likely."""
    numbers = dict.fromkeys(built.origins[is_anchor(built), 0].tolist())
    links = [built.links[number] for number in numbers if built.links[number].is_ambiguous]
    return [
        f"“{built.text[link.start : link.end]}” is ambiguous: "
        f"{_candidate(graph, link.equals[0])} is as likely as "
        f"{_candidate(graph, link.entity or '')}."
        for link in links
    ]


def links_left_out(built: WordKnowledgeGraph) -> list[str]:
    """What of the text and its links `built` leaves out: one sentence each."""
    sentences = []
    end, length = int(built.spans[:, 1].max(initial=0)), len(built.text.rstrip())
    if end < length:
        sentences.append(f"The text is cut after character {end} of {length}.")
    anchors = is_anchor(built)
    linked = {i for i, link in enumerate(built.links) if link.entity is not None}
    lost = linked - set(built.origins[anchors, 0].tolist())
    if lost:
        sentences.append(
            f"{len(lost)} of {counted(len(linked), 'links')} brought no anchor: cut off, "
            "overlapping, or to "
            "entities that the graph does not have."
        )
    return sentences
