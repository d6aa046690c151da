"""Which entities and statements of a dump become columns, one entity at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from kg_loaders.damage import DamageReport
from kg_loaders.errors import KgError
from kg_loaders.formats.wikidata.entities import (
    ANY_LANGUAGE,
    EntityId,
    NumberedError,
    NumberedId,
    ValueType,
)
from kg_loaders.formats.wikidata.rows import TextRows, TripleRows
from kg_loaders.rdf.records import Types
from kg_loaders.reading.blocks import Block, TripleBlock
from kg_loaders.records import TextKind

INSTANCE_OF, SUBCLASS_OF, CHOSEN = "P31", "P279", "chosen"
Ranks = Literal["truthy", "all", "deprecated"]
RANKS = ("truthy", "all", "deprecated")
"""The best rank of each property; preferred and normal; deprecated ones, too."""
_KINDS = {"Q": "item", "P": "property", "L": "lexeme", "M": "media file", "E": "entity schema"}
_LABEL, _ALIAS, _DESCRIPTION, _TYPE = (int(kind) for kind in TextKind)
_ITEM = ValueType.ITEM
_EMPTY = "empty text"
_NOTHING = "entity of which nothing is asked for"
_TEXTS, _SKIPPED, _NOTES = 2, 4, 6
"""Places in the lists of `EntityColumns`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted of a dump; see `kg_loaders.formats.wikidata.read`."""

    languages: tuple[str, ...] | None
    types: Types = "triple"
    ranks: Ranks = "truthy"
    qualifiers: bool = False
    properties: tuple[str, ...] | None = None
    sitelinks: tuple[str, ...] | None = None
    instances_of: tuple[str, ...] = ()
    inner: bool = False

    @classmethod
    def of(
        cls,
        languages: Sequence[str] | None,
        ranks: str,
        properties: Sequence[str] | None,
        sitelinks: Sequence[str] | None,
        instances_of: Sequence[str],
        **others: Any,
    ) -> Selection:
        """Check options; `KgError` for identifiers of another form and unknown ranks."""
        if ranks not in RANKS:
            raise KgError(f"ranks is {ranks!r}, which is not one of {', '.join(RANKS)}")
        for letter, ids in (("P", properties or ()), ("Q", instances_of)):
            for id in ids:
                if not _is_id(id, letter):
                    kind = "property" if letter == "P" else "class"
                    raise KgError(f"{id!r} is not a {kind} of Wikidata; write it as {letter}31")
        return cls(
            None if languages is None else tuple(dict.fromkeys((*languages, ANY_LANGUAGE))),
            ranks=ranks,  # type: ignore[arg-type]
            properties=None if properties is None else tuple(properties),
            sitelinks=None if sitelinks is None else tuple(sitelinks),
            instances_of=tuple(instances_of),
            **others,
        )


_IDENTIFIER = re.compile("[PQ](0|[1-9][0-9]{0,8})")


def _is_id(id: str, letter: str = "Q") -> bool:
    return id[:1] == letter and _IDENTIFIER.fullmatch(id) is not None


def _numbered(value: EntityId | NumberedId) -> NumberedId:
    if isinstance(value, EntityId):
        raise NumberedError
    return value


class EntityColumns:
    """Takes entities and gives blocks; counts what a graph has no place for."""

    def __init__(self, report: DamageReport, selection: Selection) -> None:
        self._report, self._selection = report, selection
        self._properties = selection.properties and frozenset(selection.properties)
        self._sitelinks = selection.sitelinks and frozenset(selection.sitelinks)
        self._is_plain = selection.types == "triple" and not selection.qualifiers
        """Whether a statement is a triple and nothing else."""
        self._takes_all = not (
            selection.sitelinks or selection.instances_of or selection.inner or selection.properties
        )
        """Whether every item is taken with all its statements, and no more is to be known of it."""
        self._start()

    def _start(self) -> None:
        """Begin with nothing."""
        languages = self._selection.languages or ()
        self._triples, self._qualified, self._notes = TripleRows(), TripleRows(), TripleRows()
        self._texts = (TextRows(False, languages), TextRows(True, languages))
        self._skipped: list[str] = []
        """A reason for each that was passed over; they are counted when blocks are asked for."""
        self._of_types: list[ValueType] = []
        """The types of values that were passed over."""
        self._n_entities = 0
        self._lists: tuple[list[Any], ...] = (
            self._triples.ends, self._qualified.ends, *(rows.values for rows in self._texts),
            self._skipped, self._of_types, self._notes.ends,
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        """Triples, texts and what was passed over that wait for `blocks`."""
        tails = self._triples.tails, self._qualified.tails
        return sum(map(len, (*tails, *self._lists[_TEXTS:_NOTES])))

    def blocks(self) -> tuple[list[Block], list[TripleBlock]]:
        """What has been added since the last call, and notes: (item, P31 or P279, class) of all
        items if classes are asked for, (item, `CHOSEN`, item) of those that may be members.
        """
        of_types = Counter(self._of_types)
        for type in ValueType:
            if n := of_types[type]:
                self._report.skip(f"value of type {type.value}", n)
        for reason, n in Counter(self._skipped).items():
            self._report.skip(reason, n)
        self._report.n_further += self.n_rows - self._n_entities
        notes = self._notes
        blocks: list[Block] = [one.block() for one in (self._triples, self._qualified) if one.tails]
        blocks += [rows.block() for rows in self._texts if rows.nodes]
        self._start()
        return blocks, [notes.block()] if notes.tails else []

    def add(self, entity: Any) -> None:
        """Take all of an entity, or nothing of it: `msgspec.ValidationError` for a wrong value."""
        id, claims = entity.id, entity.claims
        if (
            self._takes_all
            and claims
            and id[:1] == "Q"
            and entity.missing is entity.redirect is entity.redirects is UNSET
        ):  # as nearly all are
            self._add_facts(id, claims)
            self._add_texts(id, entity, self._texts[0])
        else:
            before = [*map(len, self._lists)]
            with self._all_or_nothing():
                self._add(id, entity, {} if type(claims) is list else claims)
            if [*map(len, self._lists[:_NOTES])] == before[:_NOTES]:
                self._skip("entity of which nothing is asked for")
        self._n_entities += 1

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Forget what was added before a value proved wrong."""
        before = [*map(len, self._lists)]
        try:
            yield
        except (msgspec.ValidationError, NumberedError):
            self._cut(before)
            raise

    def _cut(self, lengths: Sequence[int]) -> None:
        """Forget what came after `_lists` were so long."""
        rows: tuple[TripleRows | TextRows, ...] = (self._triples, self._qualified, *self._texts)
        for each, n in zip(rows, lengths, strict=False):
            each.cut(n)
        del self._skipped[lengths[_SKIPPED] :], self._of_types[lengths[_SKIPPED + 1] :]
        self._notes.cut(lengths[_NOTES])

    def _add(self, id: str, entity: Any, claims: dict[str, list[Any]]) -> None:
        kind = _KINDS.get(id[:1], "")
        if not id:
            self._skip("entity without an id")
        elif entity.missing is not UNSET:
            self._skip("deleted entity")
        elif entity.redirect is not UNSET or entity.redirects is not UNSET:
            self._skip("redirect")
        elif kind == "property":
            self._add_texts(id, entity, self._texts[1])
            self._skip("statement about a property", sum(map(len, claims.values())))
        elif kind != "item":
            self._skip(kind or "entity of an unknown kind")
        elif self._is_chosen(id, entity, claims):
            self._add_facts(id, claims)
            self._add_texts(id, entity, self._texts[0])

    def _is_chosen(self, id: str, entity: Any, claims: dict[str, list[Any]]) -> bool:
        """Whether texts and statements of an item are taken; what `members` asks is noted."""
        selection = self._selection
        if selection.instances_of:
            self._note_classes(id, claims)
        if self._sitelinks and self._sitelinks.isdisjoint(entity.sitelinks):
            self._skip("item without the sitelink")
            return False
        if selection.inner or selection.instances_of:
            self._note(id, CHOSEN, id)
        return True

    def _add_texts(self, id: str, entity: Any, rows: TextRows) -> None:
        kinds, languages, values = rows.kinds, rows.language_ids, rows.values
        is_any = self._selection.languages is None  # else terms are objects with a field for each
        n_before = len(values)
        for kind, terms in ((_LABEL, entity.labels), (_DESCRIPTION, entity.descriptions)):
            if not terms:
                continue
            for number, term in rows.by_place(terms) if is_any else enumerate(astuple(terms)):
                if term is None:
                    continue
                if value := term.value:
                    kinds.append(kind)
                    languages.append(number)
                    values.append(value)
                else:
                    self._skip(_EMPTY)
        if aliases := entity.aliases:
            for number, terms in rows.by_place(aliases) if is_any else enumerate(astuple(aliases)):
                for term in terms or ():
                    if value := term.value:
                        kinds.append(_ALIAS)
                        languages.append(number)
                        values.append(value)
                    else:
                        self._skip(_EMPTY)
        if len(values) > n_before:
            rows.nodes.append(id)
            rows.ends.append(len(values))

    def _add_facts(self, id: str, claims: dict[str, list[Any]]) -> None:
        if self._is_plain:
            n_types, n_skipped = len(self._of_types), len(self._skipped)
            try:
                self._add_usual_facts(id, claims)
                return
            except (AttributeError, IndexError):  # something is missing: see what
                self._triples.cut(self._triples.n_whole)
                del self._of_types[n_types:], self._skipped[n_skipped:]
        with self._all_or_nothing():
            for relation, statements in claims.items():
                if not self._properties or relation in self._properties:
                    self._add_statements(id, relation, self._of_rank(statements))
                    self._triples.end_run(relation)
        self._triples.end_node(id)
        self._texts[0].end_run(id)

    def _add_usual_facts(self, id: str, claims: dict[str, list[Any]]) -> None:
        """Add plain statements; `AttributeError` or `IndexError` where a snak or value is none.

        This is what most of the time of a dump goes into: `_item`, written out for nearly all.
        """
        triples, types, wanted = self._triples, self._of_types, self._properties
        tails, relations, ends = triples.tails, triples.relations, triples.ends
        n_before = n = len(tails)
        for relation, statements in claims.items():
            if wanted and relation not in wanted:
                continue
            if len(statements) == 1 and (statement := statements[0]).rank == "normal":
                snak = statement.mainsnak
                if (value := snak.datavalue) is not None and snak.snaktype == "value":
                    if value.type is not _ITEM:
                        types.append(value.type)
                        continue
                    if (tail := value.value.id)[0] == "Q":
                        tails.append(tail)
                        relations.append(relation)
                        ends.append(n := n + 1)
                        continue
            for statement in statements:
                if statement.rank != "normal":
                    statements = self._of_rank(statements)
                    break
            for statement in statements:
                snak = statement.mainsnak
                value = snak.datavalue
                if value is None or snak.snaktype != "value":
                    self._item(snak)
                elif value.type is not _ITEM:
                    types.append(value.type)
                elif (tail := value.value.id)[0] == "Q":
                    tails.append(tail)
                else:
                    self._item(snak)
            if len(tails) > n:
                n = len(tails)
                relations.append(relation)
                ends.append(n)
        if n > n_before:
            triples.nodes.append(id)
            triples.runs_behind.append(len(ends))

    def _add_statements(self, id: str, relation: str, statements: list[Any]) -> None:
        """Add what they say, to the tails of a run that its caller ends, and beside it."""
        types = self._selection.types if relation == INSTANCE_OF else "triple"
        for statement in statements:
            tail = self._item(statement.mainsnak)
            if tail and types != "triple":
                self._texts[0].add(_TYPE, "", tail)
            if tail and types != "text":
                self._triples.tails.append(tail)
                if self._selection.qualifiers and statement.qualifiers:
                    self._add_qualifiers(id, relation, tail, statement)

    def _add_qualifiers(self, id: str, relation: str, tail: str, statement: Any) -> None:
        """The statement as a node, in the form of Wikidata's RDF, if any qualifier is an item."""
        qualifiers = [
            (f"pq:{name}", item)
            for name, snaks in statement.qualifiers.items()
            for snak in snaks
            if (item := self._item(snak, "qualifier: "))
        ]
        if not qualifiers:
            return
        if not statement.id:
            raise msgspec.ValidationError("a statement with qualifiers has no id")
        self._qualified.add(id, f"p:{relation}", statement.id)
        for name, item in ((f"ps:{relation}", tail), *qualifiers):
            self._qualified.tails.append(item)
            self._qualified.end_run(name)
        self._qualified.end_node(statement.id)

    def _of_rank(self, statements: list[Any]) -> list[Any]:
        """The statements of the ranks that are asked for."""
        ranks = self._selection.ranks
        if ranks == "deprecated":
            return statements
        if len(statements) == 1 and statements[0].rank != "deprecated":
            return statements
        preferred, others, n_deprecated = [], [], 0
        for statement in statements:
            rank = statement.rank
            if rank == "preferred":
                preferred.append(statement)
            elif rank != "deprecated":
                others.append(statement)
            else:
                n_deprecated += 1
        if n_deprecated:
            self._skip("deprecated statement", n_deprecated)
        if ranks == "all":
            return preferred + others
        chosen = preferred or [each for each in others if each.rank == "normal"]
        n_below = len(preferred) + len(others) - len(chosen)
        if n_below:
            self._skip("statement below the best rank", n_below)
        return chosen

    def _item(self, snak: Any, what: str = "") -> str:
        """The item that is a snak's value; "" when it is something else, which is counted."""
        if snak is None or snak.snaktype != "value" or (data := snak.datavalue) is None:
            known = snak is not None and snak.snaktype in ("somevalue", "novalue")
            self._skip(what + (snak.snaktype if known else "statement without a value"))
            return ""
        if data.type is not _ITEM:
            self._skip(f"{what}value of type {data.type.value}")
            return ""
        value = data.value
        if not isinstance(value, EntityId | NumberedId):
            raise msgspec.ValidationError(f"Expected an entity as value, got {value!r:.60}")
        id: str = value.id
        if id[:1] == "Q":
            return id
        if not id:
            numbered = _numbered(value)
            if numbered.entity_type == "item" and numbered.numeric_id > 0:
                return f"Q{numbered.numeric_id}"
        self._skip(f"{what}{_KINDS.get(id[:1], 'entity of an unknown kind')} as value")
        return ""

    def _note_classes(self, id: str, claims: dict[str, list[Any]]) -> None:
        """Keep the classes of an item, whatever else is asked for."""
        for relation in (INSTANCE_OF, SUBCLASS_OF):
            statements = claims.get(relation, ())
            best = "preferred" if any(s.rank == "preferred" for s in statements) else "normal"
            for statement in statements:
                value = getattr(getattr(statement.mainsnak, "datavalue", None), "value", None)
                if statement.rank == best and isinstance(value, EntityId | NumberedId):
                    self._note(id, relation, value.id or f"Q{_numbered(value).numeric_id}")

    def _note(self, item: str, relation: str, other: str) -> None:
        if _is_id(item) and _is_id(other):
            self._notes.add(item, relation, other)

    def _skip(self, reason: str, n: int = 1) -> None:
        self._skipped += [reason] * n
