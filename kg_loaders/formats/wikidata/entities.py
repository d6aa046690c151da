"""What is read of an entity of a dump, and what is passed over without being made into objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """An entity as a value; other objects (a time, a place) have none of its fields."""

    id: str = ""
    entity_type: str = msgspec.field(name="entity-type", default="")
    numeric_id: int = msgspec.field(name="numeric-id", default=0)


class DataValue(msgspec.Struct, gc=False):
    """A value and its type."""

    type: str = ""
    value: EntityId | str | int | float | list[Any] | None = None


class Snak(msgspec.Struct, gc=False):
    """A property's value, or that there is some or none."""

    snaktype: str = "value"
    datavalue: DataValue | None = None


class Statement(msgspec.Struct, gc=False):
    """A claim about an entity."""

    mainsnak: Snak | None = None
    rank: str = "normal"


class QualifiedStatement(msgspec.Struct, gc=False):
    """A claim with its own identifier and what qualifies it."""

    mainsnak: Snak | None = None
    rank: str = "normal"
    id: str = ""
    qualifiers: dict[str, list[Snak]] | Nothing = {}


def decoder(
    languages: Sequence[str] | None, *, qualifiers: bool, sitelinks: bool
) -> Callable[[Any], Any]:
    """Return a function from a line (bytes or a view of them) to an entity.

    It has no more fields than are asked for. Its `labels`, `descriptions` and `aliases` are a map
    from language, or, where `languages` are named, an object whose fields `f0`, `f1`, ... are the
    texts in these. Raises `msgspec.DecodeError` for what is no entity.
    """
    term: Any = dict[str, Term]
    aliases: Any = dict[str, list[Term]]
    if languages is not None:
        term = _of_languages("Terms", Term | None, languages)
        aliases = _of_languages("Aliases", list[Term] | None, languages)
    statement: Any = QualifiedStatement if qualifiers else Statement
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
    decode: Callable[[Any], Any] = msgspec.json.Decoder(entity).decode
    return decode


def _of_languages(name: str, kind: Any, languages: Sequence[str]) -> Any:
    fields = [(f"f{place}", kind, None) for place in range(len(languages))]
    rename = {f"f{place}": language for place, language in enumerate(languages)}
    return msgspec.defstruct(name, fields, rename=rename, gc=False)
