"""The released CoLAKE data preparation, step by step, with its quirks.

Sun et al., COLING 2020, repository txsun1997/CoLAKE. For comparison with the original and for
reading its data; training uses `kept.graphs.builder` and `kept.objectives.masking`. The quirks:
one random state for the whole run; an anchor's facts are kept all or not at all; its list of facts
is shuffled in place, so the order of an earlier text persists; only the first mention of an entity
in a block becomes an anchor; padded queries see all real nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entity_linking.mentions import Link, LinkedText, Mention
from kept.batches import KnowledgeBatch
from kept.graphs.building.anchors import AllWords, Anchors
from kept.graphs.building.assembly import connect
from kept.graphs.building.facts import Facts
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.words import Words
from kg_loaders.store import KnowledgeGraph

FENCE = "sepsepsep"


@dataclass(frozen=True, kw_only=True)
class OriginalConfig:
    """Constants of the released script; `bos_id` and `eos_id` are RoBERTa's."""

    min_block_words: int = 80
    max_piece_words: int = 200
    max_nodes: int = 256
    bos_id: int = 0
    eos_id: int = 2


class OriginalNeighbours:
    """Facts of anchors, drawn from one random state and shuffled in place.

    `facts` maps a head to its (relation, tail) pairs in file order. `uniform` gives the draw in
    [0, 1) that decides whether an anchor shows its facts (above 0.5); `shuffle` reorders a list.
    """

    def __init__(
        self,
        facts: Mapping[int, Sequence[tuple[int, int]]],
        *,
        uniform: Callable[[], float],
        shuffle: Callable[[list[tuple[int, int]]], None],
        max_neighbours: int = 15,
    ) -> None:
        self._facts = {head: list(pairs) for head, pairs in facts.items() if pairs}
        self._uniform, self._shuffle = uniform, shuffle
        self._max_neighbours = max_neighbours

    def draw(self, head: int) -> list[tuple[int, int]]:
        """(relation, tail) pairs shown for this anchor, this time."""
        pairs = self._facts.get(head)
        if not pairs or not self._uniform() > 0.5:
            return []
        self._shuffle(pairs)
        return pairs[: self._max_neighbours]


def split_blocks(
    sentences: Sequence[str], encode: Callable[[str], list[int]], *, min_block_words: int
) -> list[str]:
    """Glue sentences until a block, fences and two special tokens counted, is long enough."""
    blocks, block = [], ""
    for sentence in sentences:
        block = f"{block} {sentence}"
        if len(encode(block)) + 2 >= min_block_words:
            blocks.append(block)
            block = ""
    return [*blocks, block] if block else blocks


def build_original(
    sentences: Sequence[str],
    mentions: Mapping[str, str],
    *,
    encode: Callable[[str], list[int]],
    graph: KnowledgeGraph,
    neighbours: OriginalNeighbours,
    config: OriginalConfig,
) -> list[WordKnowledgeGraph]:
    """Graphs of one fenced document; `mentions` maps a surface to an entity identifier.

    `encode` gives word-piece ids without special tokens. Blocks without an anchor and graphs above
    `max_nodes` are left out.
    """
    graphs = []
    for block in split_blocks(sentences, encode, min_block_words=config.min_block_words):
        pieces = [piece.strip() for piece in block.split(FENCE)]
        built = _build_block([p for p in pieces if p], mentions, encode, graph, neighbours, config)
        if built is not None and built.n_nodes <= config.max_nodes:
            graphs.append(built)
    return graphs


def _build_block(
    pieces: Sequence[str],
    mentions: Mapping[str, str],
    encode: Callable[[str], list[int]],
    graph: KnowledgeGraph,
    neighbours: OriginalNeighbours,
    config: OriginalConfig,
) -> WordKnowledgeGraph | None:
    ids, spans, positions = [config.bos_id], [(-1, -1)], [0]
    entities: list[int] = []
    anchor_positions: list[int] = []
    links: list[Link] = []
    start, position = 0, 1
    for piece in pieces:
        name = mentions.get(piece)
        span = (start, start + len(piece))
        start += len(piece) + 1
        if name is not None and graph.entities.id(name) not in entities:
            entities.append(graph.entities.id(name))
            anchor_positions.append(position)
            links.append(Link(Mention(*span), (), name, 1.0))
            position += 1
            continue
        for word in encode(piece)[: config.max_piece_words]:
            ids.append(word)
            spans.append(span)
            positions.append(position)
            position += 1
    if not entities:
        return None
    words = Words(np.array([*ids, config.eos_id], np.int32), np.array([*spans, (-1, -1)], np.int32))
    anchors = Anchors(
        np.array(entities, np.int32),
        np.array(anchor_positions, np.int32),
        np.array([(link.mention.start, link.mention.end) for link in links], np.int32),
        np.arange(len(entities), dtype=np.int32),
        np.zeros(len(entities), np.int64),
        np.zeros((len(entities), 2), np.int64),
    )
    (built,) = connect(
        [LinkedText(" ".join(pieces), tuple(links))],
        AllWords.of([words]),
        np.array([*positions, position], np.int32),
        anchors,
        _drawn_facts(entities, graph, neighbours),
        graph,
    )
    return built


def _drawn_facts(
    entities: Sequence[int], graph: KnowledgeGraph, neighbours: OriginalNeighbours
) -> Facts:
    rows, owners, ranks = [], [], []
    for anchor, head in enumerate(entities):
        start = int(graph.out_offsets[head])
        row_of = {
            (int(relation), int(tail)): start + i
            for i, (_, relation, tail) in enumerate(graph.outgoing(head))
        }
        for rank, pair in enumerate(neighbours.draw(head)):
            rows.append(row_of[pair])
            owners.append(anchor)
            ranks.append(rank)
    return Facts(np.array(rows, np.int64), np.array(owners, np.int64), np.array(ranks, np.int64))


def original_attention_mask(batch: KnowledgeBatch) -> Tensor:
    """The mask as the original collates it, int32 `[batch node node]`.

    Padded queries see every real node of their sample, and nobody sees a padded node.
    """
    real = batch.node_mask[:, None, :]
    seen: Tensor = real & (batch.visibility.mask | ~batch.node_mask[:, :, None])
    return seen.to(torch.int32)
