"""Marks around targets: every span keeps its characters, whatever nests or touches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.training.finetuning.markers import MARKERS, mark_targets

TEXT = "Paris is in France."
PARIS, FRANCE = Mention(0, 5), Mention(12, 18)
LINKED = LinkedText(TEXT, (gold_link(0, 5, "Q90"), gold_link(12, 18, "Q142")), "7")


def covered(linked: LinkedText) -> list[str]:
    return [linked.text[link.mention.start : link.mention.end] for link in linked.links]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("none", TEXT),
        ("ernie", "# Paris # is in $ France $."),
        ("kadapter", "@ Paris @ is in # France #."),
    ],
)
def test_styles(style: str, expected: str) -> None:
    marked, targets = mark_targets(LINKED, [PARIS, FRANCE], MARKERS[style])
    assert marked.text == expected
    assert covered(marked) == ["Paris", "France"]
    assert marked.id == "7"
    first = [marked.text[t.start] for t in targets]
    assert first == (["P", "F"] if style == "none" else [m[0] for m in MARKERS[style]])


def test_the_order_of_targets_is_the_tasks_not_the_texts() -> None:
    marked, targets = mark_targets(LINKED, [FRANCE, PARIS], ["#", "$"])
    assert marked.text == "$ Paris $ is in # France #."
    assert [marked.text[t.start : t.end] for t in targets] == ["# France #", "$ Paris $"]


def test_one_target_and_too_few_markers() -> None:
    marked, targets = mark_targets(LINKED, [FRANCE], MARKERS["ernie-typing"])
    assert marked.text == "Paris is in 。 France 。."
    assert targets == (Mention(12, 22),)
    with pytest.raises(ConfigError, match="2 targets need as many markers"):
        mark_targets(LINKED, [PARIS, FRANCE], MARKERS["ernie-typing"])


def test_nested_touching_and_equal_targets() -> None:
    linked = LinkedText("New York City", ())
    nested, _ = mark_targets(linked, [Mention(0, 13), Mention(0, 8)], ["@", "#"])
    assert nested.text == "@ # New York # City @"
    equal, targets = mark_targets(linked, [Mention(0, 3), Mention(0, 3)], ["@", "#"])
    assert equal.text == "@ # New # @ York City"
    assert [equal.text[t.start : t.end] for t in targets] == ["@ # New # @", "# New #"]
    touching, _ = mark_targets(LinkedText("ab", ()), [Mention(1, 2), Mention(0, 1)], ["@", "#"])
    assert touching.text == "# a #@ b @"


def test_the_second_text_of_a_pair_begins_with_its_mark() -> None:
    linked = LinkedText("In Paris. France", (gold_link(10, 16, "Q142"),), pair_start=10)
    marked, _ = mark_targets(linked, [Mention(3, 8), Mention(10, 16)], ["#", "$"])
    assert marked.pair_start is not None
    assert marked.text[marked.pair_start :] == "$ France $"
    assert covered(marked) == ["France"]


spans = st.tuples(st.integers(0, 19), st.integers(1, 20)).filter(lambda s: s[0] < s[1])


@given(links=st.lists(spans, max_size=5), targets=st.lists(spans, min_size=1, max_size=3))
def test_links_and_targets_keep_their_letters(links: Any, targets: Any) -> None:
    """Taking the marks out of a moved span gives what it covered before."""
    text = "abcdefghijklmnopqrst"
    linked = LinkedText(text, tuple(gold_link(*span, "Q1") for span in sorted(links)))
    marked, moved = mark_targets(linked, [Mention(*t) for t in targets], ["@", "#", "$"])

    def letters(mention: Mention) -> str:
        return "".join(c for c in marked.text[mention.start : mention.end] if c.isalpha())

    assert "".join(c for c in marked.text if c.isalpha()) == text
    assert [letters(link.mention) for link in marked.links] == [text[a:b] for a, b in sorted(links)]
    assert [letters(mention) for mention in moved] == [text[a:b] for a, b in targets]
    for mention, marker in zip(moved, "@#$", strict=False):
        assert marked.text[mention.start] == marked.text[mention.end - 1] == marker
