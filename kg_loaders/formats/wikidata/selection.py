"""Which entities and statements of a dump become columns, one entity at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from kg_loaders.damage import DamageReport
from kg_loaders.errors import KgError
from kg_loaders.formats.wikidata.entities import ANY_LANGUAGE, EntityId
from kg_loaders.rdf.records import Types
from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock, numbers_behind
from kg_loaders.records import TextKind

INSTANCE_OF, SUBCLASS_OF, CHOSEN = "P31", "P279", "chosen"
Ranks = Literal["truthy", "all", "deprecated"]
RANKS = ("truthy", "all", "deprecated")
"""The best rank of each property; preferred and normal; deprecated ones, too."""
_KINDS = {"Q": "item", "P": "property", "L": "lexeme", "M": "media file", "E": "entity schema"}
_OF_TYPE = {
    name: f"value of type {name}"
    for name in ("string", "time", "quantity", "monolingualtext", "globecoordinate", "bad")
}
_LABEL, _ALIAS, _DESCRIPTION, _TYPE = (int(kind) for kind in TextKind)
_UNKNOWN_TYPE = "value of type unknown"
_ITEM = "wikibase-entityid"
_N_ROWS = 5
"""Of the lists of `EntityColumns`, those that stand for what a dump says, one each."""


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
            raise KgError(f"ranks {ranks!r} are none of {', '.join(RANKS)}")
        for letter, ids in (("P", properties or ()), ("Q", instances_of)):
            for id in ids:
                if not _is_id(id, letter):
                    kind = "property" if letter == "P" else "class"
                    raise KgError(f"{id!r} is no {kind} of Wikidata; write it as {letter}31")
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


class _Triples:
    """Triples as they come: names of heads by place in `nodes`, of tails by themselves."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.heads: list[int] = []
        self.relations: list[str] = []
        self.tails: list[str] = []

    def add(self, head: str, relation: str, tail: str) -> None:
        self.heads.append(len(self.nodes))
        self.nodes.append(head)
        self.relations.append(relation)
        self.tails.append(tail)

    def cut(self, n_nodes: int, n: int) -> None:
        del self.nodes[n_nodes:], self.heads[n:], self.relations[n:], self.tails[n:]

    def block(self) -> TripleBlock:
        relations = pa.array(self.relations, pa.string()).dictionary_encode()
        nodes, tails = pa.array(self.nodes, pa.string()), pa.array(self.tails, pa.string())
        heads = np.array(self.heads, np.int32)
        relation_ids = relations.indices.to_numpy()
        head_numbers, tail_numbers = numbers_behind("Q", nodes)[heads], numbers_behind("Q", tails)
        if (head_numbers >= 0).all() and (tail_numbers >= 0).all():
            ends = np.stack([head_numbers, tail_numbers], axis=1)
            return TripleBlock(ends, relation_ids, "Q", relations.dictionary)
        ends = np.stack([heads, np.arange(len(nodes), len(nodes) + len(tails))], axis=1)
        names = pa.concat_arrays([nodes, tails])
        return TripleBlock(ends.astype(np.int32), relation_ids, names, relations.dictionary)


class _TextRows:
    """Texts as they come, of entities or of relations."""

    def __init__(self, is_relation: bool) -> None:
        self.is_relation = is_relation
        self.nodes: list[str] = []
        self.kinds: list[int] = []
        self.languages: list[str] = []
        self.values: list[str] = []

    def cut(self, n: int) -> None:
        del self.nodes[n:], self.kinds[n:], self.languages[n:], self.values[n:]

    def block(self) -> TextBlock:
        nodes = pa.array(self.nodes, pa.string()).dictionary_encode()
        languages = pa.array(self.languages, pa.string()).dictionary_encode()
        return TextBlock(
            nodes.dictionary, nodes.indices.to_numpy(), np.array(self.kinds, np.uint8),
            pa.array(self.values, pa.string()), languages.indices.to_numpy(),
            tuple(languages.dictionary.to_pylist()), self.is_relation,
        )  # fmt: skip


