"""`QuestionPlan`: a comparison on questions to a decoder as one YAML file.

A file with `questions` is one of these; a file with `task` is an `Experiment`
(`kept.lab.comparison.experiment`). Paths are relative to the folder that KEPT_DATA names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveInt, field_validator

from kept.errors import ConfigError
from kept.evaluation.published import Published
from kept.lab.questions.rows import ROWS, row_options
from kept.lab.questions.source import Count, Source
from kept.lab.study.design import DEFAULT_SEEDS, Design
from kept.methods import BASELINE
from kept.suggestions import no_such

TEST, EDITED, ABSENT = "questions", "edited", "absent"
"""Sets of a run: the graph as it is; every value changed; the facts that are asked for taken out.

The last two are asked of the row with true knowledge, after training, and train nothing.
"""


def all_rows() -> dict[str, dict[str, Any]]:
    """Every row, none with options of its own."""
    return {name: {} for name in ROWS}


class QuestionPlan(Design):
    """Rows (`methods`: `kept.lab.questions.rows`) that answer the same questions by one decoder.

    `metric`: "exact", exactly the value is written; or "chosen", of the candidates the right one
    begins most probably; verdicts are on it, both are on the page. `controls`: "asked", a row is
    trained with true facts and asked with false ones, which says whether its answers follow what it
    is shown; or "trained", it is trained with false ones, too, as `kept.lab.comparison` does
    (docs/decisions/0004). `chat`: the marks of a turn, or the tokenizer's "own". As words, branches
    and nodes at most `max_facts` facts of an entity are shown, soft prompts and KBLaM read all; at
    most `n_new` pieces are written.
    """

    name: str
    questions: Source
    host: str = "smollm2"
    vectors_from: str = "minilm"
    chat: Literal["own", "chatml", "llama3", "phi3"] = "own"
    max_facts: Count = 8
    n_new: int = Field(12, ge=1, le=256)
    methods: dict[str, dict[str, Any]] = Field(default_factory=all_rows)
    metric: Literal["exact", "chosen"] = "exact"
    controls: Literal["asked", "trained"] = "asked"
    seeds: PositiveInt = DEFAULT_SEEDS
    published: tuple[Published, ...] = ()
    differs: str = ""
    notes: tuple[str, ...] = ()
    asked: str = Field(TEST, exclude=True)
    primary: None = None
    pretraining: None = None

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        faults = []
        for name, options in methods.items():
            try:
                kind = str(options.get("method", name))
                row_options(kind, {k: v for k, v in options.items() if k != "method"})
            except ConfigError as error:
                faults.append(f"{name}: {error}")
        if faults:
            raise ValueError("; ".join(faults))
        return {k: v for k, v in methods.items() if k != BASELINE}

    def kind_of(self, name: str) -> str:
        """The line of `ROWS` of row `name`; ConfigError for one that the file does not have."""
        if name != BASELINE and name not in self.methods:
            raise no_such("row", name, (BASELINE, *self.methods))
        return str(self.methods.get(name, {}).get("method", name))

    def options_of(self, name: str) -> BaseModel:
        """The options of row `name`."""
        options = self.methods.get(name, {})
        return row_options(self.kind_of(name), {k: v for k, v in options.items() if k != "method"})

    def over(self, kg: Path) -> Self:
        """The same rows over the user's graph: every fact of it, or of its `relations`."""
        values = self.questions.model_dump(exclude={"world", "kg", "asked", "train"})
        source = Source.model_validate(values | {"kg": str(kg.resolve())})
        return self.model_copy(update={"questions": source})

    def limited(self, n: int) -> Self:
        """A small copy that asks at most `n` questions, under a name of its own."""
        source = self.questions.model_copy(
            update={"max_asked": min(n, self.questions.max_asked),
                    "max_train": min(n, self.questions.max_train)}
        )  # fmt: skip
        return self.model_copy(update={"name": f"{self.name}-limit-{n}", "questions": source})
