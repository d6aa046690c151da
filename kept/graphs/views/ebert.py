"""E-BERT's view (Poerner et al. 2020, section 3.2): an entity before its mention, or in its place.

Axis legend: node, word, anchor, entity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from kept.batches import N_SPECIAL_ROWS, PIECE, KnowledgeBatch, Visibility
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import UNCUT
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views.base import View, weights_of, words_of
from kept.graphs.views.colake import is_anchor
from kept.graphs.views.insertion import Insertion, insert
from kept.graphs.words import longest_first
from kept.vectors import Wikipedia2VecFile
from kg_loaders import KnowledgeGraph

CONCAT, REPLACE = "concat", "replace"
SEPARATOR = "/"
UNLIMITED = 10**6
"""A tokenizer that states no maximum states a larger one than this."""


class EBERTView(View):
    """Words with the linked entities among them, each one node at a position of its own.

    `form` "concat" writes `entity / mention`, "replace" the entity alone. `vectors_from` is the
    file that the encoder's vectors are from, where they are from one: an entity without a vector
    leaves its mention as it is. The "/" is a node of kind `PIECE`, so that no objective or task
    takes it for a word of the text.

    A text that insertions make longer than `max_length` nodes is cut to it, its last node (`[SEP]`)
    kept, as the original cuts after insertion; of a pair the longer text is cut first. By default
    that is the tokenizer's maximum, which `load_tokenizer` takes to be no more than
    the host's positions, and the words are cut before, at the builder's `max_words`;
    with a `max_length` of your own the builder keeps all words (`builder_fields`), and this is the
    only cut.

    With `weigh_links` inserted nodes are weighted by the link's confidence; an entity in the place
    of its words keeps weight 1, since nothing else represents it. Positions run on either way, so a
    link of weight 0 still moves the words behind it.
    """

    remedy = (
        "none of the linked entities has a vector in view.vectors_from; give a file of vectors "
        "whose pages are named like the graph's entities, or none, for vectors of their labels"
    )

    def __init__(
        self,
        separator: tuple[int, ...],
        *,
        form: str = CONCAT,
        is_known: NDArray[np.bool_] | None = None,
        weigh_links: bool = False,
        max_length: int | None = None,
    ) -> None:
        if max_length is not None and not (isinstance(max_length, int) and max_length >= 3):
            raise ConfigError(f"max_length is {max_length!r}; give 3 or more, or none")
        self.max_length = max_length
        if form not in (CONCAT, REPLACE):
            raise ConfigError(f"form is {form!r}; use {CONCAT!r} or {REPLACE!r}")
        self.separator, self.form, self.known = separator, form, is_known
        self.weigh_links = weigh_links

    @classmethod
    def of(  # type: ignore[override]
        cls,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        form: str = CONCAT,
        vectors_from: str | Path | None = None,
        weigh_links: bool = False,
        max_length: int | None = None,
    ) -> Self:
        """Raises `CheckpointError` for a file that is not of Wikipedia2Vec."""
        before, whole = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in ("x", f"x {SEPARATOR}")
        )
        separator = tuple(int(piece) for piece in whole[len(before) :])  # as within a sentence
        is_known = None
        if vectors_from is not None:
            is_known = Wikipedia2VecFile(Path(vectors_from))(graph).known.numpy()
        if max_length is None and int(tokenizer.model_max_length) < UNLIMITED:
            max_length = int(tokenizer.model_max_length)
        return cls(
            separator, form=form, is_known=is_known, weigh_links=weigh_links, max_length=max_length
        )

    @classmethod
    def within_positions(
        cls, n_positions: int, options: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Vectors stand between the words: text and vectors are cut together."""
        return n_positions, {"max_length": n_positions}

    @classmethod
    def builder_fields(cls, config: BuilderConfig, options: Mapping[str, Any]) -> dict[str, Any]:
        """All words of a text where `max_length` is given, which cuts after insertion.

        Cut before, a mention that crosses the border would not be linked, and "replace" would leave
        room that more words fill.
        """
        if options.get("max_length") is None:
            return {}
        return {"max_words": UNCUT, "max_nodes": 2 * UNCUT}

    def most_words(self, config: BuilderConfig) -> int:
        """At most `max_length`; with "concat" what is inserted takes of it."""
        return min(config.max_words, self.max_length or config.max_words)

    @property
    def fingerprint(self) -> str:
        packed_known = b"" if self.known is None else np.packbits(self.known).tobytes()
        digest = hashlib.sha256(packed_known).hexdigest()
        options = f"{self.separator} {self.form} {self.weigh_links} {self.max_length}"
        return f"{type(self).__name__} {options} {digest}"

    def n_nodes(
        self, n_words: NDArray[np.int64], n_links: NDArray[np.int64], n_facts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """With "concat" an entity and the pieces of "/" more for each link, with "replace" none."""
        n_nodes = n_words + (1 + len(self.separator)) * n_links if self.form == CONCAT else n_words
        return n_nodes if self.max_length is None else np.minimum(n_nodes, self.max_length)

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        """Raises `BatchError` when anchors took the place of words, or for a graph of more ids."""
        batch = insert(words_of(graph), self._insertions(graph)[1]).batch
        if self.max_length is not None and batch.node_ids.shape[1] > self.max_length:
            batch = _only(batch, _nodes_kept(batch.segment_ids[0].numpy(), self.max_length))
        return batch if self.weigh_links else batch.replace(node_weights=None)

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> NDArray[np.int64]:
        """Words moved by what stands before them; a word that was replaced is its entity's node.

        -1 for what is cut off.
        """
        anchors, insertions = self._insertions(graph)
        inserted = insert(words_of(graph), insertions)
        positions = np.full(graph.n_nodes, -1, np.int64)
        positions[np.flatnonzero(graph.kinds == NodeKind.WORD)] = inserted.of_words
        positions[anchors] = inserted.of_insertions
        if self.max_length is not None and (n_nodes := len(inserted.owners)) > self.max_length:
            kept = _nodes_kept(inserted.batch.segment_ids[0].numpy(), self.max_length)
            moved = np.full(n_nodes, -1, np.int64)
            moved[kept] = np.arange(len(kept))
            positions = np.where(positions >= 0, moved[positions], -1)
        return positions

    def _insertions(self, graph: WordKnowledgeGraph) -> tuple[NDArray[np.int64], list[Insertion]]:
        """The anchors that are shown, in text order, and what is shown of each."""
        anchors = np.flatnonzero(is_anchor(graph))
        if self.known is not None:
            if len(anchors) and int(graph.ids[anchors].max()) >= len(self.known):
                raise BatchError(
                    f"entity {int(graph.ids[anchors].max())} is beyond the {len(self.known)} of "
                    "the view's graph; make the view of the graph that built this one"
                )
            anchors = anchors[self.known[graph.ids[anchors]]]
        edges = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY]
        spans = [edges[edges[:, 1] == anchor, 0] for anchor in anchors]
        order = np.argsort([int(words.min()) for words in spans], kind="stable").astype(np.int64)
        weights = weights_of(graph)
        insertions = []
        for i in order.tolist():
            start, stop = int(spans[i].min()), int(spans[i].max()) + 1
            entity = int(graph.ids[anchors[i]]) + N_SPECIAL_ROWS
            if self.form == REPLACE:
                insertions.append(Insertion(start, stop, start, (entity,), (int(NodeKind.ENTITY),)))
                continue
            kinds = (int(NodeKind.ENTITY), *[PIECE] * len(self.separator))
            confidence = float(weights[anchors[i]])
            insertions.append(
                Insertion(start, start, start, (entity, *self.separator), kinds, confidence)
            )
        return anchors[order], insertions


