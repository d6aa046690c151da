"""Whether entities of a graph have names in words: Q142 means nothing to a host."""

from __future__ import annotations

import numpy as np

from kg_loaders import KnowledgeGraph, TextKind

NAMES = (TextKind.LABEL, TextKind.ALIAS)


def is_named(graph: KnowledgeGraph, entity: int) -> bool:
    """Whether words stand for an entity: it has a label, or an identifier in words.

    Labels are what methods write; where there is none they write the identifier, and the last part
    of one without any digit ("New_York", not "Q60", "P17", "/m/02_286" or "00001740") is words.
    """
    if graph.entity_texts.of(entity, TextKind.LABEL):
        return True
    last = graph.entities.name(entity).rstrip("/").replace("#", "/").rpartition("/")[2]
    return any(c.isalpha() for c in last) and not any(c.isdigit() for c in last)


def n_with_names(graph: KnowledgeGraph) -> int:
    """How many entities have a label or an alias, so that a dictionary can find them in texts."""
    texts = graph.entity_texts
    named = np.concatenate([[0], np.cumsum(np.isin(np.asarray(texts.kinds), NAMES))])
    offsets = np.asarray(texts.offsets)
    return int((named[offsets[1:]] > named[offsets[:-1]]).sum())
