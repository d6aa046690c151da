"""What a mention, a candidate, a link and a linked text take, and what a link says of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entity_linking import LinkedText, LinkingError, Mention, gold_link
from entity_linking.mentions import Candidate, Link

FOUR = tuple(Candidate(name, 0.25, score) for name, score in zip("abcd", (2, 1, 1, 1), strict=True))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mention(3, 3), "start=3 end=3"),
        (lambda: Mention(-1, 3), "start=-1"),
        (lambda: Candidate("Q1", 1.5, 0.0), r"1.5, outside \[0, 1\]"),
        (lambda: Candidate("Q1", -0.5, 0.0), "-0.5"),
        (lambda: Link(Mention(0, 1), (), None, 1.5), r"confidence 1.5 of .* outside \[0, 1\]"),
        (lambda: LinkedText("ab", (gold_link(0, 3, "Q1"),)), "ends after the text of 2"),
        (lambda: LinkedText("a b", (), pair_start=0), "pair_start 0 is not inside"),
        (lambda: LinkedText("a b", (), pair_start=3), "pair_start 3 is not inside"),
        (lambda: LinkedText("a b", (gold_link(0, 3, "Q1"),), pair_start=2), "from 2 on"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(LinkingError, match=message):
        make()


def test_bounds_belong_to_what_is_taken() -> None:
    assert [Candidate("Q1", prior, 0.0).prior for prior in (0.0, 1.0)] == [0.0, 1.0]
    assert [Link(Mention(0, 1), (), None, sure).confidence for sure in (0.0, 1.0)] == [0.0, 1.0]
    links = gold_link(0, 1, "Q1"), gold_link(1, 2, "Q2")
    assert LinkedText("ab", links, pair_start=1).links == links
    assert LinkedText("", ()), "a linked text is true, whatever it holds"


def _cut(chosen: str | None, most: int, n_found: int | None = None) -> tuple[str, int | None, bool]:
    link = Link(Mention(0, 1), FOUR, chosen, 0.5, n_found=n_found).with_candidates(most)
    return "".join(each.entity for each in link.candidates), link.n_found, link.is_cut


def test_the_best_candidates_are_left_and_the_chosen_one() -> None:
    assert _cut("a", 2) == ("ab", 4, True)
    assert _cut("d", 2) == ("ad", 4, True)
    assert _cut("elsewhere", 2) == ("ab", 4, True)
    assert _cut(None, 2) == ("ab", 4, True)
    assert _cut("a", 2, n_found=9) == ("ab", 9, True), "the linker had left some out already"
    assert _cut("a", 4) == ("abcd", None, False)
    assert _cut("a", 4, n_found=4) == ("abcd", 4, False)


def test_equals_have_the_score_of_the_chosen_candidate() -> None:
    links = [Link(Mention(0, 1), FOUR, chosen, 0.5) for chosen in ("a", "c", "elsewhere", None)]
    assert [link.equals for link in links] == [(), ("b", "d"), (), ()]
    assert [link.is_ambiguous for link in links] == [False, True, False, False]
    assert Link(Mention(0, 1), FOUR, "c", 1.0).equals == (), "a person's choice is certain"
