"""Names with a misspelt word: `WithMisspelt` finds them, `TypoCandidates` gives their entities.

A slip makes a word that no name has. Such a word is read as the word of the names that is one edit
away (a letter too much, too few, another, two swapped): names are looked for in the text that is so
mended, and mean what they mean there. Mentions lie in the text as it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from entity_linking.detection.end_to_end import first_apart
from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Mention, require_texts
from entity_linking.names import NameIndex, NameLinker
from entity_linking.parts import Candidates, CandidateSource
from entity_linking.surfaces import tokens_of

if TYPE_CHECKING:
    from entity_linking.fuzzy.index import FuzzyIndex

MOST_REMEMBERED = 65_536
NAMES_PER_STEP = 65_536
SHORTEST = 4
"""Letters of a word that may be a slip of another."""


VERB_ENDINGS = frozenset({"", "s", "d", "r"})
"""Behind the e of a verb: restore, restores, restored, and who restores, restorer."""


class Slip(NamedTuple):
    """`text[start:end]` is read as `word`."""

    start: int
    end: int
    word: str


class TypoIndex:
    """Which words of a text are slips of words of the names of `index`.

    Words are indexed by their letters when the first text asks.
    """

    def __init__(self, index: NameIndex) -> None:
        self._index = index
        self._word_of: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"TypoIndex({self._index!r})"

    def of(self, texts: Sequence[str]) -> list[list[Slip]]:
        """The slips of each text, in order."""
        tokens = tokens_of(texts)
        self._learn(word for word in tokens.values if len(word) >= SHORTEST)
        typos = []
        for text, (first, last) in zip(texts, pairwise(tokens.limits.tolist()), strict=True):
            text_typos = []
            for position in range(first, last):
                if correct := self._word_of.get(tokens.values[position]):
                    start, end = int(tokens.starts[position]), int(tokens.ends[position])
                    text_typos.append(Slip(start, end, _as_written(correct, text[start:end])))
            typos.append(text_typos)
        return typos

    def likeness(self, texts: Sequence[LinkedText]) -> list[list[float]]:
        """Return for each link of each text the share of its letters that are not a slip."""
        typos = self.of([text.text for text in texts])
        return [
            [_likeness(link.mention, _within(link.mention, text_typos)) for link in text.links]
            for text, text_typos in zip(texts, typos, strict=True)
        ]

    def _learn(self, words: Iterable[str]) -> None:
        """Look up what is not remembered: the word that each is a slip of, "" for none."""
        distinct = dict.fromkeys(words)
        new = [word for word in distinct if word not in self._word_of]
        if len(self._word_of) + len(new) > MOST_REMEMBERED:
            self._word_of.clear()
            new = list(distinct)
        self._word_of.update(dict.fromkeys(new, ""))
        unknown = [word for word in new if word.isalpha() and word not in self._words]
        if unknown:
            matches = self._spelling.search(unknown, k=1, min_similarity=0.5)
            for word, matched in zip(unknown, matches, strict=True):
                for match in matched:
                    edits = (1 - match.similarity) * max(len(word), len(match.surface))
                    if round(edits) == 1:
                        self._word_of[word] = match.surface

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of names, as they are told apart in texts."""
        words: set[str] = set()
        for segment in self._index.segments:
            for start in range(0, len(segment.names), NAMES_PER_STEP):
                names = segment.names.slice(start, NAMES_PER_STEP).to_pylist()
                words.update(tokens_of(names).values)
        return frozenset(words)

    @cached_property
    def _spelling(self) -> FuzzyIndex:
        from entity_linking.fuzzy.index import FuzzyIndex  # rarely needed
        from entity_linking.fuzzy.ngrams import Name

        words = sorted(word for word in self._words if len(word) >= SHORTEST)
        return FuzzyIndex.build(Name(word, word) for word in words)


def _as_written(word: str, surface: str) -> str:
    """The word in the capitals of what stands there."""
    if surface.isupper():
        return word.upper()
    return word.capitalize() if surface[0].isupper() else word


class _Moved:
    """A text in which slips are mended, and where its places stood before."""

    def __init__(self, text: str, typos: Sequence[Slip]) -> None:
        parts, end = [], 0
        self._ends, self._ends_corrected, self._shifts = [0], [0], [0]
        for slip in typos:
            parts += [text[end : slip.start], slip.word]
            end = slip.end
            self._shifts.append(self._shifts[-1] + len(slip.word) - (slip.end - slip.start))
            self._ends.append(end)
            self._ends_corrected.append(end + self._shifts[-1])
        self.text = "".join([*parts, text[end:]])

    def there(self, position: int) -> int:
        """A place of the text in the mended one; no place within a slip."""
        return position + self._shifts[bisect_right(self._ends, position) - 1]

    def back(self, position: int) -> int:
        """A place of the mended text in the text as it was."""
        return position - self._shifts[bisect_right(self._ends_corrected, position) - 1]


