"""What a relation of a graph looks like to a sentence encoder: phrases, statements, values, a type.

Questions rarely use the graph's own name of a relation. Its values say what it is about as well:
"nurse, surgeon, porter" is near to "job", and "It works as nurse." to "What does it do?". And the
word behind "which", or "who", "where" and "when", names the type of the answer.

Axis legend: relation, phrase, width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder

Vectors = NDArray[np.float32]
N_EXAMPLES = 6
"""Values of a relation that are shown."""
N_PHRASES = 4
OF_STATEMENTS, OF_VALUES, OF_DETOUR, OF_TYPE = 0.5, 0.25, 0.75, 1.0
"""Weights of the other similarities of a relation next to that of its phrases."""
VERB = r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would)\b"
WHICH = re.compile(rf"\b(?:which|what)\s+(?!{VERB})((?:\w+\s+){{0,2}}?\w+)\s+(?={VERB})")
ANSWER_TYPES = (
    (re.compile(r"(?:(?:by|to|from|with) )?(?:who|whom|whose)\b"), "person"),
    (re.compile(r"(?:since |until )?(?:when|how old|how long)\b"), "date"),
    (re.compile(r"where\b"), "place"),
)


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


@dataclass(frozen=True)
class Description:
    """A relation in words: four `phrases`, its `name`, the `type` of its values and some values."""

    phrases: tuple[str, ...]
    name: str
    type: str
    values: tuple[str, ...]
    is_inverse: bool = False

    def texts(self) -> list[str]:
        """Return what is encoded: phrases, name, type, the values together, one statement each."""
        statements = [
            f"{value} {self.name} it." if self.is_inverse else f"It {self.name} {value}."
            for value in self.values
        ]
        return [*self.phrases, self.name, self.type, ", ".join(self.values), *statements]


@dataclass(frozen=True, eq=False)
class RelationVectors:
    """The vectors of a description; `statement` is the mean of those of its statements."""

    phrases: Vectors
    name: Vectors
    type: Vectors
    values: Vectors
    statement: Vectors


def encode(descriptions: Sequence[Description], encoder: SentenceEncoder) -> list[RelationVectors]:
    """Return the vectors of each description, all encoded together."""
    texts = [description.texts() for description in descriptions]
    vectors = encoder.encode([text for each in texts for text in each])
    ends = np.cumsum([len(each) for each in texts])[:-1]
    return [_split(part) for part in np.split(vectors, ends)]


def _split(vectors: Vectors) -> RelationVectors:
    phrases, (name, kind, values) = vectors[:N_PHRASES], vectors[N_PHRASES : N_PHRASES + 3]
    statements = vectors[N_PHRASES + 3 :]
    statement = statements.mean(0) if len(statements) else np.zeros_like(name)
    return RelationVectors(phrases, name, kind, values, statement)
