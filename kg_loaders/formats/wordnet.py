"""WordNet's own files (WNDB: `data.*` and `cntlist.rev`; man pages wndb(5), senseidx(5)).

A synset is the node `wn:<offset>-<n|v|a|r>`; satellites are `a` too, as in WNDB's own pointers.

    first word, other words   LABEL, ALIAS with the tag count of the sense as frequency
    gloss                     DESCRIPTION
    lexicographer file        TYPE ("noun.person"); satellites also have "adj.satellite"
    pointer                   a triple; the relation is `RELATIONS[symbol]`

A pointer between words, not synsets (antonym, derivation), links *sense* nodes named by their sense
key, `wn:able%3:00:00::`, each with one triple `sense_of` to its synset. Sense nodes have no texts,
so that a linker offers synsets alone. With `lexical="synsets"` such pointers link the synsets
themselves, and pointers that differ only in their words fall together as duplicates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.digits import hexadecimal_number, whole_number
from kg_loaders.reading.lines import read_lines
from kg_loaders.records import Record, Text, TextKind, Triple

RELATIONS = {
    "!": "antonym",
    "@": "hypernym",
    "@i": "instance_hypernym",
    "~": "hyponym",
    "~i": "instance_hyponym",
    "#m": "member_holonym",
    "#s": "substance_holonym",
    "#p": "part_holonym",
    "%m": "member_meronym",
    "%s": "substance_meronym",
    "%p": "part_meronym",
    "=": "attribute",
    "+": "derivationally_related_form",
    ";c": "domain_topic",
    "-c": "member_of_domain_topic",
    ";r": "domain_region",
    "-r": "member_of_domain_region",
    ";u": "domain_usage",
    "-u": "member_of_domain_usage",
    "*": "entailment",
    ">": "cause",
    "^": "also_see",
    "$": "verb_group",
    "&": "similar_to",
    "<": "participle_of",
    "\\": "pertainym",
}
"""Relation of each pointer symbol, one to one; of adverbs, `\\` is "derived from adjective"."""

SENSE_OF = "sense_of"

SUPERSENSES = (
    "adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact",
    "noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event",
    "noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object",
    "noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process",
    "noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time",
    "verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition",
    "verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion",
    "verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather",
    "adj.ppl",
)  # fmt: skip
"""Name of each lexicographer file, by its number."""

PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
"""Part of speech in file names, and as a letter."""

_MARKER = re.compile(r"\((?:a|p|ip)\)$")
_TYPE_NUMBERS = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}


class Word(NamedTuple):
    """A word of a synset as written, `galore(ip)`; `lex_id` tells senses of one file apart."""

    written: str
    lex_id: int

    @property
    def lemma(self) -> str:
        """The word without an adjective's syntactic marker."""
        return _MARKER.sub("", self.written)


class Pointer(NamedTuple):
    """A pointer; word numbers count from 1, and 0 is the synset as a whole."""

    symbol: str
    target: str
    source_word: int
    target_word: int


class Synset(NamedTuple):
    """One line of a `data.*` file, and where it stands."""

    id: str
    kind: str
    lex_file: int
    words: tuple[Word, ...]
    pointers: tuple[Pointer, ...]
    n_frames: int
    gloss: str
    position: tuple[str, int, int] = ("", 0, 0)


def find_wordnet(path: str | Path | None = None) -> Path:
    """The folder of WNDB files: `path`, else `$WNSEARCHDIR`, else `/usr/share/wordnet`."""
    folder = Path(path or os.environ.get("WNSEARCHDIR") or "/usr/share/wordnet")
    if not (folder / "data.noun").is_file():
        raise SourceError(
            f"{folder} holds no WordNet (no data.noun in it); install the Debian package "
            "wordnet-base, set WNSEARCHDIR or name the folder"
        )
    return folder


def read(
    path: str | Path | None,
    report: DamageReport,
    *,
    lexical: Literal["senses", "synsets"] = "senses",
) -> Iterator[Record]:
    """Read a folder of WNDB files; see the module for what becomes what.

    `None` searches as `find_wordnet` does. The whole of it is held in memory (about 200 MB), since
    a sense key needs the words of other synsets. Verb frames are counted and left out.
    """
    folder = find_wordnet(path)
    synsets = load_synsets(folder, report)
    counts = _tag_counts(folder / "cntlist.rev", synsets, report)
    report.n_further -= len(synsets)  # the first record of each is its line's
    used: dict[str, None] = {}
    for record in _records(synsets, counts, lexical, report):
        report.n_further += 1
        if isinstance(record, Triple):
            used[record.relation] = None
        yield record
    for relation in used:
        report.n_further += 1
        yield Text(relation, TextKind.LABEL, relation.replace("_", " "), "en", 0, True)


