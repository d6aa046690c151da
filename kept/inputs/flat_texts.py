"""All texts of a data set at once: their word pieces, the entities of their links, bounds of nodes.

Axis legend: text, word (word pieces of all texts), link (of all texts).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.annotations import read_jsonl
from entity_linking.mentions import LinkedText
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import View
from kept.graphs.words import Words, encode_words
from kept.inputs.pairs import pair_bounds
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

TEXTS_PER_CALL = 4096


def read_texts(paths: Iterable[Path]) -> tuple[list[LinkedText], list[int]]:
    """Return every linked text of JSONL files of `kept link -o`, and the number in each file.

    Stops at a faulty line. A file is a document to objectives over pairs of texts.
    """
    files = [list(read_jsonl(path, DamageReport())) for path in paths]
    return [text for file in files for text in file], [len(file) for file in files]


def linked_entities(
    texts: Sequence[LinkedText], graph: KnowledgeGraph
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entity id of every link (-1: NIL or outside the graph), and offsets `[text+1]`."""
    names = [link.entity for text in texts for link in text.links]
    distinct = [name for name in dict.fromkeys(names) if name is not None]
    ids: dict[str | None, int] = {None: -1}
    ids |= zip(distinct, graph.entities.ids(distinct).tolist(), strict=True)
    counts = [len(text.links) for text in texts]
    return np.array([ids[name] for name in names], np.int64), _offsets(counts)


def encode_texts(
    texts: Sequence[LinkedText], tokenizer: Any, max_words: int
) -> tuple[Words, NDArray[np.int64]]:
    """Word pieces of all texts, flat, and offsets `[text+1]`."""
    words: list[Words] = []
    for start in range(0, len(texts), TEXTS_PER_CALL):
        part = texts[start : start + TEXTS_PER_CALL]
        words.extend(
            encode_words(
                [text.text for text in part],
                tokenizer,
                max_words=max_words,
                pair_starts=[text.pair_start for text in part],
            )
        )
    flat = Words(
        np.concatenate([w.ids for w in words]),
        np.concatenate([w.spans for w in words]),
        np.concatenate([w.segment_ids for w in words]),
    )
    return flat, _offsets([len(w.ids) for w in words])


def _offsets(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def node_bounds(
    entities: NDArray[np.int64],
    link_offsets: NDArray[np.int64],
    n_words: NDArray[np.int64],
    graph: KnowledgeGraph,
    builder: BuilderConfig,
    view: View,
    *,
    of_pairs: bool = False,
) -> NDArray[np.int64]:
    """`View.n_nodes` of every text or pair, from the result of `linked_entities`."""
    in_graph = entities >= 0
    ids = np.where(in_graph, entities, 0)
    degrees = np.diff(graph.out_offsets)[ids]
    if builder.directions == "both":
        degrees = degrees + np.diff(graph.in_offsets)[ids]
    facts = np.minimum(degrees, builder.max_neighbours)
    n_links, n_facts = (
        summed[link_offsets[1:]] - summed[link_offsets[:-1]]
        for counts in (in_graph.astype(np.int64), np.where(in_graph, facts, 0))
        for summed in (np.concatenate([[0], np.cumsum(counts)]),)
    )
    if of_pairs:
        n_words, n_links, n_facts = map(pair_bounds, (n_words, n_links, n_facts))
        n_words = n_words.clip(max=builder.max_words)
    n_facts = n_facts.clip(max=builder.max_nodes)
    return view.n_nodes(n_words, n_links, n_facts)


def without_candidates(text: LinkedText) -> LinkedText:
    """Drop candidates where the view reads none: they would be sent to every worker."""
    links = tuple(dataclasses.replace(link, candidates=()) for link in text.links)
    return dataclasses.replace(text, links=links)