def _nodes_kept(segments: NDArray[np.integer], length: int) -> NDArray[np.int64]:
    """The first nodes and the last one, `length` in all; of a pair the longer text is cut first.

    >>> _nodes_kept(np.array([0, 0, 0, 0, 0, 0]), 4).tolist()
    [0, 1, 2, 5]
    >>> _nodes_kept(np.array([0, 0, 0, 0, 0, 0, 1, 1]), 6).tolist()
    [0, 1, 2, 5, 6, 7]
    """
    n_second = int((segments == 1).sum())
    n_first = len(segments) - n_second
    kept_first, kept_second = longest_first(n_first, n_second, length)
    first, second = np.arange(n_first), np.arange(n_first, len(segments))
    return np.concatenate([_ends_kept(first, kept_first), _ends_kept(second, kept_second)])


def _ends_kept(nodes: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.concatenate([nodes[: max(n - 1, 0)], nodes[len(nodes) - min(n, 1) :]])


def _only(batch: KnowledgeBatch, nodes: NDArray[np.int64]) -> KnowledgeBatch:
    """`nodes` of a batch of one, at positions that run on."""
    kept, weights = torch.from_numpy(nodes), batch.node_weights
    return KnowledgeBatch(
        node_ids=batch.node_ids[:, kept],
        node_kinds=batch.node_kinds[:, kept],
        node_mask=batch.node_mask[:, kept],
        positions=torch.arange(len(nodes))[None],
        segment_ids=batch.segment_ids[:, kept],
        visibility=Visibility.everyone(1, len(nodes)),
        node_weights=None if weights is None else weights[:, kept],
    )
