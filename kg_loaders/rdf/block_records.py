"""What `kg_loaders.rdf.records` makes of statements, for many statements at once, in columns.

Which texts are about relations is known at the end of the file, and they wait till then: so a file
is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.damage import DamageReport
from kg_loaders.disk.arrow import mask_array, numbers_array, numpy_of, string_scalar, strings_array
from kg_loaders.rdf.line_blocks import Statements
from kg_loaders.rdf.names import TEXT_PREDICATES
from kg_loaders.rdf.records import Types, language_fits
from kg_loaders.rdf.structures import (
    BLANK,
    BLANK_START,
    MARKS,
    PROPERTY,
    RDF_TYPE,
    SKOLEM,
    SPECIAL,
    SPECIAL_OBJECTS,
    SUPERS,
    WIKIDATA_PROPERTY,
    LiteralTerm,
    Statement,
    Structures,
    is_wikibase_property,
)
from kg_loaders.reading.blocks import (
    Block,
    TextBlock,
    TripleBlock,
    distinct_ids,
    numbers_behind,
    start_of,
    taken,
)
from kg_loaders.reading.languages import MALFORMED, language_tag
from kg_loaders.records import TextKind

_NO_KIND = 255
_HAVE_OBJECTS = frozenset((RDF_TYPE, *SUPERS))
"""The predicates of special objects."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundRecords:
    """What some statements say.

    `texts` are those that wait, and of their nodes which are relations by their prefix `[node]`.
    `properties` are those nodes that have the IRI of a Wikibase's property; `parts` are the
    statements that `Structures` looks at.
    """

    blocks: tuple[Block, ...]
    predicates: tuple[str, ...]
    texts: tuple[TextBlock, NDArray[np.bool_]] | None
    properties: tuple[str, ...] = ()
    parts: tuple[Statement, ...] = ()


