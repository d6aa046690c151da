"""The released ERNIE pre-training instances, draw by draw, with their quirks.

Zhang et al., ACL 2019, repository thunlp/ERNIE. For comparison with the original and for reading
its data; training uses `kept.training.pretraining.data`. The quirks: a run of one entity keeps
every second piece instead of the first; an entity whose id equals the length written before its
sentence
is lost at the sentence's start; the order of documents comes from a second seed below 101; a random
second text may come from the same document after ten tries.

Axis legend: piece (of a row, padded), row.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CLS, SEP, MASK, PAD = 101, 102, 103, 0
N_RANDOM_WORDS = 30521
LEAST_ENTITIES = 5


@dataclass(frozen=True, kw_only=True)
class InstanceConfig:
    """Constants of the released script; lengths count pieces."""

    max_length: int
    short_probability: float = 0.1
    masked_probability: float = 0.15
    max_masked: int = 20
    n_copies: int = 10


@dataclass(frozen=True)
class Row:
    """One instance, all `[piece]`; entity and label -1 are none."""

    input_ids: tuple[int, ...]
    input_mask: tuple[int, ...]
    segment_ids: tuple[int, ...]
    masked_labels: tuple[int, ...]
    entity_ids: tuple[int, ...]
    entity_mask: tuple[int, ...]
    is_random_next: bool


@dataclass
class _Text:
    """Pieces and their entities, side by side."""

    pieces: list[int] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)

    def add(self, other: _Text) -> None:
        self.pieces += other.pieces
        self.entities += other.entities

    def drop(self, index: int) -> None:
        del self.pieces[index], self.entities[index]

    def __len__(self) -> int:
        return len(self.pieces)


_Document = list[_Text]


def original_instances(
    documents: Sequence[Sequence[int]],
    entities: Sequence[Sequence[int | str]],
    entity_ids: Mapping[str, int],
    *,
    config: InstanceConfig,
    draws: random.Random,
) -> list[Row]:
    """Rows of all documents, in the order in which the original writes them.

    A document is flat: how many sentences, then each sentence's length and pieces; its line of
    `entities` has the same numbers, and a name or "#UNK#" at every piece. `draws` is moved on.
    """
    read = [
        _sentences(document, entities_of(line, entity_ids))
        for document, line in zip(documents, entities, strict=True)
        if document[0] != 0
    ]
    draws.seed(draws.randint(0, 100))
    draws.shuffle(read)
    rows = [
        row
        for _ in range(config.n_copies)
        for index in range(len(read))
        for row in _rows(read, index, config, draws)
    ]
    return [row for row in rows if sum(row.entity_mask) >= LEAST_ENTITIES]


def entities_of(line: Sequence[int | str], entity_ids: Mapping[str, int]) -> list[int]:
    """Entity ids of a flat line; an id equal to the number before it, whatever it is, is erased."""
    ids: list[int] = []
    for value in line:
        if isinstance(value, int):
            ids.append(value)
            continue
        entity = entity_ids.get(value, -1)
        ids.append(-1 if ids and entity == ids[-1] else entity)
    return ids


def _sentences(pieces: Sequence[int], entities: Sequence[int]) -> _Document:
    document, start = [], 2
    for _ in range(pieces[0]):
        stop = start + pieces[start - 1]
        document.append(_Text(list(pieces[start:stop]), list(entities[start:stop])))
        start = stop + 1
    return document


def _rows(
    documents: Sequence[_Document], index: int, config: InstanceConfig, draws: random.Random
) -> Iterator[Row]:
    """Instances of one document: as many sentences as fit, split in two, or a random second."""
    document, room = documents[index], config.max_length - 3
    target = room
    if draws.random() < config.short_probability:
        target = draws.randint(2, room)
    chunk: _Document = []
    number = 0
    while number < len(document):
        chunk.append(document[number])
        number += 1
        if number < len(document) and sum(map(len, chunk)) < target:
            continue
        n_first = draws.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        first, second = _join(chunk[:n_first]), _Text()
        is_random = len(chunk) == 1 or draws.random() < 0.5
        if is_random:
            second = _random_text(documents, index, target - len(first), draws)
            number -= len(chunk) - n_first
        else:
            second = _join(chunk[n_first:])
        _truncate(first, second, room, draws)
        yield _row(first, second, is_random, config, draws)
        chunk = []


def _join(sentences: Sequence[_Text]) -> _Text:
    joined = _Text()
    for sentence in sentences:
        joined.add(sentence)
    return joined


def _random_text(
    documents: Sequence[_Document], index: int, length: int, draws: random.Random
) -> _Text:
    """Sentences from a random place of (if ten draws find one) another document."""
    for _ in range(10):
        other = draws.randint(0, len(documents) - 1)
        if other != index:
            break
    text = _Text()
    for sentence in documents[other][draws.randint(0, len(documents[other]) - 1) :]:
        text.add(sentence)
        if len(text) >= length:
            break
    return text


def _truncate(first: _Text, second: _Text, room: int, draws: random.Random) -> None:
    """Drop pieces of the longer text, at its front or back, until both fit."""
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        longer.drop(0 if draws.random() < 0.5 else -1)


def _row(
    first: _Text, second: _Text, is_random: bool, config: InstanceConfig, draws: random.Random
) -> Row:
    pieces = [CLS, *first.pieces, SEP, *second.pieces, SEP]
    entities = [-1, *first.entities, -1, *second.entities, -1]
    input_pieces, labels = _mask(pieces, config, draws)
    pads = config.max_length - len(pieces)
    entities += [-1] * pads
    return Row(
        input_ids=tuple(input_pieces + [PAD] * pads),
        input_mask=tuple([1] * len(pieces) + [0] * pads),
        segment_ids=tuple([0] * (len(first) + 2) + [1] * (len(second) + 1) + [0] * pads),
        masked_labels=tuple(labels + [-1] * pads),
        entity_ids=tuple(entities),
        entity_mask=tuple(int(entity != -1) for entity in entities),
        is_random_next=is_random,
    )


def _mask(
    pieces: Sequence[int], config: InstanceConfig, draws: random.Random
) -> tuple[list[int], list[int]]:
    """Pieces after masking, and labels: 80 % masked, 10 % kept, 10 % random."""
    order = [i for i, piece in enumerate(pieces) if piece not in (CLS, SEP)]
    draws.shuffle(order)
    quota = min(config.max_masked, max(1, round(len(pieces) * config.masked_probability)))
    input_pieces, labels = list(pieces), [-1] * len(pieces)
    for index in order[:quota]:
        labels[index] = pieces[index]
        if draws.random() < 0.8:
            input_pieces[index] = MASK
        elif draws.random() >= 0.5:
            input_pieces[index] = draws.randint(0, N_RANDOM_WORDS - 1)
    return input_pieces, labels
