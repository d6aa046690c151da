from __future__ import annotations

from collections.abc import Sequence

import pytest

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from entity_linking.parts import Candidates
from entity_linking.sources import FirstFound


class _Known:
    """Candidates by surface; remembers what it was asked."""

    def __init__(self, **known: Sequence[Candidate]) -> None:
        self.known, self.queries = known, list[list[str]]()

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        surfaces = [
            [text.text[link.mention.start : link.mention.end] for link in text.links]
            for text in texts
        ]
        self.queries.extend(surfaces)
        return [[tuple(self.known.get(surface, ())) for surface in row] for row in surfaces]


def _text(words: str, pair_start: int | None = None) -> LinkedText:
    links, start = [], 0
    for word in words.split():
        links.append(Link(Mention(start, start + len(word)), (), None, 1.0))
        start += len(word) + 1
    return LinkedText(words or "none", tuple(links), pair_start=pair_start)


A, B, C = (Candidate(*each, 0.0) for each in (("A", 0.5), ("B", 0.4), ("C", 0.9)))


def test_a_later_source_answers_for_what_is_left_alone() -> None:
    first, second, third = _Known(a=[A]), _Known(a=[C], b=[B]), _Known(a=[C], b=[C])
    texts = [_text("a b"), _text("a"), _text(""), _text("b b", pair_start=2)]
    source = FirstFound([first, second, third])
    assert source.candidates(texts) == [[(A,), (B,)], [(A,)], [], [(B,), (B,)]]
    assert first.queries == [["a", "b"], ["a"], ["b", "b"]]
    assert second.queries == [["b"], ["b", "b"]]
    assert third.queries == []


def test_what_nobody_knows_stays_empty() -> None:
    assert FirstFound([_Known(), _Known()]).candidates([_text("a"), _text("")]) == [[()], []]


def test_no_source_is_refused() -> None:
    with pytest.raises(LinkingError, match="no source"):
        FirstFound([])
