"""What the columns of a table are: by the names in its first row, by an order, or by their place.

A first row that names all it needs is a header, whatever else it names. One that names a part is
refused, as it would be a wrong fact or columns in a wrong order; one that only looks like a header
is read as a fact and noted. `header="yes"` and `"no"` say which it is; `"wide"` says that each row
is an entity and each column a relation, which cannot be seen for sure: such a table is refused
until it is said. `order` what columns are:
letters (`htr`, `hrt--`: h(ead), r(elation), t(ail), `-` for a column that is left out), or the
names of the three columns (`from,kind,to`: head, relation, tail).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from kg_loaders.errors import KgError, SourceError
from kg_loaders.formats.field_names import (
    ENDS,
    HEADS,
    IDS,
    LABELS,
    LANGUAGES,
    LONG_RELATIONS,
    LONG_TAILS,
    RELATION_IDS,
    RELATIONS,
    SURE_IDS,
    SURE_RELATIONS,
    TAILS,
    TEXTS,
    first_of,
    plain_name,
)
from kg_loaders.records import TextKind

Header = Literal["auto", "yes", "no", "wide"]
HEADERS: tuple[Header, ...] = get_args(Header)
Values = Literal["names", "kgtk", "yago"]
"""How cells write a value: all are names, or literals are marked as KGTK or YAGO do."""
REMEDY = (
    "name head, relation and tail with --order (as in --order from,kind,to, or letters by place, "
    "--order hrt, with - for a column that is left out), or say --header no if it is a fact"
)


@dataclass(frozen=True, slots=True)
class TripleLayout:
    """Places of head, relation and tail in rows of `n_fields`, and of what is said of them.

    Attributes:
        texts: column of the node, kind and column of a text about it.
        sources: columns of the resource that an identifier is of (`NCBI`), by its column.
        negations: columns in which a value says that the statement is denied.
        unused: names of columns that are left out.
    """

    head: int
    relation: int
    tail: int
    n_fields: int = 3
    has_header: bool = False
    texts: tuple[tuple[int, TextKind, int], ...] = ()
    sources: Mapping[int, int] = field(default_factory=dict)
    negations: tuple[int, ...] = ()
    values: Values = "names"
    unused: tuple[str, ...] = ()
    names: tuple[str, str, str] = ("", "", "")

    @property
    def is_plain(self) -> bool:
        """Whether a row is three fields and a triple, as every line of a TSV without a header."""
        return self.n_fields == 3 and self.values == "names" and not self.sources

    @property
    def order(self) -> str:
        """The letters of three fields, as in "htr"."""
        letters = {self.head: "h", self.relation: "r", self.tail: "t"}
        return "".join(letters[position] for position in range(3))


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """Places of an identifier and of texts about it in rows of `n_fields`."""

    node: int
    texts: tuple[tuple[TextKind, int], ...]
    n_fields: int
    language: int = -1
    source: int = -1
    unused: tuple[str, ...] = ()
    is_relation: bool = False
    has_header: bool = True


@dataclass(frozen=True, slots=True)
class WideLayout:
    """Places of an entity, of texts about it and of the tails of its relations, by their names."""

    node: int
    texts: tuple[tuple[TextKind, int], ...]
    relations: tuple[tuple[str, int], ...]
    n_fields: int
    has_header: bool = True


@dataclass(frozen=True, slots=True)
class Neo4jLayout:
    """A header of Neo4j's, which `kg_loaders.formats.tables.neo4j` reads."""

    has_header: bool = True


Layout = TripleLayout | NodeLayout | WideLayout | Neo4jLayout
PLAIN = TripleLayout(0, 1, 2)


def require_header(header: str | bool) -> Header:
    """Return `header` as one of `HEADERS`; raises `KgError` for another word.

    >>> require_header(True)
    'yes'
    """
    word = {True: "yes", False: "no"}.get(header, header) if isinstance(header, bool) else header
    if word not in HEADERS:
        raise KgError(f"header {header!r} is none of {', '.join(HEADERS)}")
    return word


def require_order(order: str | None) -> str | None:
    """Return `order` unless it names no head, relation and tail, then raises `KgError`.

    >>> require_order("htr--")
    'htr--'
    """
    if order is None or _is_letters(order) or _is_named(order):
        return order
    raise KgError(
        f"order {order!r} is none of hrt, htr, rht, rth, thr, trh, also with - for a column "
        "that is left out (hrt--), nor the names of the columns of head, relation and tail "
        "with commas between (source,kind,target)"
    )


