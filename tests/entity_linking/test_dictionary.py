"""`DictionaryLinker`: boundaries, case, offsets, priors; exact names and all their forms."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from entity_linking import DictionaryLinker, LinkedText, LinkingError, Mention, gold_link
from entity_linking.annotations import read_elevant
from entity_linking.dictionary import lowers_first_letters
from entity_linking.names import PriorFormula
from entity_linking.names.priors import LABELS_FIRST
from entity_linking.names.rules.case import Case
from entity_linking.scoring import score_links, score_spans
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines


def linker_over(*labels: str, case: Case = "smart", min_length: int = 1) -> DictionaryLinker:
    records = [Text(f"Q{i}", TextKind.LABEL, label) for i, label in enumerate(labels)]
    graph = graph_from_records(records)
    return DictionaryLinker(graph, case=case, min_length=min_length, exact=True)


def surfaces(linker: DictionaryLinker, text: str) -> list[str]:
    linked = linker.link([text])[0]
    return [text[link.mention.start : link.mention.end] for link in linked.links]


@pytest.mark.parametrize(
    ("labels", "text", "mentions"),
    [
        (["New York", "New York City", "York"], "New York City, York", ["New York City", "York"]),
        (["New York", "New York Cit"], "in New York City", ["New York"]),
        (["York", "New Yor"], "in New York", ["York"]),
        (["art"], "party art start", ["art"]),
        (["Apple", "Don"], "Apple's, ‘Apple’ Don't DON'T Apple-made", ["Apple"] * 3),
        (["Inde", "Arc"], "l’Inde et Jeanne d'Arc", ["Inde", "Arc"]),
        (["東京", "東京都"], "私は東京都に東京タワー", ["東京都", "東京"]),
        (["서울"], "서울은 크다", ["서울"]),
        (["iPhone"], "在iPhone上", ["iPhone"]),
        (["Cafe"], "Cafe\u0301 Cafe", ["Cafe"]),
        (["Café"], "Cafe\u0301s Cafe\u0301", ["Cafe\u0301"]),
        (["Washington"], "in Wash\u00adington.", ["Wash\u00adington"]),
        (["U.S.", "C++"], "the U.S. and U. S. in C++.", ["U.S.", "U. S.", "C++"]),
        (["New York"], "New\u00a0York New\nYork NewYork", ["New\u00a0York", "New\nYork"]),
        (["שלום"], "אמר שלום.", ["שלום"]),
        (["👩"], "👩\u200d💻 👩", ["👩"]),
        (["Yahoo!"], "Yahoo!Yahoo!", ["Yahoo!", "Yahoo!"]),
        (["A", "B"], "A B A", ["A", "B", "A"]),
    ],
)
def test_mentions(labels: list[str], text: str, mentions: list[str]) -> None:
    assert surfaces(linker_over(*labels), text) == mentions


@pytest.mark.parametrize(
    ("case", "label", "matching", "missed"),
    [
        ("smart", "Paris", ["Paris", "PARIS"], ["paris", "PArIS"]),
        ("smart", "asthma attack", ["asthma attack", "Asthma attack", "Asthma Attack"], ["ASThma"]),
        ("smart", "US", ["US"], ["us", "Us"]),
        ("smart", "It", ["It"], ["IT", "it"]),
        ("smart", "Straße", ["Straße", "STRASSE"], ["strasse"]),
        ("sensitive", "Paris", ["Paris"], ["PARIS", "paris"]),
        ("insensitive", "Straße", ["STRASSE", "strasse", "straße", "STRAẞE"], ["strase"]),
        ("insensitive", "İstanbul", ["İSTANBUL", "İstanbul"], ["ıstanbul"]),
        ("insensitive", "ΣΊΣΥΦΟΣ", ["Σίσυφος"], []),
    ],
)
def test_case_policies(case: Case, label: str, matching: list[str], missed: list[str]) -> None:
    linker = linker_over(label, case=case)
    for surface in matching:
        text = f"ßİ «{surface}» ß"
        assert surfaces(linker, text) == [surface]
    for surface in missed:
        assert surfaces(linker, f"ßİ «{surface}» ß") == []


DRUGS = (
    "Gefitinib", "Valproic acid", "Folic acid", "Insulin human", "Salicylic acid", "Ferric citrate",
    "DNA", "Will", "Cox", "COX",
)  # fmt: skip
PEOPLE = ("Anna Berg", "Lea Holt", "Will Rose", "Rose Hill", "Rose")


@pytest.mark.parametrize(
    ("labels", "mentions"),
    [
        (DRUGS, ["gefitinib", "valproic acid"]),
        ((*DRUGS, *PEOPLE), ["gefitinib", "valproic acid", "rose"]),
        ((*DRUGS, *(f"{name} {i}" for i in range(6) for name in PEOPLE)), []),
        ((*DRUGS, "asthma", "lung cancer"), []),
    ],
)
def test_a_first_capital_says_nothing_where_names_begin_like_sentences(
    labels: tuple[str, ...], mentions: list[str]
) -> None:
    """Not where most names are titles, nor where things are in lower case; never an acronym."""
    text = "He will take gefitinib, valproic acid and dna with cox or rose."
    graph = graph_from_records(
        [Text(f"Q{i}", TextKind.LABEL, label) for i, label in enumerate(labels)]
    )
    assert surfaces(DictionaryLinker(graph), text) == mentions
    assert lowers_first_letters(graph) is bool(mentions)
    assert surfaces(DictionaryLinker(graph, exact=True), text) == []
    assert surfaces(DictionaryLinker(graph, case="sensitive"), text) == []


def test_an_entry_written_just_so_wins_over_raised_ones() -> None:
    linker = linker_over("apple", "Apple")
    assert [link.entity for link in linker.link(["Apple apple APPLE"])[0].links] == [
        "Q1", "Q0", "Q0",
    ]  # fmt: skip
    assert len(linker.link(["APPLE"])[0].links[0].candidates) == 2


def test_case_that_fails_does_not_hide_a_shorter_mention() -> None:
    assert surfaces(linker_over("York", "York Is Big"), "York is big") == ["York"]


def priors_graph() -> KnowledgeGraph:
    return graph_from_records(
        [
            Text("Q1", TextKind.LABEL, "Paris", "en"),
            Text("Q1", TextKind.LABEL, "Paris", "fr"),
            Text("Q2", TextKind.ALIAS, "Paris", "en", 29),
            Text("Q3", TextKind.ALIAS, "Paris", "fr"),
            Text("Q4", TextKind.LABEL, "Berlin", "de"),
            Text("Q5", TextKind.LABEL, "Berlin"),
            Text("Q6", TextKind.LABEL, "Berlin", "en"),
            Triple("Q6", "P1", "Q4"),
            Triple("Q6", "P2", "Q1"),
            Triple("Q4", "P3", "Q1"),
            Triple("Q4", "P3", "Q2"),
        ]
    )


@pytest.mark.parametrize("exact", [True, False])
def test_priors_are_smoothed_counts_and_ties_go_to_degree_then_identifier(exact: bool) -> None:
    formula = PriorFormula(alpha=0.0, m=12.0, alias=0.1)
    linker = DictionaryLinker(priors_graph(), formula=formula, exact=exact)
    paris, berlin = linker.link(["Paris Berlin"])[0].links
    assert {c.entity: c.prior for c in paris.candidates} == pytest.approx(
        {"Q2": 30 / 41, "Q1": 10 / 41, "Q3": 1 / 41}
    )
    assert [c.entity for c in paris.candidates] == ["Q2", "Q1", "Q3"]
    assert paris.confidence == pytest.approx(30 / 41)
    assert [c.entity for c in berlin.candidates] == ["Q4", "Q6", "Q5"]


def test_counts_of_one_surface_add_up_over_label_and_aliases() -> None:
    graph = graph_from_records(
        [
            Text("Q1", TextKind.LABEL, "Paris", "en", 3),
            Text("Q1", TextKind.ALIAS, "Paris", "fr", 5),
            Text("Q2", TextKind.ALIAS, "Paris", "en", 4),
            Text("Q2", TextKind.ALIAS, "Paris", "fr", 7),
        ]
    )
    formula = PriorFormula(alpha=0.0, m=11.0, alias=0.1)
    (paris,) = DictionaryLinker(graph, formula=formula).link(["Paris"])[0].links
    assert {c.entity: c.prior for c in paris.candidates} == pytest.approx(
        {"Q1": (10 + 3 + 5) / 26, "Q2": (1 + 7) / 26}  # of equal aliases the highest count
    )


def test_thresholds_and_languages() -> None:
    graph = priors_graph()
    (paris,) = DictionaryLinker(graph, min_prior=0.5).link(["Paris Berlin"])[0].links
    assert [c.entity for c in paris.candidates] == ["Q2"]
    linker = DictionaryLinker(graph, nil_below=0.5, formula=LABELS_FIRST)
    paris, berlin = linker.link(["Paris Berlin"])[0].links
    assert paris.entity == "Q2"
    assert (berlin.entity, len(berlin.candidates)) == (None, 3)
    assert berlin.confidence == pytest.approx(2 / 3)
    english = DictionaryLinker(graph, languages=["en"], max_candidates=1)
    assert [link.entity for link in english.link(["Paris Berlin"])[0].links] == ["Q2", "Q6"]
    assert surfaces(DictionaryLinker(graph, min_length=6), "Paris Berlin") == ["Berlin"]


def test_a_candidate_cut_by_the_minimum_prior_hides_nothing() -> None:
    records = [Text(f"Q{i}", TextKind.LABEL, "New York City") for i in range(3)]
    graph = graph_from_records([*records, Text("Q9", TextKind.LABEL, "New York")])
    linked = DictionaryLinker(graph, min_prior=0.5).link(["New York City"])[0]
    assert [link.entity for link in linked.links] == ["Q9"]


@pytest.mark.parametrize(
    "bad", [{"case": "Smart"}, {"min_prior": 1.5}, {"nil_below": -1}, {"min_length": 0}]
)
def test_faulty_settings_are_named(small_graph: KnowledgeGraph, bad: dict[str, object]) -> None:
    with pytest.raises(LinkingError, match=next(iter(bad))):
        DictionaryLinker(small_graph, **bad)  # type: ignore[arg-type]


def test_disambiguate_keeps_the_mentions(small_graph: KnowledgeGraph) -> None:
    gold = LinkedText("Paris or Rome", (gold_link(0, 5, None), gold_link(9, 13, "Q220")), "7")
    linked = DictionaryLinker(small_graph).disambiguate([gold])[0]
    assert linked.id == "7"
    assert [link.entity for link in linked.links] == ["Q90", None]
    assert linked.links[1].confidence == 1.0


def test_empty_graph_and_empty_texts() -> None:
    linker = DictionaryLinker(graph_from_records([Triple("a", "b", "c")]))
    assert linker.link(["", " ", "a"]) == [
        LinkedText("", ()),
        LinkedText(" ", ()),
        LinkedText("a", ()),
    ]
    assert linker.link([]) == []
    assert surfaces(linker_over("\u00ad", "  ", "x"), "x\u00ad \u0301") == ["x\u00ad"]


LABEL = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=12)
CONTEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
BORDER = st.sampled_from([" ", ", ", "(", ")", " «", "»", "\n", "…", "\u200b"])


def outside(char: str) -> bool:
    return unicodedata.category(char)[0] == "M" or char == "\u200d"


@settings(deadline=None)
@given(
    LABEL, CONTEXT, CONTEXT, BORDER, BORDER, st.sampled_from(["smart", "sensitive", "insensitive"])
)
def test_a_label_between_borders_is_found_at_its_place(
    label: str, before: str, after: str, left: str, right: str, case: Case
) -> None:
    label = label.strip()
    assume(label.strip("_") and not outside(label[0]))  # underscores are blanks, as in New_York
    linker = linker_over(label, case=case)
    text = before + left + label + right + after
    start, end = len(before + left), len(before + left + label)
    actual = [(link.mention.start, link.mention.end) for link in linker.link([text])[0].links]
    overlapping = [(a, b) for a, b in actual if a < end and b > start]
    assert overlapping, "the label, or another place of it that overlaps this one, is found"
    assert (start, end) in actual or overlapping[0][0] < start


WORDS = ["new", "york", "city", "of", "paris", "art", "in"]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), min_size=1, max_size=8),
    st.lists(st.sampled_from([*WORDS, "x", "parisian"]), max_size=25),
)
def test_the_same_mentions_as_a_token_loop(entries: list[list[str]], words: list[str]) -> None:
    labels = dict.fromkeys(" ".join(entry) for entry in entries)
    text = " ".join(words)
    assert surfaces(linker_over(*labels, case="sensitive"), text) == list(loop(labels, words))


def loop(labels: dict[str, None], words: list[str]) -> Iterator[str]:
    """The plain oracle: longest entry at each word, left to right."""
    i = 0
    while i < len(words):
        for n in range(min(3, len(words) - i), 0, -1):
            if (surface := " ".join(words[i : i + n])) in labels:
                yield surface
                i += n - 1
                break
        i += 1


def test_a_batch_is_its_texts_one_by_one(small_graph: KnowledgeGraph) -> None:
    linker = DictionaryLinker(small_graph)
    texts = ["Paris", "", "Bonn on the Seine?", "caf\u00e9 Straße BERLIN", "no one"] * 120
    linked = linker.link(texts)
    assert linked == [linker.link([text])[0] for text in texts]


# ---- real data -------------------------------------------------------------
def rows(path: Path) -> Iterator[list[str]]:
    for line, _, raw in read_lines(path, DamageReport()):
        if line > 1:
            yield raw.decode().split("\t")


@pytest.fixture(scope="module")
def wikidata(data_root: Path) -> KnowledgeGraph:
    """Every label and alias at hand, mentions counted in T-REx, CoDEx-M for the degrees."""
    records: list[Text | Triple] = [
        Text(qid, kind, name, "en")
        for file, kind in (("labels", TextKind.LABEL), ("aliases", TextKind.ALIAS))
        for qid, name, _ in rows(data_root / f"wikidata_labels/qid_{file}.tsv.gz")
    ]
    for surface, qid, count in rows(data_root / "el/mention_prior_trex.tsv.gz"):
        records.append(Text(qid, TextKind.ALIAS, surface, "en", int(count)))
    for triple in rows(data_root / "codex/codex-m/train.txt.gz"):
        records.append(Triple(*triple))
    return graph_from_records(records)


@pytest.fixture(scope="module")
def smart(wikidata: KnowledgeGraph) -> DictionaryLinker:
    return DictionaryLinker(wikidata, max_candidates=1000)


@pytest.mark.data
@pytest.mark.parametrize("case", ["smart", "insensitive"])
def test_kore50_by_the_dictionary_alone(
    wikidata: KnowledgeGraph,
    smart: DictionaryLinker,
    data_root: Path,
    case: Case,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gold = list(read_elevant(data_root / "el/kore50.benchmark.jsonl", DamageReport()))
    linker = smart
    if case != "smart":
        linker = DictionaryLinker(wikidata, case=case, max_candidates=1000)
    spans = score_spans(gold, linker.disambiguate(gold))
    links = score_links(gold, linker.link([text.text for text in gold]))
    with capsys.disabled():
        sys.stdout.write(
            f"\nkore50, {case}, {spans.n_gold} gold spans: gold among the candidates "
            f"{spans.candidate_recall:.3f}, accuracy {spans.accuracy:.3f}; end to end precision "
            f"{links.precision:.3f}, recall {links.recall:.3f}, F1 {links.f1:.3f}\n"
        )
    assert spans.n_gold == 143
    assert spans.candidate_recall >= 0.44
    assert spans.accuracy >= 0.20


@pytest.mark.data
def test_real_labels_are_found_where_they_stand(
    wikidata: KnowledgeGraph, smart: DictionaryLinker
) -> None:
    texts = wikidata.entity_texts
    rows = np.flatnonzero(np.asarray(texts.kinds) == TextKind.LABEL)[::50]
    labels = [label for label in texts.values.take(rows).to_pylist() if len(label) > 1]
    linked = smart.link([f"({label})" for label in labels])
    missed = [
        label
        for label, text in zip(labels, linked, strict=True)
        if [link.mention for link in text.links] != [Mention(1, 1 + len(label))]
    ]
    assert len(labels) > 3000
    assert len(missed) < 0.005 * len(labels), missed