def load_synsets(folder: Path, report: DamageReport) -> dict[str, Synset]:
    """Every synset by its id, in the order of the files noun, verb, adj, adv."""
    synsets: dict[str, Synset] = {}
    for part, letter in PARTS.items():
        file = folder / f"data.{part}"
        if not file.is_file():
            raise SourceError(f"{file} is missing: a WordNet has data.noun, .verb, .adj and .adv")
        for line_no, offset, line in read_lines(file, report):
            if line.startswith(b"  "):
                report.n_comment += 1
            elif not line.strip():
                report.n_blank += 1
            else:
                try:
                    synset = parse_synset(line.decode(), letter)
                    if synset.id in synsets:
                        raise ValueError("a second synset with this offset")
                except ValueError as error:
                    report.reject(str(file), line_no, offset, str(error), line)
                    continue
                synsets[synset.id] = synset._replace(position=(str(file), line_no, offset))
    return synsets


def parse_synset(line: str, part: str) -> Synset:
    """Read one line of a `data.*` file of part `n`, `v`, `a` or `r`; ValueError says what is wrong.

    >>> parse_synset("00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | what is", "n").pointers
    (Pointer(symbol='~', target='wn:00001930-n', source_word=0, target_word=0),)
    """
    head, bar, gloss = line.partition(" | ")
    if not bar:
        raise ValueError("no gloss: the line has no ' | '")
    fields = head.split(" ")
    try:
        lex_file, kind = whole_number(fields[1]), fields[2]
        n_words = hexadecimal_number(fields[3])
        at = 4 + 2 * n_words
        words = tuple(Word(fields[i], hexadecimal_number(fields[i + 1])) for i in range(4, at, 2))
        n_pointers = whole_number(fields[at])
        end = at + 1 + 4 * n_pointers
        pointers = tuple(_pointer(*fields[i : i + 4]) for i in range(at + 1, end, 4))
        n_frames = whole_number(fields[end]) if part == "v" else 0
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError("the fields do not fit the counts of words and pointers") from error
    expected = end + 1 + 3 * n_frames if part == "v" else end
    if len(fields) != expected:
        raise ValueError(f"{expected} fields announced by the counts, {len(fields)} found")
    if not re.fullmatch("[0-9]{8}", fields[0]):
        raise ValueError("the synset offset is not eight digits")
    if kind not in (("a", "s") if part == "a" else (part,)):
        raise ValueError(f"synset type {kind!r} in a file of {part!r}")
    if not words or not 0 <= lex_file < len(SUPERSENSES):
        raise ValueError("no word, or a lexicographer file number that does not exist")
    return Synset(
        synset_id(fields[0], kind), kind, lex_file, words, pointers, n_frames, gloss.strip()
    )


def sense_key(synset: Synset, word: int, synsets: dict[str, Synset]) -> str:
    """The sense key (senseidx(5)) of a synset's word, counted from 1.

    Satellites add the first word of the head of their cluster.
    """
    lemma, lex_id = synset.words[word - 1].lemma, synset.words[word - 1].lex_id
    head = ":"
    if synset.kind == "s":
        target = next((p.target for p in synset.pointers if p.symbol == "&"), "")
        if target in synsets:
            first = synsets[target].words[0]
            head = f"{first.written.lower()}:{first.lex_id:02d}"
    number = _TYPE_NUMBERS[synset.kind]
    return f"{lemma.lower()}%{number}:{synset.lex_file:02d}:{lex_id:02d}:{head}"


def sense_keys(path: str | Path | None = None) -> dict[str, str]:
    """Synset id of every sense key (WordNet's manual, senseidx(5WN)).

    A satellite's key names its head word with the head's syntactic marker, where it has one; gold
    files of word sense disambiguation leave that marker out.
    """
    synsets = load_synsets(find_wordnet(path), DamageReport())
    return {
        sense_key(synset, word, synsets): synset.id
        for synset in synsets.values()
        for word in range(1, len(synset.words) + 1)
    }


