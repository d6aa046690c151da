"""The names of a graph that has none: its identifiers."""

from __future__ import annotations

import numpy as np

from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.store import Texts, assemble
from kg_loaders.vocabulary import strings

IDENTIFIERS = "its identifiers as names"
"""Stands among the sources of a graph that had no names."""


def by_identifiers(graph: KnowledgeGraph) -> KnowledgeGraph:
    """`graph`; if it has no label and no alias at all, with its identifiers as labels.

    An underscore in them is a blank. The other texts stay; the content hash becomes another.
    """
    texts = graph.entity_texts
    kinds = np.asarray(texts.kinds)
    if np.isin(kinds, (TextKind.LABEL, TextKind.ALIAS)).any():
        return graph
    languages = texts.language_names
    if "" not in languages:
        languages = (*languages, "")
    first = np.asarray(texts.offsets)[:-1]  # of each entity; a label comes before all else
    values = np.array([None, *texts.values.to_pylist()], object)[1:]
    names = [name.replace("_", " ") for name in graph.entities]
    named = Texts(
        offsets=texts.offsets + np.arange(graph.n_entities + 1),
        kinds=np.insert(kinds, first, TextKind.LABEL),
        languages=np.insert(texts.languages, first, languages.index("")),
        counts=np.insert(texts.counts, first, 0),
        values=strings(np.insert(values, first, names).tolist()),
        language_names=languages,
    )
    return assemble(
        triples=graph.triples,
        entities=graph.entities,
        relations=graph.relations,
        entity_texts=named,
        relation_texts=graph.relation_texts,
        languages=languages,
        sources=(*graph.manifest.sources, IDENTIFIERS),
        licence=graph.manifest.licence,
    )
