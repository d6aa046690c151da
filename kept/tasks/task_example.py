"""`TaskExample`: one question of a task, whatever the file it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from entity_linking.annotations import TypingExample
from entity_linking.mentions import LinkedText, Mention
from entity_linking.relations import RelationExample


@dataclass(frozen=True, slots=True)
class Document:
    """A text of which an example shows a part: the names of its entities, and all its facts.

    `names`: by entity, as its mentions are written. `facts`: `(head, relation, tail)`, entities by
    number, each once; also those that no example asks for.
    """

    title: str
    names: tuple[tuple[str, ...], ...] = field(repr=False)
    facts: tuple[tuple[int, str, int], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DocumentPair:
    """Two entities of a document, by number."""

    document: Document
    head: int
    tail: int


@dataclass(frozen=True, slots=True)
class TaskExample:
    """A linked text with what is asked of it.

    `targets` are the stretches that the question is about: head and tail of a relation, the mention
    to be typed, the words to be tagged; none for a whole text. `labels`: one for a relation or a
    text, any number for a mention or a pair of a document, one a word for tagging. `pair`: entities
    whose facts would give the answer away and are never shown. `place`: where in a document it is.
    """

    linked: LinkedText
    labels: tuple[str, ...]
    targets: tuple[Mention, ...] = ()
    pair: tuple[str, str] | None = None
    place: DocumentPair | None = None

    @property
    def group(self) -> str:
        """Examples of one group are not independent: a document, two entities, else a text."""
        if self.place:
            return self.place.document.title
        return "\t".join(sorted(self.pair)) if self.pair else self.linked.text


def from_relation(example: RelationExample) -> TaskExample:
    """The relation between head and tail; a NIL end leaves no pair."""
    pair = (example.head, example.tail)
    return TaskExample(
        example.linked,
        (example.relation,),
        (example.head_mention, example.tail_mention),
        pair if all(pair) else None,
    )


def from_typing(example: TypingExample) -> TaskExample:
    """The types of one mention; it may have none."""
    return TaskExample(example.linked, example.types, (example.mention,))


def word_places(words: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of each word in the text that puts one blank between them.

    >>> word_places(["a", "bc"])
    [(0, 1), (2, 4)]
    """
    places, start = [], 0
    for word in words:
        places.append((start, start + len(word)))
        start += len(word) + 1
    return places
