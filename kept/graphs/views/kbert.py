"""K-BERT's view (Liu et al. 2020, sections 3.2 and 3.3): facts as branches of a sentence tree.

Every word piece is a node of the trunk. A fact of a mention becomes a branch of word pieces, the
predicate's and the object's, that starts at the soft position after the mention's last piece, where
the trunk goes on as well. The trunk sees itself, a mention's pieces see their branches, a branch
sees itself and its mention's pieces.

Where we differ from the released code (tests/reference/original_kbert.py keeps it): the trunk comes
first in the batch and the branches after it, so that a word has the same index in every view; what
a branch says is written in the host's own word pieces; branches that read the same are shown once;
a branch that is too long loses its last pieces and a text that is too large whole branches, the
lowest-ranked first, never words.

Axis legend: node, word (pieces of the trunk), anchor, branch, text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.errors import BatchError, ConfigError, HostError
from kept.graphs.builder import BuilderConfig
from kept.graphs.edit import without_fact
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.naming import is_named
from kept.graphs.views.base import View, row, weights_of, words_of
from kept.graphs.views.insertion import Insertion, insert
from kg_loaders import KnowledgeGraph

Pieces = tuple[int, ...]
ROOM_FOR_BRANCHES = 128
"""Pieces of branches beside the longest text that a new run reads."""


@dataclass(frozen=True)
class Branch:
    """One fact at one anchor: word pieces, and of each whether it names a relation or an entity."""

    anchor: int
    rank: int
    pieces: Pieces
    kinds: tuple[NodeKind, ...]


class KBERTView(View):
    """Sentence trees over one graph's labels in one tokenizer's word pieces.

    `predicate`: whether a branch says the relation as well as the object. At most `max_branches`
    facts per mention (best-ranked first; every mention of an entity has its own copy), `max_pieces`
    pieces per branch, and branches only while there are fewer than `max_nodes` nodes. A branch of
    an incoming fact names its subject, then the relation. Graphs are built with as many facts per
    mention as `max_branches` asks for, and with `incoming` in both directions.

    `soft_positions=False` counts on through the tree as it is written down, branches right after
    their mention; `visible_matrix=False` lets every node see every node (the paper's two
    ablations). Without both, facts are plain words of the sentence.

    In the batch `node_ids` of branches are word pieces, and `node_kinds` say what they name:
    RELATION or ENTITY. With `weigh_links` a branch is weighted by the confidence of its link.
    Objectives and tasks about words therefore touch the trunk alone.
    """

    remedy = (
        "facts are written as words, but no fact that the model may read is about an entity "
        "with a name; "
        "build the graph with names (kept kg build … --labels FILE, --relation-labels FILE), or "
        "see graph.max_neighbours, view.max_branches, view.max_pieces and view.max_nodes"
    )

    def __init__(
        self,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        predicate: bool = True,
        max_branches: int = 2,
        max_pieces: int = 12,
        max_nodes: int = 256,
        soft_positions: bool = True,
        visible_matrix: bool = True,
        weigh_links: bool = False,
    ) -> None:
        faults = [
            f"{name} {value}: {least} or more"
            for name, value, least in (
                ("max_branches", max_branches, 0),
                ("max_pieces", max_pieces, 1),
                ("max_nodes", max_nodes, 1),
            )
            if value < least
        ]
        if faults:
            raise ConfigError("KBERTView: " + "; ".join(faults))
        if not getattr(tokenizer, "is_fast", False):
            raise HostError(
                f"{type(tokenizer).__name__} gives no character offsets; load the fast tokenizer"
            )
        self.predicate, self.max_branches = predicate, max_branches
        self.facts_per_mention = max_branches
        self.max_pieces, self.max_nodes = max_pieces, max_nodes
        self.soft_positions, self.visible_matrix = soft_positions, visible_matrix
        self.weigh_links = weigh_links
        self._graph, self._tokenizer = graph, tokenizer
        self._labels: dict[tuple[NodeKind, int], Pieces] = {}

    @classmethod
    def of(
        cls,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        incoming: bool = False,
        **options: Any,
    ) -> Self:
        """`incoming` is read by the builder alone; other options are the constructor's."""
        return cls(graph, tokenizer, **options)

    @classmethod
    def builder_fields(cls, config: BuilderConfig, options: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {"directions": "both"} if options.get("incoming") else {}
        if options.get("max_branches", 0) > config.max_neighbours:
            fields["max_neighbours"] = options["max_branches"]
        return fields

    @classmethod
    def within_positions(
        cls, n_positions: int, options: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """A branch counts on from its mention, which may be the last; without soft positions every
        piece of a branch has a position of its own, and long texts have room for fewer branches."""
        defaults = cls.__init__.__kwdefaults__ or {}
        if not options.get("soft_positions", defaults["soft_positions"]):
            return n_positions, {"max_nodes": n_positions}
        max_pieces = options.get("max_pieces")
        if not isinstance(max_pieces, int):
            max_pieces = defaults["max_pieces"]
        n_words = n_positions - max_pieces
        return n_words, {"max_nodes": n_words + ROOM_FOR_BRANCHES}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_labels": {}}

    @property
    def fingerprint(self) -> str:
        tokenizer = json.loads(self._tokenizer.backend_tokenizer.to_str())
        tokenizer |= {"truncation": None, "padding": None}  # of the last call, not of the view
        written = json.dumps(tokenizer, sort_keys=True).encode()
        return (
            f"KBERTView {self.predicate} {self.max_branches} {self.max_pieces} {self.max_nodes} "
            f"{self.soft_positions} {self.visible_matrix} "
            f"{self.weigh_links} {self._graph.content_hash} {hashlib.sha256(written).hexdigest()}"
        )

    def n_nodes(
        self, n_words: NDArray[np.int64], n_links: NDArray[np.int64], n_facts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """A builder's `max_nodes` is at least twice its words, so fewer facts than that were not
        cut and, counted for each mention, bound the branches; otherwise the mentions do."""
        n_branches = self.max_branches * n_links
        n_branches = np.where(n_facts < 2 * n_words, np.minimum(n_branches, n_facts), n_branches)
        most = np.maximum(n_words, self.max_nodes)
        bound: NDArray[np.int64] = np.minimum(n_words + self.max_pieces * n_branches, most)
        return bound

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        """The flattened tree, a batch of one; raises `BatchError` for a graph of other ids or
        without its mentions' words."""
        if graph.id_space_hash != self._graph.id_space_hash:
            raise BatchError(
                f"the word-knowledge graph has ids of {graph.id_space_hash}, the view reads labels "
                f"of {self._graph.id_space_hash}; make the view of the graph that built it"
            )
        words = words_of(graph)
        spans, _ = _mentions(graph)
        kept = self.branches(graph)
        confidence = weights_of(graph)[(graph.kinds == NodeKind.ENTITY) & (graph.spans[:, 0] >= 0)]
        insertions = [
            Insertion(
                end, end, start, b.pieces, tuple(map(int, b.kinds)), float(confidence[b.anchor])
            )
            for b, (start, end) in ((b, spans[b.anchor].tolist()) for b in kept)
        ]
        inserted = insert(words, insertions, words_first=True, soft_positions=self.soft_positions)
        batch = inserted.batch.replace(mention_spans=row(spans))
        if self.visible_matrix:
            visible_mask = visible(inserted.owners, _owners(inserted.owners, spans, kept))
            batch = batch.replace(visibility=Visibility(torch.from_numpy(visible_mask)[None]))
        return batch if self.weigh_links else batch.replace(node_weights=None)

    def fact_nodes(
        self, graph: WordKnowledgeGraph, batch: KnowledgeBatch, relation: int
    ) -> NDArray[np.int64]:
        """Its branches, one at every mention of the entity that brings it."""
        entities = _mentions(graph)[1]
        kept = self.branches(graph)
        others = self._branches(without_fact(graph, relation), entities)
        stays = {(branch.anchor, branch.pieces) for branch in others}
        is_cut = [(branch.anchor, branch.pieces) not in stays for branch in kept]
        owned = np.repeat(is_cut, [len(branch.pieces) for branch in kept])
        n_words = int((graph.kinds == NodeKind.WORD).sum())
        return n_words + np.flatnonzero(owned)

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether a branch names something in words; an identifier such as Q142 says nothing."""
        if not bool((batch.node_kinds == NodeKind.ENTITY).any()):
            return False
        _, entities = _mentions(graph)
        facts = _facts(graph, entities)
        fact_pairs = {(e, fact) for e in facts for fact in facts[e][: self.max_branches]}
        others = {tail if head == entity else head for entity, (head, _, tail) in fact_pairs}
        return any(is_named(self._graph, other) for other in others)

    def pieces(self, kind: NodeKind, node: int) -> Pieces:
        """The word pieces of a relation's or an entity's label, read as within a sentence."""
        pieces = self._labels.get((kind, node))
        if pieces is None:
            is_entity = kind is NodeKind.ENTITY
            label = self._graph.label(node) if is_entity else self._graph.relation_label(node)
            before = "x "
            encoded = self._tokenizer(
                before + label, add_special_tokens=False, return_offsets_mapping=True
            )
            pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
            pieces = tuple(piece for piece, (_, end) in pairs if end > len(before))
            self._labels[kind, node] = pieces
        return pieces

    def branches(self, graph: WordKnowledgeGraph) -> list[Branch]:
        """Return the branches that are shown, in the order of their nodes behind the words."""
        n_words = int((graph.kinds == NodeKind.WORD).sum())
        return self._fit(self._branches(graph, _mentions(graph)[1]), n_words)

    def _branches(self, graph: WordKnowledgeGraph, entities: list[int]) -> list[Branch]:
        """Every anchor's branches, best first."""
        facts = _facts(graph, entities)
        written = {
            entity: self._written(entity, facts.get(entity, []))
            for entity in dict.fromkeys(entities)
        }
        return [
            Branch(anchor, rank, pieces, kinds)
            for anchor, entity in enumerate(entities)
            for rank, (pieces, kinds) in enumerate(written[entity])
        ]

    def _written(
        self, entity: int, facts: list[tuple[int, int, int]]
    ) -> list[tuple[Pieces, tuple[NodeKind, ...]]]:
        """An entity's facts as distinct branches of pieces, with the kind of each piece."""
        kinds_of: dict[Pieces, tuple[NodeKind, ...]] = {}
        for head, relation, tail in facts:
            predicate = self.pieces(NodeKind.RELATION, relation) if self.predicate else ()
            other = self.pieces(NodeKind.ENTITY, tail if head == entity else head)
            parts = [(predicate, NodeKind.RELATION), (other, NodeKind.ENTITY)]
            ordered = parts if head == entity else parts[::-1]
            named = [(piece, kind) for pieces, kind in ordered for piece in pieces]
            if other and len(kinds_of) < self.max_branches:
                named = named[: self.max_pieces]
                kinds_of.setdefault(
                    tuple(piece for piece, _ in named), tuple(kind for _, kind in named)
                )
        return list(kinds_of.items())

    def _fit(self, branches: list[Branch], n_words: int) -> list[Branch]:
        """The best-ranked branches that fit beside the words; anchors take turns."""
        free, kept = self.max_nodes - n_words, []
        for branch in sorted(branches, key=lambda b: (b.rank, b.anchor)):
            free -= len(branch.pieces)
            if free < 0:
                break
            kept.append(branch)
        return sorted(kept, key=lambda b: (b.anchor, b.rank))


def _mentions(graph: WordKnowledgeGraph) -> tuple[NDArray[np.int64], list[int]]:
    """Word pieces `[anchor 2]` and entity id of every anchor, in text order."""
    edges = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY]
    nodes, first = np.unique(edges[:, 1], return_index=True)
    counts = np.bincount(edges[:, 1], minlength=graph.n_nodes)[nodes]
    starts = edges[first, 0].astype(np.int64)
    return np.stack([starts, starts + counts], axis=1), graph.ids[nodes].tolist()


def _facts(graph: WordKnowledgeGraph, entities: list[int]) -> dict[int, list[tuple[int, int, int]]]:
    """(head, relation, tail) of the facts that each mentioned entity brings, best first."""
    links = graph.origins[:, 0]
    bringer = {
        int(links[node]): int(graph.ids[node])
        for node in np.flatnonzero((graph.kinds == NodeKind.ENTITY) & (graph.spans[:, 0] >= 0))
    }
    into = graph.edges[graph.edge_kinds == EdgeKind.ENTITY_RELATION]
    out = graph.edges[graph.edge_kinds == EdgeKind.RELATION_ENTITY]
    heads, tails = dict(into[:, ::-1].tolist()), dict(out.tolist())
    relations = np.flatnonzero(graph.kinds == NodeKind.RELATION)
    facts: dict[int, list[tuple[int, int, int]]] = {}
    for node in relations[np.argsort(graph.origins[relations, 2], kind="stable")].tolist():
        fact = tuple(int(graph.ids[n]) for n in (heads[node], node, tails[node]))
        facts.setdefault(bringer[int(links[node])], []).append(fact)  # type: ignore[arg-type]
    return facts


def _owners(
    branch: NDArray[np.int64], spans: NDArray[np.int64], branches: list[Branch]
) -> NDArray[np.int64]:
    """The mention that each node belongs to or hangs at, -1 for none, `[node]`."""
    owners = np.full(len(branch), -1, np.int64)
    for anchor, (start, end) in enumerate(spans.tolist()):
        owners[start:end] = anchor
    hanging = branch >= 0
    owners[hanging] = np.array([b.anchor for b in branches], np.int64)[branch[hanging]]
    return owners


def visible(branch: NDArray[np.int64], mention: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Who sees whom (section 3.3), bool `[node node]`, symmetric.

    `branch [node]`: number of the branch, -1 for the trunk, which is one branch of its own here.
    `mention [node]`: number of the mention that a node belongs to or hangs at, -1 for none.
    """
    trunk = branch == -1
    same_mention = (mention[:, None] == mention) & (mention >= 0)
    visible_pairs: NDArray[np.bool_] = branch[:, None] == branch
    visible_pairs |= same_mention & (trunk[:, None] | trunk)
    return visible_pairs


def label_words(
    batch: KnowledgeBatch, labels: NDArray[np.int64], *, injected: int = IGNORE
) -> KnowledgeBatch:
    """One sample of this view with a class for every word piece, `labels [word]`.

    Injected nodes get `injected`, by default no label; the released tagger has a class [ENT] for
    them. Raises `BatchError` unless every word has a label.
    """
    kinds = batch.node_kinds[0]
    n_words = int((kinds == NodeKind.WORD).sum())
    if len(batch) != 1 or len(labels) != n_words:
        raise BatchError(f"{len(labels)} labels for {n_words} word pieces of {len(batch)} samples")
    node_labels = torch.full_like(kinds, injected)
    node_labels[kinds == NodeKind.WORD] = torch.from_numpy(labels)
    return batch.replace(node_labels=node_labels[None])
