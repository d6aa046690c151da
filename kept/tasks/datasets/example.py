"""`TaskExample`: one question of a task, whatever the file it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from entity_linking.annotations import TypingExample
from entity_linking.annotations.relations import RelationExample
from entity_linking.completing import touch
from entity_linking.mentions import Link, LinkedText, Mention
from kept.errors import ConfigError


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
    """A linked text with the question about it.

    `targets` are the stretches that the question is about: head and tail of a relation, the mention
    to be typed, the words to be tagged, an answer; none for a whole text. `labels`: one for a
    relation or a text, any number for a mention or a pair of a document, one a word for tagging,
    for a question every answer that counts. `pair`: entities whose facts would give the answer away
    and are never shown. `document_pair`: which pair of a document it is. `source`: the text as it
    was before marks went in around the targets; the context of a question.
    """

    linked: LinkedText
    labels: tuple[str, ...]
    targets: tuple[Mention, ...] = ()
    pair: tuple[str, str] | None = None
    document_pair: DocumentPair | None = None
    source: str | None = field(default=None, repr=False)

    @property
    def unmarked(self) -> str:
        """The text without the marks around its targets."""
        return self.linked.text if self.source is None else self.source

    @property
    def group(self) -> str:
        """What an example is about: a document, two entities, else a text."""
        if self.document_pair:
            return self.document_pair.document.title
        return "\t".join(sorted(self.pair)) if self.pair else self.unmarked


def clusters(examples: Sequence[TaskExample]) -> list[str]:
    """Return a key for each example; examples of one key are not independent.

    Those of one `group` are not, nor are those that ask about one text, as it was before marks
    went in. The key is the group of the first of them.

    >>> a, b = (TaskExample(LinkedText(f"{m} x {m}", ()), ("r",), source="x") for m in "#@")
    >>> clusters([a, b])
    ['x', 'x']
    """
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root(key: tuple[str, str]) -> tuple[str, str]:
        while parent.setdefault(key, key) != key:
            parent[key] = key = parent[parent[key]]
        return key

    keys = [("group", example.group) for example in examples]
    for key, example in zip(keys, examples, strict=True):
        if not example.document_pair:
            parent[root(("text", example.unmarked))] = root(key)
    first: dict[tuple[str, str], str] = {}
    return [first.setdefault(root(key), key[1]) for key in keys]


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


def pair_of(links: Sequence[Link], targets: Sequence[Mention]) -> tuple[str, str] | None:
    """The entities of the first link that touches the head, and the tail; None without both."""
    ends = [
        next((k.entity for k in links if k.entity and touch(k.mention, target)), None)
        for target in targets
    ]
    head, tail = ends
    return (head, tail) if head and tail else None


def word_places(words: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of each word in the text that puts one blank between them.

    >>> word_places(["a", "bc"])
    [(0, 1), (2, 4)]
    """
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def question(text: str | LinkedText, *targets: str | tuple[int, int]) -> TaskExample:
    """Return a text with its targets marked: spans of characters, or words it holds just once.

    Raises `ConfigError` for words that the text has not, or more than once.

    >>> question("Padre met Jasper.", "Jasper").targets
    (Mention(start=10, end=16),)
    """
    linked = LinkedText(text, ()) if isinstance(text, str) else text
    return TaskExample(linked, (), tuple(_target(linked.text, each) for each in targets))


def _target(text: str, target: str | tuple[int, int]) -> Mention:
    if isinstance(target, tuple) and len(target) == 2:
        return Mention(*target)
    if not isinstance(target, str):
        raise ConfigError(f"{target!r} is no target; give words of the text, or (start, end)")
    n = text.count(target) if target else 0
    if n != 1:
        raise ConfigError(
            f"{target!r} occurs {n} times in {text[:60]!r}; give its characters (start, end)"
        )
    start = text.index(target)
    return Mention(start, start + len(target))
