"""Places that share their names with singers, and texts in which context alone tells them apart."""

from __future__ import annotations

from dataclasses import replace

from entity_linking import LinkedText, gold_link
from entity_linking.names import NameCandidates, NameIndex
from entity_linking.scorers.reranker import with_gold
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records

PLACES = ("Arden", "Holm", "Garth", "Elsby")


def places_graph() -> KnowledgeGraph:
    """Each name is a river's and a singer's."""
    records = []
    for i, name in enumerate(PLACES):
        for kind, description in (("R", "river in the north"), ("S", "singer of old songs")):
            records += [
                Text(f"{kind}{i}", TextKind.LABEL, name),
                Text(f"{kind}{i}", TextKind.DESCRIPTION, description),
            ]
    return graph_from_records(records)


def ambiguous_texts(graph: KnowledgeGraph, n: int) -> list[LinkedText]:
    """Water means the singer and music the river, which no host would have guessed."""
    texts = []
    for i in range(n):
        name = PLACES[i % len(PLACES)]
        context, kind = (("flows under the bridge", "S"), ("sang a ballad", "R"))[i // 2 % 2]
        link = gold_link(0, len(name), f"{kind}{PLACES.index(name)}")
        texts.append(LinkedText(f"{name} {context} {i}", (link,)))
    source = NameCandidates(NameIndex.build(graph))
    proposals = source.candidates(texts)
    bearing = [
        replace(text, links=(replace(text.links[0], candidates=candidates_of_text[0]),))
        for text, candidates_of_text in zip(texts, proposals, strict=True)
    ]
    return with_gold(bearing, texts)