class WithMisspelt:
    """A `Linker`: the mentions of `names`, which a slip in a word does not hide.

    Words shorter than `min_length` are a letter away from many others: they are mended in names of
    several words alone, those of three letters and fewer never. So are words that are another form
    of the name's (`is_other_form`): "restores" is not a slip of "restorer". Of mentions that
    overlap the longer one stays.

    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> index = NameIndex.build(graph_from_records([Text("D1", TextKind.LABEL, "lung cancer")]))
    >>> linker = WithMisspelt(NameLinker(index), TypoIndex(index))
    >>> linker.link(["Deadly lung cnacer."])[0].links[0].mention
    Mention(start=7, end=18)
    """

    def __init__(self, names: NameLinker, typos: TypoIndex, *, min_length: int = 6) -> None:
        if min_length < SHORTEST:
            raise LinkingError(f"min_length is {min_length}; give {SHORTEST} letters or more")
        self._names, self._typos, self._min_length = names, typos, min_length

    def __repr__(self) -> str:
        return f"WithMisspelt({self._names!r}, min_length={self._min_length})"

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order; mentions do not overlap."""
        require_texts(texts)
        linked, typos = self._names.link(texts), self._typos.of(texts)
        moved = {
            i: _Moved(texts[i], text_typos) for i, text_typos in enumerate(typos) if text_typos
        }
        again = self._names.link([each.text for each in moved.values()])
        for (i, text), other in zip(moved.items(), again, strict=True):
            links = [
                replace(k, mention=Mention(text.back(k.mention.start), text.back(k.mention.end)))
                for k in other.links
            ]
            misspelt = [
                link for link in links if self._is_misspelt(texts[i], link.mention, typos[i])
            ]
            linked[i] = replace(linked[i], links=_longer(linked[i].links, misspelt))
        return linked

    def _is_misspelt(self, text: str, mention: Mention, typos: Sequence[Slip]) -> bool:
        """Whether a mention has a slip: alone, neither in a short word nor another form of it."""
        within = _within(mention, typos)
        if not within or within[0][:2] != (mention.start, mention.end):
            return bool(within)
        surface = text[mention.start : mention.end]
        return len(surface) >= self._min_length and not is_other_form(surface, within[0].word)


class TypoCandidates:
    """A `CandidateSource`: what `source` proposes where the slips of mentions are mended.

    Priors of a mention with slips are multiplied by how like it is what it was mended to: by the
    share of letters that are not a slip.
    """

    def __init__(self, source: CandidateSource, typos: TypoIndex) -> None:
        self._source, self._typos = source, typos

    def __repr__(self) -> str:
        return f"TypoCandidates({self._source!r})"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, best prior first."""
        typos = [
            [
                slip
                for slip in text_typos
                if any(_within(link.mention, [slip]) for link in text.links)
            ]
            for text, text_typos in zip(texts, self._typos.of([t.text for t in texts]), strict=True)
        ]
        proposals = self._source.candidates(list(map(_corrected, texts, typos)))
        return [
            [
                _less_sure(candidates, link.mention, _within(link.mention, text_typos))
                for link, candidates in zip(text.links, proposed, strict=True)
            ]
            for text, proposed, text_typos in zip(texts, proposals, typos, strict=True)
        ]


def _corrected(text: LinkedText, typos: Sequence[Slip]) -> LinkedText:
    if not typos:
        return text
    moved = _Moved(text.text, typos)
    links = (
        replace(k, mention=Mention(moved.there(k.mention.start), moved.there(k.mention.end)))
        for k in text.links
    )
    pair = None if text.pair_start is None else moved.there(text.pair_start)
    return replace(text, text=moved.text, links=tuple(links), pair_start=pair)


def _less_sure(candidates: Candidates, mention: Mention, typos: Sequence[Slip]) -> Candidates:
    if not typos:
        return candidates
    share = _likeness(mention, typos)
    words = ", ".join(slip.word for slip in typos)
    return tuple(
        structs.replace(
            c, prior=c.prior * share, score=c.score * share, reason=f"read as {words}: {c.reason}"
        )
        for c in candidates
    )


def _likeness(mention: Mention, typos: Sequence[Slip]) -> float:
    return 1.0 - min(len(typos) / (mention.end - mention.start), 1.0)


def is_other_form(surface: str, word: str) -> bool:
    """Return whether one is an inflected form of the other, which is spelt as it should be.

    English endings alone: those of verbs in -e and of persons who do what they say ("restores",
    "restored", "restore", "restorer"), and -s.

    >>> is_other_form("restores", "restorer"), is_other_form("amoxicilin", "amoxicillin")
    (True, False)
    """
    one, other = surface.casefold(), word.casefold()
    pairs = zip(one, other, strict=False)
    n = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    ends = {one[n:], other[n:]}
    return ends == {"", "s"} or (one[:n].endswith("e") and ends <= VERB_ENDINGS)


def _within(mention: Mention, typos: Sequence[Slip]) -> list[Slip]:
    return [slip for slip in typos if mention.start <= slip.start and slip.end <= mention.end]


def _longer(links: Sequence[Link], others: Sequence[Link]) -> tuple[Link, ...]:
    """Both, but of those that overlap the longer one; of equals the first list's."""
    ranked = sorted([*links, *others], key=lambda link: link.mention.start - link.mention.end)
    return tuple(first_apart(ranked))
