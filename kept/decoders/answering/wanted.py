"""What kind of thing a question wants, and which relations have values of that kind.

"Who" wants a person or an organisation, "where" a place, "when" a date, "how many" a number, "which
shelf" a shelf. The kind of a relation's values is read from their form (dates, numbers), from their
types, and without types from the values.

Axis legend: kind, relation, width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder

Literals = Literal["date", "number", "name"]
VERB = r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would)\b"
WHICH = re.compile(rf"\b(?:which|what)\s+(?!{VERB})((?:\w+\s+){{0,2}}?\w+)\s+(?={VERB})")
ANSWER_TYPES = (
    (re.compile(r"(?:(?:by|to|from|with|for|in) )?(?:who|whom|whose)\b"), "person"),
    (re.compile(r"(?:since |until )?(?:when|how old|how long ago)\b"), "date"),
    (re.compile(r"(?:from |to )?where\b"), "place"),
)
DATE = re.compile(
    r"[-+]?\d{3,4}(?:-\d\d?(?:-\d\d?.*)?)?|\d{1,2}[./ ]\w+[./ ]\d{2,4}|\w+ \d{1,2}, \d{4}|"
    r".*\bcentury"
)
NUMBER = re.compile(r"[€$£~]?\s?[-+]?\d[\d,.]*\s?(?:%|[^\W\d]+[²³]?|[€$£°])?(?: [^\W\d]+)?")
MOSTLY = 0.8
WANTS_DATE = re.compile(r"\b(?:when|what year|which year|date|century)\b")
WANTS_NUMBER = re.compile(
    r"\bhow (?:many|much|tall|long|high|big|large|heavy|old|wide|deep|far|fast)\b"
)
WANTS_NAME = re.compile(r"\b(?:who|whom|whose|where)\b")
FITS: dict[Literals, dict[Literals, float]] = {
    "date": {"date": 1.0, "number": 0.0, "name": -1.0},
    "number": {"number": 1.0, "date": -0.2, "name": -0.5},
    "name": {"name": 0.0, "date": -1.0, "number": -1.0},
}
"""By what is wanted, how well values of each form fit."""
EXAMPLES = {
    "person": ("person", "human", "actor", "writer", "king", "employee"),
    "place": (
        "place", "city", "country", "town", "river", "region", "building", "mountain", "address",
    ),
    "organisation": (
        "organisation", "company", "team", "university", "band", "school", "political party",
        "publisher",
    ),
    "work": ("book", "film", "song", "painting", "album", "television series"),
    "language": ("language", "English, Danish, Korean"),
    "profession": ("profession", "nurse, teacher, welder", "occupation", "role"),
    "quality": ("genre", "colour", "material", "religion", "style", "sport", "shape", "taste"),
    "goods": ("thing", "machine", "vehicle", "food", "instrument", "drug"),
    "time": ("date", "year", "century"),
}  # fmt: skip
"""Kinds of values, with words for each."""
KINDS = tuple(EXAMPLES)
TIME = np.array([kind == "time" for kind in KINDS], np.float64)
SHARES: dict[str, dict[str, float]] = {
    "who": {"person": 1.0, "organisation": 0.3},
    "where": {"place": 1.0, "organisation": 0.5},
    "when": {"time": 1.0},
}
QUESTION_WORD = re.compile(r"\b(?:who|where|when)")
TEMPERATURE = 0.08


def answer_type(question: str) -> str:
    """Return what kind of thing a question asks for, or "" where it does not say.

    >>> answer_type("In which old town does it lie?"), answer_type("Who made it?")
    ('old town', 'person')
    >>> answer_type("What is it made of?")
    ''
    """
    text = question.lower()
    if match := WHICH.search(text):
        return match[1]
    return next((kind for pattern, kind in ANSWER_TYPES if pattern.match(text)), "")


def literals(values: Sequence[str]) -> Literals:
    """Return the form of values: dates, numbers or names.

    >>> literals(["1987-01-12", "2003"]), literals(["1.62 m", "41,000"]), literals(["Ada"])
    ('date', 'number', 'name')
    """
    if not values:
        return "name"
    if sum(bool(DATE.fullmatch(each)) for each in values) >= MOSTLY * len(values):
        return "date"
    n_numbers = sum(bool(NUMBER.fullmatch(each)) for each in values)
    return "number" if n_numbers >= MOSTLY * len(values) else "name"


def fit(question: str, forms: Sequence[Literals]) -> NDArray[np.float64]:
    """Return how well values of these forms fit what `question` wants, `[relation]`."""
    text = question.lower()
    patterns: tuple[tuple[re.Pattern[str], Literals], ...] = (
        (WANTS_DATE, "date"), (WANTS_NUMBER, "number"), (WANTS_NAME, "name"),
    )  # fmt: skip
    wanted = next((form for pattern, form in patterns if pattern.search(text)), None)
    return np.array([0.0 if wanted is None else FITS[wanted][form] for form in forms])


def fit_of_kinds(question: str, kinds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that values are of the kind that "who", "where" or "when" wants.

    `kinds [relation kind]` are those of the relations; 0 for all where there is no such word.
    """
    match = QUESTION_WORD.search(question.lower())
    shares = {} if match is None else SHARES[match[0]]
    return np.asarray(kinds @ np.array([shares.get(kind, 0.0) for kind in KINDS]), np.float64)


class ValueKinds:
    """Compares the values of relations with `EXAMPLES`."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        texts = [text for texts in EXAMPLES.values() for text in texts]
        self.starts = np.cumsum([0, *(len(texts) for texts in EXAMPLES.values())][:-1])
        self.vectors = encoder.encode(texts)

    def probabilities(self, vector: NDArray[np.float32], form: Literals) -> NDArray[np.float64]:
        """Return the probability of each kind, `[kind]`, for the vector of a type or of values."""
        if form != "name":
            return TIME * (form == "date")
        scores = np.maximum.reduceat(self.vectors @ vector, self.starts).astype(np.float64)
        shares = np.exp((scores - scores.max()) / TEMPERATURE)
        return np.asarray(shares / shares.sum(), np.float64)
