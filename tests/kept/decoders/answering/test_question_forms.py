"""Questions of several forms over one small graph: answered rightly, or refused with a reason."""

from __future__ import annotations

import pytest

from entity_linking import DictionaryLinker
from kept.decoders.answering.answer import Answerer
from kept.decoders.answering.encoder import FastSentenceEncoder
from kg_loaders import KnowledgeGraph

pytest.importorskip("ctranslate2", reason="the extra ask is not installed")

FACTS = """\
Ada Alvik|instance of|person
Bo Brandt|instance of|person
Cem Castel|instance of|person
Dina Dorn|instance of|person
Ada Alvik|father|Cem Castel
Ada Alvik|place of birth|Kaldvik
Cem Castel|place of birth|Osterby
Ada Alvik|spouse|Bo Brandt
Bo Brandt|employer|Brandt Lines
Dina Dorn|employer|Harrow Museum
The Tide|instance of|painting
Red Boats|instance of|painting
Bronze Horse|instance of|sculpture
The Tide|creator|Ada Alvik
Red Boats|creator|Ada Alvik
Bronze Horse|creator|Ada Alvik
The Tide|location|Harrow Museum
Bronze Horse|location|Harrow Museum
Red Boats|location|Tanwick Gallery
Harrow Museum|director|Dina Dorn
Tanwick Gallery|director|Bo Brandt
Harrow Museum|instance of|museum
Tanwick Gallery|instance of|museum
Harrow Museum|located in|Kaldvik
Kaldvik|instance of|town
Osterby|instance of|town
Kaldvik|country|Norland
Osterby|country|Norland
Norland|instance of|country
Kaldvik|population|12000
Norland|capital|Kaldvik
"""


@pytest.fixture(scope="module")
def answerer() -> Answerer:
    rows = [tuple(line.split("|")) for line in FACTS.splitlines()]
    graph = KnowledgeGraph.from_triples([(h, r, t) for h, r, t in rows])
    return Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())


@pytest.mark.parametrize(
    ("question", "values"),
    [
        pytest.param("What did Ada Alvik create?", {"The Tide", "Red Boats", "Bronze Horse"}),
        pytest.param("Which paintings did Ada Alvik make?", {"The Tide", "Red Boats"}, id="type"),
        pytest.param("How many paintings did Ada Alvik make?", {"2"}, id="count"),
        pytest.param("How many people live in Kaldvik?", {"12000"}, id="a number of the graph"),
        pytest.param("Which paintings by Ada Alvik are in Harrow Museum?", {"The Tide"}, id="two"),
        pytest.param("Where was the painter of The Tide born?", {"Kaldvik"}, id="two steps"),
        pytest.param("Who is the director of the museum that holds The Tide?", {"Dina Dorn"}),
        pytest.param("Where was Ada Alvik's father born?", {"Osterby"}, id="possessive"),
        pytest.param("In which country was Ada Alvik born?", {"Norland"}, id="type of the answer"),
        pytest.param("Was Ada Alvik born in Kaldvik?", {"yes"}, id="yes"),
        pytest.param("Is Cem Castel the father of Ada Alvik?", {"yes"}, id="yes, by its noun"),
        pytest.param("Is Ada Alvik a person?", {"yes"}, id="is a"),
        pytest.param("Who is the wife of Bo Brandt?", {"Ada Alvik"}, id="both directions"),
        pytest.param("Who was born in Osterby?", {"Cem Castel"}, id="backwards"),
        pytest.param("Which museum does Dina Dorn direct?", {"Harrow Museum"}),
    ],
)
def test_the_answer(answerer: Answerer, question: str, values: set[str]) -> None:
    answer = answerer.answer(question)
    assert set(answer.values) == values, answer
    assert answer.question == question
    assert answer.facts


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Who is older, Ada Alvik or Bo Brandt?", "compares things: kept ask"),
        ("Which is bigger, Kaldvik or Osterby?", "compares things: kept ask"),
        ("Which paintings did Ada Alvik make before 1890?", "has a condition"),
        ("What did Ada Alvik not paint?", "asks what is not so"),
        ("What is the oldest painting by Ada Alvik?", "by rank"),
        ("Was Ada Alvik born in Osterby?", "does not mean no"),
        ("Is Ada Alvik the father of Cem Castel?", "does not mean no"),
        ("Did Bo Brandt paint Red Boats?", "does not mean no"),
        ("Is Ada Alvik a museum?", "in it Ada Alvik is person"),
        ("Is Ada Alvik tall?", "needs two names of the graph"),
        ("When was Ada Alvik born?", "it has no date of birth of Ada Alvik"),
        ("How tall is Ada Alvik?", "it has no height of Ada Alvik"),
        ("who painted the tide?", "--case insensitive"),
    ],
)
def test_the_refusal(answerer: Answerer, question: str, reason: str) -> None:
    answer = answerer.answer(question)
    assert answer.values == (), answer
    assert reason in answer.refusal


def test_a_common_word_that_is_an_entity_too_is_not_what_is_asked_about() -> None:
    rows = [
        ("language", "studied by", "linguistics"), ("language", "instance of", "concept"),
        ("play", "instance of", "concept"), ("play", "genre", "drama"),
        ("Ada", "languages spoken", "Danish"), ("Bo", "languages spoken", "Welsh"),
        ("Ada", "instrument", "cello"), ("Bo", "instrument", "harp"),
        ("Ada", "instance of", "person"), ("Bo", "instance of", "person"),
    ]  # fmt: skip
    graph = KnowledgeGraph.from_triples(rows)
    answerer = Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())
    assert answerer.answer("Which language does Ada speak?").values == ("Danish",)
    assert answerer.answer("What does Bo play?").values == ("harp",)


@pytest.mark.parametrize(
    ("relation", "question"),
    [
        ("birthPlace", "Where was Ada born?"), ("cast_member", "Who plays in Ada?"),
        ("http://schema.org/dateCreated", "When was Ada created?"),
    ],
)  # fmt: skip
def test_a_relation_written_in_one_word_is_read_as_words(relation: str, question: str) -> None:
    value = "1887" if "date" in relation else "Kaldvik" if "Place" in relation else "Cem Castel"
    rows = [("Ada", relation, value), ("Ada", "works as", "baker"), ("Bo", "works as", "pilot")]
    graph = KnowledgeGraph.from_triples(rows)
    answerer = Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())
    assert answerer.answer(question).values == (value,)


def test_the_verb_of_a_relation_says_the_direction_where_types_do_not() -> None:
    rows = [("Ada", "lives in", "Orlbach"), ("Bo", "lives in", "Tanwick"), ("Ada", "led by", "Bo")]
    graph = KnowledgeGraph.from_triples(rows)
    answerer = Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())
    assert answerer.answer("Does Ada live in Orlbach?").values == ("yes",)
    assert answerer.answer("Is Bo led by Ada?").values == ()
    assert answerer.answer("Does Ada lead Bo?").values == ()
