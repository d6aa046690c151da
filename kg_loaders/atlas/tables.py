"""The hand-made source tables of the atlas (`table_*.tsv`) as items and triples.

A row is one item: `id` (Wikidata QID), `name` (unique; a leading "the " is the article used in
running text and no part of the label, a trailing " (...)" only tells namesakes apart), `kind`,
`aliases` (`;` between them), attributes, and one column per relation that names the tails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from kg_loaders.errors import SourceError
from kg_loaders.records import Triple

TABLES = (
    "countries", "cities", "rivers", "mountains", "people", "works", "languages", "currencies",
    "other", "class",
)  # fmt: skip
DERIVED = {"P36": "P1376", "P47": "P47", "P50": "P800", "P170": "P800", "P86": "P800"}


@dataclass(frozen=True, slots=True)
class Name:
    """A label or alias; `article` ("the " or "") stands before it in running text.

    A former name (`~` in the tables) is an alias, but no phrase is filled with it.
    """

    article: str
    text: str
    is_former: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One row: `attributes` are columns that are neither names nor relations."""

    id: str
    key: str
    kind: str
    names: tuple[Name, ...]
    attributes: dict[str, str]
    facts: dict[str, tuple[str, ...]]

    @property
    def label(self) -> str:
        return self.names[0].text


@dataclass(frozen=True, eq=False)
class AtlasTables:
    """All items by id in table order, and every triple, sorted."""

    items: dict[str, Item]
    triples: tuple[Triple, ...]


def rows(name: str) -> Iterator[dict[str, str]]:
    """Rows of one committed tab-separated file, quoting off."""
    text = (files("kg_loaders.atlas") / name).read_text(encoding="utf-8")
    header, *lines = text.removesuffix("\n").split("\n")
    columns = header.split("\t")
    for number, line in enumerate(lines, start=2):
        values = line.split("\t")
        if len(values) != len(columns):
            raise SourceError(
                f"{name}, line {number}: {len(values)} fields where the header has {len(columns)};"
                " mend the row"
            )
        yield dict(zip(columns, values, strict=True))


def load() -> AtlasTables:
    """Read every table; a tail that no row names is an error."""
    by_key: dict[str, Item] = {}
    for table in TABLES:
        for row in rows(f"table_{table}.tsv"):
            item = _item(row)
            if item.key in by_key:
                raise SourceError(f"table_{table}.tsv: {item.key!r} has two rows; rename one")
            by_key[item.key] = item
    triples: dict[Triple, None] = {}
    for item in by_key.values():
        for relation, tails in item.facts.items():
            for tail in tails:
                if tail not in by_key:
                    raise SourceError(f"{item.key}, {relation}: no row is named {tail!r}; add one")
                fact = Triple(item.id, relation, by_key[tail].id)
                triples[fact] = None
                if relation in DERIVED:
                    triples[Triple(fact.tail, DERIVED[relation], fact.head)] = None
    return AtlasTables({item.id: item for item in by_key.values()}, tuple(sorted(triples)))


def _item(row: dict[str, str]) -> Item:
    key = row["name"].removeprefix("the ")
    names = [_name(row["name"].split(" (")[0])]
    names += [_name(alias) for alias in row["aliases"].split(";") if alias]
    is_relation = {c: c[0] == "P" and c[1:].isdigit() for c in row}
    return Item(
        id=row["id"],
        key=key,
        kind=row["kind"],
        names=tuple(dict.fromkeys(names)),
        attributes={
            c: v
            for c, v in row.items()
            if v and not is_relation[c] and c not in ("id", "name", "kind", "aliases")
        },
        facts={c: tuple(v.split(";")) for c, v in row.items() if v and is_relation[c]},
    )


def _name(text: str) -> Name:
    is_former, text = text.startswith("~"), text.removeprefix("~")
    article = "the " if text.startswith("the ") else ""
    return Name(article, text.removeprefix(article), is_former)
