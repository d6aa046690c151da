"""Names with a slip in a word: where they are found, where not, what they hide."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking import LinkingError
from entity_linking.detection.misspelt import TypoCandidates, TypoIndex, WithMisspelt
from entity_linking.mentions import LinkedText
from entity_linking.names import NameCandidates, NameIndex, NameLinker
from kg_loaders import Text, TextKind, graph_from_records

NAMES = {
    "D1": "lung cancer", "D2": "amoxicillin", "D3": "Alzheimer's disease", "D4": "Brain disease",
    "D5": "cancer", "D6": "liver", "D7": "Müller disease", "D8": "estrogen positive lung cancer",
}  # fmt: skip
INDEX = NameIndex.build(graph_from_records(Text(e, TextKind.LABEL, n) for e, n in NAMES.items()))
TYPOS = TypoIndex(INDEX)
LINKER = WithMisspelt(NameLinker(INDEX), TYPOS)


def links_of(*texts: str) -> list[dict[str, str | None]]:
    return [
        {linked.text[k.mention.start : k.mention.end]: k.entity for k in linked.links}
        for linked in LINKER.link(texts)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Deadly lung cnacer, treated.", {"lung cnacer": "D1"}),
        ("It is lugn cancer.", {"lugn cancer": "D1"}),  # more than the "cancer" in it
        ("Lung Cnacer", {"Lung Cnacer": "D1"}),
        ("Take amoxicilin and amoxycillin.", {"amoxicilin": "D2", "amoxycillin": "D2"}),
        ("Alzheimer's disease and Alzhiemer's disease", {
            "Alzheimer's disease": "D3", "Alzhiemer's disease": "D3"}),
        ("Müller disease, Mülller disease", {"Müller disease": "D7", "Mülller disease": "D7"}),
        ("She lives with a livre.", {}),  # a short word alone
        ("cancr", {}),
        ("It was psoitive, lung cancer", {"lung cancer": "D1"}),
        ("aomxicillin lugn cnacer amoxicillin", {
            "aomxicillin": "D2", "lugn cnacer": "D1", "amoxicillin": "D2"}),
        ("amxicilln", {}),  # two slips
        ("", {}),
    ],
)  # fmt: skip
def test_one_slip_in_a_word_hides_no_name(text: str, expected: dict[str, str]) -> None:
    assert links_of(text) == [expected]


def test_texts_keep_their_place_and_what_is_right_stays() -> None:
    texts = ["lung cancer", "lung cnacer", "nothing", "brain disease of the Brain disase"]
    plain = NameLinker(INDEX).link(texts)
    linked = LINKER.link(texts)
    assert [each.text for each in linked] == texts
    assert [each.links for each in linked[:3:2]] == [each.links for each in plain[:3:2]]
    assert len(linked[3].links) == len(plain[3].links) + 1


@given(st.lists(st.sampled_from([*"abcde n.'", "lugn", "lung", "cnacer", "cancer", "ü", " "])))
def test_mentions_lie_in_the_text_and_apart(parts: list[str]) -> None:
    text = "".join(parts)
    (linked,) = LINKER.link([text])
    ends = [(k.mention.start, k.mention.end) for k in linked.links]
    assert LinkedText(text, linked.links) == linked
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
    for link in NameLinker(INDEX).link([text])[0].links:
        assert any(a < link.mention.end and link.mention.start < b for a, b in ends)


def test_what_was_asked_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entity_linking.detection.misspelt.MOST_REMEMBERED", 2)
    linker = WithMisspelt(NameLinker(INDEX), TypoIndex(INDEX))
    for _ in range(2):
        assert len(linker.link(["lung cnacer and amoxicilin, aspirni"])[0].links) == 2


def test_short_words_are_refused() -> None:
    with pytest.raises(LinkingError, match="min_length is 3"):
        WithMisspelt(NameLinker(INDEX), TYPOS, min_length=3)


def test_a_typo_is_read_as_its_correction_and_is_less_sure() -> None:
    names = NameCandidates(INDEX)
    texts = LINKER.link(["cnacer is lugn cancer", "lung cancer or amoxicilin, cancer"])
    right = NameLinker(INDEX).link(["cancer is lung cancer", "lung cancer or amoxicillin, cancer"])
    proposed, expected = TypoCandidates(names, TYPOS).candidates(texts), names.candidates(right)
    likeness = [[1 - 1 / 6, 1 - 1 / 11], [1.0, 1 - 1 / 10, 1.0]]
    for of_text, expected_names, alike in zip(proposed, expected, likeness, strict=True):
        for candidates, others, share in zip(of_text, expected_names, alike, strict=True):
            assert [c.entity for c in candidates] == [c.entity for c in others]
            assert [c.prior for c in candidates] == pytest.approx([c.prior * share for c in others])
    assert proposed[1][1][0].reason == "read as amoxicillin: label 'amoxicillin'"
    assert proposed[1][0] == expected[1][0]
    pair = replace(texts[0], pair_start=7)
    assert TypoCandidates(names, TYPOS).candidates([pair]) == proposed[:1]
