"""`NameLinker`: mentions found by walking a `NameIndex`, let through by `Gates`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.names.candidates import NameCandidates
from entity_linking.names.capitals import Capitals
from entity_linking.names.index import NameIndex
from entity_linking.names.priors import (
    OTHER,
    WRITTEN,
    Hit,
    PriorFormula,
    levels,
    rank_entities,
)
from entity_linking.names.segment import fold_keys
from entity_linking.names.variants import KIND_WEIGHTS, Kind
from entity_linking.names.words import STOP_WORDS
from entity_linking.parts import Candidates
from entity_linking.surfaces import Marked, batches, mark, normalise

MOST_CACHED = 200_000
DETECTED = frozenset({Kind.EXACT, Kind.SPELLING, Kind.DISAMBIGUATOR, Kind.ARTICLE, Kind.LEGAL})
"""The kinds of forms that are mentions; acronyms and parts of names are too often plain words."""

MOST_FOLLOWING = 4_096

Tag = tuple[int, int, str]
"""Start, end and part of speech of a token."""


class _Reach(NamedTuple):
    """What keys begin with a word: the word `alone`, and longer ones by their second words.

    `following` is None where there are too many of them.
    """

    alone: bool
    following: frozenset[str] | None


_UNKNOWN = _Reach(alone=False, following=None)


@dataclass(frozen=True, slots=True)
class Gates:
    """What keeps a word that happens to be a name from becoming a mention.

    `min_prior` drops candidates (a mention needs one); `min_length` is in characters. A mention
    that is one of `stop_words` is refused unless it is in capitals of two letters or more ("WHO",
    "US"). `kinds` are the forms of names that are found. With tags, a mention needs a token whose
    part of speech is in `parts_of_speech`. `name_parts` also takes single capitalised words, not at
    the beginning of a sentence, that are part of a name ("Beckham").

    For text that writes names with capitals (`entity_linking.names.capitals`; all are off by
    default): `named_only` refuses what is not written as a name where it stands, dates, and at the
    beginning of a sentence single words of `common_words` (lower case). `whole_names` refuses a
    part of a run of capitalised words ("York" in "York Minster Choir"), `name_runs` takes such
    runs whole, at the beginning of a sentence too, where part of the names leads to an entity.
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
    """Leftmost-longest mentions by look-ups at the beginnings of words, linked by prior.

    Boundaries are those of `entity_linking.surfaces`, the case policy (`entity_linking.names.case`)
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
        self._reach: dict[str, _Reach | None] = {}
        self._detected: dict[str, bool] = {}
        self._tries = [segment.keys for segment in index.segments]
        self._longest = index.longest_key

    def __repr__(self) -> str:
        return f"NameLinker({self._index!r}, {self._gates!r})"

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order; mentions do not overlap."""
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
        distinct = list(dict.fromkeys(chain.from_iterable(surfaces)))
        known = dict(zip(distinct, map(self._choose, distinct, fold_keys(distinct)), strict=True))
        return [[known[surface] for surface in own] for own in surfaces]

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The `(start, end)` of the mentions that `link` finds."""
        return [
            [(link.mention.start, link.mention.end) for link in text.links]
            for text in self.link(texts)
        ]

    def _link(self, texts: Sequence[str], tags: Sequence[Sequence[Tag] | None]) -> list[LinkedText]:
        return [
            linked
            for batch in batches(texts)
            for linked in self._link_batch(texts[batch], tags[batch])
        ]

    def _link_batch(
        self, texts: Sequence[str], tags: Sequence[Sequence[Tag] | None]
    ) -> list[LinkedText]:
        normalised = [normalise(text, fold=True) for text in texts]
        marked = mark([form for form, _ in normalised])
        allowed = [None if tagged is None else self._allowed(tagged) for tagged in tags]
        links: list[list[Link]] = [[] for _ in texts]
        admits = self._admitting(texts)
        walk = _Walk(marked)
        for at, word, second in walk.words():
            reach = self._reach.get(word, _UNKNOWN)
            if reach is None:
                continue  # so are most words
            is_further = reach.following is None or second in reach.following
            if not is_further and not reach.alone:
                continue
            for end in self._ends(walk.haystack, at, word, second, reach):
                key = walk.haystack[at:end]
                if not self._is_detected(key):
                    continue
                i, start, stop = walk.span(at, end)
                origins = normalised[i][1]
                if origins is not None:
                    start, stop = origins[0][start], origins[1][stop - 1]
                tagged = allowed[i]
                if tagged is not None and not any(a < stop and start < b for a, b in tagged):
                    continue
                if not admits(i, start, stop):
                    continue
                candidates = self._choose(texts[i][start:stop], key)
                if candidates:
                    links[i].append(_linked(Mention(start, stop), candidates))
                    walk.free_from = end
                    break
        if self._gates.name_parts or self._gates.name_runs:
            links = [self._with_parts(*each) for each in zip(texts, links, allowed, strict=True)]
        return [LinkedText(text, tuple(found)) for text, found in zip(texts, links, strict=True)]

    def _admitting(self, texts: Sequence[str]) -> Callable[[int, int, int], bool]:
        """Whether a stretch of the i-th text is written as a name, where gates ask for that."""
        gates = self._gates
        if not gates.named_only and not gates.whole_names:
            return lambda i, start, stop: True
        capitals = [Capitals(text, gates.common_words) for text in texts]

        def admits(i: int, start: int, stop: int) -> bool:
            if gates.named_only and not capitals[i].is_name(start, stop):
                return False
            return not gates.whole_names or capitals[i].is_whole(start, stop)

        return admits

    def _allowed(self, tags: Sequence[Tag]) -> list[tuple[int, int]]:
        return [(a, b) for a, b, tag in tags if tag in self._gates.parts_of_speech]

    def _ends(self, haystack: str, at: int, word: str, second: str, reach: _Reach) -> Sequence[int]:
        """Where the known keys that begin with the word here end, longest first."""
        if reach is _UNKNOWN:
            if len(self._reach) >= MOST_CACHED:
                self._reach.clear()
            found = self._reach[word] = self._find_reach(word)
            if found is None:
                return ()
            reach = found
        if reach.following is not None and second not in reach.following:
            return (at + len(word) + 2,) if reach.alone else ()
        window = haystack[at : at + self._longest]
        if len(self._tries) == 1:
            return [at + len(key) for key in reversed(self._tries[0].prefixes(window))]
        lengths = {len(key) for trie in self._tries for key in trie.prefixes(window)}
        return [at + length for length in sorted(lengths, reverse=True)]

    def _find_reach(self, word: str) -> _Reach | None:
        key = f" {word} "
        alone = any(key in trie for trie in self._tries) and self._is_detected(key)
        longer = chain.from_iterable(trie.iterkeys(f"{key} ") for trie in self._tries)
        found = list(islice(longer, MOST_FOLLOWING + 1))
        if not found and not alone:
            return None
        if len(found) > MOST_FOLLOWING:
            return _Reach(alone, None)
        return _Reach(alone, frozenset(key.split(maxsplit=2)[1] for key in found))

    def _is_detected(self, key: str) -> bool:
        """Whether a form behind the key is of a kind that is a mention, however it is written."""
        found = self._detected.get(key)
        if found is None:
            if len(self._detected) >= MOST_CACHED:
                self._detected.clear()
            kinds = self._gates.kinds
            found = any(entry.kind in kinds for entry in self._index.find_key(key))
            self._detected[key] = found
        return found

    # ---- choices -----------------------------------------------------------
    def _choose(self, surface: str, key: str) -> Candidates:
        """The candidates of a surface that the gates let through; none if it is no mention."""
        found = self._choices.get(surface)
        if found is None:
            if len(self._choices) >= MOST_CACHED:
                self._choices.clear()
            found = self._choices[surface] = self._decide(surface, key)
        return found

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
        hits = [Hit.of(entry, KIND_WEIGHTS[entry.kind], entry.kind) for entry in accepted]
        found = rank_entities(self._index, hits, self._formula, self._max)
        return tuple(c for c in found if c.prior >= self._gates.min_prior)

    # ---- parts of names ----------------------------------------------------
    def _with_parts(
        self, text: str, links: list[Link], allowed: list[tuple[int, int]] | None
    ) -> list[Link]:
        found = list(links)
        for start, end in self._unnamed(text):
            if any(link.mention.start < end and start < link.mention.end for link in found):
                continue
            if allowed is not None and not any(a < end and start < b for a, b in allowed):
                continue
            surface = text[start:end]
            if not self._gates.refuses(surface):
                candidates = self._parts.of_surface(surface)
                kept = tuple(c for c in candidates if c.prior >= self._gates.min_prior)
                if kept:
                    found.append(_linked(Mention(start, end), kept))
        return sorted(found, key=lambda link: link.mention)

    def _unnamed(self, text: str) -> Iterator[tuple[int, int]]:
        """Where parts of names may stand: runs first, as they hide the words in them."""
        gates = self._gates
        capitals = Capitals(text, gates.common_words)
        if gates.name_runs:
            yield from capitals.runs()
        if gates.name_parts:
            for start, end in _capitalised(text):
                if gates.named_only and not capitals.is_name(start, end):
                    continue
                if not gates.whole_names or capitals.is_whole(start, end):
                    yield start, end


class _Walk:
    """The words of the marked texts of a batch, passing over those that a mention took."""

    def __init__(self, marked: Marked) -> None:
        self.haystack, self.free_from = marked.haystack, 0
        self._starts = (marked.begins() - 1).tolist()
        self._source = marked.sources.item
        self._offsets = marked.offsets.tolist()

    def words(self) -> Iterator[tuple[int, str, str]]:
        """Where the key of each word that is still free begins, the word, and the one after it."""
        words = self.haystack.split()
        if words:
            for at, word, second in zip(self._starts, words, [*words[1:], ""], strict=True):
                if at >= self.free_from:
                    yield at, word, second

    def span(self, at: int, end: int) -> tuple[int, int, int]:
        """Text, start and end in its form of the key from `at` to `end` in the haystack."""
        first, last = self._source(at + 1), self._source(end - 2)
        form = bisect_right(self._offsets, first) - 1
        offset = self._offsets[form]
        return form, first - offset, last - offset + 1


_CAPITALISED = re.compile(r"(?<=[^\s.!?:\"“(])[\s]+(\w[\w’'-]+\w)")


def _capitalised(text: str) -> Iterator[tuple[int, int]]:
    """Capitalised words that are not the first of a sentence."""
    for found in _CAPITALISED.finditer(text):
        if found[1][0].isupper():
            yield found.span(1)


def _linked(mention: Mention, candidates: Candidates) -> Link:
    return Link(mention, candidates, candidates[0].entity, candidates[0].prior)


def tags_of(doc: Iterable[object]) -> list[Tag]:
    """The tags of a spaCy `Doc`, for `NameLinker.link_tagged`."""
    return [(t.idx, t.idx + len(t.text), t.pos_) for t in doc]  # type: ignore[attr-defined]