class EntityColumns:
    """Takes entities and gives blocks; counts what a graph has no place for."""

    def __init__(self, report: DamageReport, selection: Selection) -> None:
        self._report, self._selection = report, selection
        self._languages: list[tuple[str, str]] = []
        """Names of languages and of their fields in an entity; none if all are read."""
        if selection.languages is not None:
            self._languages = [(name, f"f{i}") for i, name in enumerate(selection.languages)]
        self._properties = selection.properties and frozenset(selection.properties)
        self._sitelinks = selection.sitelinks and frozenset(selection.sitelinks)
        self._truthy = selection.ranks == "truthy"
        self._start()

    def _start(self) -> None:
        self._triples, self._qualified, self._notes = _Triples(), _Triples(), _Triples()
        self._texts = (_TextRows(False), _TextRows(True))
        self._skipped: list[str] = []
        """A reason for each that was passed over; they are counted when blocks are asked for."""
        self._n_entities = 0
        self._lists: tuple[list[Any], ...] = (
            self._triples.tails, self._qualified.tails, *(rows.nodes for rows in self._texts),
            self._skipped, self._notes.tails, self._triples.nodes, self._qualified.nodes,
        )  # fmt: skip
        self._whole = [0] * len(self._lists)
        """How many of each of `_lists` are of whole entities."""

    @property
    def n_rows(self) -> int:
        """Triples, texts and what was passed over that wait for `blocks`."""
        return sum(self._whole[:_N_ROWS])

    def blocks(self) -> tuple[list[Block], list[TripleBlock]]:
        """What has been added since the last call, and notes: (item, P31 or P279, class) of all
        items if classes are asked for, (item, `CHOSEN`, item) of those that may be members.
        """
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
        try:
            self._add(entity)
        except msgspec.ValidationError:
            self._cut(self._whole)
            raise
        whole = [*map(len, self._lists)]
        if whole[:_N_ROWS] == self._whole[:_N_ROWS]:
            self._skipped.append("entity of which nothing is asked for")
            whole[_N_ROWS - 1] += 1
        self._whole = whole
        self._n_entities += 1

    def _cut(self, lengths: Sequence[int]) -> None:
        """Forget what came after `_lists` were so long."""
        n, n_qualified, n_texts, n_about, n_skipped, n_notes, n_nodes, n_statements = lengths
        self._triples.cut(n_nodes, n)
        self._qualified.cut(n_statements, n_qualified)
        self._notes.cut(n_notes, n_notes)
        self._texts[0].cut(n_texts)
        self._texts[1].cut(n_about)
        del self._skipped[n_skipped:]

    def _add(self, entity: Any) -> None:
        id: str = entity.id
        kind = _KINDS.get(id[:1], "")
        if not id:
            self._skip("entity without an id")
        elif entity.missing is not msgspec.UNSET:
            self._skip("deleted entity")
        elif entity.redirect is not msgspec.UNSET or entity.redirects is not msgspec.UNSET:
            self._skip("redirect")
        elif kind == "property":
            self._add_texts(entity, self._texts[1])
            n = 0 if type(entity.claims) is list else sum(map(len, entity.claims.values()))
            self._skip("statement about a property", n)
        elif kind != "item":
            self._skip(kind or "entity of an unknown kind")
        else:
            self._add_item(id, entity)

    def _add_item(self, id: str, entity: Any) -> None:
        selection = self._selection
        claims = {} if type(entity.claims) is list else entity.claims
        if selection.instances_of:
            self._note_classes(id, claims)
        if self._sitelinks and self._sitelinks.isdisjoint(entity.sitelinks):
            self._skip("item without the sitelink")
            return
        if selection.inner or selection.instances_of:
            self._note(id, CHOSEN, id)
        self._add_texts(entity, self._texts[0])
        self._add_facts(id, claims)

    def _add_texts(self, entity: Any, rows: _TextRows) -> None:
        node, languages = entity.id, self._languages
        for kind, terms in (
            (_LABEL, entity.labels), (_ALIAS, entity.aliases), (_DESCRIPTION, entity.descriptions),
        ):  # fmt: skip
            if not terms:
                continue
            for language, field in languages or zip(terms, terms, strict=True):
                found = getattr(terms, field) if languages else terms[field]
                if found is None:
                    continue
                for term in found if kind == _ALIAS else (found,):
                    if term.value:
                        rows.nodes.append(node)
                        rows.kinds.append(kind)
                        rows.languages.append(language)
                        rows.values.append(term.value)
                    else:
                        self._skip("empty text")

    def _add_facts(self, id: str, claims: dict[str, list[Any]]) -> None:
        selection, triples = self._selection, self._triples
        wanted, types, qualifiers = self._properties, selection.types, selection.qualifiers
        head, skip = len(triples.nodes), self._skipped.append
        triples.nodes.append(id)
        add_head, add_relation, add_tail = (
            triples.heads.append, triples.relations.append, triples.tails.append,
        )  # fmt: skip
        for relation, statements in claims.items():
            if wanted and relation not in wanted:
                continue
            as_text = types != "triple" and relation == INSTANCE_OF
            if len(statements) != 1 or statements[0].rank == "deprecated":
                statements = self._of_rank(statements)
            for statement in statements:
                snak = statement.mainsnak
                if (  # what `_item` says, most often
                    snak is not None
                    and (found := snak.datavalue) is not None
                    and snak.snaktype == "value"
                ):
                    if found.type != _ITEM:
                        skip(_OF_TYPE.get(found.type, _UNKNOWN_TYPE))
                        continue
                    if type(value := found.value) is EntityId and value.id[:1] == "Q":
                        tail = value.id
                    elif not (tail := self._item(snak)):
                        continue
                elif not (tail := self._item(snak)):
                    continue
                if as_text:
                    self._add_type(id, tail)
                    if types == "text":
                        continue
                add_head(head)
                add_relation(relation)
                add_tail(tail)
                if qualifiers and statement.qualifiers:
                    self._add_qualifiers(id, relation, tail, statement)

    def _add_type(self, id: str, tail: str) -> None:
        rows = self._texts[0]
        rows.nodes.append(id)
        rows.kinds.append(_TYPE)
        rows.languages.append("")
        rows.values.append(tail)

    def _add_qualifiers(self, id: str, relation: str, tail: str, statement: Any) -> None:
        """The statement as a node, in the form of Wikidata's RDF, if any qualifier is an item."""
        found = [
            (f"pq:{name}", item)
            for name, snaks in statement.qualifiers.items()
            for snak in snaks
            if (item := self._item(snak, "qualifier: "))
        ]
        if not found:
            return
        if not statement.id:
            raise msgspec.ValidationError("a statement with qualifiers has no id")
        triples, node = self._qualified, len(self._qualified.nodes)
        triples.nodes += (id, statement.id)
        triples.heads += (node, *(node + 1 for _ in range(len(found) + 1)))
        triples.relations += (f"p:{relation}", f"ps:{relation}", *(name for name, _ in found))
        triples.tails += (statement.id, tail, *(item for _, item in found))

    def _of_rank(self, statements: list[Any]) -> list[Any]:
        """The statements of the ranks that are asked for."""
        ranks = [statement.rank for statement in statements]
        if ranks.count("normal") == len(ranks):
            return statements
        best = "preferred" if "preferred" in ranks else "normal"
        found = []
        for statement, rank in zip(statements, ranks, strict=True):
            if rank == "deprecated" and self._selection.ranks != "deprecated":
                self._skip("deprecated statement")
            elif self._truthy and rank != best:
                self._skip("statement below the best rank")
            else:
                found.append(statement)
        return found

    def _item(self, snak: Any, what: str = "") -> str:
        """The item that is a snak's value; "" when it is something else, which is counted."""
        if snak is None or snak.snaktype != "value" or (found := snak.datavalue) is None:
            known = snak is not None and snak.snaktype in ("somevalue", "novalue")
            self._skip(what + (snak.snaktype if known else "statement without a value"))
            return ""
        if found.type != _ITEM:
            self._skip(what + _OF_TYPE.get(found.type, _UNKNOWN_TYPE))
            return ""
        value = found.value
        if type(value) is not EntityId:
            raise msgspec.ValidationError(f"Expected an entity as value, got {value!r:.60}")
        id: str = value.id
        if id[:1] == "Q":
            return id
        if not id and value.entity_type == "item" and value.numeric_id > 0:
            return f"Q{value.numeric_id}"  # as in dumps before 2017
        self._skip(f"{what}{_KINDS.get(id[:1], 'entity of an unknown kind')} as value")
        return ""

    def _note_classes(self, id: str, claims: dict[str, list[Any]]) -> None:
        """Keep the classes of an item, whatever else is asked for."""
        for relation in (INSTANCE_OF, SUBCLASS_OF):
            statements = claims.get(relation, ())
            best = "preferred" if any(s.rank == "preferred" for s in statements) else "normal"
            for statement in statements:
                value = getattr(getattr(statement.mainsnak, "datavalue", None), "value", None)
                if statement.rank == best and type(value) is EntityId:
                    self._note(id, relation, value.id or f"Q{value.numeric_id}")

    def _note(self, item: str, relation: str, other: str) -> None:
        if _is_id(item) and _is_id(other):
            self._notes.add(item, relation, other)

    def _skip(self, reason: str, n: int = 1) -> None:
        self._skipped += [reason] * n