def _is_letters(order: str) -> bool:
    return sorted(order.replace("-", "")) == ["h", "r", "t"]


def _is_named(order: str) -> bool:
    parts = [part.strip() for part in order.split(",")]
    return len(parts) == 3 and all(parts) and len({*parts}) == 3


def layout_of(
    rows: Sequence[Sequence[str]],
    file: str,
    *,
    order: str | None = None,
    header: Header = "auto",
    notes: list[str] | None = None,
) -> Layout:
    """Return what the columns of a table are that begins with `rows`.

    Raises `SourceError` for a first row that names a part of what it needs, or without the columns
    that `order` names. What a reader should know is appended to `notes`.
    """
    notes = [] if notes is None else notes
    require_order(order)
    if not rows:
        return by_letters(order, None, has_header=False) if order and _is_letters(order) else PLAIN
    first = rows[0]
    if header == "wide":
        return _wide_layout(first, file, order)
    if order is not None and header != "no" and not _is_letters(order):
        return _by_column_names(order, first, file)
    if order is not None and not _is_letters(order):
        raise SourceError(
            f"{file}: order {order!r} names columns, and without a header none has a name"
        )
    known = None if header == "no" else named_layout(first)
    if header == "auto" and known is not None and not _is_surely_header(known, rows):
        known = None
    if order is not None:
        has_header = header == "yes" or (header == "auto" and known is not None)
        return by_letters(order, first if has_header else None, has_header=has_header)
    if known is not None:
        _require_relations(known, rows, file)
        _note_header(known, file, notes)
        return known
    long = long_layout(first)
    if long is not None and (header == "yes" or (header == "auto" and _can_be_header(rows))):
        notes.append(
            f"{file}: its first row, {row_text(first)}, was read as a header: {long.names[0]!r} "
            f"is the column of heads, {long.names[1]!r} of relations, {long.names[2]!r} of tails; "
            "--header no reads it as a fact"
        )
        return long
    if header == "yes":
        if len(first) == 3 and not any(_parts_of_header(first)):
            notes.append(f"{file}: its first row, {row_text(first)}, is passed over as a "
                         f"header; its "
                         "columns are taken for head, relation and tail")  # fmt: skip
            return by_letters("hrt", first, has_header=True)
        raise SourceError(f"{file}: {_missing(first)}; {REMEDY}")
    if header == "auto":
        if _is_part_of_header(rows):
            raise SourceError(f"{file}: {_missing(first)}; {_remedy(rows)}")
        if (layout := _by_shape(rows, file, notes)) is not None:
            return layout
        if _looks_wide(rows):
            raise SourceError(
                f"{file}: the first row, {row_text(first)}, seems to name columns, and none "
                f"of them is a relation; {_remedy(rows)}"
            )
        if looks_like_header(rows):
            notes.append(
                f"{file}: its first row, {row_text(first)}, was read as a fact, and looks like a "
                "header: if it is one, say --header yes (and --order for the columns), or --header "
                "wide if each column is a relation"
            )
    return _by_shape(rows, file, notes) or PLAIN


def _require_relations(layout: Layout, rows: Sequence[Sequence[str]], file: str) -> None:
    """Raise `SourceError` where the column of relations says only how edges point, as Gephi's."""
    if not isinstance(layout, TripleLayout) or plain_name(layout.names[1]) != "type":
        return
    values = {row[layout.relation].lower() for row in rows[1:] if len(row) == layout.n_fields}
    if values and values <= {"directed", "undirected", "mutual"}:
        raise SourceError(
            f"{file}: the first row, {row_text(rows[0])}, names the head ({layout.names[0]!r}) and "
            f"the tail ({layout.names[2]!r}) but no relation: {layout.names[1]!r} says how edges "
            "point; name the column of relations with --order (as in --order source,label,target)"
        )


# ---- by names ------------------------------------------------------------------------------------
def named_layout(header: Sequence[str]) -> Layout | None:
    """Return the layout whose columns a row names, None where it names too few.

    >>> layout = named_layout(["id", "Object", "Subject", "predicate"])
    >>> layout.head, layout.relation, layout.tail
    (2, 3, 1)
    """
    places: dict[str, int] = {}
    for index, name in enumerate(header):
        places.setdefault(plain_name(name), index)
    if _is_neo4j(places) or _is_neptune(header):
        return Neo4jLayout()
    ends = ends_of(places)
    if ends is not None:
        return _triple_layout(header, places, *ends)
    return _node_layout(header, places)


