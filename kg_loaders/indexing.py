"""The fields of a `KnowledgeGraph` from its triples, names and texts: orders, offsets, hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from kg_loaders.disk.folder import Manifest
from kg_loaders.disk.keys import order_by_tail
from kg_loaders.disk.threads import together
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary, update_with_strings


class GraphFields(TypedDict):
    """What a `KnowledgeGraph` is made of; shapes as there."""

    triples: NDArray[np.int32]
    entities: Vocabulary
    relations: Vocabulary
    entity_texts: Texts
    relation_texts: Texts
    out_offsets: NDArray[np.int64]
    in_offsets: NDArray[np.int64]
    in_order: NDArray[np.int32]
    manifest: Manifest


def indexed(
    triples: NDArray[np.int32],
    entities: Vocabulary,
    relations: Vocabulary,
    texts: tuple[Texts, Texts],
    *,
    languages: Sequence[str],
    preferred: Sequence[str] = (),
    sources: Sequence[str],
    licence: str,
    n_threads: int = 1,
) -> GraphFields:
    """Return all fields of a graph of `triples [triple 3]`, which come from `sorted_distinct`.

    `texts` are those of entities and of relations, in `languages`, the `preferred` ones first.
    """
    sizes = len(entities), len(relations)
    in_order, hashes, in_offsets, out_offsets = together(
        lambda: order_by_tail(triples, *sizes),
        lambda: hashes_of(triples, entities, relations, texts, languages),
        lambda: offsets_of(triples[:, 2], len(entities)),
        lambda: offsets_of(triples[:, 0], len(entities)),
        n_threads=n_threads,
    )
    return {
        "triples": triples,
        "entities": entities,
        "relations": relations,
        "entity_texts": texts[0],
        "relation_texts": texts[1],
        "out_offsets": out_offsets,
        "in_offsets": in_offsets,
        "in_order": in_order,
        "manifest": Manifest(
            n_entities=len(entities),
            n_relations=len(relations),
            n_triples=len(triples),
            n_entity_texts=len(texts[0]),
            n_relation_texts=len(texts[1]),
            languages=tuple(languages),
            preferred=tuple(preferred),
            sources=tuple(sources),
            licence=licence,
            **hashes,
        ),
    }


class Hashes(TypedDict):
    id_space_hash: str
    content_hash: str


def hashes_of(
    triples: NDArray[np.int32],
    entities: Vocabulary,
    relations: Vocabulary,
    texts: Sequence[Texts],
    languages: Sequence[str],
) -> Hashes:
    """`id_space_hash` of both vocabularies, `content_hash` of everything that a graph says."""
    id_space = hashlib.sha256()
    for vocabulary in (entities, relations):
        update_with_strings(id_space, vocabulary.array)
    content = hashlib.sha256(id_space.digest())
    content.update(np.ascontiguousarray(triples, dtype="<i4").data)
    content.update(json.dumps(list(languages)).encode())
    for each in texts:
        each.update(content)
    return {"id_space_hash": id_space.hexdigest(), "content_hash": content.hexdigest()}


def offsets_of(nodes: NDArray[np.int32], n_nodes: int) -> NDArray[np.int64]:
    """CSR offsets int64 `[node+1]` of rows that belong to `nodes [row]` once sorted by them."""
    return np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=n_nodes))]).astype(np.int64)
