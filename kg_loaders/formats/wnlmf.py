"""WN-LMF, the XML of the Global WordNet Association: Open English WordNet and other wordnets.

    Synset                        a node by its id
    lemmas of its senses          the first one LABEL, others ALIAS, with the sense's <Count>; in
                                  the order of `members`, else of the file
    Definition                    DESCRIPTION
    partOfSpeech, lexfile         TYPE ("noun", "noun.person")
    SynsetRelation                a triple; of relType "other" the relation is `dc:type`
    SenseRelation                 a triple between senses, each with one triple `sense_of`

As in `kg_loaders.formats.wordnet`, sense nodes have no texts, and with `lexical="synsets"` a
relation between senses links their synsets. Texts are in the language of their lexicon. Examples,
pronunciations, forms and the like are counted and left out.

The document is read as a whole (`ReaderBudget`) and parsed element by element; an entry or a synset
is the unit that is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.graphml import XmlEvents
from kg_loaders.formats.wordnet import SENSE_OF
from kg_loaders.rdf.nesting import check_xml
from kg_loaders.rdf.records import language_fits
from kg_loaders.reading.digits import whole_number
from kg_loaders.reading.languages import language_tag
from kg_loaders.reading.lines import read_whole
from kg_loaders.records import Record, Text, TextKind, Triple

PARTS_OF_SPEECH = {
    "n": "noun", "v": "verb", "a": "adj", "r": "adv", "s": "adj.satellite", "t": "phrase",
    "c": "conjunction", "p": "adposition", "x": "other", "u": "unknown",
}  # fmt: skip
_LEXICONS = ("Lexicon", "LexiconExtension")
_OWN_TYPES = tuple(
    f"{{{space}}}type"
    for space in ("https://globalwordnet.github.io/schemas/dc/", "http://purl.org/dc/elements/1.1/")
)
"""The attribute that names a relation that the format does not know."""


def read(
    path: str | Path,
    report: DamageReport,
    *,
    languages: Sequence[str] | None = None,
    lexical: Literal["senses", "synsets"] = "senses",
) -> Iterator[Record]:
    """Return the texts and triples of a wordnet, of texts those in `languages` (None: all).

    `lexical` says what a relation between senses links. Raises `SourceError` for another document.
    """
    file, data = str(path), read_whole(path, report.budget)
    fault = ""
    if report.policy is not DamagePolicy.STOP and b"\0" in data:
        data, fault = data[: data.find(b"\0")], "a NUL byte"
    check_xml(file, data, report.budget)
    report.units = "entries and synsets"
    wordnet = _Wordnet(file, report, languages, lexical)
    events = XmlEvents(data)
    open_elements: list[Element] = []
    root = ""
    for event, element in events:
        if event == "start":
            root = root or element.tag
            open_elements.append(element)
            wordnet.begin(element)
        else:
            open_elements.pop()
            if open_elements and open_elements[-1].tag in _LEXICONS:
                yield from wordnet.part(element)
                open_elements[-1].clear()  # what was read is let go of
    fault = fault or events.fault
    if root != "LexicalResource":
        raise SourceError(f"{file} is not WN-LMF{f': {fault}' if fault else ''}")
    yield from wordnet.rest()
    if fault:
        report.n_lines += 1
        report.reject(file, wordnet.n_units + 1, 0, f"no XML: {fault}", b"")


class _Member(NamedTuple):
    """A word of a synset: the id of its sense and of its entry, and how often it was counted."""

    sense: str
    entry: str
    lemma: str
    n_counted: int
    language: str


class _Relation(NamedTuple):
    """A relation from a sense to a sense or a synset."""

    source: str
    name: str
    target: str
    unit: int


@dataclass
class _Wordnet:
    """What a document has said so far."""

    file: str
    report: DamageReport
    languages: Sequence[str] | None
    lexical: str
    n_units: int = 0
    language: str = ""
    members: dict[str, list[_Member]] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)
    synsets: dict[str, None] = field(default_factory=dict)
    synset_of: dict[str, str] = field(default_factory=dict)
    relations: list[_Relation] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)
    """Of relations in triples."""

    def begin(self, element: Element) -> None:
        """Note the language of a lexicon."""
        if element.tag in _LEXICONS:
            self.language = language_tag(element.get("language", "")) or ""

    def part(self, element: Element) -> Iterator[Record]:
        """Count a part of a lexicon, and return what can be said of it already."""
        self.n_units += 1
        self.report.n_lines += 1
        if element.tag == "Synset":
            yield from self._synset(element)
        elif element.tag == "LexicalEntry":
            self._entry(element)
        else:
            self.report.skip(element.tag)

    def _entry(self, entry: Element) -> None:
        lemma = entry.find("Lemma")
        written = "" if lemma is None else lemma.get("writtenForm", "").strip()
        if not written:
            self._reject(entry, "no lemma")
            return
        n_names = 0
        for each in entry:
            if each.tag != "Sense":
                self._leave_out([each] if each.tag != "Lemma" else list(each))
                continue
            sense, synset = each.get("id", ""), each.get("synset", "")
            if not sense or not synset:
                self._reject_part(each, "a sense without an id or a synset")
                continue
            n_names += 1
            self.synset_of[sense] = synset
            self.members.setdefault(synset, []).append(
                _Member(sense, entry.get("id", ""), written, _count(each), self.language)
            )
            self._sense(sense, each)
        if not n_names:
            self.report.skip("entry without a sense")
        self.report.n_further += max(n_names - 1, 0)

    def _sense(self, id: str, sense: Element) -> None:
        for each in sense:
            name, target = _relation_name(each), each.get("target", "")
            if each.tag == "SenseRelation" and name and target:
                self.relations.append(_Relation(id, name, target, self.n_units))
            elif each.tag == "SenseRelation":
                self._reject_part(each, "a relation without a type or a target")
            elif each.tag != "Count":
                self._leave_out([each])

    def _synset(self, synset: Element) -> Iterator[Record]:
        id = synset.get("id", "")
        if not id:
            self._reject(synset, "no id")
            return
        self.synsets[id] = None
        if members := synset.get("members", "").split():
            self.orders[id] = members
        records: list[Record] = []
        part = synset.get("partOfSpeech", "")
        types = (PARTS_OF_SPEECH.get(part, part), synset.get("lexfile", ""))
        records += [Text(id, TextKind.TYPE, type) for type in types if type]
        for each in synset:
            text = "".join(each.itertext()).strip()
            if each.tag == "SynsetRelation":
                name, target = _relation_name(each), each.get("target", "")
                if name and target:
                    records.append(self._triple(id, name, target))
                else:
                    self._reject_part(each, "a relation without a type or a target")
            elif each.tag == "Definition" and text:
                language = language_tag(each.get("language", "")) or self.language
                if language_fits(language, self.languages):
                    records.append(Text(id, TextKind.DESCRIPTION, text, language))
                else:
                    self.report.n_further += 1
                    self.report.skip("text in another language")
            else:
                self._leave_out([each])
        if not records:
            self.report.skip("synset without any statement")
        self.report.n_further += max(len(records) - 1, 0)
        yield from records

    def rest(self) -> Iterator[Record]:
        """The names of synsets and the relations of senses, now that all of them are known."""
        for synset, members in self.members.items():
            places = {name: number for number, name in enumerate(self.orders.get(synset, ()))}
            last = len(places)
            members.sort(
                key=lambda one: min(places.get(one.sense, last), places.get(one.entry, last))
            )
            labelled: set[str] = set()
            for member in members:
                if not language_fits(member.language, self.languages):
                    self.report.skip("text in another language")
                    continue
                kind = TextKind.ALIAS if member.language in labelled else TextKind.LABEL
                labelled.add(member.language)
                yield Text(synset, kind, member.lemma, member.language, member.n_counted)
        senses: dict[str, None] = {}
        for relation in self.relations:
            yield from self._lexical(relation, senses)
        for name in self.names:
            self.report.n_further += 1
            yield Text(name, TextKind.LABEL, name.replace("_", " "), "en", 0, True)

    def _lexical(self, relation: _Relation, senses: dict[str, None]) -> Iterator[Record]:
        self.report.n_further += 1
        ends = (relation.source, relation.target)
        if relation.target not in self.synset_of and relation.target not in self.synsets:
            self.report.skip("relation to a sense that is not there")
            return
        if self.lexical == "synsets":
            head, tail = (self.synset_of.get(end, end) for end in ends)
            yield self._triple(head, relation.name, tail)
            return
        yield self._triple(ends[0], relation.name, ends[1])
        for sense in ends:
            if sense in self.synset_of and sense not in senses:
                senses[sense] = None
                self.report.n_further += 1
                yield self._triple(sense, SENSE_OF, self.synset_of[sense])

    def _triple(self, head: str, relation: str, tail: str) -> Triple:
        self.names[relation] = None
        return Triple(head, relation, tail)

    def _leave_out(self, elements: Sequence[Element]) -> None:
        for element in elements:
            self.report.n_further += 1
            self.report.skip(element.tag)

    def _reject_part(self, element: Element, reason: str) -> None:
        self.report.n_further += 1
        self._reject(element, reason)

    def _reject(self, element: Element, reason: str) -> None:
        raw = f"{element.tag} {element.attrib}".encode()
        self.report.reject(self.file, self.n_units, 0, reason, raw)


def _relation_name(element: Element) -> str:
    name = element.get("relType", "")
    type_name = next((element.get(each, "") for each in _OWN_TYPES if element.get(each)), "")
    return type_name if name == "other" and type_name else name


def _count(sense: Element) -> int:
    """How often a sense was counted in corpora, 0 where nothing sensible is said."""
    total = 0
    for each in sense.iter("Count"):
        try:
            total += whole_number((each.text or "").strip())
        except ValueError:
            continue
    return total if total < 2**31 else 0
