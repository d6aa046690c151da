"""Mentions from the index: as a plain search finds them, and what the gates refuse."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import LinkedText, LinkingError, gold_link, read_trex
from entity_linking.names import Gates, NameCandidates, NameIndex, NameLinker, tags_of
from entity_linking.names.rules.case import CASES, Case, raised_forms
from entity_linking.names.rules.variants import Kind
from entity_linking.surfaces import marked_key, marked_keys, normalise, split_tokens
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

OPEN = Gates(stop_words=frozenset(), min_length=1)


def graph_of(*labels: str) -> KnowledgeGraph:
    return graph_from_records([Text(f"Q{i}", TextKind.LABEL, x) for i, x in enumerate(labels)])


def surfaces(linker: NameLinker, text: str) -> list[str]:
    return [text[k.mention.start : k.mention.end] for k in linker.link([text])[0].links]


@pytest.mark.parametrize(
    ("labels", "text", "mentions"),
    [
        (["New York", "New York City"], "New York City, new york", ["New York City"]),
        (["New York", "York is big"], "New York is big", ["New York"]),
        (["東京", "東京都"], "私は東京都に東京タワー", ["東京都", "東京"]),
        (["👩"], "👩\u200d💻 👩", ["👩"]),
        (["Café"], "Cafe\u0301s Cafe\u0301", ["Cafe\u0301"]),
        (["Washington"], "in Wash\u00adington.", ["Wash\u00adington"]),
        (["İstanbul"], "«İstanbul» İSTANBUL istanbul", ["İstanbul", "İSTANBUL", "istanbul"]),
        (["Straße"], "ßİ «STRASSE» ß", ["STRASSE"]),
        (["שלום"], "אמר שלום.", ["שלום"]),
        (["U.S."], "the U. S. in", ["U. S."]),
        (["asthma"], "Asthma", ["Asthma"]),
        (["Apple Inc."], "an apple or Apple", ["Apple"]),
        (["The Beatles"], "the Beatles", ["Beatles"]),
        (["World Health Organization"], "WHO who", []),
    ],
)
def test_mentions(labels: list[str], text: str, mentions: list[str]) -> None:
    linker = NameLinker(NameIndex.build(graph_of(*labels)), Gates(min_length=1))
    assert surfaces(linker, text) == mentions


LABEL = st.text("abAB ßİıée\u0301東都.-'\u00ad👩\u200d💻", min_size=1, max_size=5)
TEXT = st.text("abAB ßİıéeǰ\u0301東都.-'\u00ad👩\u200d💻 ", max_size=25)
LABELS = st.lists(LABEL.filter(str.strip), min_size=1, max_size=5)


@settings(deadline=None, max_examples=40)
@given(
    LABELS,
    st.text("abAB ßİıéeǰ\u0301東都.-'\u00ad👩\u200d💻 ", max_size=25),
    st.sampled_from(CASES),
)
def test_without_variants_the_mentions_are_the_leftmost_longest_labels(
    labels: list[str], text: str, case: Case
) -> None:
    linker = NameLinker(NameIndex.build(graph_of(*labels), case=case, variants=False), OPEN)
    (linked,) = linker.link([text])
    expected = leftmost_longest(labels, text, case)
    assert [(k.mention.start, k.mention.end) for k in linked.links] == list(expected)
    assert [{c.entity for c in k.candidates} for k in linked.links] == list(expected.values())
    assert linker.spans([text]) == [list(expected)]
    unlinked = LinkedText(text, tuple(gold_link(*span, None) for span in expected))
    assert linker.candidates([unlinked]) == [[k.candidates for k in linked.links]]


def leftmost_longest(labels: list[str], text: str, case: Case) -> dict[tuple[int, int], set[str]]:
    """The plain oracle: at every boundary the longest way to write a label, with its bearers."""
    fold = case == "insensitive"
    written: dict[str, set[str]] = defaultdict(set)
    raised: dict[str, set[str]] = defaultdict(set)
    for i, label in enumerate(labels):
        form = normalise(label, fold=fold)[0].strip()
        for ways, forms in ((written, [form]), (raised, raised_forms(form) if form else [])):
            for key in marked_keys([way for way in forms if way]):
                ways[key].add(f"Q{i}")
    ways = {**(raised if case == "smart" else {}), **written}
    form, origins = normalise(text, fold=fold)
    words, starts, ends, _ = split_tokens([form])
    at, result = 0, {}
    while at < len(words):
        stops = range(len(words), at, -1)
        stop = next((stop for stop in stops if marked_key(words[at:stop]) in ways), None)
        if stop is None:
            at += 1
            continue
        start, end = int(starts[at]), int(ends[stop - 1])
        if origins is not None:
            start, end = origins[0][start], origins[1][end - 1]
        result[start, end] = ways[marked_key(words[at:stop])]
        at = stop
    return result


NAME_WORDS = ["New", "York", "Café", "東京", "Straße", "of", "İzmir", "O'Neill", "U.S."]
WORDS = st.lists(st.sampled_from(NAME_WORDS))


@settings(deadline=None, max_examples=30)
@given(st.lists(WORDS.map(" ".join).filter(str.strip), min_size=1, max_size=6))
def test_every_label_is_found_in_its_own_text(labels: list[str]) -> None:
    index = NameIndex.build(graph_of(*labels))
    linker, source = NameLinker(index, OPEN), NameCandidates(index)
    for i, label in enumerate(labels):
        (linked,) = linker.link([f"({label})"])
        (link,) = linked.links
        assert linked.text[link.mention.start : link.mention.end] == label
        assert f"Q{i}" in {c.entity for c in link.candidates}
        assert f"Q{i}" in {c.entity for c in source.of_surface(label)}


def test_candidates_of_mentions_that_were_never_linked() -> None:
    linker = NameLinker(NameIndex.build(graph_of("Paris")))
    text = LinkedText("Paris, Rome, Paris", tuple(gold_link(*at, "x") for at in ((0, 5), (7, 11))))
    actual = linker.candidates([text, text])
    assert [[c.entity for c in of_link] for of_link in actual[0]] == [["Q0"], []]
    assert actual == linker.candidates([text]) * 2


def test_gates() -> None:
    index = NameIndex.build(graph_of("WHO", "It", "Way", "X", "Beckham Road", "Paris", "Paris"))

    def mentions(text: str, gates: Gates = Gates()) -> list[str]:  # noqa: B008 - frozen
        return surfaces(NameLinker(index, gates), text)

    assert mentions("It is the WHO, Who, X") == ["WHO"]
    assert mentions("It is X", OPEN) == ["It", "X"]
    assert mentions("Paris", Gates(min_prior=0.6)) == []
    assert mentions("the Way", Gates(min_length=4)) == []
    assert mentions("Way, mr Beckham. Beckham", Gates(name_parts=True)) == ["Way", "Beckham"]
    assert mentions("BR", Gates(kinds=frozenset({Kind.ACRONYM}))) == ["BR"]


def test_gates_ask_how_a_mention_is_written() -> None:
    index = NameIndex.build(graph_of("trade", "Bank", "March", "York", "York Minster", "Ada Moor"))
    text = "Bank and trade in March, York. trade York Minster Choir; Mr Moor of York. Moor"
    named = Gates(named_only=True, common_words=frozenset({"bank"}))

    def mentions(**more: bool) -> list[str]:
        return surfaces(NameLinker(index, replace(named, **more)), text)

    assert mentions() == ["York", "York Minster", "York"]
    assert mentions(whole_names=True) == ["York", "York"]
    assert mentions(name_parts=True) == ["York", "York Minster", "Moor", "York"]
    runs = ["York", "York Minster Choir", "Moor", "York", "Moor"]
    assert mentions(whole_names=True, name_runs=True) == runs
    assert mentions(name_runs=True) == ["York", "York Minster", "Moor", "York", "Moor"]
    gates = Gates(whole_names=True, name_runs=True)
    assert surfaces(NameLinker(index, gates), "Ely Cathedral Close") == []


def test_the_article_before_a_name_is_no_part_of_it() -> None:
    index = NameIndex.build(graph_of("The Fed", "The Who", "Who Am I"))
    linker = NameLinker(index, Gates(named_only=True, whole_names=True))
    assert surfaces(linker, "The Fed met.") == ["Fed"]
    plain = NameLinker(index, Gates(named_only=True))
    assert surfaces(plain, "The Fed met.") == ["The Fed"]
    assert surfaces(linker, "The Who sang.") == ["The Who"]  # "who" alone is no name


def test_parts_of_speech_are_a_gate() -> None:
    linker = NameLinker(NameIndex.build(graph_of("Way", "March", "Beckham Road")))
    text = "March on March"
    doc = [
        SimpleNamespace(idx=0, text="March", pos_="VERB"),
        SimpleNamespace(idx=6, text="on", pos_="ADP"),
        SimpleNamespace(idx=9, text="March", pos_="PROPN"),
    ]
    (linked,) = linker.link_tagged([text], [tags_of(doc)])
    assert [link.mention.start for link in linked.links] == [9]
    with pytest.raises(LinkingError, match="0 lists of tags"):
        linker.link_tagged([text], [])


@pytest.mark.parametrize("bad", [{"min_prior": 2.0}, {"min_length": 0}])
def test_faulty_gates_are_named(bad: dict[str, float]) -> None:
    with pytest.raises(LinkingError, match=next(iter(bad))):
        Gates(**bad)  # type: ignore[arg-type]


def test_segments_are_searched_together(tmp_path: Path) -> None:
    index = NameIndex.build(graph_of("New York")).save(tmp_path / "names")
    more = index.add(graph_from_records([Text("Q9", TextKind.LABEL, "New York City")]))
    actual = NameLinker(more.save(tmp_path / "names")).link(["New York City or New York"])[0]
    assert [link.entity for link in actual.links] == ["Q9", "Q0"]


def test_bounded_memory_changes_no_link(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["Paris on the Seine", "Bonn, Berlin or Paris", "Seine Paris Seine", "New York City"]
    index = NameIndex.build(small_graph).add(graph_of("New York", "New York City", "New Bonn"))
    expected = NameLinker(index).link(texts)
    assert sum(len(text.links) for text in expected) > 5
    monkeypatch.setattr("entity_linking.names.linker.MOST_CACHED", 1)
    linker = NameLinker(index)
    assert linker.link(texts) == expected == [linker.link([text])[0] for text in texts]


def test_a_batch_is_its_texts_one_by_one(small_graph: KnowledgeGraph) -> None:
    linker = NameLinker(NameIndex.build(small_graph), Gates(name_parts=True))
    texts = ["Paris", "", " ", "Bonn on the Seine?", "caf\u00e9 Straße BERLIN", "no one"] * 60
    assert linker.link(texts) == [linker.link([text])[0] for text in texts]


@pytest.mark.data
def test_recall_on_text_of_others(data_root: Path) -> None:
    folder = data_root / "lama" / "TREx"
    report = DamageReport()
    texts = [e.linked for e in read_trex(folder / "P103.jsonl.gz", report, distinct=True)][:300]
    labels = data_root / "wikidata_labels" / "qid_labels.tsv.gz"
    rows = [raw.decode().split("\t") for _, _, raw in read_lines(labels, DamageReport())][1:]
    wanted = {link.entity for text in texts for link in text.links}
    picked = [r for i, r in enumerate(rows) if (r[0] in wanted or i % 20 == 0) and r[1].strip()]
    index = NameIndex.build(
        graph_from_records([Text(qid, TextKind.LABEL, label) for qid, label, *_ in picked])
    )
    hits: Counter[bool] = Counter()
    for text, each in zip(texts, NameCandidates(index).candidates(texts), strict=True):
        for link, candidates in zip(text.links, each, strict=True):
            hits[link.entity in {c.entity for c in candidates}] += 1
    assert hits[True] > 0.9 * hits.total()
