"""Mentions with probabilities: their union, what stays of them, pronouns, when NIL is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from entity_linking.annotations import gold_link
from entity_linking.calibration.acceptance import best_nil_from
from entity_linking.calibration.answers import Answer
from entity_linking.calibration.fitting import EVERY_STEP, fit
from entity_linking.decision import Decision
from entity_linking.detection import DetectedText, EndToEnd, NamesAndTagger, Span
from entity_linking.detection.descriptions import descriptions, is_anaphor
from entity_linking.detection.end_to_end import apart
from entity_linking.detection.pronouns import SHARE, pronouns
from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from entity_linking.names import NameCandidates, NameIndex, NameLinker
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.features import PriorScorer
from kg_loaders import Text, TextKind, graph_from_records

TEXT = "Ann Lee saw New York City. She left York."
NAMES = {"Q1": "Ann Lee", "Q2": "New York", "Q3": "York", "Q4": "New York City"}


@dataclass
class Fake:
    """A tagger that knows some spans of any text, and scores all others alike."""

    spans: tuple[Span, ...]
    other: float = 0.1
    kinds: tuple[str, ...] = ("LOC", "PER")

    def tag(self, texts: Sequence[str]) -> list[Fake]:
        return [self for _ in texts]

    def score(self, start: int, end: int) -> float:
        scores = {(span.start, span.end): span.score for span in self.spans}
        return scores.get((start, end), self.other)


@pytest.fixture(scope="module")
def index() -> NameIndex:
    labels = (Text(entity, TextKind.LABEL, name) for entity, name in NAMES.items())
    return NameIndex.build(graph_from_records(labels))


def linker(index: NameIndex, tagger: Fake, decision: Decision, *, he: bool = False) -> EndToEnd:
    names = NameLinker(index)
    pipeline = Pipeline(names, NameCandidates(index), PriorScorer(), decision)
    return EndToEnd(NamesAndTagger(names, tagger), pipeline, pronouns=he)


def spans_of(text: LinkedText) -> dict[str, str | None]:
    return {text.text[k.mention.start : k.mention.end]: k.entity for k in text.links}


def test_overlapping_spans_are_decided_by_the_links(index: NameIndex) -> None:
    tagger = Fake((Span(0, 7, "PER", 0.9), Span(12, 20, "LOC", 0.6)))
    actual = linker(index, tagger, Decision()).detect([TEXT])[0]
    assert [TEXT[k.mention.start : k.mention.end] for k in actual.linked.links] == [
        "Ann Lee", "New York", "New York City", "York",
    ]  # fmt: skip
    assert actual.kinds == ("PER", "LOC", "", "")
    assert actual.scores == (0.9, 0.6, 0.1, 0.1)
    linked = linker(index, tagger, Decision(nil_from=0.0)).link([TEXT])[0]
    assert spans_of(linked) == {"Ann Lee": "Q1", "New York": "Q2", "York": "Q3"}
    surer = Fake((Span(0, 7, "PER", 0.9), Span(12, 25, "LOC", 0.6)))
    assert "New York City" in spans_of(linker(index, surer, Decision()).link([TEXT])[0])


def test_names_the_tagger_does_not_believe_are_left_out(index: NameIndex) -> None:
    names = NameLinker(index)
    actual = NamesAndTagger(names, Fake((), other=0.1), least=0.2).detect([TEXT])[0]
    assert not actual.linked.links
    with pytest.raises(LinkingError, match="least is 2"):
        NamesAndTagger(names, Fake(()), least=2)


def test_found_checks_its_lengths() -> None:
    with pytest.raises(LinkingError, match="1 mentions have 0 scores"):
        DetectedText(LinkedText("Ann", (Link(Mention(0, 3), (), None, 1.0),)), (), ("PER",))


def test_nil_is_an_answer_that_competes() -> None:
    mention, candidates = Mention(0, 3), (Candidate("Q1", 1.0, 1.0),)
    scores = np.array([0.0])
    decision = Decision(nil_score=1.0, nil_from=0.5)
    output = decision.decide(mention, candidates, scores, 0.9)
    assert output.entity is None
    assert output.confidence == pytest.approx(0.9 * np.e / (1 + np.e))
    assert Decision(nil_score=-1.0, nil_from=0.5).decide(mention, candidates, scores).entity == "Q1"
    assert decision.decide(mention, (), np.zeros(0), 0.7).confidence == 0.7
    assert Decision(nil_score=1.0).decide(mention, candidates, scores).entity == "Q1"  # as before
    pressed = Decision(nil_score=-0.1, nil_from=0.5, curve=((0.0, 0.0), (1.0, 0.2)))
    assert pressed.decide(mention, candidates, scores).entity == "Q1"  # the curve is no help to NIL
    with pytest.raises(LinkingError, match="nil_from is 2"):
        Decision(nil_from=2)


def test_what_is_neither_linked_nor_surely_nil_is_left_out(index: NameIndex) -> None:
    tagger = Fake((Span(0, 7, "PER", 0.9), Span(27, 30, "PER", 0.4)))
    output = linker(index, tagger, Decision(nil_from=0.3)).link([TEXT])[0]
    assert spans_of(output)["She"] is None
    silent = linker(index, tagger, Decision(nil_from=0.5)).link([TEXT])[0]
    assert "She" not in spans_of(silent)


def test_pronouns_take_the_link_of_their_person(index: NameIndex) -> None:
    tagger = Fake((Span(0, 7, "PER", 0.9),))
    linked = linker(index, tagger, Decision(), he=True).link([TEXT])[0]
    assert spans_of(linked)["She"] == "Q1"
    (person, she) = (k for k in linked.links if k.entity == "Q1")
    assert she.confidence == pytest.approx(SHARE * person.confidence)
    places = Fake(tuple(Span(a, b, "LOC", 0.9) for a, b in ((0, 7), (12, 25))))
    assert "She" not in spans_of(linker(index, places, Decision(), he=True).link([TEXT])[0])
    unknown = Fake((Span(12, 25, "LOC", 0.9),))
    assert spans_of(linker(index, unknown, Decision(), he=True).link([TEXT])[0])["She"] == "Q1"


def test_given_pronouns_take_it_too(index: NameIndex) -> None:
    gold = LinkedText(TEXT, tuple(gold_link(a, b, None) for a, b in ((0, 7), (12, 20), (27, 30))))
    tagger = Fake((Span(0, 7, "PER", 0.9),))
    for he, entity in ((True, "Q1"), (False, None)):
        linked = linker(index, tagger, Decision(), he=he).disambiguate([gold])[0]
        assert [k.entity for k in linked.links] == ["Q1", "Q2", entity]


@pytest.mark.parametrize(
    ("text", "names", "antecedents"),
    [
        ("He slept.", [], []),
        ("Bob met Al. Bob fell. He cried.", ["Bob", "Al", "Bob"], [["Bob", "Bob"]]),
        (
            "Bob Ray met Al. Al and Ray sang; he won.",
            ["Bob Ray", "Al", "Al", "Ray"],
            [["Bob Ray", "Ray"]],
        ),
        ("Ann met Bob; she saw him.", ["Ann", "Bob"], [["Ann"], ["Bob"]]),
        ("Ann works at HIS.", ["Ann"], []),
        ("Ann met Her Majesty.", ["Ann", "Her Majesty"], []),
        ("ULM is old. Ulm likes its river.", ["ULM", "Ulm"], [["ULM", "Ulm"]]),
        ("Ann left ULM. It slept.", ["Ann", "ULM"], []),
        ("ULM burned. It is said that all of it fell.", ["ULM"], [["ULM"]]),
        ("ULM burned. It is near.", ["ULM"], [["ULM"]]),
        ("The band ULM sang; they slept.", ["ULM"], [["ULM"]]),
        ("ULM (old Olma) are a duo. Ann met their rival.", ["ULM", "Ann"], [["ULM"]]),
        (
            "Ulm Brothers sang in Ulm. They slept.",
            ["Ulm Brothers", "Ulm"],
            [["Ulm Brothers", "Ulm"]],
        ),
        ("Ann met Bob; they slept in ULM.", ["Ann", "Bob"], []),
    ],
)
def test_what_a_pronoun_means(text: str, names: list[str], antecedents: list[list[str]]) -> None:
    spans, at = [], 0
    for name in names:
        at = text.index(name, at)
        spans.append((at, at + len(name)))
        at += len(name)
    actual = pronouns(text, spans, [name[:3].lower() != "ulm" for name in names])
    assert [[text[slice(*spans[i])] for i in each.names] for each in actual] == antecedents


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("ULM is a small town in Arden. The town burned.", ["The town"]),
        ("ULM (old Olma) was the town. All of this town's walls fell.", ["this town"]),
        ("ULM is a town in Arden. The town hall stands.", []),
        ("ULM is the town that the town of Arden knows.", ["the town"]),
        ("ULM is a town. In the town \u201cArden\u201d it rains.", []),
        ("ULM is a town. The city burned.", []),
        ("The town burned. ULM is a town.", []),
        ("ULM is a town. Arden is a town. The town burned", ["The town"]),
        ("ULM, a market town in Arden, fell. The town burned.", ["The town"]),
        ("He saw the old town “ULM”. The town burned.", ["The town"]),
        ("ULM (a ruin) fell. The ruin burned.", []),
    ],
)
def test_what_a_description_means(text: str, described: list[str]) -> None:
    names = sorted((text.index(name), name) for name in ("ULM", "Arden") if name in text)
    spans = [(at, at + len(name)) for at, name in names]
    actual = descriptions(text, spans, [None] * len(spans))
    assert [text[each.start : each.end] for each in actual] == described
    last = "Arden" if text.count("is a town") == 2 else "ULM"
    assert all({text[slice(*spans[i])] for i in each.names} == {last} for each in actual)


def test_a_name_may_say_its_kind() -> None:
    text = "Elsby Park and Tara Park met the River Elsby. The river flowed to this park and Elsby."
    names = ["Elsby Park", "Tara Park", "River Elsby"]
    spans = [(text.index(name), text.index(name) + len(name)) for name in names]
    actual = descriptions(text, spans, [None, True, None])  # Tara Park is a person
    names_of = {text[each.start : each.end]: each.names for each in actual}
    assert names_of == {"The river": (2,), "this park": (0,)}


@pytest.mark.parametrize(
    ("surface", "is_one"),
    [("they", True), ("the town", True), ("This species", True), ("The Band", False), ("It", True),
     ("Their Eyes", False), ("the old town", False)],
)  # fmt: skip
def test_what_is_no_name(surface: str, is_one: bool) -> None:
    assert is_anaphor(surface) == is_one


def test_given_names_that_were_not_found_are_meant_too(index: NameIndex) -> None:
    text = "old New York is a town. The town burned. He fell."
    places = [(0, 12), (24, 32), (41, 43)]
    gold = LinkedText(text, tuple(gold_link(a, b, None) for a, b in places))
    linked = linker(index, Fake(()), Decision(), he=True).disambiguate([gold])[0]
    assert [link.entity for link in linked.links] == ["Q2", "Q2", None]  # "he" is nobody's name


def test_it_takes_the_link_of_what_is_no_person(index: NameIndex) -> None:
    text = "New York is old; it lies far."
    linked = linker(index, Fake(()), Decision(), he=True).link([text])[0]
    assert spans_of(linked) == {"New York": "Q2", "it": "Q2"}
    person = Fake((Span(0, 8, "PER", 0.9),))
    assert "it" not in spans_of(linker(index, person, Decision(), he=True).link([text])[0])


def test_apart_keeps_the_most_confident() -> None:
    links = [
        Link(Mention(a, b), (), None, sure)
        for a, b, sure in ((0, 3, 0.5), (2, 5, 0.9), (4, 9, 0.5), (10, 12, 0.5), (10, 14, 0.5))
    ]
    assert [k.mention for k in apart(links)] == [Mention(2, 5), Mention(10, 14)]


def test_nil_from_is_fitted_on_marked_nil() -> None:
    """Right links, names nobody knows (sure NIL), and words that no text marks (unsure NIL)."""
    good = [Answer(np.array([5.0]), 0, True, i, 0.9) for i in range(20)]
    nobody = [Answer(np.zeros(0), None, False, 20 + i, 0.8) for i in range(10)]
    words = [Answer(np.zeros(0), None, False, 30 + i, 0.3, False) for i in range(10)]
    start = Decision(nil_score=0.0)
    fitted = fit([*good, *nobody, *words], start, steps=[s for s in EVERY_STEP if s != "curve"])
    assert fitted.nil_from is not None
    assert 0.3 < fitted.nil_from <= 0.8
    assert fit([*good, *words], start, steps=("nil_from",)).nil_from == 1.0
    assert fit(good, start).nil_from is None


def test_equal_shares_are_said_together() -> None:
    shares, right = np.array([0.8, 0.8, 0.8]), np.array([True, False, False])
    assert best_nil_from(shares, right, 5, 5, 6) == 1.0
    assert best_nil_from(shares, ~right, 5, 5, 7) == 0.8
