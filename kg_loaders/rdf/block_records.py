"""What `kg_loaders.rdf.records` makes of statements, for many statements at once, in columns.

Which texts are about relations is known at the end of the file, and they wait till then: so a file
is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.damage import DamageReport
from kg_loaders.rdf.line_blocks import Statements
from kg_loaders.rdf.records import (
    RDF_TYPE,
    TEXT_PREDICATES,
    LiteralTerm,
    Statement,
    Types,
    language_fits,
)
from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock, distinct_ids, taken
from kg_loaders.records import TextKind

_NO_KIND = 255


class BlockRecords:
    """Turns statements, each counted already, into blocks; options as in `to_records`."""

    def __init__(
        self,
        report: DamageReport,
        *,
        prefixes: Mapping[str, str] | None = None,
        texts: Mapping[str, TextKind] = TEXT_PREDICATES,
        types: Types = "triple",
        languages: Sequence[str] | None = None,
        relation_prefixes: Sequence[str] | None = None,
    ) -> None:
        self._report, self._texts, self._types = report, texts, types
        self._languages, self._starts = languages, relation_prefixes
        self._shorten = _shortener(prefixes or {})
        self._predicates: dict[str, None] = {}
        self._nodes: list[pa.StringArray] = []
        self._waiting: list[tuple[TextBlock, NDArray[np.bool_]]] = []  # and nodes by prefix

    def know(self, predicates: Iterable[str]) -> None:
        """Take predicates of the file beside those of the statements that `blocks` is given."""
        if self._starts is None:
            self._predicates.update(dict.fromkeys(predicates))

    def blocks(self, statements: Statements) -> Iterator[Block]:
        """The triples of some statements, and what rdf:type says as texts; other texts wait."""
        codes = distinct_ids(statements.predicates, len(statements.terms))
        predicates = statements.terms.take(pa.array(codes)).to_pylist()
        names: dict[int, str] = dict(zip(codes.tolist(), predicates, strict=True))
        self.know(names.values())
        is_text = statements.language_ids >= 0
        self._keep_texts(statements, np.flatnonzero(is_text), names)
        is_triple = ~is_text
        if self._types != "triple":
            types = [code for code, name in names.items() if name == RDF_TYPE]
            is_type = is_triple & np.isin(statements.predicates, types)
            yield _types(statements, np.flatnonzero(is_type), self._shorten)
            if self._types == "both":
                self._report.n_further += int(is_type.sum())
            else:
                is_triple &= ~is_type
        rows = np.flatnonzero(is_triple)
        ends = np.stack([statements.subjects[rows], statements.objects[rows]], axis=1)
        entities, ends = taken(statements.terms, ends)
        relations, relation_ids = taken(statements.terms, statements.predicates[rows])
        entities = self._shorten(entities)
        self._nodes.append(entities)
        yield TripleBlock(ends, relation_ids, entities, self._shorten(relations))

    def _keep_texts(
        self, statements: Statements, rows: NDArray[np.int64], names: Mapping[int, str]
    ) -> None:
        """Count what is no text of the graph; the others wait."""
        if not len(rows):
            return
        kinds = np.full(len(statements.terms), _NO_KIND, np.uint8)
        for code, name in names.items():
            kinds[code] = self._texts.get(name, _NO_KIND)
        predicates = statements.predicates[rows]
        others, counts = np.unique(predicates[kinds[predicates] == _NO_KIND], return_counts=True)
        for code, count in zip(others.tolist(), counts.tolist(), strict=True):
            self._report.skip(f"literal of {names[code]}", count)
        rows = rows[kinds[predicates] != _NO_KIND]
        values = statements.terms.take(pa.array(statements.objects[rows]))
        is_empty = pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        languages = [language_fits(tag, self._languages) for tag in statements.languages]
        is_other = ~np.array([*languages, True])[statements.language_ids[rows]] & ~is_empty
        for mask, reason in ((is_empty, "empty text"), (is_other, "text in another language")):
            if mask.any():
                self._report.skip(reason, int(mask.sum()))
        good = ~(is_empty | is_other)
        rows = rows[good]
        nodes, node_ids = taken(statements.terms, statements.subjects[rows])
        by_prefix = np.zeros(len(nodes), np.bool_)
        for start in self._starts or ():
            by_prefix |= pc.starts_with(nodes, start).to_numpy(zero_copy_only=False)
        texts = TextBlock(
            self._shorten(nodes), node_ids, kinds[statements.predicates[rows]],
            values.filter(pa.array(good)), statements.language_ids[rows], statements.languages,
        )  # fmt: skip
        self._waiting.append((texts, by_prefix))

    def rest(self) -> Iterator[TextBlock]:
        """All texts that wait, as the last statements are known; texts of entities first."""
        relations = self._shorten(pa.array(list(self._predicates), pa.string()))
        about: list[TextBlock] = []
        for texts, by_prefix in self._waiting:
            is_about = (_are_in(texts.nodes, relations) | by_prefix)[texts.node_ids]
            yield _rows(texts, ~is_about)
            if is_about.any():
                about.append(replace(_rows(texts, is_about), is_relation=True))
        for texts in about:
            yield texts
            is_both = _are_in(texts.nodes, relations) & self._are_nodes(texts.nodes)
            also = is_both[texts.node_ids]
            self._report.n_further += int(also.sum())
            yield replace(_rows(texts, also), is_relation=False)

    def _are_nodes(self, names: pa.StringArray) -> NDArray[np.bool_]:
        """Which names are heads or tails of triples."""
        found = np.zeros(len(names), np.bool_)
        for nodes in self._nodes:
            places = pc.index_in(nodes, names).drop_null().to_numpy(zero_copy_only=False)
            found[places] = True
        return found


def statements_of(rows: Iterable[Statement], report: DamageReport) -> Statements:
    """The same in columns; statements that no graph here can hold are counted and left out."""
    terms: dict[str, int] = {}
    languages: dict[str, int] = {}
    codes: list[tuple[int, int, int, int]] = []
    for subject, predicate, value in rows:
        if subject is None or value is None:
            report.skip("blank node, quoted triple or formula")
            continue
        language = -1
        if isinstance(value, LiteralTerm):
            language = languages.setdefault(value.language, len(languages))
            value = value.value
        head, relation, tail = (
            terms.setdefault(name, len(terms)) for name in (subject, predicate, value)
        )
        codes.append((head, relation, tail, language))
    columns = np.array(codes, np.int32).reshape(-1, 4).T
    names = pa.array(list(terms), pa.string())
    return Statements(names, columns[0], columns[1], columns[2], columns[3], tuple(languages))


def _types(
    statements: Statements,
    rows: NDArray[np.int64],
    shorten: Callable[[pa.StringArray], pa.StringArray],
) -> TextBlock:
    nodes, node_ids = taken(statements.terms, statements.subjects[rows])
    values = statements.terms.take(pa.array(statements.objects[rows]))
    kinds = np.full(len(rows), TextKind.TYPE, np.uint8)
    languages = np.zeros(len(rows), np.int32)
    return TextBlock(shorten(nodes), node_ids, kinds, shorten(values), languages, ("",))


def _are_in(names: pa.StringArray, known: pa.StringArray) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(names, known).to_numpy(zero_copy_only=False)
    return found


def _rows(texts: TextBlock, chosen: NDArray[np.bool_]) -> TextBlock:
    """Some of the texts, with no more nodes than they are about."""
    nodes, node_ids = taken(texts.nodes, texts.node_ids[chosen])
    return replace(
        texts,
        nodes=nodes,
        node_ids=node_ids,
        kinds=texts.kinds[chosen],
        values=texts.values.filter(pa.array(chosen)),
        language_ids=texts.language_ids[chosen],
    )


def _shortener(prefixes: Mapping[str, str]) -> Callable[[pa.StringArray], pa.StringArray]:
    """A function that shortens IRIs as that of `kg_loaders.rdf.records` does."""
    longest_first = sorted(prefixes.items(), key=lambda item: (-len(item[0]), item[0]))

    def shorten(iris: pa.StringArray) -> pa.StringArray:
        left = pa.array(np.ones(len(iris), np.bool_))
        names = iris
        for start, short in longest_first:
            has_start = pc.and_(left, pc.starts_with(iris, start))
            if not pc.any(has_start).as_py():
                continue
            rest = pc.utf8_slice_codeunits(iris, len(start))
            shortened = pc.binary_join_element_wise(short, rest, "")
            is_name = pc.not_equal(shortened, "")
            names = pc.if_else(pc.and_(has_start, is_name), shortened, names)
            left = pc.and_(left, pc.invert(has_start))
        return names

    return shorten
