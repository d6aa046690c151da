"""Options of `kept fit`, declared once: the command and `kept.fit` are made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from kept.bounds import MAX_COUNT, MAX_MINUTES, MAX_SEED, MAX_THREADS, CaseName
from kept.help_texts import KG, SEED, THREADS
from kept.tasks.datasets.columns import columns_by_use
from kept.training.config import RunConfig
from kept.training.options import option

LINKERS = Literal["auto", "prior", "overlap", "coherence", "mix"]


class FitOptions(RunConfig):
    """What `kept fit` is given; a field is an option, its description the help."""

    data: Path = Field(description="Labelled texts: CSV, TSV or JSON lines with a header.")
    kg: Path = Field(description=KG)
    output: Path = option(
        "Folder of the run. The same command continues a run that was interrupted.",
        default=Path("runs/fit"),
        short="-o",
    )
    column: tuple[str, ...] = option(
        "Which column has which role, such as text=review, where its name does not say so. May be "
        "repeated. Roles: text, label, mention, start, end, head, tail, tokens, tags, question, "
        "answer, entity, split.",
        default=(),
        metavar="USE=NAME",
    )
    dev: Path | None = option("File of development examples (default: a part of DATA).")
    test: Path | None = option("File of test examples (default: a part of DATA).")
    dev_share: float = Field(
        0.15,
        gt=0,
        lt=0.5,
        description="Share of DATA to split off for development. Rows of one text or name stay "
        "together.",
    )
    test_share: float = Field(
        0.25,
        gt=0,
        lt=0.5,
        description="Share of DATA to split off for testing.",
    )
    methods: str = option(
        "Methods to choose from, separated by commas, or all. none, the language model "
        "without the graph, is always tried. For questions: values, words, branches, nodes.",
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
        description="How many times to train the chosen settings, and the model without the graph, "
        "with other seeds. Use three or more to see how much results vary.",
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
        description="Longest text in word pieces (default: what the language model can take). "
        "Longer texts are cut.",
    )
    threads: int | None = option(THREADS, bounds=(1, MAX_THREADS))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.dev_share + self.test_share >= 0.8:
            raise ValueError("dev_share and test_share leave less than a fifth for training")
        columns = self.columns
        if ("start" in columns) != ("end" in columns):
            raise ValueError("the columns start and end go together")
        return self

    @property
    def columns(self) -> dict[str, str]:
        """Columns given by name, by what they are for."""
        return columns_by_use(self.column)
