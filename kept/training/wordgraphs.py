"""Linked texts and a graph as `PretrainingData`: word-knowledge graphs in a method's view.

Every epoch draws a text's neighbours and marks anew, by (seed, epoch, text).
Axis legend: word (word pieces), link, node, entity row.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.assembly import Words
from kept.graphs.builder import BuilderConfig, encode_words, join_words
from kept.graphs.views import View
from kept.objectives.base import Preparation, World
from kept.objectives.model import objective_kind
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

TEXTS_PER_CALL = 4096


class WordGraphData:
    """Word-knowledge graphs of `texts` as a method's `view` shows them, marked by `objectives`.

    Word pieces are computed once, here. `objectives` maps a name to its options; their preparations
    mark each sample and complete each batch, in this order.
    Raises `ConfigError` when no link leads into `graph`, `HostError` for a slow tokenizer.
    """

    def __init__(
        self,
        texts: Sequence[LinkedText],
        graph: KnowledgeGraph,
        tokenizer: Any,
        *,
        builder: BuilderConfig,
        view: View,
        objectives: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.graph, self.builder, self.view = graph, builder, view
        self._word_pad_id = int(tokenizer.pad_token_id)
        self._texts = list(texts)
        if not view.reads_candidates:
            self._texts = [without_candidates(text) for text in texts]
        self._entities, self._link_offsets = linked_entities(texts, graph)
        if not (self._entities >= 0).any():
            raise ConfigError(
                f"none of the {len(self._entities)} links of {len(texts)} texts leads into "
                f"{graph}; link the texts with this graph (`kept link`)"
            )
        world = World(graph, tokenizer, self.frequencies())
        self.preparations: dict[str, Preparation] = {}
        for name, values in objectives.items():
            kind = objective_kind(name)
            self.preparations[name] = kind.preparation.of(kind.read(name, values), world)
        self._word_ids, self._word_spans, self._word_offsets = encode_texts(
            texts, tokenizer, builder.max_words
        )
        self._bounds = node_bounds(
            self._entities, self._link_offsets, self._word_offsets, graph, builder, view
        )
        self._fingerprint = self._hash()

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        n_inside = int((self._entities >= 0).sum())
        return (
            f"WordGraphData({len(self)} texts, {n_inside} of {len(self._entities)} links in the "
            f"graph, {len(self._word_ids)} word pieces)"
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over graph, word pieces, links, view and every option."""
        return self._fingerprint

    def frequencies(self) -> NDArray[np.float64]:
        """How often each entity is linked, `[entity row]`; special rows 0."""
        rows = self._entities[self._entities >= 0] + N_SPECIAL_ROWS
        counts = np.bincount(rows, minlength=self.graph.n_entities + N_SPECIAL_ROWS)
        return counts.astype(np.float64)

    def n_nodes(self, index: int) -> int:
        """An upper bound for text `index` in every epoch."""
        return int(self._bounds[index])

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """The graph of text `index` as drawn and marked in `epoch`."""
        words = slice(self._word_offsets[index], self._word_offsets[index + 1])
        drawn = join_words(
            self._texts[index],
            Words(self._word_ids[words], self._word_spans[words]),
            self.graph,
            generator=generator(seed, "graph", epoch, index),
            config=self.builder,
        )
        batch = self.view(drawn)
        for name, preparation in self.preparations.items():
            batch = preparation.mark(batch, generator(seed, name, epoch, index))
        return batch

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Stacked samples, completed by every objective's preparation."""
        batch = KnowledgeBatch.stack(samples, word_pad_id=self._word_pad_id)
        for name, preparation in self.preparations.items():
            batch = preparation.complete(batch, generator(seed, name, "batch", step))
        return batch

    def _hash(self) -> str:
        digest = hashlib.sha256(self.graph.content_hash.encode())
        mentions = [link.mention for text in self._texts for link in text.links]
        spans = np.array([(m.start, m.end) for m in mentions], np.int64)
        for array in (
            self._word_ids, self._word_spans, self._word_offsets, self._entities,
            self._link_offsets, spans,
        ):  # fmt: skip
            digest.update(np.ascontiguousarray(array).tobytes())
        if self.view.reads_candidates:
            links = [link.candidates for text in self._texts for link in text.links]
            digest.update(repr(links).encode())
        marks = {name: p.fingerprint for name, p in self.preparations.items()}
        options = [dataclasses.asdict(self.builder), self.view.fingerprint, marks]
        written = json.dumps([*options, self._word_pad_id], default=_name)
        digest.update(written.encode())
        return digest.hexdigest()


def _name(policy: Any) -> str:
    return f"{policy.__module__}.{policy.__qualname__}"


def node_bounds(
    entities: NDArray[np.int64],
    link_offsets: NDArray[np.int64],
    word_offsets: NDArray[np.int64],
    graph: KnowledgeGraph,
    builder: BuilderConfig,
    view: View,
) -> NDArray[np.int64]:
    """`View.n_nodes` of every text, from what `linked_entities` and `encode_texts` found."""
    known = entities >= 0
    ids = np.where(known, entities, 0)
    degrees = np.diff(graph.out_offsets)[ids]
    if builder.directions == "both":
        degrees = degrees + np.diff(graph.in_offsets)[ids]
    facts = np.minimum(degrees, builder.max_neighbours)
    n_links, n_facts = (
        summed[link_offsets[1:]] - summed[link_offsets[:-1]]
        for counts in (known.astype(np.int64), np.where(known, facts, 0))
        for summed in (np.concatenate([[0], np.cumsum(counts)]),)
    )
    n_facts = n_facts.clip(max=builder.max_nodes)
    return view.n_nodes(np.diff(word_offsets), n_links, n_facts)


def without_candidates(text: LinkedText) -> LinkedText:
    """Candidates would travel to every worker; drop them where the view reads none."""
    links = tuple(dataclasses.replace(link, candidates=()) for link in text.links)
    return LinkedText(text.text, links, text.id)


def linked_entities(
    texts: Sequence[LinkedText], graph: KnowledgeGraph
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entity id of every link (-1: NIL or outside the graph), and offsets `[text+1]`."""
    names = [link.entity for text in texts for link in text.links]
    ids: dict[str | None, int] = {None: -1}
    for name in dict.fromkeys(names):
        found = None if name is None else graph.entities.find(name)
        ids[name] = -1 if found is None else found
    counts = [len(text.links) for text in texts]
    return np.array([ids[name] for name in names], np.int64), _offsets(counts)


def encode_texts(
    texts: Sequence[LinkedText], tokenizer: Any, max_words: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Word pieces of all texts, flat: ids, spans, offsets `[text+1]`."""
    words: list[Words] = []
    for start in range(0, len(texts), TEXTS_PER_CALL):
        part = [text.text for text in texts[start : start + TEXTS_PER_CALL]]
        words.extend(encode_words(part, tokenizer, max_words=max_words))
    ids = np.concatenate([w.ids for w in words])
    spans = np.concatenate([w.spans for w in words])
    return ids, spans, _offsets([len(w.ids) for w in words])


def _offsets(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