class BlockRecords:
    """Turns statements, each counted already, into blocks; options as in `to_records`.

    `found` may be called elsewhere, in any process; `take` and `rest` see the whole file.
    """

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
        self._report, self._texts, self._types = report, {**texts, **MARKS}, types
        self._languages, self._starts = languages, relation_prefixes
        self._shorten = _shortener(prefixes or {})
        self._structures = Structures(report, keeps_types=types == "both")
        self._predicates: dict[str, None] = {}
        self._properties: dict[str, None] = {}
        self._triples: list[TripleBlock] = []
        self._waiting: list[tuple[TextBlock, NDArray[np.bool_]]] = []  # and nodes by prefix

    def records_in(self, statements: Statements) -> FoundRecords:
        """The triples of some statements, what rdf:type says as texts, and texts that wait."""
        codes = distinct_ids(statements.predicates, len(statements.terms))
        predicates = statements.terms.take(numbers_array(codes)).to_pylist()
        is_part, is_property = _special(
            statements, dict(zip(predicates, codes.tolist(), strict=True))
        )
        parts = tuple(_rows_of(statements, np.flatnonzero(is_part)))
        if is_property.any():
            self._report.skip(PROPERTY, int(is_property.sum()))
        records = self._records_in(statements.where(~(is_part | is_property)))
        return replace(records, predicates=tuple(predicates), parts=parts)

    def _records_in(self, statements: Statements) -> FoundRecords:
        """The same of statements that stand for themselves."""
        codes = distinct_ids(statements.predicates, len(statements.terms))
        predicates = statements.terms.take(numbers_array(codes)).to_pylist()
        names: dict[int, str] = dict(zip(codes.tolist(), predicates, strict=True))
        is_text = statements.language_ids >= 0
        texts, properties = self._texts_of(statements, np.flatnonzero(is_text), names)
        is_triple, blocks = ~is_text, []
        if self._types != "triple":
            types = [code for code, name in names.items() if name == RDF_TYPE]
            is_type = is_triple & np.isin(statements.predicates, types)
            blocks.append(_types(statements, np.flatnonzero(is_type), self._shorten))
            if self._types == "both":
                self._report.n_further += int(is_type.sum())
            else:
                is_triple &= ~is_type
        triples = _triples(statements, np.flatnonzero(is_triple), self._shorten)
        return FoundRecords((*blocks, triples), tuple(predicates), texts, properties)

    def take(self, records: FoundRecords) -> Iterator[Block]:
        """What was found of the next statements, save the texts, which wait."""
        if self._starts is None:
            self._predicates.update(dict.fromkeys(records.predicates))
        self._properties.update(dict.fromkeys(records.properties))
        if records.texts is not None:
            self._waiting.append(records.texts)
        self._triples += [block for block in records.blocks if isinstance(block, TripleBlock)]
        yield from records.blocks
        rewritten = [row for part in records.parts for row in self._structures.take(part)]
        if rewritten:
            yield from self.take(self._records_in(statements_of(rewritten, self._report)))

    def _texts_of(
        self, statements: Statements, rows: NDArray[np.int64], names: Mapping[int, str]
    ) -> tuple[tuple[TextBlock, NDArray[np.bool_]] | None, tuple[str, ...]]:
        """The texts of the graph and which nodes are relations by prefix; and properties.

        Other literals are counted.
        """
        if not len(rows):
            return None, ()
        kinds = np.full(len(statements.terms), _NO_KIND, np.uint8)
        for code, name in names.items():
            kinds[code] = self._texts.get(name, _NO_KIND)
        predicates = statements.predicates[rows]
        others, counts = np.unique(predicates[kinds[predicates] == _NO_KIND], return_counts=True)
        for code, count in zip(others.tolist(), counts.tolist(), strict=True):
            self._report.skip(f"literal of {names[code]}", count)
        rows = rows[kinds[predicates] != _NO_KIND]
        values = statements.terms.take(numbers_array(statements.objects[rows]))
        is_empty = numpy_of(pc.binary_length(values)) == 0
        tags = [language_tag(tag) for tag in statements.languages]
        fits = [tag is None or language_fits(tag, self._languages) for tag in tags]
        ids = statements.language_ids[rows]
        is_malformed = np.array([*(tag is None for tag in tags), False])[ids] & ~is_empty
        is_other = ~np.array([*fits, True])[ids] & ~is_empty
        for mask, reason in (
            (is_empty, "empty text"),
            (is_malformed, MALFORMED),
            (is_other, "text in another language"),
        ):
            if mask.any():
                self._report.skip(reason, int(mask.sum()))
        good = ~(is_empty | is_malformed | is_other)
        rows = rows[good]
        nodes, node_ids = taken(statements.terms, statements.subjects[rows])
        by_prefix = np.zeros(len(nodes), np.bool_)
        for start in self._starts or ():
            by_prefix |= numpy_of(pc.starts_with(nodes, start))
        texts = TextBlock(
            self._shorten(nodes), node_ids, kinds[statements.predicates[rows]],
            values.filter(mask_array(good)), statements.language_ids[rows],
            tuple(tag or "" for tag in tags),
        )  # fmt: skip
        entities = nodes.filter(mask_array(_match(nodes, "/entity/P", "/entity/P[0-9]+$")))
        properties = tuple(filter(is_wikibase_property, entities.to_pylist()))
        return (texts, by_prefix), properties

    def rest(self) -> Iterator[Block]:
        """All that waits, as the last statements are known; texts of entities first."""
        structures = self._structures
        yield from self.take(self._records_in(statements_of(structures.rest(), self._report)))
        if self._starts is None:
            self._predicates.update(structures.on_properties)
        relations = self._shorten(strings_array(self._predicates, pa.string()))
        relations_of = self._relations_of_properties()
        properties = strings_array(relations_of, pa.string())
        about: list[TextBlock] = []
        for texts, by_prefix in self._waiting:
            of_property = _are_in(texts.nodes, properties)
            is_about = (_are_in(texts.nodes, relations) | by_prefix) & ~of_property
            is_about, of_property = is_about[texts.node_ids], of_property[texts.node_ids]
            yield _rows(texts, ~(is_about | of_property))
            if is_about.any():
                about.append(replace(_rows(texts, is_about), is_relation=True))
            if of_property.any():
                yield from self._renamed(_rows(texts, of_property), relations_of)
        for texts in about:
            yield texts
            is_both = _are_in(texts.nodes, relations) & self._are_nodes(texts.nodes)
            also = is_both[texts.node_ids]
            self._report.n_further += int(also.sum())
            yield replace(_rows(texts, also), is_relation=False)

    def _relations_of_properties(self) -> dict[str, list[str]]:
        """By the short name of each property of a Wikibase, the short names of its relations."""
        properties = [*dict.fromkeys((*self._properties, *self._structures.properties))]
        relations: dict[str, list[str]] = {}
        names = self._shorten(strings_array(properties, pa.string())).to_pylist()
        for name, iri in zip(names, properties, strict=True):
            related = self._structures.relations_of(iri, self._predicates)
            if related:
                relations[name] = self._shorten(strings_array(related, pa.string())).to_pylist()
        return relations

    def _renamed(self, texts: TextBlock, relations_of: dict[str, list[str]]) -> Iterator[TextBlock]:
        """Texts of properties as texts of their relations, of each relation a block."""
        related = [relations_of[name] for name in texts.nodes.to_pylist()]
        for position in range(max(map(len, related))):
            has_one = np.array([len(names) > position for names in related])
            chosen = has_one[texts.node_ids]
            names = [names[min(position, len(names) - 1)] for names in related]
            renamed = replace(texts, nodes=pa.array(names, pa.string()), is_relation=True)
            self._report.n_further += int(chosen.sum()) if position else 0
            yield _rows(renamed, chosen)

    def _are_nodes(self, names: pa.StringArray) -> NDArray[np.bool_]:
        """Which names are heads or tails of triples."""
        are_nodes = np.zeros(len(names), np.bool_)
        for triples in self._triples:
            if isinstance(triples.entities, str):
                numbers = numbers_behind(triples.entities, names)
                are_nodes |= (numbers >= 0) & np.isin(numbers, triples.ends)
            else:
                places = pc.index_in(triples.entities, names).drop_null()
                are_nodes[numpy_of(places)] = True
        return are_nodes


