"""Sentences of the atlas from phrases and passages, on a world of six rows."""

from __future__ import annotations

from random import Random

import pytest

from kg_loaders.atlas.tables import AtlasTables, Item, Name
from kg_loaders.atlas.wording import Draft, Surfaces, Writer
from kg_loaders.errors import SourceError
from kg_loaders.records import Triple


def _item(id: str, *names: str, kind: str = "thing", **attributes: str) -> Item:
    articles = {"river": "the "}
    written = tuple(Name(articles.get(kind, ""), name) for name in names)
    return Item(id, names[0], kind, written, attributes, {})


ITEMS = [
    _item("Q1", "Ada", kind="person", born="1815", died="1852"),
    _item("Q2", "Bo", kind="person", born="1990"),
    _item("Q3", "Weir", kind="city"),
    _item("Q4", "Isle", kind="river"),
    _item("Q5", "Alster Port", kind="city"),
    _item("Q6", "town", kind="class"),
]
TRIPLES = (
    Triple("Q1", "P19", "Q3"), Triple("Q2", "P19", "Q3"), Triple("Q3", "P206", "Q4"),
    Triple("Q3", "P47", "Q5"), Triple("Q3", "P31", "Q6"),
)  # fmt: skip
TABLES = AtlasTables({item.id: item for item in ITEMS}, TRIPLES)


def _draft(template: str, id: str) -> Draft | None:
    return Writer(TABLES).fill(template, TABLES.items[id], Random(0))


@pytest.mark.parametrize(
    ("template", "id", "text", "entities", "facts"),
    [
        ("{x} is from {P19}.", "Q1", "Ada is from Weir.", ["Q1", "Q3"], [TRIPLES[0]]),
        ("{P19>P206} was near {x}.", "Q1", "The Isle was near Ada.", ["Q4", "Q1"],
         [TRIPLES[0], TRIPLES[2]]),
        ("{x} lies on {P206}.", "Q3", "Weir lies on the Isle.", ["Q3", "Q4"], [TRIPLES[2]]),
        ("{x} is {a:P31} at {P47}.", "Q3", "Weir is a town at Alster Port.", ["Q3", "Q6", "Q5"],
         [TRIPLES[4], TRIPLES[3]]),
        ("{x} is from {P19}, and so is {P19}.", "Q2", "Bo is from Weir, and so is Weir.",
         ["Q2", "Q3", "Q3"], [TRIPLES[1]]),
        ("{x}, born in {@born}, {was} and {held}", "Q1", "Ada, born in 1815, was and held", ["Q1"],
         []),
        ("{x}, born in {@born}, {was} and {held}", "Q2", "Bo, born in 1990, is and holds", ["Q2"],
         []),
    ],
)  # fmt: skip
def test_a_phrase_is_filled_with_facts(
    template: str, id: str, text: str, entities: list[str], facts: list[Triple]
) -> None:
    draft = _draft(template, id)
    assert draft is not None
    assert draft.text == text
    assert [entity for _, _, entity in draft.mentions] == entities
    names = {item.label for item in ITEMS}
    assert {text[start:end] for start, end, _ in draft.mentions} <= names, "without articles"
    assert draft.facts == facts


def test_heads_are_facts_in_their_own_direction_and_each_is_another() -> None:
    draft = _draft("{<P19.1} and {<P19.2} are from {x}", "Q3")
    assert draft is not None
    assert sorted(entity for _, _, entity in draft.mentions) == ["Q1", "Q2", "Q3"]
    assert sorted(draft.facts) == list(TRIPLES[:2])


@pytest.mark.parametrize("slot", ["@died", "P26", "P26>P19", "P19>P26", "<P19", "P47.2"])
def test_a_phrase_that_lacks_a_fact_is_no_sentence(slot: str) -> None:
    assert _draft(f"{{x}} {{{slot}}}", "Q2") is None
    assert _draft("{P47.1} {P47.2}", "Q3") is None, "there is one alone"


@pytest.mark.parametrize(
    ("name", "text"),
    [("island", "an island"), ("Italian", "an Italian"), ("town", "a town"), ("Dane", "a Dane")],
)
def test_the_indefinite_article_fits_the_first_letter(name: str, text: str) -> None:
    draft = Draft("She is ")
    draft.mention(Name("the ", name), "Q9", indefinite=True)
    assert draft.text == f"She is {text}"
    assert [draft.text[start:end] for start, end, _ in draft.mentions] == [name]


def test_former_names_fill_no_phrase_and_others_some() -> None:
    names = (Name("", "Weir"), Name("", "Weirtown"), Name("", "Wera", is_former=True))
    item = Item("Q3", "Weir", "city", names, {}, {})
    writer = Writer(AtlasTables({"Q3": item}, ()))
    drafts = [writer.fill("{x}", item, Random(seed)) for seed in range(200)]
    texts = [draft.text for draft in drafts if draft is not None]
    assert set(texts) == {"Weir", "Weirtown"}
    assert 30 < texts.count("Weirtown") < 90, "an alias in three of ten"
    marked = [writer.fill("{a:x}", item, Random(seed)) for seed in range(50)]
    assert {draft.text for draft in marked if draft is not None} == {"a Weir"}


def test_a_passage_has_the_mentions_and_facts_that_it_states() -> None:
    draft = Writer(TABLES).passage("Ada P19 Weir;Bo P19 Weir", "[[Ada]] and [[Bo|he]] grew up.")
    assert draft.text == "Ada and he grew up."
    assert draft.mentions == [(0, 3, "Q1"), (8, 10, "Q2")]
    assert draft.facts == list(TRIPLES[:2])


@pytest.mark.parametrize(
    ("facts", "text", "message"),
    [
        ("Ada P19 Weir", "[[Nobody]] is here", r"no row is named 'Nobody' \(in '\[\[Nobody\]\] is"),
        ("Ada P19 Nowhere", "[[Ada]]", "no row is named 'Nowhere'"),
        ("Ada born Weir", "[[Ada]]", "'Ada born Weir' is not HEAD RELATION TAIL"),
        ("Weir P19 Ada", "[[Ada]]", "'Weir P19 Ada' is in no table"),
    ],
)
def test_a_passage_about_what_is_in_no_table_is_refused(
    facts: str, text: str, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        Writer(TABLES).passage(facts, text)


def test_names_that_no_mention_covers_are_listed() -> None:
    """Whole words alone, of several words too, and no classes."""
    text = "Ada left Alster Port, a town, for Weirs and Weir."
    names = Surfaces(TABLES)
    assert names.unmarked(text, []) == ["Ada", "Alster Port", "Weir"]
    assert names.unmarked(text, [(0, 3, "Q1"), (9, 20, "Q5")]) == ["Weir"]
    assert names.unmarked(text, [(3, 9, "Q1"), (20, 44, "Q5")]) == ["Ada", "Alster Port", "Weir"]
    assert names.unmarked(text, [(2, 3, "Q1"), (9, 10, "Q5"), (47, 48, "Q3")]) == []
