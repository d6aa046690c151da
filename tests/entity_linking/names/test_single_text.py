"""One text is linked as it is among others, whichever way it is searched."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import DictionaryLinker, LinkedText
from entity_linking.names import Gates, NameIndex, NameLinker, linker, single
from entity_linking.names.rules.case import CASES, Case
from entity_linking.names.segment import fold_keys
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records

LETTERS = "abAB nt't’ßİéñи\u0301東都京.-&;_\u00adＡ"
LABEL = st.text(LETTERS, min_size=1, max_size=6).filter(str.strip)
WORDS = st.lists(
    st.sampled_from(
        ["New", "York", "City", "new", "of", "the", "The", "don't", "U.S.", "東京", "É"]
    ),
    min_size=1, max_size=4,
).map(" ".join)  # fmt: skip
LABELS = st.lists(LABEL | WORDS, min_size=1, max_size=6)
TEXTS = st.lists(
    st.text(LETTERS, max_size=25) | st.lists(WORDS, max_size=5).map("  ".join), max_size=4
)
GATES = st.sampled_from(
    [
        Gates(), Gates(stop_words=frozenset(), min_length=1), Gates(named_only=True),
        Gates(whole_names=True, name_runs=True), Gates(name_parts=True), Gates(min_prior=0.6),
    ]
)  # fmt: skip


def graph_of(labels: list[str]) -> KnowledgeGraph:
    return graph_from_records([Text(f"Q{i}", TextKind.LABEL, x) for i, x in enumerate(labels)])


def by_arrays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(linker, "MOST_CHARACTERS", -1)


@settings(deadline=None, max_examples=150)
@given(LABELS, TEXTS, st.sampled_from(CASES), GATES, st.booleans())
def test_the_links_are_those_of_arrays(
    labels: list[str], texts: list[str], case: Case, gates: Gates, variants: bool
) -> None:
    index = NameIndex.build(graph_of(labels), case=case, variants=variants)
    with pytest.MonkeyPatch.context() as patch:
        by_arrays(patch)
        plain = NameLinker(index, gates)
        expected, spans = plain.link(texts), plain.spans(texts)
    one = NameLinker(index, gates)
    for _ in range(2):  # the second time from what it remembers
        assert [one.link([text])[0] for text in texts] == expected
        assert [one.spans([text])[0] for text in texts] == spans


@settings(deadline=None, max_examples=60)
@given(LABELS, TEXTS, st.booleans())
def test_the_dictionary_links_one_text_as_many(
    labels: list[str], texts: list[str], exact: bool
) -> None:
    graph = graph_of(labels)
    many = DictionaryLinker(graph, exact=exact)
    with pytest.MonkeyPatch.context() as patch:
        by_arrays(patch)
        expected = many.link(texts)
    one = DictionaryLinker(graph, exact=exact)
    assert [one.link(text) for text in texts] == expected
    unlinked = [LinkedText(text.text, text.links) for text in expected]
    assert one.disambiguate(unlinked) == one.decide(one.propose(unlinked)) == expected


def test_tags_let_through_what_they_let_through_among_others() -> None:
    index = NameIndex.build(graph_of(["Way", "New York"]))
    texts = ["Way to New York", "New York way"]
    tags = [[(0, 3, "INTJ"), (7, 15, "PROPN")], [(0, 8, "VERB")]]
    together = NameLinker(index).link_tagged(texts, tags)
    alone = [NameLinker(index).link_tagged([t], [g])[0] for t, g in zip(texts, tags, strict=True)]
    assert alone == together
    assert [[each.start for each in text.links] for text in alone] == [[7], []]


def test_segments_are_searched_together() -> None:
    index = NameIndex.build(graph_of(["New York"]))
    more = index.add(graph_from_records([Text("Q9", TextKind.LABEL, "New York City")]))
    (spans,) = NameLinker(more).spans(["New York City and New York"])
    assert spans == [(0, 13), (18, 26)]


def test_a_trie_that_is_emptied_changes_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    index = NameIndex.build(graph_of(["New York", "New York City", "York", "Apple Inc."]))
    texts = ["New York City", "Apple in New York", "York, New Yorkers"]
    expected = NameLinker(index).link(texts)
    monkeypatch.setattr(single, "MOST_RUNS", 2)
    one = NameLinker(index)
    assert [one.link([text])[0] for text in texts * 3] == expected * 3
    assert one._trie._n_runs <= 2


def test_a_short_text_is_not_searched_by_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()
    whole = linker.find_runs
    monkeypatch.setattr(linker, "find_runs", lambda *a: (next(numbers), whole(*a))[1])
    one = NameLinker(NameIndex.build(graph_of(["New York"])))
    assert one.spans(["In New York."]) == [[(3, 11)]]
    assert one.spans(["e\u0301 in New_York"]) == [[(6, 14)]]
    assert next(numbers) == 0
    assert one.spans(["In New York. ไทย"]) == [[(3, 11)]]
    assert next(numbers) == 2


@settings(deadline=None)
@given(st.lists(st.text(LETTERS, max_size=8), max_size=6))
def test_keys_of_few_forms_are_those_of_many(forms: list[str]) -> None:
    assert fold_keys(forms) == fold_keys([*forms, *["filler"] * 20])[: len(forms)]