def synset_id(offset: str, kind: str) -> str:
    """`wn:00001740-n`; satellites (`s`) are adjectives (`a`)."""
    return f"wn:{offset}-{'a' if kind == 's' else kind}"


def _pointer(symbol: str, offset: str, kind: str, words: str) -> Pointer:
    if len(words) != 4:
        raise ValueError("word numbers are four hexadecimal digits")
    return Pointer(
        symbol, synset_id(offset, kind), *map(hexadecimal_number, (words[:2], words[2:]))
    )


def _pointer_fault(pointer: Pointer, source: Synset, synsets: dict[str, Synset]) -> str:
    if pointer.symbol not in RELATIONS:
        return "unknown pointer symbol"
    if pointer.target not in synsets:
        return "pointer to a synset that is not there"
    n_words = len(synsets[pointer.target].words)
    if pointer.source_word > len(source.words) or pointer.target_word > n_words:
        return "pointer from or to a word that its synset does not have"
    return ""


def _records(
    synsets: dict[str, Synset], counts: dict[str, int], lexical: str, report: DamageReport
) -> Iterator[Record]:
    senses: dict[str, None] = {}
    for synset in synsets.values():
        yield from _texts(synset, synsets, counts)
        if synset.n_frames:
            report.n_further += synset.n_frames
            report.skip("verb frame", synset.n_frames)
        for pointer in synset.pointers:
            reason = _pointer_fault(pointer, synset, synsets)
            if reason:
                report.n_further += 1
                report.reject(*synset.position, reason, " ".join(map(str, pointer)).encode())
                continue
            words = (0, 0) if lexical == "synsets" else (pointer.source_word, pointer.target_word)
            ends = list(zip((synset, synsets[pointer.target]), words, strict=True))
            head, tail = (_node(owner, word, synsets) for owner, word in ends)
            yield Triple(head, RELATIONS[pointer.symbol], tail)
            for node, (owner, word) in zip((head, tail), ends, strict=True):
                if word and node not in senses:
                    senses[node] = None
                    yield Triple(node, SENSE_OF, owner.id)


def _tag_counts(file: Path, synsets: dict[str, Synset], report: DamageReport) -> dict[str, int]:
    """How often each sense key was tagged (cntlist(5)); its sense numbers are of an older WordNet.

    Good lines are not counted, except those of senses that this WordNet does not have.
    """
    if not file.is_file():
        raise SourceError(f"{file} is missing: it holds the tag counts of this WordNet's senses")
    counts: dict[str, int] = {}
    for line_no, offset, line in read_lines(file, report):
        fields = line.decode().split()
        try:
            key, _, count = fields
            if (n_tags := whole_number(count)) >= 2**31:
                raise ValueError("a number beyond what a graph keeps")
            counts[key] = n_tags
        except ValueError:
            report.reject(str(file), line_no, offset, "not `sense_key sense_number count`", line)
            continue
        report.n_lines -= 1
    known = {
        sense_key(synset, word, synsets)
        for synset in synsets.values()
        for word in range(1, len(synset.words) + 1)
    }
    n_unknown = sum(key not in known for key in counts)
    if n_unknown:
        report.n_lines += n_unknown
        report.skip("tag count of a sense that is not there", n_unknown)
    return counts


def _texts(synset: Synset, synsets: dict[str, Synset], counts: dict[str, int]) -> Iterator[Text]:
    kind = TextKind.LABEL
    for number, word in enumerate(synset.words, start=1):
        n_tags = counts.get(sense_key(synset, number, synsets), 0)
        yield Text(synset.id, kind, word.lemma.replace("_", " "), "en", n_tags)
        kind = TextKind.ALIAS
    if synset.gloss:
        yield Text(synset.id, TextKind.DESCRIPTION, synset.gloss, "en")
    yield Text(synset.id, TextKind.TYPE, SUPERSENSES[synset.lex_file])
    if synset.kind == "s":
        yield Text(synset.id, TextKind.TYPE, "adj.satellite")


def _node(synset: Synset, word: int, synsets: dict[str, Synset]) -> str:
    return f"wn:{sense_key(synset, word, synsets)}" if word else synset.id
