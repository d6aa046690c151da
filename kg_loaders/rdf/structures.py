"""What RDF says in several statements, rewritten to one: labels, restrictions and marks.

    s skosxl:prefLabel L . L skosxl:literalForm "x"         s skosxl:prefLabel "x"
    s rdfs:subClassOf [ owl:onProperty p ; owl:someValuesFrom f ]            s p f
    s owl:deprecated true  (and what says the same)         s owl:deprecated "owl:DeprecatedClass"
    wd:P22 wikibase:directClaim wdt:P22                     texts of wd:P22 are those of wdt:P22

Blank nodes, and skolem IRIs, which stand for such (RDF 1.1, 3.5), have no place in a graph: their
statements are skipped and counted once they have been looked at here. Restrictions are followed
from rdfs:subClassOf and owl:equivalentClass, also through owl:intersectionOf; a restriction to a
class without a name, or on the inverse of a property, is not rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kg_loaders.damage import DamageReport
from kg_loaders.rdf.names import OBO_IN_OWL, RDFS, SKOS_XL
from kg_loaders.records import DEPRECATED, DEPRECATED_TYPES, TextKind

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDF_TYPE = f"{RDF}type"
OWL = "http://www.w3.org/2002/07/owl#"
WIKIBASE = "http://wikiba.se/ontology#"
ON_PROPERTY = f"{OWL}onProperty"
DEPRECATED_PREDICATE = f"{OWL}deprecated"
MARKS = {DEPRECATED_PREDICATE: TextKind.TYPE}
"""What a rewritten mark of a deprecated term becomes."""

BLANK = "blank node, quoted triple or formula"
XL_LABEL = "SKOS-XL label, read as a text of what it labels"
PROPERTY = "statement about a Wikidata property"
BLANK_START = "_:"

_FILLER, _MEMBERS = f"{OWL}someValuesFrom", f"{OWL}intersectionOf"
_FIRST, _REST = f"{RDF}first", f"{RDF}rest"
SUPERS = (f"{RDFS}subClassOf", f"{OWL}equivalentClass")
_FORM = f"{SKOS_XL}literalForm"
_XL = tuple(f"{SKOS_XL}{kind}Label" for kind in ("pref", "alt", "hidden"))
_OBSOLETE = f"{OBO_IN_OWL}is_obsolete"
_OBSOLETE_CLASSES = tuple(f"{OBO_IN_OWL}Obsolete{kind}" for kind in ("Class", "Property"))
OF_PROPERTIES = tuple(
    f"{WIKIBASE}{name}"
    for name in (
        "directClaim", "directClaimNormalized", "claim", "statementProperty", "statementValue",
        "statementValueNormalized", "qualifier", "qualifierValue", "qualifierValueNormalized",
        "reference", "referenceValue", "referenceValueNormalized", "novalue",
    )
)  # fmt: skip
"""From a property of a Wikibase to the predicates that are it in statements."""
_DIRECT = OF_PROPERTIES[0]
SPECIAL = frozenset((*_XL, _FORM, DEPRECATED_PREDICATE, _OBSOLETE, *OF_PROPERTIES))
"""The predicates of which every statement is looked at; others only where `is_special` says so."""
SPECIAL_OBJECTS = frozenset((f"{SKOS_XL}Label", *DEPRECATED_TYPES, *_OBSOLETE_CLASSES))

SKOLEM = r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*/\.well-known/genid/"
WIKIDATA_PROPERTY = r"^https?://www\.wikidata\.org/entity/P[0-9]+$"
_ENTITY = re.compile(r"(.*)/entity/(P[0-9]+)")
_IS_SKOLEM, _IS_PROPERTY = re.compile(SKOLEM).match, re.compile(WIKIDATA_PROPERTY).match
_PATHS = ("direct/", "direct-normalized/", "", "statement/", "qualifier/", "reference/",
          "statement/value/", "qualifier/value/", "reference/value/")  # fmt: skip


class LiteralTerm(NamedTuple):
    """A literal's text and language tag; its datatype plays no part."""

    value: str
    language: str