def long_layout(header: Sequence[str]) -> TripleLayout | None:
    """Return the layout of a long table: a property, a value and any third column.

    >>> layout = long_layout(["value", "ship", "property"])
    >>> layout.head, layout.relation, layout.tail
    (1, 2, 0)
    """
    places = _long_places([plain_name(name) for name in header])
    if places is None:
        return None
    head, relation, tail = places
    names = (header[head], header[relation], header[tail])
    return TripleLayout(head, relation, tail, has_header=True, names=names)


def _can_be_header(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows) > 1 and not recurs(rows) and all(map(is_field_name, rows[0]))


def _long_places(plain: Sequence[str]) -> tuple[int, int, int] | None:
    relations = [index for index, name in enumerate(plain) if name in LONG_RELATIONS]
    tails = [index for index, name in enumerate(plain) if name in LONG_TAILS]
    if len(plain) != 3 or len(relations) != 1 or len(tails) != 1:
        return None
    return 3 - relations[0] - tails[0], relations[0], tails[0]


def _wide_layout(header: Sequence[str], file: str, order: str | None) -> WideLayout:
    """The layout of a table whose rows are entities: the first identifier or name, else column 1.

    Raises `SourceError` for two columns of one name, a column without one, and with an `order`.
    """
    if order is not None:
        raise SourceError(
            f"{file}: --header wide has no head, relation and tail; leave out --order"
        )
    names = [name.strip() for name in header]
    if len({*names}) < len(names) or not all(names):
        raise SourceError(f"{file}: {row_text(header)} has a name twice, or a column without one")
    places: dict[str, int] = {}
    for index, name in enumerate(header):
        places.setdefault(plain_name(name), index)
    _, node = first_of([*SURE_IDS_IN_ORDER, *LABELS], places) or ("", 0)
    texts = []
    for kind in (TextKind.LABEL, TextKind.ALIAS, TextKind.DESCRIPTION):
        column = first_of(TEXTS[kind], places)
        if column is not None and column[1] != node:
            texts.append((kind, column[1]))
    used = {node, *(index for _, index in texts)}
    relations = tuple((name, index) for index, name in enumerate(names) if index not in used)
    if not relations:
        raise SourceError(f"{file}: {row_text(header)} names an entity but no relation")
    return WideLayout(node, tuple(texts), relations, len(header))


def _is_neo4j(places: Mapping[str, int]) -> bool:
    kinds = {name[name.find(":") :] for name in places if ":" in name}
    edges = {":start_id", ":end_id"} <= kinds
    apoc = {"_id", "_labels"} <= places.keys() or {"_start", "_end", "_type"} <= places.keys()
    return edges or ":id" in kinds or apoc


def _is_neptune(header: Sequence[str]) -> bool:
    """Whether these are columns of Amazon Neptune, where `~label` is a type."""
    names = {name.strip("\ufeff ") for name in header}
    return "~label" in names and ("~id" in names or {"~from", "~to"} <= names)


def ends_of(places: Mapping[str, int]) -> tuple[str, str, str] | None:
    """Return the names of head, relation and tail among those of columns; None where one lacks.

    >>> ends_of({"source": 0, "target": 1, "edge": 2})
    ('source', 'edge', 'target')
    """
    pairs = [(h, t, r) for h, t, r in ENDS if h in places and t in places]
    if not pairs:
        head = first_of([name for name in HEADS if len(name) > 1], places)
        tail = first_of([name for name in TAILS if len(name) > 1], places)
        pairs = [(head[0], tail[0], "relation")] if head and tail else []
    for head_name, tail_name, named in pairs:
        relations = [name for name in (named, *RELATIONS) if name not in (head_name, tail_name)]
        relation = first_of(relations, places)
        if relation is not None:
            return head_name, relation[0], tail_name
    return None


