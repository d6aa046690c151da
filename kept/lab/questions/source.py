"""`Source`: where questions come from, and `Wording`: how a relation is asked for and said."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from kept.bounds import MAX_COUNT, MAX_SEED
from kept.lab.questions.worlds import WORLDS

Count = Annotated[PositiveInt, Field(le=MAX_COUNT)]


class Wording(BaseModel):
    """How a relation is asked for, how an answer begins, and how a fact of it is said.

    `{name}`, `{relation}` and, in a statement, `{value}` are filled in.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = "What is the {relation} of {name}?"
    begin: str = "The {relation} of {name} is"
    statement: str = "The {relation} of {name} is {value}."

    @field_validator("question", "begin", "statement")
    @classmethod
    def _fits(cls, text: str, info: ValidationInfo) -> str:
        fields = {"name": "N", "relation": "R"}
        needed = {"question": {"name"}, "begin": set[str](), "statement": {"name", "value"}}
        try:
            text.format(**fields, **({"value": "V"} if info.field_name == "statement" else {}))
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError("only {name}, {relation} and, in statement, {value}") from error
        missing = [n for n in sorted(needed[str(info.field_name)]) if f"{{{n}}}" not in text]
        if missing:
            raise ValueError(f"needs {{{missing[0]}}}")
        return text


class Source(BaseModel):
    """Whom and what is asked, and what rows that train are trained on.

    Either a made-up `world` of that many `n_train` and `n_test` heads, or a graph `kg`: files of
    questions `asked` and `train` (see `kept.lab.questions.items`), or without files every fact of
    `relations` (of all, if none are named), of which a `train_share` of the heads is for training.
    At most `max_asked` are asked, spread over heads; `n_candidates` values of a question's relation
    are compared. `seed` draws the world, the order, the shuffle and the edits: the same for all
    seeds of training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: Literal["bearers", "company"] | None = None
    n_train: Count = 1000
    n_test: Count = 40
    kg: str | None = None
    asked: str | None = None
    train: str | None = None
    relations: tuple[str, ...] = ()
    train_share: float = Field(0.5, gt=0, lt=1)
    max_asked: Count = 40
    max_train: Count = 4000
    n_candidates: int = Field(8, ge=2, le=1000)
    seed: NonNegativeInt = Field(0, le=MAX_SEED)
    wording: dict[str, Wording] = {}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.world is None) == (self.kg is None):
            raise ValueError(f"give world (one of {', '.join(WORLDS)}) or kg, exactly one")
        if self.kg is None and (self.asked or self.train or self.relations):
            raise ValueError("asked, train and relations are of a graph of your own: give kg")
        if self.train and not self.asked:
            raise ValueError("train is a file of questions beside another: give asked, too")
        return self