class Statement(NamedTuple):
    """An RDF statement: an IRI is a string, `_:x` a blank node, None a quoted triple or formula."""

    subject: str | None
    predicate: str
    object: str | LiteralTerm | None


def is_blank(term: str) -> bool:
    """Whether a term is a blank node or a skolem IRI.

    >>> is_blank("_:x"), is_blank("http://a.example/.well-known/genid/x"), is_blank("http://a/x")
    (True, True, False)
    """
    return term.startswith(BLANK_START) or (
        "/.well-known/genid/" in term and _IS_SKOLEM(term) is not None
    )


class Structures:
    """Takes the statements of one file that belong together, and gives what they say.

    Every statement taken is counted: as skipped, or by what `rest` gives for it. With `keeps_types`
    the type owl:DeprecatedClass stays a statement, too.
    """

    def __init__(self, report: DamageReport, *, keeps_types: bool = False) -> None:
        self._report, self._keeps_types = report, keeps_types
        self._supers: list[tuple[str, str]] = []
        self._nodes: dict[str, dict[str, str]] = {}  # of blank nodes: the parts of restrictions
        self._labels: list[tuple[str, str, str]] = []
        self._forms: dict[str, list[LiteralTerm]] = {}
        self._relations_of: dict[str, dict[str, str]] = {}
        self.n_restrictions = 0
        self.on_properties: dict[str, None] = {}
        """The properties that restrictions are on: relations, wherever they are a predicate."""

    def rewritten(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        """Yield the statements that a graph can hold, those that are rewritten at the end."""
        for statement in statements:
            yield from self.take(statement)
        yield from self.rest()

    def take(self, statement: Statement) -> Iterator[Statement]:
        """Yield what is said by the statement alone; what waits for others is given by `rest`."""
        subject, predicate, value = statement
        if subject is None or value is None:
            self._report.skip(BLANK)
        elif isinstance(value, LiteralTerm):
            yield from self._take_literal(subject, predicate, value)
        elif is_blank(subject):
            self._take_part(subject, predicate, value)
        elif predicate in _XL:
            self._labels.append((subject, predicate, value))
        elif is_blank(value):
            if predicate in SUPERS:
                self._supers.append((subject, value))
            else:
                self._report.skip(BLANK)
        elif predicate in OF_PROPERTIES:
            self._relations_of.setdefault(subject, {})[predicate] = value
            self._report.skip(PROPERTY)
        elif _IS_PROPERTY(subject) or _IS_PROPERTY(value):
            self._report.skip(PROPERTY)
        elif predicate == RDF_TYPE and value == f"{SKOS_XL}Label":
            self._report.skip(XL_LABEL)
        else:
            yield from self._marked(statement)

    def _take_literal(
        self, subject: str, predicate: str, value: LiteralTerm
    ) -> Iterator[Statement]:
        if predicate == _FORM:
            self._forms.setdefault(subject, []).append(value)
        elif is_blank(subject):
            self._report.skip(BLANK)
        elif predicate in (DEPRECATED_PREDICATE, _OBSOLETE) and _is_true(value.value):
            yield mark_of(subject)
        else:
            if predicate == DEPRECATED_PREDICATE:  # "false": it says nothing
                self._report.skip(f"literal of {predicate}")
                return
            yield Statement(subject, predicate, value)

    def _take_part(self, subject: str, predicate: str, value: str) -> None:
        if predicate in (ON_PROPERTY, _FILLER, _MEMBERS, _FIRST, _REST):
            self._nodes.setdefault(subject, {})[predicate] = value
            if predicate == ON_PROPERTY and not is_blank(value):
                self.on_properties[value] = None
        self._report.skip(BLANK)

    def _marked(self, statement: Statement) -> Iterator[Statement]:
        """The statement, and the mark of a deprecated term where it is one."""
        subject, predicate, value = statement
        assert subject is not None
        if predicate == RDF_TYPE and value in DEPRECATED_TYPES:
            yield mark_of(subject, str(value))
            if not self._keeps_types:
                return
        elif predicate in SUPERS and value in _OBSOLETE_CLASSES:
            yield mark_of(subject)
        else:
            yield statement
            return
        self._report.n_further += 1
        yield statement

    # ---- what is known at the end ----------------------------------------------------------------
    def rest(self) -> Iterator[Statement]:
        """Yield what waited for other statements of the file."""
        yield from self._restrictions()
        yield from self._xl_texts()

    def _restrictions(self) -> Iterator[Statement]:
        for subject, node in self._supers:
            pairs = list(dict.fromkeys(self._fillers(node)))
            if not pairs:
                self._report.skip(BLANK)
                continue
            self.n_restrictions += len(pairs)
            self._report.n_further += len(pairs) - 1
            for predicate, filler in pairs:
                yield Statement(subject, predicate, filler)
        if self.n_restrictions:
            self._report.notes.append(
                f"OWL restrictions (someValuesFrom) read as triples: {self.n_restrictions}"
            )
        self._supers = []

    def _fillers(self, node: str) -> Iterator[tuple[str, str]]:
        """Property and filler of a restriction, or of all that an intersection has."""
        pending, known = [node], {node}
        while pending:
            parts = self._nodes.get(pending.pop(), {})
            predicate, filler = parts.get(ON_PROPERTY), parts.get(_FILLER)
            if predicate and filler and not is_blank(predicate) and not is_blank(filler):
                yield predicate, filler
            for name in (_MEMBERS, _REST, _FIRST):
                following = parts.get(name)
                if following is not None and is_blank(following) and following not in known:
                    known.add(following)
                    pending.append(following)

    def _xl_texts(self) -> Iterator[Statement]:
        owned = {label for _, _, label in self._labels}
        for subject, predicate, label in self._labels:
            forms = self._forms.get(label, ())
            self._report.n_further += max(len(forms) - 1, 0)
            for form in forms:
                yield Statement(subject, predicate, form)
            if not forms and is_blank(label):
                self._report.skip(BLANK)
            elif not forms:
                yield Statement(subject, predicate, label)
        for label, forms in self._forms.items():
            if label in owned:
                self._report.skip(XL_LABEL, len(forms))
            elif is_blank(label):
                self._report.skip(BLANK, len(forms))
            else:
                for form in forms:
                    yield Statement(label, _FORM, form)
        self._labels, self._forms = [], {}

    def relations_of(self, node: str, predicates: Mapping[str, None]) -> list[str]:
        """The relations whose texts are those of `node`, a property of a Wikibase; or none.

        Those among `predicates`; where none of them is, the one of its direct claims. A node that
        is itself a predicate has no other relations.
        """
        if node in predicates:
            return []
        claims = self._relations_of.get(node, {})
        related = [*claims.values(), *_by_pattern(node)]
        used = [relation for relation in dict.fromkeys(related) if relation in predicates]
        if used:
            return used
        direct = claims.get(_DIRECT) or next(iter(claims.values()), None)
        if direct is None and _IS_PROPERTY(node):
            direct = _by_pattern(node)[0]
        return [direct] if direct else []

    @property
    def properties(self) -> Iterable[str]:
        """The nodes that a statement says to be a property of a Wikibase."""
        return self._relations_of.keys()


def is_wikibase_property(node: str) -> bool:
    """Whether an IRI has the form of a property's in Wikidata or in another Wikibase."""
    return _ENTITY.fullmatch(node) is not None


def mark_of(subject: str, type_name: str = DEPRECATED) -> Statement:
    """Return the statement that marks a deprecated term."""
    return Statement(subject, DEPRECATED_PREDICATE, LiteralTerm(type_name, ""))


def _by_pattern(node: str) -> list[str]:
    match = _ENTITY.fullmatch(node)
    return [f"{match[1]}/prop/{path}{match[2]}" for path in _PATHS] if match else []


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("true", "1")