def places_of(columns: Sequence[str]) -> tuple[int, int, int] | None:
    """Return the places of head, relation and tail among `columns`; None where one is missing.

    >>> places_of(["id", "Object", "Subject", "predicate"])
    (2, 3, 1)
    >>> places_of(["value", "ship", "property"])
    (1, 2, 0)
    """
    plain = [plain_name(name) for name in columns]
    names = ends_of({name: plain.index(name) for name in plain})
    if names is None:
        return _long_places(plain)
    return plain.index(names[0]), plain.index(names[1]), plain.index(names[2])


_STEM = re.compile("_(id|name|entity|node)$")


def _triple_layout(
    header: Sequence[str], places: Mapping[str, int], head: str, relation: str, tail: str
) -> TripleLayout:
    chosen = (places[head], places[relation], places[tail])
    used = {*chosen}
    texts, sources = [], {}
    for name, position in zip((head, relation, tail), chosen, strict=True):
        for stem in dict.fromkeys((name, _STEM.sub("", name))):
            for kind, names in TEXTS.items():
                column = first_of([f"{stem}{mark}{n}" for n in names for mark in "_;"], places)
                if column is not None and column[1] not in used:
                    texts.append((position, kind, column[1]))
                    used.add(column[1])
            source = places.get(f"{stem}_source", -1)
            if source >= 0 and f"{stem}_index" in places and source not in used:
                sources[position] = source
                used.add(source)
    negations = tuple(places[n] for n in ("predicate_modifier", "negated") if n in places)
    used.update(negations)
    is_kgtk = (head, tail) == ("node1", "node2")
    return TripleLayout(
        *chosen, n_fields=len(header), has_header=True, texts=tuple(texts), sources=sources,
        negations=negations, values="kgtk" if is_kgtk else "names",
        unused=tuple(name for position, name in enumerate(header) if position not in used),
        names=(header[chosen[0]], header[chosen[1]], header[chosen[2]]),
    )  # fmt: skip


def _node_layout(header: Sequence[str], places: Mapping[str, int]) -> NodeLayout | None:
    node = first_of([*SURE_IDS_IN_ORDER, *IDS], places)
    if node is None:
        return None
    used = {node[1]}
    texts = []
    for kind, names in TEXTS.items():
        names = (*names, "node_source_name") if kind is TextKind.LABEL else names
        column = first_of([n for n in names if places.get(n) not in used], places)
        if column is not None:
            texts.append((kind, column[1]))
            used.add(column[1])
    if not texts:
        return None
    language = first_of(LANGUAGES, places)
    has_index = node[0] == "node_id" and {"node_index", "node_source"} <= places.keys()
    source = places["node_source"] if has_index else -1
    used.update({language[1] if language else -1, source})
    return NodeLayout(
        node[1], tuple(texts), len(header), language[1] if language else -1, source,
        tuple(name for position, name in enumerate(header) if position not in used),
        is_relation=node[0] in RELATION_IDS,
    )  # fmt: skip


def _is_surely_header(layout: Layout, rows: Sequence[Sequence[str]]) -> bool:
    """Whether names of columns that could be a fact are none: `h r t` alone, `entity type x`."""
    first = rows[0]
    if isinstance(layout, TripleLayout):
        return len(rows) > 1 or any(len(name.strip()) > 1 for name in layout.names)
    if isinstance(layout, NodeLayout) and plain_name(first[layout.node]) not in SURE_IDS:
        return not layout.unused and not recurs(rows)
    return True


SURE_IDS_IN_ORDER = tuple(name for name in IDS if name in SURE_IDS)


# ---- by an order ---------------------------------------------------------------------------------
def by_letters(order: str, header: Sequence[str] | None, *, has_header: bool) -> TripleLayout:
    """Return the layout of an order in letters; `header` names the columns, if one does."""
    head, relation, tail = (order.index(letter) for letter in "hrt")
    names = [
        header[index] if header and index < len(header) else "" for index in (head, relation, tail)
    ]
    return TripleLayout(
        head, relation, tail, n_fields=len(order), has_header=has_header,
        names=(names[0], names[1], names[2]),
    )  # fmt: skip