def statements_of(rows: Iterable[Statement], report: DamageReport) -> Statements:
    """The same in columns; statements that no graph here can hold are counted and left out."""
    terms: dict[str, int] = {}
    languages: dict[str, int] = {}
    codes: list[tuple[int, int, int, int]] = []
    for subject, predicate, value in rows:
        if subject is None or value is None:
            report.skip(BLANK)
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
    names = strings_array(terms, pa.string())
    return Statements(names, columns[0], columns[1], columns[2], columns[3], tuple(languages))


def _special(
    statements: Statements, predicates: Mapping[str, int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which statements `Structures` looks at, and which are about properties of Wikidata."""
    terms, is_text = statements.terms, statements.language_ids >= 0

    def of_terms(of_term: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The statements with such a subject or an object that is not text."""
        if not of_term.any():
            return np.zeros(len(is_text), np.bool_)
        return np.asarray(
            of_term[statements.subjects] | (of_term[statements.objects] & ~is_text), np.bool_
        )

    codes = [code for name, code in predicates.items() if name in SPECIAL]
    is_part = np.isin(statements.predicates, codes)
    is_part |= of_terms(numpy_of(pc.starts_with(terms, BLANK_START)))
    is_part |= of_terms(_match(terms, "/.well-known/genid/", SKOLEM))
    if not _HAVE_OBJECTS.isdisjoint(predicates):
        is_object = numpy_of(pc.is_in(terms, strings_array(SPECIAL_OBJECTS, pa.string())))
        is_part |= is_object[statements.objects] & ~is_text
    is_property = of_terms(_match(terms, "wikidata.org/entity/P", WIKIDATA_PROPERTY))
    return is_part, is_property & ~is_text & ~is_part


def _match(terms: pa.StringArray, part: str, pattern: str) -> NDArray[np.bool_]:
    """Which terms match a pattern; `part` is in all that do, and faster to look for."""
    matches: NDArray[np.bool_] = numpy_of(pc.match_substring(terms, part))
    places = np.flatnonzero(matches)
    if len(places):
        matches = matches.copy()
        matches[places] = numpy_of(
            pc.match_substring_regex(terms.take(numbers_array(places)), pattern)
        )
    return matches


def _rows_of(statements: Statements, rows: NDArray[np.int64]) -> Iterator[Statement]:
    """Some statements one by one."""
    subjects, predicates, objects = (
        statements.terms.take(numbers_array(column[rows])).to_pylist()
        for column in (statements.subjects, statements.predicates, statements.objects)
    )
    languages = statements.language_ids[rows].tolist()
    for subject, predicate, value, language in zip(
        subjects, predicates, objects, languages, strict=True
    ):
        if language < 0:
            yield Statement(subject, predicate, value)
        else:
            yield Statement(subject, predicate, LiteralTerm(value, statements.languages[language]))


def _triples(
    statements: Statements,
    rows: NDArray[np.int64],
    shorten: Callable[[pa.StringArray], pa.StringArray],
) -> TripleBlock:
    """Triples, by the numbers behind their start where all names of entities have such."""
    ends = np.stack([statements.subjects[rows], statements.objects[rows]], axis=1)
    names, ends = taken(statements.terms, ends)
    names = shorten(names)
    relations, relation_ids = taken(statements.terms, statements.predicates[rows])
    relations = shorten(relations)
    start = start_of(names)
    numbers = numbers_behind(start, names)
    if start is not None and (numbers >= 0).all():
        return TripleBlock(numbers[ends], relation_ids, start, relations)
    return TripleBlock(ends, relation_ids, names, relations)


def _types(
    statements: Statements,
    rows: NDArray[np.int64],
    shorten: Callable[[pa.StringArray], pa.StringArray],
) -> TextBlock:
    nodes, node_ids = taken(statements.terms, statements.subjects[rows])
    values = statements.terms.take(numbers_array(statements.objects[rows]))
    kinds = np.full(len(rows), TextKind.TYPE, np.uint8)
    languages = np.zeros(len(rows), np.int32)
    return TextBlock(shorten(nodes), node_ids, kinds, shorten(values), languages, ("",))


def _are_in(names: pa.StringArray, known: pa.StringArray) -> NDArray[np.bool_]:
    return numpy_of(pc.is_in(names, known))


def _rows(texts: TextBlock, chosen: NDArray[np.bool_]) -> TextBlock:
    """Some of the texts, with no more nodes than they are about."""
    nodes, node_ids = taken(texts.nodes, texts.node_ids[chosen])
    return replace(
        texts,
        nodes=nodes,
        node_ids=node_ids,
        kinds=texts.kinds[chosen],
        values=texts.values.filter(mask_array(chosen)),
        language_ids=texts.language_ids[chosen],
    )


def _shortener(prefixes: Mapping[str, str]) -> Callable[[pa.StringArray], pa.StringArray]:
    """A function that shortens IRIs as that of `kg_loaders.rdf.records` does."""
    longest_first = sorted(prefixes.items(), key=lambda item: (-len(item[0]), item[0]))

    def shorten(iris: pa.StringArray) -> pa.StringArray:
        nothing = string_scalar("", pa.string())
        left = mask_array(np.ones(len(iris), np.bool_))
        names = iris
        for start, short in longest_first:
            has_start = pc.and_(left, pc.starts_with(iris, start))
            if not pc.any(has_start).as_py():
                continue
            rest = pc.utf8_slice_codeunits(iris, len(start))
            shortened = pc.binary_join_element_wise(
                string_scalar(short, pa.string()), rest, nothing
            )
            is_name = pc.not_equal(shortened, nothing)
            names = pc.if_else(pc.and_(has_start, is_name), shortened, names)
            left = pc.and_(left, pc.invert(has_start))
        return names

    return shorten
