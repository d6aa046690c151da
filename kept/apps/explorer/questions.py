"""What the page asks: checked when it is read, every size bounded.

Axis legend: none; spans are characters of the text, end exclusive.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from kept.bounds import MAX_SEED
from kept.errors import ConfigError

MAX_TEXT = 2000
"""Characters of a text."""
MAX_NAME = 500
MAX_CHOICES = 200
MAX_CHANGES = 50

Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Position = Annotated[int, Meta(ge=0, le=MAX_TEXT)]
Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the reader of the page says that a mention means; `entity` None is NIL, else a name."""

    start: Position
    end: Position
    entity: Name | None


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of the graph: facts are (head, relation, tail) by identifier or label.

    "edit" puts `tail` in the place of the fact's own, "shuffle" permutes the objects of each
    relation by `seed`.
    """

    do: Literal["delete", "add", "edit", "shuffle"]
    fact: tuple[Name, Name, Name] | None = None
    tail: Name | None = None
    seed: Seed = 0


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text, what its mentions mean, what a task asks about, and who reads it (`Reader.key`).

    `about` is the class to follow; `narrow` asks for a picture of half the width.
    """

    text: Text
    reader: Name = ""
    choices: Annotated[tuple[Choice, ...], Meta(max_length=MAX_CHOICES)] = ()
    targets: Annotated[tuple[tuple[Position, Position], ...], Meta(max_length=4)] = ()
    changes: Annotated[tuple[Change, ...], Meta(max_length=MAX_CHANGES)] = ()
    about: Name | None = None
    narrow: bool = False


class NameQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which entities are called `name`."""

    name: Name


AnyQuestion = TypeVar("AnyQuestion", bound=msgspec.Struct)


def read_question(kind: type[AnyQuestion], body: bytes) -> AnyQuestion:
    """Return what a request asks; raises `ConfigError` that names the faulty field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"this request is not what the page sends: {error}") from error