def _by_column_names(order: str, header: Sequence[str], file: str) -> TripleLayout:
    wanted = [part.strip() for part in order.split(",")]
    plain = [plain_name(name) for name in header]
    chosen = []
    for name in wanted:
        exact = [index for index, each in enumerate(header) if each.strip() == name]
        places = exact or [index for index, each in enumerate(plain) if each == plain_name(name)]
        if not places:
            raise SourceError(
                f"{file} has no column {name!r}; its first row names {', '.join(header)}"[:500]
            )
        chosen.append(places[0])
    if len({*chosen}) < 3:
        raise SourceError(f"{file}: order {order!r} names a column twice")
    head, relation, tail = chosen
    unused = tuple(name for index, name in enumerate(header) if index not in chosen)
    return TripleLayout(
        head, relation, tail, n_fields=len(header), has_header=True, unused=unused,
        names=(header[head], header[relation], header[tail]),
    )  # fmt: skip


# ---- by the shape of rows ------------------------------------------------------------------------
_OPENBIOLINK = re.compile(r"(?:[A-Z]{2,10}_)+[A-Z]{2,10}|IS_A|PART_OF")
_CURIE = re.compile(r"[A-Za-z][A-Za-z0-9_.]*:\S+")
_YAGO_ID = re.compile(r"<id_[^>]*>|")


def _by_shape(rows: Sequence[Sequence[str]], file: str, notes: list[str]) -> TripleLayout | None:
    """The layout of a known table without a header: OpenBioLink's edges, YAGO's facts."""
    if all(_is_openbiolink(row) for row in rows):
        n = len(rows[0])
        notes.append(f"{file} was read as edges of OpenBioLink: columns 4 to {n} are left out")
        return TripleLayout(0, 1, 2, n_fields=n)
    if all(_is_yago(row) for row in rows):
        notes.append(f"{file} was read as facts of YAGO: identifier, subject, predicate, object")
        return TripleLayout(1, 2, 3, n_fields=len(rows[0]), values="yago")
    return None


def _is_openbiolink(row: Sequence[str]) -> bool:
    if not 4 <= len(row) <= 6:
        return False
    ends = _CURIE.fullmatch(row[0]) and _CURIE.fullmatch(row[2])
    return bool(ends and _OPENBIOLINK.fullmatch(row[1]))


def _is_yago(row: Sequence[str]) -> bool:
    if not 4 <= len(row) <= 5 or not _YAGO_ID.fullmatch(row[0]):
        return False
    return row[1].startswith("<") and row[1].endswith(">") and bool(row[2]) and bool(row[3])


# ---- what is no whole header ---------------------------------------------------------------------
def _parts_of_header(row: Sequence[str]) -> tuple[str, str, str]:
    """The names of head, relation and tail that a row holds; "" for one that it does not."""
    places = {plain_name(name): name for name in row}
    head, relation, tail = (
        first_of([n for n in names if len(n) > 1], places) for names in (HEADS, RELATIONS, TAILS)
    )
    if not (head or tail or (relation and relation[0] in SURE_RELATIONS)):
        return "", "", ""
    return head[1] if head else "", relation[1] if relation else "", tail[1] if tail else ""


def _is_part_of_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names some of head, relation and tail, and can hardly be a fact."""
    first = rows[0]
    head, relation, tail = _parts_of_header(first)
    is_sure = plain_name(relation) in SURE_RELATIONS
    if not ((head and tail) or (is_sure and (head or tail or len(rows) > 1))):
        return _is_part_of_nodes(rows)
    return len(first) >= 2 and not recurs(rows) and all(map(is_field_name, first))


def _looks_wide(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table of more than three columns is of entities: its first row names columns."""
    has_names = len(rows[0]) > 3 and all(map(is_field_name, rows[0]))
    return len(rows) > 1 and has_names and not recurs(rows)


def _remedy(rows: Sequence[Sequence[str]]) -> str:
    if not _looks_wide(rows):
        return REMEDY
    return f"say --header wide if each row is an entity and each column a relation, or {REMEDY}"


def _is_part_of_nodes(rows: Sequence[Sequence[str]]) -> bool:
    first = [plain_name(name) for name in rows[0]]
    return (
        len(first) > 3
        and first[0] in SURE_IDS
        and not recurs(rows)
        and all(map(is_field_name, rows[0]))
    )


