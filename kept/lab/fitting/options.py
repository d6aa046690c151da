"""Options of `kept fit`, declared once: the command and `kept.fit` are made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from kept.bounds import MAX_COUNT, MAX_MINUTES, MAX_SEED, MAX_THREADS, CaseName
from kept.training.config import RunConfig

LINKERS = Literal["auto", "prior", "overlap", "coherence", "mix"]
COLUMN_OPTIONS = (
    "text", "label", "mention", "start", "end", "head", "tail", "tokens", "tags", "question",
    "answer", "entity", "split",
)  # fmt: skip


class FitOptions(RunConfig):
    """What `kept fit` is given; a field is an option, its description the help."""

    data: Path = Field(description="Labelled texts: CSV, TSV or JSON lines with a header.")
    kg: Path = Field(description="Folder of the knowledge graph.")
    output: Path = Field(
        Path("runs/fit"),
        json_schema_extra={"short": "-o"},
        description="Folder of the run; the same command resumes one that was interrupted.",
    )
    text: str | None = Field(None, description="Column of the text, where its name is another.")
    label: str | None = Field(None, description="Column of the label.")
    mention: str | None = Field(None, description="Column of the mention that has the label.")
    start: str | None = Field(None, description="Column of the mention's first character.")
    end: str | None = Field(None, description="Column of the character after the mention.")
    head: str | None = Field(None, description="Column of the first mention of a relation.")
    tail: str | None = Field(None, description="Column of the second.")
    tokens: str | None = Field(None, description="Column of words, separated by blanks.")
    tags: str | None = Field(None, description="Column of their BIO tags.")
    question: str | None = Field(None, description="Column of a question to the graph.")
    answer: str | None = Field(None, description="Column of its answers, joined by |.")
    entity: str | None = Field(
        None, description="Column of the entity that a question is about, an id or a label."
    )
    split: str | None = Field(None, description="Column that says train, dev or test.")
    dev: Path | None = Field(None, description="File of dev (default: a share is split off).")
    test: Path | None = Field(None, description="File of test (default: a share is split off).")
    dev_share: float = Field(0.15, gt=0, lt=0.5, description="Share of dev, whole groups.")
    test_share: float = Field(0.25, gt=0, lt=0.5, description="Share of test, whole groups.")
    methods: str = Field(
        "all",
        description="Methods to choose among beside none, comma-separated, or all; for questions "
        "values, words, branches, nodes.",
    )
    linker: LINKERS = Field(
        "auto", description="How names are linked; auto: mix where a name is that of several."
    )
    case: CaseName = Field("smart", description="How case counts where texts are linked by names.")
    budget: float = Field(
        3.0, gt=0, le=MAX_MINUTES, description="Minutes for choosing and training, about."
    )
    seeds: PositiveInt = Field(
        1, le=MAX_COUNT, description="Trainings of the chosen settings, and of the host alone."
    )
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Of splits, weights and order.")
    host: str = Field(
        "minilm",
        description="minilm, a folder or a hub name; for questions a decoder (minilm: smollm2).",
    )
    max_words: PositiveInt | None = Field(
        None,
        le=MAX_COUNT,
        description="Word pieces of a text (default: the host's positions); the rest is cut.",
    )
    threads: int | None = Field(None, ge=1, le=MAX_THREADS, description="Threads of torch.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.dev_share + self.test_share >= 0.8:
            raise ValueError("dev_share and test_share leave less than a fifth for training")
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end go together")
        return self

    @property
    def columns(self) -> dict[str, str]:
        """Columns given by name, by what they are for."""
        named = {use: getattr(self, use) for use in COLUMN_OPTIONS}
        return {use: name for use, name in named.items() if name is not None}
