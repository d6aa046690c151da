"""What a relation of a graph looks like to a sentence encoder: phrases, statements, values, a type.

Questions rarely use the graph's own name of a relation. Its values say what it is about as well:
"nurse, surgeon, porter" is near to "job", and "It works as nurse." to "What does it do?".

Axis legend: relation, phrase, kind, width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder
from kept.decoders.answering.wanted import Literals, ValueKinds

Vectors = NDArray[np.float32]
N_EXAMPLES = 6
"""Values of a relation that are shown."""
N_PHRASES = 4
NO_TYPE = "thing"
CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])")


def in_words(name: str) -> str:
    """Return the name of a relation as words: the end of an IRI, and camel case, are split.

    >>> in_words("http://schema.org/birthPlace"), in_words("cast_member"), in_words("P36")
    ('birth place', 'cast member', 'P36')
    """
    last = re.split(r"[#/]", name.rstrip("#/"))[-1] if "://" in name else name
    words = CAMEL.sub(" ", last).replace("_", " ").replace("-", " ").strip()
    return words if words == last else words.lower()


@dataclass(frozen=True)
class Description:
    """A relation in words: four `phrases`, its `name`, the `type` of its values and some values.

    `form` says whether these are dates, numbers or names.
    """

    phrases: tuple[str, ...]
    name: str
    type: str
    values: tuple[str, ...]
    form: Literals = "name"
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
    """The vectors of a description; `statement` is the mean of those of its statements.

    `kinds [kind]` are the probabilities of the kinds of its values.
    """

    phrases: Vectors
    name: Vectors
    type: Vectors
    values: Vectors
    statement: Vectors
    form: Literals
    kinds: NDArray[np.float64]


def encode(
    descriptions: Sequence[Description], encoder: SentenceEncoder, kinds: ValueKinds
) -> list[RelationVectors]:
    """Return the vectors of each description, all encoded together."""
    texts = [description.texts() for description in descriptions]
    vectors = encoder.encode([text for each in texts for text in each])
    ends = np.cumsum([len(each) for each in texts])[:-1]
    return [
        _split(part, each, kinds)
        for part, each in zip(np.split(vectors, ends), descriptions, strict=True)
    ]


def _split(vectors: Vectors, description: Description, kinds: ValueKinds) -> RelationVectors:
    phrases, (name, kind, values) = vectors[:N_PHRASES], vectors[N_PHRASES : N_PHRASES + 3]
    statements = vectors[N_PHRASES + 3 :]
    statement = statements.mean(0) if len(statements) else np.zeros_like(name)
    form = description.form
    shares = kinds.probabilities(values if description.type == NO_TYPE else kind, form)
    return RelationVectors(phrases, name, kind, values, statement, form, shares)
