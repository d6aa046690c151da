"""What is read of an entity of a dump, and what is passed over without being made into objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any

import msgspec

ANY_LANGUAGE = "mul"
"""Wikidata's code of names that are the same in all languages."""
Nothing = Annotated[list[Any], msgspec.Meta(max_length=0)]
"""The dumps may write an empty map `[]`."""


class Term(msgspec.Struct, gc=False):
    """A text in one language."""

    value: str


class EntityId(msgspec.Struct, gc=False):
    """An entity as a value; other objects (a time, a place) have no `id`."""

    id: str = ""


class NumberedId(msgspec.Struct, gc=False):
    """An entity as a value as dumps before 2017 write it, which may have a number alone."""

    id: str = ""
    entity_type: str = msgspec.field(name="entity-type", default="")
    numeric_id: int = msgspec.field(name="numeric-id", default=0)


class ValueType(Enum):
    """What a value is: looked up, not made anew for each, and so compared at once."""

    ITEM = "wikibase-entityid"
    STRING = "string"
    TIME = "time"
    QUANTITY = "quantity"
    MONOLINGUAL_TEXT = "monolingualtext"
    GLOBE_COORDINATE = "globecoordinate"
    BAD = "bad"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # that of Enum is a function in Python, and these are counted

    @classmethod
    def _missing_(cls, value: object) -> ValueType:
        return cls.UNKNOWN


class NumberedError(Exception):
    """A value has no `id`; what stands for it is known with `NumberedId` in its place."""


def _statement(entity_id: Any, *, qualifiers: bool) -> Any:
    """The type of a claim; where `qualifiers` are asked for with its own identifier and these."""
    value = entity_id | str | int | float | list[Any] | None
    fields: list[Any] = [("value", value, None), ("type", ValueType, ValueType.UNKNOWN)]
    datavalue: Any = msgspec.defstruct("DataValue", fields, gc=False)
    fields = [("snaktype", str, "value"), ("datavalue", datavalue | None, None)]
    snak: Any = msgspec.defstruct("Snak", fields, gc=False)
    fields = [("mainsnak", snak | None, None), ("rank", str, "normal")]
    if qualifiers:
        fields += [("id", str, ""), ("qualifiers", dict[str, list[snak]] | Nothing, {})]
    return msgspec.defstruct("Statement", fields, gc=False)


def decoder(
    languages: Sequence[str] | None,
    *,
    qualifiers: bool,
    sitelinks: bool,
    with_numbers: bool = False,
) -> Callable[[Any], Any]:
    """Return a function from a line (bytes or a view of them) to an entity.

    It has no more fields than are asked for. Its `labels`, `descriptions` and `aliases` are a map
    from language, or, where `languages` are named, an object whose fields `f0`, `f1`, ... are the
    texts in these. Entities as values are `EntityId`s, `NumberedId`s if `with_numbers`. Raises
    `msgspec.DecodeError` for what is not an entity.
    """
    term: Any = dict[str, Term]
    aliases: Any = dict[str, list[Term]]
    if languages is not None:
        term = _of_languages("Terms", Term | None, languages)
        aliases = _of_languages("Aliases", list[Term] | None, languages)
    statement: Any = _statement(NumberedId if with_numbers else EntityId, qualifiers=qualifiers)
    raw = msgspec.Raw | msgspec.UnsetType
    fields: list[Any] = [
        ("id", str, ""),
        ("labels", term | Nothing | None, None),
        ("aliases", aliases | Nothing | None, None),
        ("descriptions", term | Nothing | None, None),
        ("claims", dict[str, list[statement]] | Nothing, msgspec.field(default_factory=dict)),
        *((name, raw, msgspec.UNSET) for name in ("missing", "redirect", "redirects")),
    ]
    if sitelinks:
        any_site = dict[str, msgspec.Raw] | Nothing
        fields.append(("sitelinks", any_site, msgspec.field(default_factory=dict)))
    entity = msgspec.defstruct("Entity", fields, gc=False)
    return msgspec.json.Decoder(entity).decode


def _of_languages(name: str, kind: Any, languages: Sequence[str]) -> Any:
    fields = [(f"f{number}", kind, None) for number in range(len(languages))]
    rename = {f"f{number}": language for number, language in enumerate(languages)}
    return msgspec.defstruct(name, fields, rename=rename, gc=False)
