"""A graph as blocks, as a reader would yield it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock
from kg_loaders.store import KnowledgeGraph


def blocks_of(graph: KnowledgeGraph) -> Iterator[Block]:
    """Yield all triples and texts of `graph`, counts of aliases included."""
    ends = np.ascontiguousarray(graph.triples[:, [0, 2]])
    if len(ends):
        relation_ids = np.ascontiguousarray(graph.triples[:, 1])
        yield TripleBlock(ends, relation_ids, graph.entities.array, graph.relations.array)
    for texts, names, is_relation in (
        (graph.entity_texts, graph.entities, False),
        (graph.relation_texts, graph.relations, True),
    ):
        if len(texts):
            yield TextBlock(
                names.array, texts.nodes(), np.asarray(texts.kinds), texts.values,
                np.asarray(texts.languages, np.int32), graph.manifest.languages, is_relation,
                np.asarray(texts.counts),
            )  # fmt: skip
