"""`Mention`, `Candidate`, `Link`: what linkers hand to graph builders.

Offsets are Python string indices (code points), end exclusive. Entities are graph identifiers
(strings such as "Q90"), so links mean the same in every graph that knows the identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import TYPE_CHECKING, Protocol

import msgspec

from entity_linking.errors import LinkingError
from kg_loaders.notebook import marked, table

if TYPE_CHECKING:
    import pandas as pd

SAME_SCORE = 1e-9
"""Scores that differ by less are equal: sums of the same numbers may differ in their last bit."""


class Mention(msgspec.Struct, frozen=True, order=True, gc=False):
    """A stretch of text, `text[start:end]`.

    >>> Mention(0, 5)
    Mention(start=0, end=5)
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise LinkingError(
                f"a mention needs 0 <= start < end, not start={self.start} end={self.end}"
            )


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An entity that a mention may mean; `prior` is p(entity | surface), `score` orders.

    `reason` says for people how the entity was found, such as "alias 'Big Apple'".
    """

    entity: str
    prior: float
    score: float
    reason: str = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.prior <= 1.0:
            raise LinkingError(f"prior of {self.entity!r} is {self.prior}, outside [0, 1]")

    def scored(self, score: float) -> Candidate:
        """The same candidate with another score."""
        return Candidate(self.entity, self.prior, score, self.reason)


@dataclass(frozen=True, slots=True, repr=False)
class Link:
    """A mention with its candidates (best first) and the choice; `entity` None means NIL.

    `text` is the mention as it is written and `label` the best label of the entity, where the
    linker gives them, as `kept.link` does; neither decides whether two links are equal. `n_found`
    is how many candidates the linker had, where some of them were left out (`with_candidates`).
    """

    mention: Mention
    candidates: tuple[Candidate, ...]
    entity: str | None
    confidence: float
    text: str | None = field(default=None, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)
    n_found: int | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"Link({self})"

    def __str__(self) -> str:
        name = self.label or self.entity or "NIL"
        return f"{self.text or ''}[{self.start}:{self.end}] → {name} ({self.confidence:.2f})"

    @property
    def start(self) -> int:
        """Where the mention begins in the text, in characters."""
        return self.mention.start

    @property
    def end(self) -> int:
        """Where it ends, exclusive."""
        return self.mention.end

    @property
    def is_cut(self) -> bool:
        """Whether the linker had more candidates than are here."""
        return self.n_found is not None and self.n_found > len(self.candidates)

    def with_candidates(self, most: int) -> Link:
        """Return the link with its best `most` candidates, the chosen one always among them.

        >>> three = tuple(Candidate(name, 0.3, 0.0) for name in "abc")
        >>> short = Link(Mention(0, 5), three, "a", 0.3).with_candidates(2)
        >>> [candidate.entity for candidate in short.candidates], short.is_cut
        (['a', 'b'], True)
        """
        if len(self.candidates) <= most:
            return self
        best = list(self.candidates[:most])
        if self.entity is not None and all(c.entity != self.entity for c in best):
            best[-1:] = [c for c in self.candidates if c.entity == self.entity][:1] or best[-1:]
        n_found = max(len(self.candidates), self.n_found or 0)
        return replace(self, candidates=tuple(best), n_found=n_found)

    @property
    def equals(self) -> tuple[str, ...]:
        """Return the other candidates whose score is that of the chosen entity, in order.

        None for NIL, for a choice that is certain (confidence 1, such as a person's), and where the
        chosen entity is not a candidate.

        >>> homonyms = (Candidate("Q90", 0.5, 0.0), Candidate("Q830149", 0.5, 0.0))
        >>> Link(Mention(0, 5), homonyms, "Q90", 0.5).equals
        ('Q830149',)
        """
        if self.entity is None or self.confidence == 1.0 or len(self.candidates) < 2:
            return ()
        score = next((c.score for c in self.candidates if c.entity == self.entity), None)
        if score is None:
            return ()
        others = [c for c in self.candidates if c.entity != self.entity]
        return tuple(c.entity for c in others if isclose(c.score, score, abs_tol=SAME_SCORE))

    @property
    def is_ambiguous(self) -> bool:
        """Whether another candidate has the score of the chosen one: the tie rule alone chose.

        >>> homonyms = (Candidate("Q90", 0.5, 0.0), Candidate("Q830149", 0.5, 0.0))
        >>> Link(Mention(0, 5), homonyms, "Q90", 0.5).is_ambiguous
        True
        """
        return bool(self.equals)

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise LinkingError(f"confidence {self.confidence} of {self.mention} is outside [0, 1]")


@dataclass(frozen=True, slots=True, repr=False)
class LinkedText:
    """A text with its links, sorted by start; the input of every graph builder.

    `len` and iteration are those of the links.

    With `pair_start` it is a pair of texts, the second from that character on (white space before
    it belongs to neither); no mention reaches across.
    """

    text: str
    links: tuple[Link, ...]
    id: str = ""
    pair_start: int | None = None

    def __post_init__(self) -> None:
        if self.pair_start is not None:
            self._check_pair(self.pair_start)
        n_characters, before, is_sorted = len(self.text), 0, True
        for link in self.links:
            mention = link.mention
            if mention.end > n_characters:
                raise LinkingError(f"{mention} ends after the text of {n_characters} characters")
            is_sorted &= before <= mention.start
            before = mention.start
        if not is_sorted:
            raise LinkingError(f"links of {self.text[:60]!r} are not sorted by start")

    def __iter__(self) -> Iterator[Link]:
        return iter(self.links)

    def __len__(self) -> int:
        return len(self.links)

    def __getitem__(self, index: int) -> Link:
        return self.links[index]

    def __bool__(self) -> bool:
        """A linked text is true, also without links."""
        return True

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame, a row per link."""
        try:
            import pandas
        except ImportError as error:
            raise LinkingError("to_pandas needs pandas: pip install pandas") from error
        columns = ("start", "end", "text", "entity", "label", "confidence")
        rows = [[getattr(link, name) for name in columns] for link in self.links]
        return pandas.DataFrame(rows, columns=list(columns))

    def __repr__(self) -> str:
        return f"LinkedText({self.text!r}, {list(self.links)})"

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"  {link}" for link in self.links)])

    def _repr_html_(self) -> str:
        places = [(link.mention.start, link.mention.end) for link in self.links]
        chosen = [link.entity or "NIL" for link in self.links]
        rows = (
            (self.text[start:end], entity, f"{link.confidence:.2f}", len(link.candidates))
            for (start, end), entity, link in zip(places, chosen, self.links, strict=True)
        )
        head = ("mention", "entity", "confidence", "candidates")
        spans = [(*span, entity) for span, entity in zip(places, chosen, strict=True)]
        return marked(self.text, spans) + table("links", head, rows, len(self.links))

    def _check_pair(self, start: int) -> None:
        if not 0 < start < len(self.text):
            raise LinkingError(
                f"pair_start {start} is not inside the text of {len(self.text)} characters"
            )
        for link in self.links:
            if link.mention.start < start < link.mention.end:
                raise LinkingError(f"{link.mention} reaches into the second text, from {start} on")


def n_cut_links(texts: Iterable[LinkedText]) -> int:
    """Return how many links of `texts` have fewer candidates than their linker had."""
    return sum(link.is_cut for text in texts for link in text.links)


def require_texts(texts: Sequence[str]) -> None:
    """Raise `LinkingError` for one text where a list of texts is due: it would be read by letters.

    >>> require_texts(["Anna met Ben."])
    """
    if isinstance(texts, str):
        raise LinkingError(f"{texts[:60]!r} is one text; give a list of texts: [{texts[:20]!r}]")


class Linker(Protocol):
    """Anything that links texts."""

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order."""
        ...
