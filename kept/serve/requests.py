"""What is asked over HTTP: checked when it is read, every size bounded."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kept.probing.items.item import HOLE
from kept.serve.limits import MAX_ANSWERS, MAX_CANDIDATES, MAX_NAME, MAX_TEXT, MAX_TEXTS


def _whole(text: str) -> str:
    """Half a pair of surrogates is no character: no tokenizer and no answer could hold it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a pair of surrogates, which is no character") from error
    return text


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_whole)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_whole)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Texts(_Request):
    """Texts to be linked."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]


class EncodeRequest(Texts):
    """Texts to be encoded; `mentions`: with a vector for each linked mention."""

    mentions: bool = False


class ShowRequest(_Request):
    """A text, and the method or run that reads it."""

    text: Text
    method: Name = "colake"


class Cloze(_Request):
    """A sentence with `[Y]` once; candidates to rank, or all words of one piece."""

    text: Text
    candidates: Annotated[list[Name], Field(max_length=MAX_CANDIDATES)] = []


class ProbeRequest(_Request):
    """Questions, and how many answers of each."""

    questions: Annotated[list[Cloze], Field(min_length=1, max_length=MAX_TEXTS)]
    n: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = 10


class CompleteRequest(_Request):
    """A triple by identifiers, one of them "?"."""

    head: Name
    relation: Name
    tail: Name
    n: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = 10


__all__ = [
    "HOLE", "Cloze", "CompleteRequest", "EncodeRequest", "ProbeRequest", "ShowRequest", "Texts",
]  # fmt: skip
