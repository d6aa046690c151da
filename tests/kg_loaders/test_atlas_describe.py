"""Descriptions of the atlas: what each kind says, and what must not be said."""

from __future__ import annotations

import pytest

from kg_loaders.atlas.describe import describe, nameable
from kg_loaders.atlas.tables import AtlasTables, Item, Name
from kg_loaders.records import Triple


def item(
    id: str, name: str, kind: str, *, article: str = "",
    facts: dict[str, tuple[str, ...]] | None = None, **attributes: str,
) -> Item:  # fmt: skip
    return Item(id, name, kind, (Name(article, name),), attributes, facts or {})


def world(*items: Item, triples: tuple[Triple, ...] = ()) -> AtlasTables:
    return AtlasTables({each.id: each for each in items}, triples)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (item("Q", "Ardia", "country", region="Central Ardia"),
         "Ardia is a country in Central Ardia."),
        (item("Q", "Ardia", "country", article="the ", region="the long coast"),
         "The Ardia is a country on the long coast."),
        (item("Q", "Isle", "river", article="the ", length="120"),
         "The Isle is a river of about 120 kilometres."),
        (item("Q", "Horn", "mountain", height="4478"), "Horn is a peak of about 4478 metres."),
        (item("Q", "Ada", "person", gloss="was a writer", born="1815", died="1852"),
         "Ada (1815–1852) was a writer."),
        (item("Q", "Ada", "person", gloss="is a writer", born="1990"),
         "Ada (born 1990) is a writer."),
        (item("Q", "Ada", "person", gloss="was a writer", died="1852"), "Ada was a writer."),
        (item("Q", "Ada", "person", gloss="was a writer"), "Ada was a writer."),
        (item("Q", "Dune", "film", gloss="sand", year="1984"),
         "Dune (1984) is a film about sand."),
        (item("Q", "Aida", "opera", gloss="Egypt", year="1871"),
         "Aida (1871) is an opera about Egypt."),
        (item("Q", "Hay", "painting", gloss="a cart", year="1821"),
         "Hay (1821) is a painting of a cart."),
        (item("Q", "crown", "currency", article="the ", gloss="once of silver"),
         "The crown, once of silver, is a sort of money."),
        (item("Q", "city", "class", gloss="a large town"), "A city is a large town."),
        (item("Q", "actor", "occupation", gloss="who plays"), "An actor is who plays."),
        (item("Q", "science fiction", "genre", gloss="of what may be"),
         "Science fiction is of what may be."),
        (item("Q", "Alps", "range", article="the ", gloss="in the middle"),
         "The Alps are in the middle."),
        (item("Q", "Jura", "range", article="the ", gloss="in the west"),
         "The Jura is in the west."),
        (item("Q", "Sands", "desert", gloss="dry"), "Sands is dry."),
    ],
)  # fmt: skip
def test_what_a_kind_says(one: Item, text: str) -> None:
    assert describe(one, world(one), {}) == text


LAND = item("L", "Ardia", "country", article="the ", facts={"P30": ("Europe",)}, region="x")
RIVER = item("R", "Isle", "river", article="the ", length="1")
CITY = item("C", "Weir", "city", facts={"P31": ("city",), "P17": ("Ardia",)})
TOWN = item("T", "Ham", "city", facts={"P31": ("town", "city"), "P17": ("Ardia",)})
MAP = world(LAND, RIVER, CITY, TOWN)


def test_a_city_is_placed_by_what_may_be_said() -> None:
    known = {"C": {"P17": ["L"], "P206": ["R"]}}
    assert describe(CITY, MAP, known) == "Weir is a city in the Ardia on the Isle."
    assert describe(CITY, MAP, {"C": {"P17": ["L"]}}) == "Weir is a city in the Ardia."
    assert describe(CITY, MAP, {}) == "Weir is a city in Europe.", "its country is held out"
    assert describe(TOWN, MAP, {"T": {"P17": ["L"]}}) == "Ham is a place in the Ardia."


def test_a_school_names_a_student_it_may_name() -> None:
    school, ada = item("S", "Hall", "school"), item("A", "Ada", "person", gloss="")
    both = world(school, ada)
    plain = "Hall is a place of learning with well known students"
    assert describe(school, both, {}) == f"{plain}."
    assert describe(school, both, {"S": {"<P69": ["A"]}}) == f"{plain}, among them Ada."


def test_what_may_be_named() -> None:
    """Training triples; of a reserved entity its own, but for those to reserved ones."""
    named, hidden = Triple("N", "P17", "L"), Triple("N", "P47", "M")
    of_another = Triple("C", "P47", "N")
    study, studied = Triple("A", "P69", "S"), Triple("N", "P69", "S")
    all_of_them = (named, hidden, of_another, study, studied)
    known = nameable(world(triples=all_of_them), [study, Triple("C", "P17", "L")], ["N", "M"])
    assert known == {
        "A": {"P69": ["S"]}, "S": {"<P69": ["A"]}, "C": {"P17": ["L"]},
        "N": {"P17": ["L"], "P69": ["S"]},
    }  # fmt: skip
