"""The table of rows: each a way of giving facts to a decoder, one line.

A row reads the graph at every question, or remembers facts that it was trained on; it trains
nothing, or on questions about other entities, or on the facts themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from kept.errors import ConfigError
from kept.lab.questions import kblam, making
from kept.lab.questions.readers import Reader
from kept.lab.questions.training import (
    AdapterPlan,
    NoTraining,
    ReadingPlan,
    RememberingPlan,
    SoftPromptPlan,
)
from kept.lab.questions.training_context import TrainingContext
from kept.methods import BASELINE
from kept.suggestions import no_such

Trains = Literal["nothing", "questions", "facts"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A way of giving facts.

    `make`: a reader by the row's options; None where it was stopped. `trains`: on
    what. `off_is_host`: without facts the row is the host alone, bit by bit. `reads`: the graph is
    read at every question, so that it can be edited.
    """

    about: str
    make: Callable[[TrainingContext, Any], Reader | None]
    options: type[BaseModel] = NoTraining
    trains: Trains = "nothing"
    off_is_host: bool = True
    reads: bool = True


ROWS: Mapping[str, Row] = {
    "words": Row(about="facts as sentences before the question", make=making.words),
    "branches": Row(
        about="K-BERT's branches at the mention, read by all words behind it", make=making.branches
    ),
    "nodes": Row(
        about="CoLAKE's nodes at the mention, the mean of their words' embeddings",
        make=making.nodes,
    ),
    "words-lora": Row(
        about="the same as words, with LoRA trained to answer from them",
        options=ReadingPlan,
        make=making.words_lora,
        trains="questions",
        off_is_host=False,
    ),
    "branches-lora": Row(
        about="the same as branches, with LoRA",
        options=ReadingPlan,
        make=making.branches_lora,
        trains="questions",
        off_is_host=False,
    ),
    "nodes-lora": Row(
        about="the same as nodes, with LoRA",
        options=ReadingPlan,
        make=making.nodes_lora,
        trains="questions",
        off_is_host=False,
    ),
    "soft-prompt": Row(
        about="G-Retriever: vectors that a graph network makes of the facts, within the text",
        options=SoftPromptPlan,
        make=making.soft_prompt,
        trains="questions",
    ),
    "kblam": Row(
        about="KBLaM: the facts of all questions as keys and values",
        options=kblam.KBLaMPlan,
        make=kblam.make,
        trains="questions",
    ),
    "lora": Row(
        about="LoRA trained on the facts themselves; no fact is in view",
        options=RememberingPlan,
        make=making.lora,
        trains="facts",
        reads=False,
    ),
    "adapter": Row(
        about="K-Adapter's blocks added to the host, trained on the facts themselves",
        options=AdapterPlan,
        make=making.adapter,
        trains="facts",
        reads=False,
    ),
}


def row_of(kind: str) -> Row:
    """A line of the table; ConfigError for a name that is none."""
    if kind not in ROWS:
        raise no_such("row of questions", kind, ROWS)
    return ROWS[kind]


def row_options(kind: str, fields: Mapping[str, Any]) -> BaseModel:
    """The options of a row; ConfigError naming every fault. The baseline has none."""
    options = NoTraining if kind == BASELINE else row_of(kind).options
    try:
        return options.model_validate(dict(fields))
    except ValidationError as error:
        names = ", ".join(options.model_fields)
        faults = [
            f"{'.'.join(map(str, each['loc'])) or kind}: {each['msg'].lower()}, not "
            f"{each['input']!r}"
            for each in error.errors(include_url=False)
        ]
        raise ConfigError(f"{'; '.join(faults)}; options are {names}") from None
