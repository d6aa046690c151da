"""Wikidata's JSON dump: one array, one entity per line, plain or compressed, read as a stream.

    labels, aliases, descriptions   texts; of a property (P17) texts of the relation
    truthy statement, item to item  a triple; P31 also or instead a `TYPE` text (see `types`)

Truthy, as in Wikidata's own truthy dump: the preferred statements of a property, or else the
normal ones; deprecated ones never. Qualifiers, references and sitelinks are not looked at. All
else is skipped and counted by kind: other languages and ranks, values that are no items, somevalue
and novalue, statements about properties, lexemes, redirects, deleted entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kg_loaders.damage import DamageReport
from kg_loaders.rdf.records import Types
from kg_loaders.reading.lines import JSON_FAULTS, MAX_LINE_BYTES, read_lines
from kg_loaders.records import Record, Text, TextKind, Triple

INSTANCE_OF = "P31"
ANY_LANGUAGE = "mul"

_KINDS = {"Q": "item", "P": "property", "L": "lexeme", "M": "media file", "E": "entity schema"}
_VALUE_TYPES = ("string", "time", "quantity", "monolingualtext", "globecoordinate", "bad")


_Nothing = Annotated[list[Any], msgspec.Meta(max_length=0)]  # the dumps may write an empty map `[]`


class _Term(msgspec.Struct):
    value: str


class _EntityId(msgspec.Struct):
    id: str = ""
    entity_type: str = msgspec.field(name="entity-type", default="")
    numeric_id: int = msgspec.field(name="numeric-id", default=0)


class _DataValue(msgspec.Struct):
    type: str = ""
    value: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class _Snak(msgspec.Struct):
    snaktype: str = "value"
    datavalue: _DataValue | None = None


class _Statement(msgspec.Struct):
    mainsnak: _Snak | None = None
    rank: str = "normal"


class _Entity(msgspec.Struct):
    id: str = ""
    labels: dict[str, _Term] | _Nothing = {}
    aliases: dict[str, list[_Term]] | _Nothing = {}
    descriptions: dict[str, _Term] | _Nothing = {}
    claims: dict[str, list[_Statement]] | _Nothing = {}
    missing: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    redirect: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    redirects: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def read(
    path: str | Path,
    report: DamageReport,
    *,
    languages: Sequence[str] | None = ("en",),
    types: Types = "triple",
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Read a dump; see the module for what becomes what.

    The lines "[" and "]" count as blank. What a line gives or skips beside the first is counted in
    `report.n_further`.

    Args:
        languages: Wikidata's language codes, exactly, to which "mul" (names that are the same in
            all languages) is added; None reads every language.
        types: whether an instance-of statement is a triple, a `TYPE` text, or both.
        max_line_bytes: limit of a line.
    """
    decode_entity = msgspec.json.Decoder(_Entity).decode
    entity_reader = _EntityReader(report, languages, types)
    for line_no, offset, line in read_lines(path, report, max_line_bytes=max_line_bytes):
        data = line.strip()
        if data in (b"", b"[", b"]"):
            report.n_blank += 1
            continue
        try:
            entity = decode_entity(data.removesuffix(b","))
            records = entity_reader.records(entity)
        except JSON_FAULTS as error:
            reason = f"not an entity in JSON: {error}"[:200]
            report.reject(str(path), line_no, offset, reason, line)
            continue
        skipped = entity_reader.take_skipped()
        if not records and not skipped:
            skipped = {"entity without texts and statements": 1}
        for reason, n in skipped.items():
            report.skip(reason, n)
        report.n_further += len(records) + sum(skipped.values()) - 1
        yield from records


class _EntityReader:
    """Turns entities into records, and counts what is left out of each."""

    def __init__(self, report: DamageReport, languages: Sequence[str] | None, types: Types) -> None:
        self._languages = None if languages is None else {*languages, ANY_LANGUAGE}
        self._types = types
        self._skipped: dict[str, int] = {}
        self._decode_id = msgspec.json.Decoder(_EntityId).decode

    def take_skipped(self) -> dict[str, int]:
        """What was left out since the last call, by reason."""
        skipped, self._skipped = self._skipped, {}
        return skipped

    def records(self, entity: _Entity) -> list[Record]:
        """All records of an entity; DecodeError when a value is malformed."""
        self._skipped = {}
        kind = _KINDS.get(entity.id[:1], "")
        if not entity.id:
            self._skip("entity without an id")
        elif entity.missing is not msgspec.UNSET:
            self._skip("deleted entity")
        elif entity.redirect is not msgspec.UNSET or entity.redirects is not msgspec.UNSET:
            self._skip("redirect")
        elif kind not in ("item", "property"):
            self._skip(kind or "entity of an unknown kind")
        else:
            return [*self._texts(entity, kind == "property"), *self._facts(entity, kind)]
        return []

    def _texts(self, entity: _Entity, is_relation: bool) -> Iterator[Text]:
        for kind, terms in (
            (TextKind.LABEL, entity.labels),
            (TextKind.ALIAS, entity.aliases),
            (TextKind.DESCRIPTION, entity.descriptions),
        ):
            if isinstance(terms, list):
                continue
            for language, term in terms.items():
                several = term if isinstance(term, list) else [term]
                if self._languages is not None and language not in self._languages:
                    self._skip(f"{kind.name.lower()} in another language", len(several))
                    continue
                for one in several:
                    if one.value:
                        yield Text(entity.id, kind, one.value, language, 0, is_relation)
                    else:
                        self._skip("empty text")

    def _facts(self, entity: _Entity, kind: str) -> Iterator[Record]:
        if isinstance(entity.claims, list):
            return
        for relation, statements in entity.claims.items():
            if kind == "property":
                self._skip("statement about a property", len(statements))
                continue
            for tail in self._truthy_items(statements):
                if relation == INSTANCE_OF and self._types != "triple":
                    yield Text(entity.id, TextKind.TYPE, tail)
                if relation != INSTANCE_OF or self._types != "text":
                    yield Triple(entity.id, relation, tail)

    def _truthy_items(self, statements: list[_Statement]) -> Iterator[str]:
        best = "preferred" if any(s.rank == "preferred" for s in statements) else "normal"
        for statement in statements:
            if statement.rank == "deprecated":
                self._skip("deprecated statement")
            elif statement.rank != best:
                self._skip("statement below the best rank")
            elif item := self._item(statement.mainsnak):
                yield item

    def _item(self, snak: _Snak | None) -> str:
        """The item that is a statement's value; "" when it is something else, which is counted."""
        if snak is None or snak.snaktype != "value" or snak.datavalue is None:
            known = snak is not None and snak.snaktype in ("somevalue", "novalue")
            self._skip(snak.snaktype if snak and known else "statement without a value")
            return ""
        if snak.datavalue.type != "wikibase-entityid":
            kind = snak.datavalue.type
            self._skip(f"value of type {kind if kind in _VALUE_TYPES else 'unknown'}")
            return ""
        value = self._decode_id(snak.datavalue.value)
        if not value.id and value.entity_type == "item" and value.numeric_id > 0:
            return f"Q{value.numeric_id}"  # as in dumps before 2017
        kind = _KINDS.get(value.id[:1], "entity of an unknown kind")
        if kind != "item":
            self._skip(f"{kind} as value")
            return ""
        return value.id

    def _skip(self, reason: str, n: int = 1) -> None:
        if n:
            self._skipped[reason] = self._skipped.get(reason, 0) + n
