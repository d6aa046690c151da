"""What the tools of the MCP server return: small, named fields that a language model reads."""

from __future__ import annotations

from pydantic import BaseModel, Field


class CandidateResult(BaseModel):
    """An entity that a mention may mean, the likeliest first."""

    id: str
    label: str
    description: str | None


class LinkResult(BaseModel):
    """A mention and the entity that it means; `id` is null where the graph has none."""

    words: str
    start: int
    end: int
    id: str | None
    label: str | None
    confidence: float
    ambiguous: bool
    candidates: list[CandidateResult]


class LinksResult(BaseModel):
    """The mentions of a text, in its order."""

    links: list[LinkResult]


class FactResult(BaseModel):
    """One fact in words."""

    head: str
    relation: str
    tail: str


class FactsResult(BaseModel):
    """An entity and its facts; `n_facts` is how many there are, listed or not."""

    id: str
    label: str
    description: str | None
    types: list[str]
    aliases: list[str]
    facts: list[FactResult]
    n_facts: int


class QueryResult(BaseModel):
    """A table; `n_rows` is how many rows there are, listed or not."""

    columns: list[str]
    rows: list[list[str]]
    n_rows: int


class CompletionResult(BaseModel):
    """An answer for the gap: `known` if the graph has the triple already."""

    id: str
    label: str
    score: float
    known: bool
    confidence: float | None = Field(
        description="Chance that this is the missing answer; null where the scorer is uncalibrated."
    )


class CompletionsResult(BaseModel):
    """Answers for the gap, the best first."""

    answers: list[CompletionResult]


class AnswerResult(BaseModel):
    """The values that answer a question, or a `refusal` that says why the graph has none."""

    values: list[str]
    n_values: int
    refusal: str
    entity: str
    relation: str
    facts: list[FactResult]
    confidence: float
