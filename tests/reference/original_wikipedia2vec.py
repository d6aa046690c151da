"""Wikipedia2Vec's training pass in the order of the released code's draws, pair by pair.

The library draws by name and many at once (`kept.joint.wikipedia2vec`); here the same tables and
the same update meet the released order: one 32-bit Mersenne twister, and within a page a window
that each draw overwrites, so that it only shrinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kept.joint.corpus import Corpus
from kept.joint.skip_gram import Tables, sigmoids, update


def twister(seed: int) -> Callable[[], int]:
    """The draws of std::mt19937."""
    source = np.random.RandomState(seed)
    return lambda: int(source.randint(0, 1 << 32, dtype=np.uint32))


@dataclass(frozen=True, eq=False)
class Settings:
    """`noise`: for words and for entities, items to draw evenly from; `keep [word]`."""

    window: int
    negative: int
    noise: tuple[NDArray[np.int64], NDArray[np.int64]]
    keep: NDArray[np.uint32]


def step(
    tables: Tables, pair: tuple[int, int], noise: NDArray[np.int64], n: int, rate: float,
    draw: Callable[[], int],
) -> None:  # fmt: skip
    """One pair with `n` drawn negatives."""
    negatives_of_word = [int(noise[draw() % len(noise)]) for _ in range(n)]
    ids = [torch.tensor([i]) for i in pair]
    negatives = torch.tensor([negatives_of_word], dtype=torch.long).reshape(1, n)
    update(tables, *ids, negatives, torch.tensor([rate]), sigmoids())


def pages(
    tables: Tables,
    corpus: Corpus,
    order: list[int],
    schedule: Iterator[list[int]],
    rates: Iterator[float],
    draw: Callable[[], int],
    settings: Settings,
) -> None:
    """Train on the pages in `order`; `schedule` gives each page its entities of the link graph."""
    for page in order:
        rate, window = next(rates), settings.window
        for entity in next(schedule):
            for _, neighbour in corpus.edges[corpus.edges[:, 0] == entity]:
                pair = entity, int(neighbour)
                step(tables, pair, settings.noise[1], settings.negative, rate, draw)
        for text in np.flatnonzero(corpus.pages == page):
            window = _text(tables, corpus, int(text), rate, window, draw, settings)


def _text(
    tables: Tables, corpus: Corpus, text: int, rate: float, window: int,
    draw: Callable[[], int], settings: Settings,
) -> int:  # fmt: skip
    begin, end = corpus.text_offsets[text : text + 2].tolist()
    words, n = corpus.tokens[begin:end].tolist(), settings.negative
    for i, word in enumerate(words):
        if word < 0 or settings.keep[word] < draw():
            continue
        window = draw() % window + 1
        for j in range(max(0, i - window), min(len(words), i + window + 1)):
            if words[j] >= 0 and i != j and settings.keep[words[j]] >= draw():
                step(tables, (word, words[j]), settings.noise[0], n, rate, draw)
    for row in range(*corpus.link_offsets[text : text + 2].tolist()):
        entity, first, last = corpus.links[row].tolist()
        window = draw() % window + 1
        for j in range(max(0, first - begin - window), min(len(words), last - begin + window)):
            if words[j] < 0 or first - begin <= j < last - begin:
                continue
            if settings.keep[words[j]] >= draw():
                step(tables, (entity, words[j]), settings.noise[0], n, rate, draw)
                step(tables, (words[j], entity), settings.noise[1], n, rate, draw)
    return window


def mention_table(
    pages: list[list[tuple[list[str], list[tuple[str, str]]]]],
) -> dict[tuple[str, str], dict[str, float]]:
    """Counts and shares of each name and its entity, of pages of texts: (words, links).

    A link is its name's words, in lower case and joined by blanks, and the entity.
    """
    links = Counter(link for page in pages for _, links_of in page for link in links_of)
    names = Counter(name for name, _ in links.elements())
    statistics = {}
    for (name, entity), n in sorted(links.items()):
        n_pages = sum(any(f" {name} " in f" {' '.join(words)} " for words, _ in p) for p in pages)
        statistics[name, entity] = {
            "link_count": n, "total_link_count": names[name], "doc_count": n_pages,
            "link_prob": names[name] / n_pages, "prior_prob": n / names[name],
        }  # fmt: skip
    return statistics


def detect(
    tokens: list[tuple[str, int, int]], entities: dict[str, list[str]]
) -> list[tuple[int, int, str]]:
    """The longest names from left to right whose entity is the only one: start, end, entity."""
    spans, i = [], 0
    while i < len(tokens):
        for j in range(len(tokens), i, -1):
            named = entities.get(" ".join(word.lower() for word, _, _ in tokens[i:j]), [])
            if len(named) == 1:
                spans.append((tokens[i][1], tokens[j - 1][2], named[0]))
                i = j - 1
                break
        i += 1
    return spans