def recurs(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a value of the first row is in the same column of another."""
    first = rows[0]
    return any(
        first[position] and row[position] == first[position]
        for row in rows[1:]
        for position in range(min(len(row), len(first)))
    )


_FIELD_NAME = re.compile(r"[#:_@~]?[^\W\d][\w .:;()#/\-]{0,40}")
_WORDS = frozenset(
    {"id", "name", "label", "type", "kind", "class", "key", "value", "weight", "score"}
    | {"entity", "entities", "node", "concept", "term", "identifier", "description", "alias"}
    | {"head", "relation", "relationship", "tail", "subject", "predicate", "object", "property"}
    | {"source", "target", "from", "to", "edge", "start", "end", "rel", "pred", "subj", "obj"}
    | {"category", "comment"}
)


def is_field_name(cell: str) -> bool:
    return bool(_FIELD_NAME.fullmatch(cell.strip()))


def looks_like_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a table looks like names of columns.

    All of its cells are such, none is a value of another row, and either two hold a word that
    columns are named with (`entity`) and values below do not, or in two columns all other rows
    write values in another way (codes, capitals, IRIs). So do numbers of columns above other names.

    >>> looks_like_header([["gene", "drug"], ["HGNC:5", "D:1"], ["HGNC:7", "D:2"]])
    True
    """
    first, others = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if _are_numbers(first) and others and not any(map(_is_number, others[0])):
        return True
    if len(first) < 2 or not others or not all(map(is_field_name, first)):
        return False
    values = {cell for row in others for cell in row}
    if values.intersection(first) or len({*first}) < len(first):
        return False
    words = [
        _words(cell).difference(*(_words(row[index]) for row in others))
        for index, cell in enumerate(first)
    ]
    if sum(map(bool, words)) >= 2:
        return True
    n_other = 0
    for position, cell in enumerate(first):
        shapes = {_shape(row[position]) for row in others}
        n_other += _shape(cell) not in shapes and len(shapes) <= 2
    return len(others) >= 2 and n_other >= 2


def _words(cell: str) -> frozenset[str]:
    """The words in a cell that columns are named with."""
    return _WORDS.intersection(re.split(r"[\W_]+", plain_name(cell)))


def _are_numbers(row: Sequence[str]) -> bool:
    """Whether a row is 0, 1, 2, ...: the names that pandas gives to columns without one."""
    return len(row) >= 2 and [*row] == [str(index) for index in range(len(row))]


def _is_number(cell: str) -> bool:
    return _shape(cell) == "number"


def _shape(cell: str) -> str:
    """How a value is written: as a number, a code, an IRI, in capitals, in small letters."""
    if re.fullmatch(r"[-+]?[0-9.,]+", cell):
        return "number"
    if "://" in cell or cell.startswith("<"):
        return "IRI"
    if re.search("[0-9]", cell) or re.fullmatch(r"[^\s:/]+[:/]\S+", cell):
        return "code"
    if cell.isupper() and len(cell) > 1:
        return "capitals"
    return "capital" if cell[:1].isupper() else "small"


def _missing(row: Sequence[str]) -> str:
    """What a row names and what it does not."""
    parts = dict(zip(("head", "relation", "tail"), _parts_of_header(row), strict=True))
    known = [f"the {part} ({name!r})" for part, name in parts.items() if name]
    lacking = [part for part, name in parts.items() if not name]
    names = f"the first row, {row_text(row)},"
    if not known:
        return f"{names} names no column of a head, a relation and a tail"
    return f"{names} names {' and '.join(known)} but no {' and no '.join(lacking)}"


def row_text(row: Sequence[str]) -> str:
    return repr(", ".join(row)[:200])


def _note_header(layout: Layout, file: str, notes: list[str]) -> None:
    """Note the columns that a header leaves out; those of Neo4j's its own reader counts."""
    if isinstance(layout, (TripleLayout, NodeLayout)) and layout.unused:
        notes.append(left_out(file, layout.unused) + wide_hint(layout))


def left_out(file: str, names: Sequence[str]) -> str:
    """Return the note on columns that are left out; those without a name are counted.

    >>> left_out("x.csv", ["weight", "", ""])
    'x.csv: columns that were left out: weight, 2 without a name'
    """
    known = [name for name in names if name.strip()]
    n_unnamed = len(names) - len(known)
    listed = ", ".join([*known, *([f"{n_unnamed} without a name"] if n_unnamed else [])])
    return f"{file}: columns that were left out: {listed}"[:500]


def wide_hint(layout: TripleLayout | NodeLayout) -> str:
    """What to do where the columns that are left out are relations of the row's entity."""
    is_wide = isinstance(layout, NodeLayout) and not layout.is_relation
    return "; --header wide reads each as a relation" if is_wide else ""
