"""Options of `kept fit`, declared once: the command and `kept.fit` are made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from kept.bounds import MAX_COUNT, MAX_MINUTES, MAX_SEED, MAX_THREADS, CaseName
from kept.help_texts import KG, SEED, THREADS
from kept.training.config import RunConfig
from kept.training.options import option

LINKERS = Literal["auto", "prior", "overlap", "coherence", "mix"]
COLUMN_OPTIONS = (
    "text", "label", "mention", "start", "end", "head", "tail", "tokens", "tags", "question",
    "answer", "entity", "split",
)  # fmt: skip


class FitOptions(RunConfig):
    """What `kept fit` is given; a field is an option, its description the help."""

    data: Path = Field(description="Labelled texts: CSV, TSV or JSON lines with a header.")
    kg: Path = Field(description=KG)
    output: Path = option(
        "Folder of the run. The same command continues a run that was interrupted.",
        default=Path("runs/fit"),
        short="-o",
    )
    text: str | None = option(
        "Name of the column of the text, if it is not `text`. The same holds for the next options."
    )
    label: str | None = option("Column of the label.")
    mention: str | None = option("Column of the mention that has the label.")
    start: str | None = option("Column of the mention's first character.")
    end: str | None = option("Column of the character after the mention.")
    head: str | None = option("Column of the first mention of a relation.")
    tail: str | None = option("Column of the second mention of a relation.")
    tokens: str | None = option("Column of the words of a sentence, separated by blanks.")
    tags: str | None = option("Column of the BIO tags of the words.")
    question: str | None = option("Column of a question that the graph can answer.")
    answer: str | None = option("Column of the answers to the question, joined by |.")
    entity: str | None = option(
        "Column of the entity that the question is about, as an id or a label."
    )
    split: str | None = option("Column that says whether a row is for train, dev or test.")
    dev: Path | None = option("File of development examples (default: split off from DATA).")
    test: Path | None = option("File of test examples (default: split off from DATA).")
    dev_share: float = Field(
        0.15,
        gt=0,
        lt=0.5,
        description="Share of DATA to split off for development. Rows of one group stay together.",
    )
    test_share: float = Field(
        0.25,
        gt=0,
        lt=0.5,
        description="Share of DATA to split off for testing. Rows of one group stay together.",
    )
    methods: str = option(
        "Methods to choose from, separated by commas, or all. `none`, the host without "
        "the graph, always takes part. For questions: values, words, branches, nodes.",
        default="all",
    )
    linker: LINKERS = Field(
        "auto",
        description="How names in the texts are linked. auto means mix if some name belongs to "
        "several entities, otherwise prior.",
    )
    case: CaseName = Field(
        "smart",
        description="How upper and lower case count when names are matched in a text. smart: the "
        "text may have capitals where the name has none, but not the reverse.",
    )
    budget: float = Field(
        3.0,
        gt=0,
        le=MAX_MINUTES,
        description="About how many minutes to spend on choosing and training. More minutes allow "
        "more candidates and steps.",
    )
    seeds: PositiveInt = Field(
        1,
        le=MAX_COUNT,
        description="How many times to train the chosen settings, and the host alone, with other "
        "seeds. Use three or more to see how much results vary.",
    )
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    host: str = option(
        "Language model to start from: minilm, a folder, or a name on the Hugging Face "
        "hub. For questions a decoder; minilm then means smollm2.",
        default="minilm",
    )
    max_words: PositiveInt | None = Field(
        None,
        le=MAX_COUNT,
        description="Longest text in word pieces (default: what the host can take). Longer texts "
        "are cut.",
    )
    threads: int | None = option(THREADS, bounds=(1, MAX_THREADS))

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
