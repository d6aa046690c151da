"""A graph that knows some of its entities by name alone, to train a re-ranker beside.

Annotated text is mostly about what a graph knows much of, and a graph is often made from that text.
Beside it what nothing is known of is nearly always a namesake, so that a re-ranker learns to call
it NIL; elsewhere much of what is meant is known by name alone.

Axis legend: entity, text, triple.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.randomness import generator
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.arrow import mask_array
from kg_loaders.indexing import offsets_of
from kg_loaders.store import Texts, assemble

NAMES = (TextKind.LABEL, TextKind.ALIAS)


def drawn_entities(graph: KnowledgeGraph, share: float, seed: int) -> NDArray[np.bool_]:
    """A share of the entities, True `[entity]`. Raises `LinkingError` outside 0 to 1."""
    if not 0 <= share <= 1:
        raise LinkingError(f"the share of bare entities is {share}; give 0 to 1")
    return generator(seed, "bare entities").random(graph.n_entities) < share


def names_only(graph: KnowledgeGraph, mask: NDArray[np.bool_]) -> KnowledgeGraph:
    """The graph without all but the names of the entities `bare [entity]`; ids mean the same.

    >>> from kg_loaders import Text, Triple, graph_from_records
    >>> graph = graph_from_records([
    ...     Triple("Q1", "P1", "Q2"), Text("Q1", TextKind.LABEL, "Ulm"),
    ...     Text("Q1", TextKind.DESCRIPTION, "a city"),
    ... ])
    >>> known = names_only(graph, np.array([True, False]))
    >>> known.label(0), known.description(0), known.n_triples
    ('Ulm', None, 0)
    """
    if mask.shape != (graph.n_entities,):
        raise LinkingError(f"bare has the shape {mask.shape}; give [{graph.n_entities}]")
    triples = np.asarray(graph.triples)
    texts, owners = graph.entity_texts, graph.entity_texts.nodes()
    kept = ~mask[owners] | np.isin(texts.kinds, NAMES)
    return assemble(
        triples=triples[~mask[triples[:, [0, 2]]].any(axis=1)],
        entities=graph.entities,
        relations=graph.relations,
        entity_texts=Texts(
            offsets=offsets_of(owners[kept], graph.n_entities),
            kinds=texts.kinds[kept],
            languages=texts.languages[kept],
            counts=texts.counts[kept],
            values=texts.values.filter(mask_array(kept)),
            language_names=texts.language_names,
        ),
        relation_texts=graph.relation_texts,
        languages=graph.manifest.languages,
        sources=(*graph.manifest.sources, "some entities by name alone"),
        licence=graph.manifest.licence,
    )
