"""Linked texts and a graph as arrays: one vocabulary of words and entities, tokens, links, edges.

Words come first, in the order of their spelling, then entities in the order of their graph ids.

Axis legend: item (word or entity), word, entity (of the vocabulary), token, text, link, edge.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

Ints = NDArray[np.int64]
_WORD = re.compile(r"\w+")


def tokenise(text: str) -> list[tuple[str, int, int]]:
    """Runs of letters, digits and underscores, and where each begins and ends.

    >>> tokenise("don't 12")
    [('don', 0, 3), ('t', 4, 5), ('12', 6, 8)]
    """
    return [(match[0], *match.span()) for match in _WORD.finditer(text)]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts as tokens and links over one vocabulary; made by `read_corpus`.

    `tokens` are word ids, -1 for other words; `text_offsets [text + 1]` say where each text's
    begin (a text below the least length has none). `links [link 3]`: entity (its item), first
    token, first token after. `pages [text]`: texts of one page are trained in one go. `entities`
    are graph ids. `edges [edge 2]`: pairs of items that a triple joins, both ways, each once.
    """

    words: tuple[str, ...]
    word_counts: Ints
    entities: Ints
    entity_counts: Ints
    tokens: NDArray[np.int32]
    text_offsets: Ints
    links: Ints
    link_offsets: Ints
    pages: Ints
    edges: Ints
    n_links_outside: int = 0

    def __repr__(self) -> str:
        return (
            f"Corpus({counted(len(self.pages), 'texts')}, "
            f"{counted(len(self.tokens), 'tokens')}, {counted(len(self.words), 'words')}, "
            f"{counted(len(self.links), 'links')} to "
            f"{counted(len(self.entities), 'entities')}, {counted(len(self.edges), 'edges')}; "
            f"{counted(self.n_links_outside, 'links')} to what is not in the graph)"
        )

    @property
    def n_items(self) -> int:
        """Words and entities."""
        return len(self.words) + len(self.entities)

    @cached_property
    def edge_offsets(self) -> Ints:
        """Where the neighbours of each entity of the vocabulary begin in `edges [entity + 1]`."""
        starts = np.arange(len(self.words), self.n_items + 1)
        return np.searchsorted(self.edges[:, 0], starts).astype(np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all of it: what a resumed training must meet again."""
        digest = hashlib.sha256("\n".join(self.words).encode())
        for part in (
            self.word_counts,
            self.entities,
            self.entity_counts,
            self.tokens,
            self.text_offsets,
            self.links,
            self.link_offsets,
            self.pages,
            self.edges,
        ):
            digest.update(f"{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


def read_corpus(
    texts: Sequence[LinkedText],
    graph: KnowledgeGraph,
    *,
    triples: NDArray[np.integer] | None = None,
    pages: Sequence[int] | None = None,
    min_word_count: int = 1,
    min_entity_count: int = 1,
    min_tokens: int = 1,
) -> Corpus:
    """The vocabulary of `texts` and `graph`, and the texts in it.

    Words are lower-cased, and counted where a text has `min_tokens`; links are counted in every
    text. An entity is in the vocabulary with `min_entity_count` links or a triple. `triples` are
    those of the graph, or the part of them that may be read. Without `pages` each text is one of
    its own. Raises `ConfigError` where no word or no entity is left.
    """
    cut = [tokenise(text.text) for text in texts]
    counts = Counter(
        token[0].lower() for tokens in cut if len(tokens) >= min_tokens for token in tokens
    )
    words = tuple(sorted(word for word, n in counts.items() if n >= min_word_count))
    linked, n_outside = _link_counts(texts, graph)
    read = np.asarray(graph.triples if triples is None else triples)
    entities = _entities(linked, read, min_entity_count)
    if not words or not len(entities):
        raise ConfigError(
            f"{len(texts)} texts leave {len(words)} words and {len(entities)} entities with a link "
            "or a triple: give more text, text that was linked to this graph, or lower min_count"
        )
    rows = {word: row for row, word in enumerate(words)}
    items = {int(entity): len(words) + i for i, entity in enumerate(entities)}
    tokens: list[int] = []
    links: list[tuple[int, int, int]] = []
    offsets, link_offsets = [0], [0]
    for text, links_of_text in zip(texts, cut, strict=True):
        if len(links_of_text) >= min_tokens:
            links += _link_positions(text, links_of_text, len(tokens), graph, items)
            tokens += [rows.get(token[0].lower(), -1) for token in links_of_text]
        offsets.append(len(tokens))
        link_offsets.append(len(links))
    return Corpus(
        words=words,
        word_counts=np.array([counts[word] for word in words], np.int64),
        entities=entities,
        entity_counts=np.array([linked[int(entity)] for entity in entities], np.int64),
        tokens=np.array(tokens, np.int32),
        text_offsets=np.array(offsets, np.int64),
        links=np.array(links, np.int64).reshape(-1, 3),
        link_offsets=np.array(link_offsets, np.int64),
        pages=np.arange(len(texts)) if pages is None else np.asarray(pages, np.int64),
        edges=_edges(read, entities, len(words)),
        n_links_outside=n_outside,
    )


def _link_counts(texts: Sequence[LinkedText], graph: KnowledgeGraph) -> tuple[Counter[int], int]:
    named = Counter(link.entity for text in texts for link in text.links if link.entity)
    ids_by_name = {name: graph.entities.find(name) for name in named}
    inside = Counter({i: named[name] for name, i in ids_by_name.items() if i is not None})
    return inside, named.total() - inside.total()


def _entities(linked: Counter[int], triples: NDArray[np.integer], least: int) -> Ints:
    often = np.array([i for i, n in linked.items() if n >= least], np.int64)
    return np.union1d(often, triples[:, [0, 2]].ravel()).astype(np.int64)


def _link_positions(
    text: LinkedText,
    tokens: Sequence[tuple[str, int, int]],
    first: int,
    graph: KnowledgeGraph,
    items: dict[int, int],
) -> list[tuple[int, int, int]]:
    """Each link's item, first token and the one after; a character belongs to the token before."""
    starts = np.array([start for _, start, _ in tokens])
    positions = []
    for link in text.links:
        entity = None if link.entity is None else graph.entities.find(link.entity)
        item = None if entity is None else items.get(entity)
        if item is not None:
            ends = [link.mention.start, link.mention.end - 1]
            begin, last = np.maximum(np.searchsorted(starts, ends, side="right") - 1, 0).tolist()
            positions.append((item, first + begin, first + last + 1))
    return positions


def _edges(triples: NDArray[np.integer], entities: Ints, n_words: int) -> Ints:
    ends = n_words + np.searchsorted(entities, triples[:, [0, 2]])
    return np.unique(np.concatenate([ends, ends[:, ::-1]]), axis=0).astype(np.int64)
