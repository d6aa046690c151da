"""Made-up worlds whose questions name a relation by other words than the graph does.

`paraphrases.tsv` has the questions. Weights were fitted on those of the sets `dev` and `tune`.
Those of `test` were looked at in an analysis of errors; those of `held-out`, of other worlds and
the atlas, were written before the common questions and evaluated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, atlas, graph_from_records

HERE = Path(__file__).parent
SYLLABLES = ("bra", "kel", "mor", "tov", "lin", "dre", "sul", "var", "nok", "mira", "tha", "osk")
ENDINGS = ("dan", "len", "rik", "sel", "nor", "wick", "mar", "ula")
PLACES = ("Orlbach", "Tanwick", "Mesgrove", "Pellham", "Nordane", "Quenby")
PEOPLE = ("Ulla Stadil", "Jor Pomarek", "Edda Quenlo", "Tam Ulvano", "Rika Harabin", "Bo Vilmork")
LANGUAGES = ("Danish", "Korean", "Welsh", "Swahili")
COUNTRIES = ("Malta", "Panama", "Norway")
YEARS = ("1987", "1994", "2003", "2011", "2019")


@dataclass(frozen=True)
class Topic:
    """A kind of thing that questions are about, and its relations, each with the type and the
    values that it may have; a type of "" is none, as where a graph says nothing of its values."""

    kind: str
    is_person: bool
    relations: Mapping[str, tuple[str, Sequence[str]]]

    def graph(self, seed: int, n: int = 40) -> KnowledgeGraph:
        """Return `n` things with names that no text has, one value of each relation for each."""
        sample = np.random.default_rng(seed)
        names = self._names(sample, n)
        records: list[Triple | Text] = [Text(name, TextKind.TYPE, self.kind) for name in names]
        types = {value: kind for kind, values in self.relations.values() for value in values}
        records += [Text(value, TextKind.TYPE, kind) for value, kind in types.items() if kind]
        for name in names:
            for relation, (_, values) in self.relations.items():
                records.append(Triple(name, relation, str(sample.choice(list(values)))))
        return graph_from_records(records)

    def _names(self, sample: np.random.Generator, n: int) -> list[str]:
        every = sorted({a + b for a in SYLLABLES for b in ENDINGS})
        chosen = sample.choice(every, (2, n), replace=False).T.tolist()
        if self.is_person:
            return [f"{first.title()} {last.title()}" for first, last in chosen]
        return [f"{first.title()} {number}" for number, (first, _) in enumerate(chosen, 11)]


WORLDS: Mapping[str, Topic] = {
    "company": Topic("person", True, {
        "holds the role": ("role", ("welder", "auditor", "planner", "chemist", "courier")),
        "works in department": ("department", ("Logistics", "Research", "Finance", "Sales")),
        "reports to": ("person", PEOPLE),
        "lives in": ("town", PLACES),
        "speaks": ("language", LANGUAGES),
        "joined in": ("year", YEARS),
    }),
    "museum": Topic("object", False, {
        "made by": ("person", PEOPLE),
        "made of": ("material", ("bronze", "oak", "marble", "glass")),
        "kept in": ("room", ("Hall A", "Hall B", "Garden Room", "Cellar")),
        "found in": ("town", PLACES),
        "dates from": ("century", ("2nd century", "9th century", "14th century")),
        "given by": ("person", PEOPLE[::-1]),
    }),
    "college": Topic("person", True, {
        "teaches": ("subject", ("algebra", "botany", "rhetoric", "optics")),
        "graduated from": ("university", ("Mesgrove College", "Nordane University")),
        "born in": ("town", PLACES),
        "married to": ("person", PEOPLE),
        "drives": ("", ("Volvo", "Skoda", "Fiat")),
        "plays": ("", ("cello", "flute", "harp")),
    }),
    "clinic": Topic("person", True, {
        "works as": ("", ("nurse", "surgeon", "porter", "midwife", "pharmacist")),
        "based at": ("building", ("North Wing", "Lakeside House", "Tower Block")),
        "answers to": ("person", PEOPLE),
        "resides in": ("town", PLACES),
        "trained at": ("school", ("Quenby School", "Pellham Academy", "Saint Odo")),
        "started in": ("", YEARS),
        "spouse": ("person", PEOPLE[::-1]),
        "speaks": ("language", LANGUAGES),
    }),
    "library": Topic("book", False, {
        "written by": ("person", PEOPLE),
        "issued by": ("", ("Harrow Press", "Blue Door", "Ostrava Books")),
        "set in": ("town", PLACES),
        "form": ("", ("novel", "elegy", "thriller", "fable")),
        "composed in": ("language", LANGUAGES),
        "came out in": ("", YEARS),
        "stands on": ("shelf", ("Shelf 3", "Shelf 8", "Shelf 14")),
        "dedicated to": ("person", PEOPLE[::-1]),
        "rendered by": ("person", PEOPLE[1:4]),
    }),
    "harbour": Topic("ship", False, {
        "commanded by": ("person", PEOPLE),
        "built at": ("", ("Tanwick Yard", "Nordane Docks", "Pellham Slip")),
        "launched in": ("year", YEARS),
        "belongs to": ("company", ("Brandt Lines", "Fay & Sons", "Castel Shipping")),
        "carries": ("", ("timber", "grain", "cars", "ore")),
        "registered in": ("country", ("Malta", "Panama", "Norway")),
        "runs on": ("", ("diesel", "methanol", "ammonia")),
    }),
    "team": Topic("player", True, {
        "plays as": ("", ("goalkeeper", "striker", "winger", "defender")),
        "coached by": ("person", PEOPLE),
        "signed in": ("year", YEARS),
        "raised in": ("town", PLACES),
        "wears": ("", ("number 4", "number 7", "number 10", "number 23")),
        "represented by": ("person", PEOPLE[::-1]),
        "sponsored by": ("", ("Brandt Shoes", "Fay Sports", "Castel Bank")),
    }),
    "film": Topic("film", False, {
        "directed by": ("person", PEOPLE),
        "starring": ("person", PEOPLE[::-1]),
        "scored by": ("person", PEOPLE[1:5]),
        "shot at": ("", PLACES),
        "premiered in": ("", YEARS),
        "style": ("", ("western", "comedy", "horror", "documentary")),
        "paid for by": ("studio", ("Harrow Pictures", "Blue Door Films", "Ostrava Studios")),
        "spoken in": ("language", LANGUAGES),
    }),
    "dish": Topic("dish", False, {
        "invented by": ("person", PEOPLE),
        "comes from": ("region", ("Mesgrove Valley", "Nordane Coast", "Quenby Hills")),
        "contains": ("", ("lentils", "trout", "barley", "pumpkin")),
        "served with": ("", ("rice", "bread", "pickles", "salad")),
        "cooked in": ("", ("clay pot", "iron pan", "steamer")),
        "tastes": ("", ("sour", "smoky", "sweet", "spicy")),
        "eaten at": ("meal", ("breakfast", "lunch", "supper")),
    }),
    "tower": Topic("building", False, {
        "designed by": ("person", PEOPLE),
        "stands in": ("city", PLACES),
        "finished in": ("", YEARS),
        "used as": ("", ("hotel", "lighthouse", "office", "library")),
        "held by": ("company", ("Brandt Lines", "Fay & Sons", "Castel Shipping")),
        "clad in": ("", ("slate", "copper", "brick", "glass")),
        "named after": ("person", PEOPLE[::-1]),
    }),
    "people": Topic("person", True, {
        "birthPlace": ("", PLACES),
        "deathDate": ("", ("1912-04-03", "1954-11-30", "1987-01-12", "2003-07-25")),
        "almaMater": ("university", ("Mesgrove College", "Nordane University")),
        "spouse": ("person", PEOPLE),
        "employer": ("", ("Brandt Lines", "Harrow Press", "Castel Bank")),
        "height": ("", ("1.62 m", "1.78 m", "1.85 m", "1.91 m")),
        "nationality": ("country", COUNTRIES),
        "knownFor": ("", ("the Quenby theorem", "the first map of Orlbach", "the tide clock")),
        "numberOfChildren": ("", ("1", "2", "3", "5")),
        "doctoralAdvisor": ("person", PEOPLE[::-1]),
    }),
    "gallery": Topic("painting", False, {
        "author": ("person", PEOPLE),
        "location": ("museum", ("Tanwick Gallery", "Pellham Museum", "Hall of Nordane")),
        "dateCreated": ("", ("1642", "1787", "1811", "1904")),
        "artMedium": ("", ("oil on canvas", "tempera", "watercolour", "charcoal")),
        "ownedBy": ("", ("Brandt family", "City of Orlbach", "Edda Quenlo")),
        "depicts": ("", ("a harbour", "a wedding", "two horses", "a storm")),
        "price": ("", ("1,200 EUR", "40,000 EUR", "310,000 EUR")),
        "height": ("", ("48 cm", "73 cm", "120 cm")),
        "movement": ("", ("baroque", "romanticism", "cubism")),
    }),
    "firm": Topic("company", False, {
        "ceo": ("person", PEOPLE),
        "headquarters": ("city", PLACES),
        "foundingDate": ("", YEARS),
        "founder": ("person", PEOPLE[::-1]),
        "numberOfEmployees": ("", ("12", "140", "2300", "41000")),
        "industry": ("", ("shipping", "textiles", "software")),
        "product": ("", ("ropes", "carpets", "sonar", "engines")),
        "parentCompany": ("company", ("Castel Group", "Fay Holding")),
        "revenue": ("", ("3 million EUR", "41 million EUR", "1.2 billion EUR")),
    }),
    "cinema": Topic("film", False, {
        "director": ("person", PEOPLE),
        "cast_member": ("person", PEOPLE[::-1]),
        "runtime": ("", ("84 minutes", "97 minutes", "121 minutes")),
        "release_date": ("", ("1966-03-12", "1988-10-01", "2004-05-21")),
        "production_company": ("", ("Harrow Pictures", "Blue Door Films")),
        "original_language": ("language", LANGUAGES),
        "country_of_origin": ("", COUNTRIES),
        "screenwriter": ("person", PEOPLE[1:5]),
        "film_genre": ("", ("western", "comedy", "horror")),
        "award_received": ("", ("Silver Lynx", "Golden Oar")),
    }),
}  # fmt: skip
"""By name; which are of which set is in `paraphrases.tsv`."""


def graph_of(world: str, seed: int) -> KnowledgeGraph:
    """Return the graph of a world; the atlas is as it ships."""
    return atlas.graph() if world == "atlas" else WORLDS[world].graph(seed)


def paraphrases(part: str) -> dict[str, list[tuple[str, str]]]:
    """Return, by world, the relations and templates of the set `part`."""
    lines = (HERE / "paraphrases.tsv").read_text(encoding="utf-8").splitlines()[1:]
    templates: dict[str, list[tuple[str, str]]] = {}
    for each, world, relation, text in (line.split("\t") for line in lines):
        if each == part:
            templates.setdefault(world, []).append((relation, text))
    return templates
