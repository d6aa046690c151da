"""Prior polarity of words, from a sentiment lexicon of senses or of words.

Ke et al. 2020, "SentiLARE: Sentiment-Aware Language Representation Learning with Linguistic
Knowledge" (EMNLP), section 3.1, over SentiWordNet 3.0 (Baccianella et al., LREC 2010).

Axis legend: sense.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.wordnet_lexicon import Lexicon
from kg_loaders.reading.lines import read_lines

NEGATIVE, POSITIVE, NEUTRAL = 0, 1, 2
PARTS = {"v": 0, "a": 1, "r": 2, "n": 3}
OTHER = 4
"""What is not a verb, adjective, adverb or noun."""
ANY = ""
"""The part of speech of an entry that holds for all."""
COMMENTS = ("#", ";")


class Sense(NamedTuple):
    """A sense of a word: its number, how positive and negative it is, its definition."""

    number: int
    positive: float
    negative: float
    gloss: str = ""


class SentimentLexicon:
    """Senses by word and part of speech (`v`, `a`, `r`, `n`, or `ANY`)."""

    def __init__(self, senses: Mapping[tuple[str, str], Sequence[Sense]]) -> None:
        self._senses = {key: tuple(scores) for key, scores in senses.items()}
        forms: dict[tuple[str, str], tuple[str, ...]] = {
            (word, letter): ()
            for word, part in self._senses
            for letter in ([part] if part else PARTS)
        }
        self._forms = Lexicon(forms, {})

    def __len__(self) -> int:
        return len(self._senses)

    def __repr__(self) -> str:
        return f"SentimentLexicon({len(self)} words)"

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """From SentiWordNet's file, or lines of a word, a TAB and a score, and perhaps a part.

        SentiWordNet's lines are part, id, positive, negative, `word#sense word#sense`, gloss. Of
        other lines a positive score makes a positive word. Lines that begin with "#" or ";" are
        comments. Raises `SourceError` for a file that is not there, `DamageError` at another line.
        """
        file, report = Path(path), DamageReport()
        if not file.is_file():
            raise SourceError(
                f"{file} is not a file; give SentiWordNet's, or one of words and scores"
            )
        senses: dict[tuple[str, str], list[Sense]] = {}
        for number, offset, line in read_lines(file, report):
            fields = line.decode().rstrip().split("\t")
            if not line.strip() or fields[0].startswith(COMMENTS):
                continue
            try:
                for key, sense in _senses(fields):
                    senses.setdefault(key, []).append(sense)
            except ValueError as error:
                report.reject(str(file), number, offset, str(error), line)
        return cls(senses)

    def senses(self, word: str, part: str) -> tuple[Sense, ...]:
        """The senses of a word as `part`, of its base form, or else those of any part."""
        form = word.lower().replace(" ", "_")
        for of in (part, ANY):
            for base in [form, *(self._forms.morphy(form, part) if part else ())]:
                if scores := self._senses.get((base, of)):
                    return scores
        return ()


def _senses(fields: Sequence[str]) -> list[tuple[tuple[str, str], Sense]]:
    """The entries of one line; ValueError says what is wrong with it."""
    if len(fields) >= 5 and "#" in fields[4]:
        part = "a" if fields[0] == "s" else fields[0]
        if part not in PARTS:
            raise ValueError(f"part of speech {fields[0]!r} is none of {', '.join(PARTS)}, s")
        positive, negative = _score(fields[2]), _score(fields[3])
        gloss = fields[5] if len(fields) > 5 else ""
        quote = gloss.find('"')
        gloss = gloss[: quote - 2] if quote >= 0 else gloss
        terms = [term.rpartition("#") for term in fields[4].split()]
        return [
            ((word.lower(), part), Sense(int(number), positive, negative, gloss))
            for word, _, number in terms
        ]
    if len(fields) < 2:
        raise ValueError("neither a line of SentiWordNet nor a word, a TAB and a score")
    score = _score(fields[1])
    part = fields[2] if len(fields) > 2 and fields[2] in PARTS else ANY
    word = fields[0].strip().lower().replace(" ", "_")
    return [((word, part), Sense(1, max(score, 0.0), max(-score, 0.0)))]


def _score(field: str) -> float:
    value = float(field)
    if not math.isfinite(value):
        raise ValueError(f"{field} is not a finite score")
    return value


def sense_weights(
    numbers: Sequence[int], similarities: Sequence[float] | None = None
) -> NDArray[np.float64]:
    """Return the weight of each sense, `[sense]`: softmax of (similarity + 1) / (2 number),
    equation 1.

    `similarities` are the cosines of the text with the glosses; absent, all are 0, so that only the
    order of the senses counts.
    """
    cosines = np.zeros(len(numbers)) if similarities is None else np.asarray(similarities)
    shares = np.exp((cosines + 1) / (2 * np.asarray(numbers, np.float64)))
    weights: NDArray[np.float64] = shares / shares.sum()
    return weights


def prior_score(senses: Sequence[Sense], similarities: Sequence[float] | None = None) -> float:
    """Return the mean polarity of a word's senses, weighted by `sense_weights`."""
    if not senses:
        return 0.0
    scores = np.array([sense.positive - sense.negative for sense in senses])
    return float(sense_weights([sense.number for sense in senses], similarities) @ scores)


def polarity(score: float) -> int:
    """`POSITIVE` above 0, `NEGATIVE` below, else `NEUTRAL`."""
    return POSITIVE if score > 0 else NEGATIVE if score < 0 else NEUTRAL
