"""What is asked over HTTP: checked when it is read, every size bounded."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kept.apps.serve.limits import (
    MAX_ANSWERS,
    MAX_CANDIDATES,
    MAX_CHOICES,
    MAX_CONTEXT,
    MAX_FACTS,
    MAX_NAME,
    MAX_STREAMED,
    MAX_TEXT,
    MAX_TEXTS,
)
from kept.lab.probing.items.item import HOLE


def _whole(text: str) -> str:
    """Half a pair of surrogates is not a character: no tokenizer and no answer could hold it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("it has half a pair of surrogates, which is not a character") from error
    return text


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_whole)]
Context = Annotated[str, Field(min_length=1, max_length=MAX_CONTEXT), AfterValidator(_whole)]
Position = Annotated[int, Field(ge=0, le=MAX_TEXT)]
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
    """A triple by identifiers or labels, one of them "?"."""

    head: Name
    relation: Name
    tail: Name
    n: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = 10

    @property
    def triple(self) -> tuple[str, str, str]:
        """Head, relation and tail."""
        return self.head, self.relation, self.tail


class FactsRequest(_Request):
    """An entity by identifier, label or alias, and how many of its facts at most."""

    name: Name
    n: Annotated[int, Field(ge=1, le=MAX_FACTS)] = 50


class AskRequest(_Request):
    """Questions over the graph; below `least_confidence` (default .4) there is no answer.

    `stream`: a line of JSON for each question, as soon as it is answered; then up to 1,000 of them.
    """

    questions: Annotated[list[Text], Field(min_length=1, max_length=MAX_STREAMED)]
    least_confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    stream: bool = False


class PredictItem(_Request):
    """What a run is asked about: the columns of a file of `kept predict`, without a label."""

    text: Text | None = None
    text_b: Text | None = None
    mention: Name | None = None
    start: Position | None = None
    end: Position | None = None
    head: Name | None = None
    tail: Name | None = None
    targets: Annotated[list[tuple[Position, Position]], Field(max_length=MAX_TEXT)] | None = None
    tokens: Annotated[list[Name], Field(min_length=1, max_length=MAX_TEXT)] | None = None
    question: Text | None = None
    context: Context | None = None
    choices: Annotated[list[Name], Field(max_length=MAX_CHOICES)] | None = None


class PredictRequest(_Request):
    """Items for a run by its folder's name; the only run needs no name.

    `stream`: a line of JSON for each item, as soon as it is answered; then up to 1,000 of them.
    """

    items: Annotated[list[PredictItem], Field(min_length=1, max_length=MAX_STREAMED)]
    run: Name | None = None
    stream: bool = False


__all__ = [
    "HOLE", "AskRequest", "Cloze", "CompleteRequest", "EncodeRequest", "FactsRequest",
    "PredictItem", "PredictRequest", "ProbeRequest", "ShowRequest", "Texts",
]  # fmt: skip
