"""Rows of a table to records, by its layout: the same for TSV, CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence

from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.formats.tables.layout import NodeLayout, TripleLayout, WideLayout
from kg_loaders.formats.tables.values import (
    NO_PLACE,
    TEXT_RELATIONS,
    Literal,
    kgtk_value,
    yago_value,
)
from kg_loaders.records import Record, Text, TextKind, Triple

NEGATED = "statement that is denied"
_DENIALS = {"not", "true", "1", "yes"}
_SEVERAL = (TextKind.ALIAS, TextKind.TYPE)


class RowReader:
    """The records of one row after another; texts about a node once for all of its rows."""

    def __init__(
        self, layout: TripleLayout | NodeLayout | WideLayout, report: DamageReport
    ) -> None:
        self._layout, self._report = layout, report
        self._described: set[Text] = set()

    def records(self, fields: Sequence[str]) -> tuple[list[Record], str]:
        """The records of a row, and what is wrong with it; neither: it was counted as skipped."""
        layout = self._layout
        if len(fields) != layout.n_fields:
            return [], f"{counted(len(fields), 'fields')} instead of {layout.n_fields}"
        if isinstance(layout, WideLayout):
            return self._entity(fields, layout)
        if isinstance(layout, NodeLayout):
            records: list[Record] = list(self._node(fields, layout))
            fault = "" if fields[layout.node] else "empty field"
            if not records and not fault:
                self._report.skip("line without a text")
        else:
            records, fault = self._triple(fields, layout)
        if records:
            self._report.n_further += len(records) - 1
        return records, fault

    def _entity(self, fields: Sequence[str], layout: WideLayout) -> tuple[list[Record], str]:
        """A triple for each relation of the row that has a value; "|" parts several."""
        node = fields[layout.node].strip()
        if not node:
            return [], "empty field"
        records: list[Record] = [
            Triple(node, relation, tail.strip())
            for relation, column in layout.relations
            for tail in fields[column].split("|")
            if tail.strip()
        ]
        records += [
            Text(node, kind, value)
            for kind, column in layout.texts
            for value in _values(fields[column], kind)
        ]
        if records:
            self._report.n_further += len(records) - 1
        else:
            self._report.skip("line without a fact")
        return records, ""

    def _triple(self, fields: Sequence[str], layout: TripleLayout) -> tuple[list[Record], str]:
        ends = (fields[layout.head], fields[layout.relation], fields[layout.tail])
        if not all(ends):
            return [], "empty field"
        if any(fields[index].strip().lower() in _DENIALS for index in layout.negations):
            self._report.skip(NEGATED)
            return [], ""
        if layout.values != "names":
            return self._with_literals(ends, fields, layout), ""
        head, relation, tail = (
            _identifier(name, fields, index, layout)
            for name, index in zip(ends, (layout.head, layout.relation, layout.tail), strict=True)
        )
        ids = {layout.head: head, layout.relation: relation, layout.tail: tail}
        texts = [
            Text(ids[index], kind, value, is_relation=index == layout.relation)
            for index, kind, column in layout.texts
            for value in _values(fields[column], kind)
        ]
        return [Triple(head, relation, tail), *self._new(texts)], ""

    def _new(self, texts: Sequence[Text]) -> list[Text]:
        """Those that no row before had: an end is described in each of its rows."""
        new = [text for text in dict.fromkeys(texts) if text not in self._described]
        self._described.update(new)
        return new

    def _with_literals(
        self, ends: tuple[str, str, str], fields: Sequence[str], layout: TripleLayout
    ) -> list[Record]:
        read = kgtk_value if layout.values == "kgtk" else yago_value
        head, relation, tail = (read(name) for name in ends)
        if isinstance(head, Literal) or isinstance(relation, Literal):
            self._report.skip(NO_PLACE)
            return []
        if not isinstance(tail, Literal):
            return [Triple(head, relation, tail), *self._new(_marked_texts(fields, layout))]
        kind = TEXT_RELATIONS.get(relation)
        if kind is None or not tail.text:
            self._report.skip(NO_PLACE)
            return []
        return [Text(head, kind, tail.text, tail.language)]

    def _node(self, fields: Sequence[str], layout: NodeLayout) -> list[Text]:
        node = fields[layout.node]
        if not node:
            return []
        if layout.source >= 0:
            node = _with_source(node, fields[layout.source])
        language = fields[layout.language] if layout.language >= 0 else ""
        return [
            Text(node, kind, value, language, 0, layout.is_relation)
            for kind, column in layout.texts
            for value in _values(fields[column], kind)
        ]


def _marked_texts(fields: Sequence[str], layout: TripleLayout) -> list[Text]:
    """The texts of further columns of KGTK (`node1;label`), which may be lists."""
    texts = []
    for position, kind, column in layout.texts:
        for part in fields[column].split("|"):
            value = kgtk_value(part)
            text, language = value if isinstance(value, Literal) else (value, "")
            if text:
                is_relation = position == layout.relation
                texts.append(Text(fields[position], kind, text, language, 0, is_relation))
    return texts


def _identifier(name: str, fields: Sequence[str], position: int, layout: TripleLayout) -> str:
    source = layout.sources.get(position, -1)
    return name if source < 0 else _with_source(name, fields[source])


def _with_source(name: str, source: str) -> str:
    """An identifier behind the resource that it is of, which alone makes it the only one."""
    return name if not source or name.startswith(f"{source}:") else f"{source}:{name}"


def _values(cell: str, kind: TextKind) -> list[str]:
    """The texts of a cell: aliases and types with "|" between them are several."""
    parts = cell.split("|") if kind in _SEVERAL else [cell]
    return list(dict.fromkeys(part for part in parts if part.strip()))


def order_remedy(n_fields: int, n_expected: int = 3) -> str:
    """What to do about a row of more fields than three; "" for others, and for as many as expected.

    >>> order_remedy(5)[:54]
    'mend the row, or say which columns they are (--order h'
    """
    if not 4 <= n_fields <= 26 or n_fields == n_expected:
        return ""
    order = "hrt" + "-" * (n_fields - 3)
    return (
        f"mend the row, or say which columns they are (--order {order}, and --header yes if the "
        "first row names them; --header wide if each column is a relation)"
    )
