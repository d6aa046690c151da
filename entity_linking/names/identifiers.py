"""The names of a graph that has none: its identifiers; and entities without a name in others."""

from __future__ import annotations

import re
from urllib.parse import unquote

import numpy as np

from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.store import Texts, assemble
from kg_loaders.vocabulary import strings

IDENTIFIERS = "its identifiers as names"
"""Stands among the sources of a graph that had no names."""


def by_identifiers(graph: KnowledgeGraph) -> KnowledgeGraph:
    """`graph`; if it has no label and no alias at all, with its identifiers as labels.

    `readable` has what is left out of them. The other texts stay; the content hash becomes another.
    """
    if _has_names(graph):
        return graph
    texts = graph.entity_texts
    kinds = np.asarray(texts.kinds)
    languages = texts.language_names
    if "" not in languages:
        languages = (*languages, "")
    first = np.asarray(texts.offsets)[:-1]  # of each entity; a label comes before all else
    values = np.array([None, *texts.values.to_pylist()], object)[1:]
    names = [readable(name) for name in graph.entities]
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


def _has_names(graph: KnowledgeGraph) -> bool:
    kinds = np.asarray(graph.entity_texts.kinds)
    return bool(np.isin(kinds, (TextKind.LABEL, TextKind.ALIAS)).any())


_IRI = re.compile(r"[a-z][a-z0-9+.-]*://.*?([^/#]+)[/#]*", re.IGNORECASE)


def readable(identifier: str) -> str:
    """An identifier as a name: an underscore is a blank, and of an IRI the last part is taken.

    >>> readable("Lea_Holt"), readable("http://example.org/staff#Lea_Holt")
    ('Lea Holt', 'Lea Holt')
    """
    iri = _IRI.fullmatch(identifier)
    return (unquote(iri[1]) if iri else identifier).replace("_", " ")


_CODE, _WORD = re.compile(r"[\d:/<>]"), re.compile(r"[^\W\d_]{2}")
"""What codes (`Q90`, `C0001`) and IRIs have, and what names have."""
N_LOOKED_AT = 10_000


def _reads_as_name(identifier: str) -> bool:
    name = readable(identifier)
    return _CODE.search(name) is None and _WORD.search(name) is not None


def nameless(graph: KnowledgeGraph) -> list[str]:
    """Identifiers that read like names, of entities without a label and an alias.

    Where a graph has names, these entities are never linked, though a text may well hold their
    identifiers. Of the first `N_LOOKED_AT` entities without a name; none of a graph without names,
    whose identifiers all are linked.

    >>> from kg_loaders import Text, Triple, graph_from_records
    >>> label = Text("n1", TextKind.LABEL, "Lea Holt")
    >>> nameless(graph_from_records([Triple("n1", "lives in", "Oslo"), label]))
    ['Oslo']
    """
    texts = graph.entity_texts
    is_name = np.isin(np.asarray(texts.kinds), (TextKind.LABEL, TextKind.ALIAS))
    if not is_name.any() or IDENTIFIERS in graph.manifest.sources:
        return []
    has_name = np.zeros(graph.n_entities, np.bool_)
    has_name[np.asarray(texts.nodes())[is_name]] = True
    numbers = np.flatnonzero(~has_name)[:N_LOOKED_AT].tolist()
    names = [graph.entities.name(number) for number in numbers]
    return [name for name in names if _reads_as_name(name)]


def identifiers_note(graph: KnowledgeGraph) -> str:
    """What to say of a graph that is linked by its identifiers; "" where they read like names.

    >>> from kg_loaders import Triple, graph_from_records
    >>> identifiers_note(graph_from_records([Triple("Lea Holt", "born in", "1950")]))
    ''
    >>> identifiers_note(graph_from_records([Triple('"Holt", Inc.', "seat", "Oslo")]))
    ''
    >>> identifiers_note(graph_from_records([Triple("Q90", "P36", "Oslo")])).split("; ")[0]
    'the graph has no names: texts are linked by its identifiers, such as Q90'
    """
    if _has_names(graph) and IDENTIFIERS not in graph.manifest.sources:
        return ""
    heads = np.flatnonzero(np.diff(graph.out_offsets))[:N_LOOKED_AT].tolist()  # no values
    names = [graph.entities.name(head) for head in heads]
    code = next((name for name in names if not _reads_as_name(name)), None)
    if code is None:
        return ""
    return (
        f"the graph has no names: texts are linked by its identifiers, such as {code[:80]}; "
        "`kept kg build --labels` names them"
    )


def nameless_note(graph: KnowledgeGraph) -> str:
    """What to say of `nameless` entities, with the remedy; "" where there are none."""
    names = nameless(graph)
    if not names:
        return ""
    examples = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return (
        f"{len(names)} entities have no label or alias, and are not linked by their identifiers: "
        f"{examples}; `kept kg build --labels` names them"
    )
