"""Names of a graph and spans of a tagger as one list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from entity_linking.detection.found import DetectedText, Span
from entity_linking.detection.union import NamesAndTagger
from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Mention


class Names:
    def __init__(self, *places: tuple[int, int]) -> None:
        self.places = places

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        links = tuple(Link(Mention(*span), (), "Q1", 0.5) for span in self.places)
        return [LinkedText(text, links) for text in texts]


class Words:
    def __init__(self, spans: tuple[Span, ...]) -> None:
        self.spans = spans

    def score(self, start: int, end: int) -> float:
        return start / 10


class Tagger:
    kinds = ("LOC",)

    def __init__(self, *spans: Span) -> None:
        self.spans = spans

    def tag(self, texts: Sequence[str]) -> list[Words]:
        return [Words(self.spans) for _ in texts]


def test_spans_of_both_in_order() -> None:
    """A span that both find has the tagger's kind and score; unlikely names are left out."""
    tagger = Tagger(Span(4, 7, "LOC", 0.9), Span(4, 5, "PER", 0.3))
    names = Names((0, 3), (2, 5), (4, 7), (4, 9))
    (actual,) = NamesAndTagger(names, tagger, least=0.2).detect(["abcdefghij"])
    places = [(link.mention.start, link.mention.end) for link in actual.linked.links]
    assert places == [(2, 5), (4, 5), (4, 7), (4, 9)]
    assert actual.scores == (0.2, 0.3, 0.9, 0.4)
    assert actual.kinds == ("", "PER", "LOC", "")
    assert all(link.entity is None for link in actual.linked.links)


def test_texts_come_in_order() -> None:
    actual = NamesAndTagger(Names((1, 2)), Tagger()).detect(["one", "two"])
    assert [each.linked.text for each in actual] == ["one", "two"]


@pytest.mark.parametrize("least", [-0.1, 1.1])
def test_least_is_a_probability(least: float) -> None:
    with pytest.raises(LinkingError, match="give 0 to 1"):
        NamesAndTagger(Names(), Tagger(), least=least)
    for bound in (0, 1):
        assert f"least={bound}" in repr(NamesAndTagger(Names(), Tagger(), least=bound))


def test_scores_and_kinds_are_of_the_links() -> None:
    text = LinkedText("ab", (Link(Mention(0, 1), (), None, 1.0),))
    assert DetectedText(text, (0.5,), ("LOC",)).kinds == ("LOC",)
    for scores, kinds in (((), ("",)), ((0.5,), ()), ((0.5, 0.5), ("",))):
        with pytest.raises(LinkingError, match="1 mentions have"):
            DetectedText(text, scores, kinds)
