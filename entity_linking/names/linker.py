"""`NameLinker`: mentions found by walking a `NameIndex`, let through by `Gates`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np

from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Mention, require_texts
from entity_linking.names.candidates import NameCandidates
from entity_linking.names.index import Entry, NameIndex
from entity_linking.names.known import WORTH, KnownSurfaces
from entity_linking.names.priors import (
    OTHER,
    WRITTEN,
    Hit,
    PriorFormula,
    levels,
    rank_entities,
)
from entity_linking.names.rules.capitals import Capitals
from entity_linking.names.rules.variants import KIND_WEIGHTS, Kind
from entity_linking.names.rules.words import ARTICLES, STOP_WORDS
from entity_linking.names.runs import Runs, find_runs
from entity_linking.names.segment import fold_keys
from entity_linking.names.single import MOST_CHARACTERS, RunTrie
from entity_linking.parts import Candidates
from entity_linking.surfaces import batches, marked_key, normalise

MOST_CACHED = 200_000
DETECTED = frozenset({Kind.EXACT, Kind.SPELLING, Kind.DISAMBIGUATOR, Kind.ARTICLE, Kind.LEGAL})
"""The kinds of forms that are mentions; acronyms and parts of names are too often plain words."""

Tag = tuple[int, int, str]
"""Start, end and part of speech of a token."""

Spans = list[tuple[int, int]]
Admits = Callable[[int, int, int], bool]
"""Whether a mention of the i-th text may stand from one character to another."""


@dataclass(frozen=True, slots=True)
class Gates:
    """What keeps a word that happens to be a name from becoming a mention.

    `min_prior` drops candidates (a mention needs one); `min_length` is in characters. A mention
    that is one of `stop_words` is refused unless it is in capitals of two letters or more ("WHO",
    "US"). `kinds` are the forms of names that are found. With tags, a mention needs a token whose
    part of speech is in `parts_of_speech`. `name_parts` also takes single capitalised words, not at
    the beginning of a sentence, that are part of a name ("Beckham").

    For text that writes names with capitals (`names.rules.capitals`; all are off by
    default): `named_only` refuses what is not written as a name where it stands, dates, and at the
    beginning of a sentence single words of `common_words` (lower case). `whole_names` refuses a
    part of a run of capitalised words ("York" in "York Minster Choir"), `name_runs` takes such
    runs whole, at the beginning of a sentence too, where part of the names leads to an entity, with
    `unknown_runs` the others too: names of what the graph does not know, which are NIL. With
    `where_cased` these gates are open in texts whose capitals say nothing (`Capitals.is_cased`).
    """

    min_prior: float = 0.0
    min_length: int = 2
    stop_words: frozenset[str] = STOP_WORDS
    kinds: frozenset[Kind] = DETECTED
    parts_of_speech: frozenset[str] = field(default=frozenset({"PROPN", "NOUN", "ADJ", "NUM", "X"}))
    name_parts: bool = False
    named_only: bool = False
    whole_names: bool = False
    name_runs: bool = False
    unknown_runs: bool = False
    where_cased: bool = False
    common_words: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_prior <= 1.0:
            raise LinkingError(f"min_prior is {self.min_prior}; it is a probability, give 0 to 1")
        if self.min_length < 1:
            raise LinkingError(f"min_length is {self.min_length}; give 1 or more")

    def refuses(self, surface: str) -> bool:
        """Whether no mention may be written so."""
        if len(surface) < self.min_length:
            return True
        if surface.isupper() and len(surface) > 1:
            return False
        return surface.casefold() in self.stop_words


class NameLinker:
    """Leftmost-longest mentions by the words that keys begin and go on with, linked by prior.

    Boundaries are those of `entity_linking.surfaces`, the case policy (`names.rules.case`)
    is that of the index. A longer match that a gate refuses does not hide a shorter one.

    A link's confidence is the prior of the choice, not calibrated.

    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> index = NameIndex.build(graph_from_records([Text("Q90", TextKind.LABEL, "Paris")]))
    >>> [link.entity for link in NameLinker(index).link(["In Paris, at last."])[0].links]
    ['Q90']
    """

    def __init__(
        self,
        index: NameIndex,
        gates: Gates = Gates(),
        *,
        max_candidates: int = 30,
        formula: PriorFormula = PriorFormula(),  # noqa: B008 - frozen
    ) -> None:
        if max_candidates < 1:
            raise LinkingError(f"max_candidates is {max_candidates}; give 1 or more")
        self._index, self._gates = index, gates
        self._max, self._formula = max_candidates, formula
        self._parts = NameCandidates(
            index, max_candidates=max_candidates, in_document=False, formula=formula
        )
        self._choices: dict[str, Candidates] = {}
        self._known = KnownSurfaces(self._choices)
        tables = [segment.key_table for segment in index.segments]
        self._trie = RunTrie(tables, self._choose)
        self._is_cased = gates.named_only or gates.whole_names
        self._has_parts = gates.name_parts or gates.name_runs

    def __repr__(self) -> str:
        return f"NameLinker({self._index!r}, {self._gates!r})"

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order; mentions do not overlap."""
        require_texts(texts)
        return self._link(texts, [None] * len(texts))

    def link_tagged(self, texts: Sequence[str], tags: Sequence[Sequence[Tag]]) -> list[LinkedText]:
        """As `link`, with the tokens of each text and their parts of speech for the gate.

        >>> from kg_loaders import Text, TextKind, graph_from_records
        >>> index = NameIndex.build(graph_from_records([Text("Q1", TextKind.LABEL, "Way")]))
        >>> NameLinker(index).link_tagged(["Way to go"], [[(0, 3, "INTJ")]])[0].links
        ()
        """
        if len(texts) != len(tags):
            raise LinkingError(f"{len(tags)} lists of tags for {len(texts)} texts")
        return self._link(texts, tags)

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text what it would be linked to, were its mention found here."""
        surfaces = [
            [text.text[link.mention.start : link.mention.end] for link in text.links]
            for text in texts
        ]
        distinct = dict.fromkeys(chain.from_iterable(surfaces))
        known = {each: self._choices[each] for each in distinct if each in self._choices}
        new = [surface for surface in distinct if surface not in known]
        known.update(zip(new, map(self._choose, new, fold_keys(new)), strict=True))
        return [[known[surface] for surface in text_surfaces] for text_surfaces in surfaces]

    def spans(self, texts: Sequence[str]) -> list[Spans]:
        """The `(start, end)` of the mentions that `link` finds; cheaper."""
        if self._has_parts:
            return [spans for spans, _ in self._find(texts, [None] * len(texts))]
        result: list[Spans] = []
        if not self._is_cased and (one := self._find_in_one(texts)) is not None:
            return [one[0]]
        for batch in batches(texts):
            part = texts[batch]
            whole = self._find_whole(part, [None] * len(part), self._capitals(part))
            result += [spans for spans, _ in whole]
        return result

    def _link(self, texts: Sequence[str], tags: Sequence[Sequence[Tag] | None]) -> list[LinkedText]:
        return [
            LinkedText(text, tuple(map(_linked, *links)))
            for text, links in zip(texts, self._find(texts, tags), strict=True)
        ]

    def _find(
        self, texts: Sequence[str], tags: Sequence[Sequence[Tag] | None]
    ) -> Iterator[tuple[Spans, list[Candidates]]]:
        """For each text its mentions in order, and what each of them may mean."""
        for batch in batches(texts):
            part = texts[batch]
            allowed = [None if each is None else self._allowed(each) for each in tags[batch]]
            capitals = self._capitals(part)
            named = self._find_whole(part, allowed, capitals)
            yield from (
                self._with_parts(part, allowed, capitals, named) if self._has_parts else named
            )

    def _capitals(self, texts: Sequence[str]) -> list[Capitals]:
        """The words of each text that are written as names, where a gate asks."""
        gates = self._gates
        if not (self._is_cased or self._has_parts):
            return []
        return [Capitals(text, gates.common_words) for text in texts]

    def _find_whole(
        self, texts: Sequence[str], allowed: Sequence[Spans | None], capitals: Sequence[Capitals]
    ) -> list[tuple[Spans, list[Candidates]]]:
        """For each text the mentions that are keys of the index, and what they may mean."""
        admits = self._admitting(texts, allowed, capitals)
        if (one := self._find_in_one(texts, admits)) is not None:
            return [one]
        runs, meanings = self._find_keys(texts, admits)
        spans = runs.spans()
        return [(spans[each], meanings[each]) for each in runs.by_text(len(texts))]

    def _find_in_one(
        self, texts: Sequence[str], admits: Admits | None = None
    ) -> tuple[Spans, list[Candidates]] | None:
        """As `_find_whole`, for one short text of simple characters; None for others."""
        if len(texts) != 1 or len(texts[0]) > MOST_CHARACTERS:
            return None
        return self._trie.find(texts[0], None if admits is None else partial(admits, 0))

    def _find_keys(
        self, texts: Sequence[str], admits: Admits | None
    ) -> tuple[Runs, list[Candidates]]:
        """The mentions that are keys of the index, in order, and what each of them may mean.

        Runs of known surfaces that share no word with another are taken as arrays.
        """
        tables, known = [segment.key_table for segment in self._index.segments], self._known
        runs, cut = find_runs(tables, texts, known)
        is_kept = runs.surfaces >= 0
        if admits is not None:
            is_kept[:] = False
        elif is_kept.any():
            is_kept &= runs.alone()
        places = np.flatnonzero(~is_kept)
        left = runs.take(places) if len(places) < len(is_kept) else runs
        columns = (places, *left[:-1])
        decided: dict[int, Candidates] = {}
        free = 0
        for k, at, stop, i, start, end in zip(*(each.tolist() for each in columns), strict=True):
            if at < free:
                continue
            surface = texts[i][start:end]
            candidates = self._choices.get(surface)
            if candidates is None:
                candidates = self._choose(surface, marked_key(cut.words(slice(at, stop))))
            if candidates and (admits is None or admits(i, start, end)):
                decided[k] = candidates
                free = stop
        if len(runs.first) >= WORTH and len(self._choices) > known.enough:
            self._known = KnownSurfaces(self._choices)
        is_kept[list(decided)] = True
        places = np.flatnonzero(is_kept)
        kept = runs.take(places)
        meanings = list(map(known.meanings.__getitem__, kept.surfaces.tolist()))
        for k, candidates in zip(
            np.searchsorted(places, list(decided)), decided.values(), strict=True
        ):
            meanings[k] = candidates
        return kept, meanings

    def _admitting(
        self, texts: Sequence[str], allowed: Sequence[Spans | None], capitals: Sequence[Capitals]
    ) -> Admits | None:
        """Whether gates on tags and capitals let a stretch of the i-th text through; None: all."""
        gates = self._gates
        if not self._is_cased and not any(spans is not None for spans in allowed):
            return None

        def admits(i: int, start: int, stop: int) -> bool:
            if not _overlaps(allowed[i], start, stop):
                return False
            if gates.where_cased and not capitals[i].is_cased:
                return True
            if gates.named_only and not capitals[i].is_name(start, stop):
                surface = texts[i][start:stop]
                if not (capitals[i].begins_as_name(start, stop) and self._is_written(surface)):
                    return False
            if gates.whole_names and self._has_article(texts[i][start:stop]):
                return False
            return not gates.whole_names or capitals[i].is_whole(start, stop)

        return admits

    def _is_written(self, surface: str) -> bool:
        """Whether a name of several words is written just so: "England national football team"."""
        if " " not in surface:
            return False
        entries = self._index.find_key(fold_keys([surface])[0])
        return any(entry.kind is Kind.EXACT and entry.name == surface for entry in entries)

    def _has_article(self, surface: str) -> bool:
        """Whether it begins with "The" and means the same without: "The Fed"."""
        article, _, rest = surface.partition(" ")
        if article.casefold() not in ARTICLES or not rest:
            return False
        whole, without = (self._choose(form, fold_keys([form])[0]) for form in (surface, rest))
        return bool(whole and without) and whole[0].entity == without[0].entity

    def _allowed(self, tags: Sequence[Tag]) -> Spans:
        return [(a, b) for a, b, tag in tags if tag in self._gates.parts_of_speech]

    # ---- choices -----------------------------------------------------------
    def _choose(self, surface: str, key: str) -> Candidates:
        """The candidates of a surface that the gates let through; none if it is not a mention."""
        cached = self._choices.get(surface)
        if cached is None:
            if len(self._choices) >= MOST_CACHED:
                self._choices.clear()
                self._known = KnownSurfaces({})
            cached = self._choices[surface] = self._decide(surface, key)
        return cached

    def _decide(self, surface: str, key: str) -> Candidates:
        form = " ".join(normalise(surface, fold=False)[0].split())
        if self._gates.refuses(form):
            return ()
        entries = [e for e in self._index.find_key(key) if e.kind in self._gates.kinds]
        if self._index.case == "insensitive":
            accepted = entries
        else:
            graded = list(zip(levels(surface, entries), entries, strict=True))
            just_so = any(level == WRITTEN for level, _ in graded)
            worst = WRITTEN if just_so or self._index.case == "sensitive" else OTHER - 1
            accepted = [entry for level, entry in graded if level <= worst]
        if not accepted and self._may_be_lowered(surface, entries):
            raised = surface[0].upper() + surface[1:]
            fits = zip(levels(raised, entries), entries, strict=True)
            accepted = [entry for level, entry in fits if level == WRITTEN]
        if not accepted:
            return ()
        hits = [Hit.of(entry, KIND_WEIGHTS[entry.kind], entry.kind) for entry in accepted]
        candidates = rank_entities(self._index, hits, self._formula, self._max)
        return tuple(c for c in candidates if c.prior >= self._gates.min_prior)

    def _may_be_lowered(self, surface: str, entries: Sequence[Entry]) -> bool:
        """Whether a surface may lower the first letter of names that are all written in one way.

        An index of names exactly as they are written (`variants` off) has no such rule.
        """
        return (
            surface[0].islower()
            and self._index.case == "smart"
            and self._index.manifest.variants
            and len({entry.name for entry in entries}) == 1
            and self._index.is_sentence_case
        )

    # ---- parts of names ----------------------------------------------------
    def _with_parts(
        self,
        texts: Sequence[str],
        allowed: Sequence[Spans | None],
        capitals: Sequence[Capitals],
        named: Sequence[tuple[Spans, list[Candidates]]],
    ) -> Iterator[tuple[Spans, list[Candidates]]]:
        """Parts of names beside whole ones, none over another; all are looked up at once."""
        possible = [
            [
                (start, end)
                for start, end in self._unnamed(text, in_capitals)
                if not any(a < end and start < b for a, b in spans)
                and _overlaps(where, start, end)
                and not self._gates.refuses(text[start:end])
            ]
            for text, where, in_capitals, (spans, _) in zip(
                texts, allowed, capitals, named, strict=True
            )
        ]
        self._parts.learn(
            text[start:end]
            for text, spans in zip(texts, possible, strict=True)
            for start, end in spans
        )
        for text, parts, (spans, meanings) in zip(texts, possible, named, strict=True):
            by_span = dict(zip(spans, meanings, strict=True))
            for start, end in parts:
                if any(a < end and start < b for a, b in by_span):
                    continue
                candidates = self._parts.of_surface(text[start:end])
                kept = tuple(c for c in candidates if c.prior >= self._gates.min_prior)
                if kept or self._gates.unknown_runs:
                    by_span[start, end] = kept
            yield sorted(by_span), [by_span[span] for span in sorted(by_span)]

    def _unnamed(self, text: str, capitals: Capitals) -> Iterator[tuple[int, int]]:
        """Where parts of names may stand: runs first, as they hide the words in them."""
        gates = self._gates
        if gates.where_cased and not capitals.is_cased:
            return
        if gates.name_runs:
            yield from capitals.runs()
        if gates.name_parts:
            for start, end in _capitalised(text):
                if gates.named_only and not capitals.is_name(start, end):
                    continue
                if not gates.whole_names or capitals.is_whole(start, end):
                    yield start, end


def _overlaps(allowed: Spans | None, start: int, end: int) -> bool:
    return allowed is None or any(a < end and start < b for a, b in allowed)


_CAPITALISED = re.compile(r"(?<=[^\s.!?:\"“(])[\s]+(\w[\w’'-]+\w)")


def _capitalised(text: str) -> Iterator[tuple[int, int]]:
    """Capitalised words that are not the first of a sentence."""
    for match in _CAPITALISED.finditer(text):
        if match[1][0].isupper():
            yield match.span(1)


def _linked(span: tuple[int, int], candidates: Candidates) -> Link:
    if not candidates:
        return Link(Mention(*span), (), None, 1.0)
    best = candidates[0]
    return Link(Mention(*span), candidates, best.entity, best.prior)


def tags_of(doc: Iterable[object]) -> list[Tag]:
    """The tags of a spaCy `Doc`, for `NameLinker.link_tagged`."""
    return [(t.idx, t.idx + len(t.text), t.pos_) for t in doc]  # type: ignore[attr-defined]
