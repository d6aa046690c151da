"""Options of `kept predict`, declared once, and which of them are for a file or for one text."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kept.bounds import MAX_THREADS
from kept.errors import ConfigError
from kept.help_texts import CASE, FORCE_OUTPUT, KG, RESUME_OUTPUT, THREADS
from kept.training.config import RunConfig
from kept.training.options import option
from kg_loaders.disk.kinds import LONGEST_NAME, require_file_or_folder

FILES = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")


class PredictOptions(RunConfig):
    """What `kept predict` is given; a field is an option, its description the help."""

    run: Path = Field(description="Folder of a run of `kept fit` or `kept finetune`.")
    text: str = Field(
        description="A file of texts (.csv, .tsv, .jsonl, or one text per line), or the text "
        "itself.",
        json_schema_extra={"metavar": "FILE|TEXT"},
    )
    kg: Path = Field(description=KG)
    output: Path | None = option(
        "File for the predictions, for a file of texts: JSON lines, or a table if its name ends in "
        ".csv.",
        short="-o",
    )
    column: tuple[str, ...] = option(
        "For a file of texts: which column has which role, such as text=sentence. May be repeated. "
        "Columns that `kept fit` was given by name are known to its run.",
        default=(),
        metavar="USE=NAME",
    )
    damage: str = option(
        "What to do at a line that cannot be read: stop, or skip it.", default="stop"
    )
    resume: bool = option(RESUME_OUTPUT, default=False)
    force: bool = option(FORCE_OUTPUT, default=False)
    target: tuple[str, ...] = Field(
        (),
        description="Words in the text that the prediction is about. For a relation give it twice: "
        "the head, then the tail.",
    )
    context: str | None = option(
        "Text that contains the answer, if the first argument is a question."
    )
    choice: tuple[str, ...] = Field(
        (), description="One of the answers to choose from. Give it twice or more."
    )
    case: str | None = option(CASE, check="case")
    about: str | None = option("With --explain: the class to explain (default: the predicted one).")
    explain: bool = option(
        "Also print what the answer would be without each fact and each link.", default=False
    )
    as_json: bool = option("Print JSON.", default=False, flag="--json")
    threads: int | None = option(THREADS, bounds=(1, MAX_THREADS))

    @property
    def is_file(self) -> bool:
        """Whether the text names a file that exists."""
        text = self.text
        return len(text) <= LONGEST_NAME and "\0" not in text and Path(text).is_file()

    def require_file_options(self) -> None:
        """Raise `ConfigError` for options about one text, and for others that do not fit."""
        for flag in self._flags_of("target", "context", "choice", "about", "explain"):
            raise ConfigError(f"{flag} is for a single text; in a file, use a column")
        if self.damage not in ("stop", "skip"):
            raise ConfigError(f"--damage is {self.damage!r}; choose stop or skip")
        if (self.resume or self.force) and self.output is None:
            raise ConfigError("--resume and --force are about a file; name it with -o")
        if self.resume and self.force:
            raise ConfigError("--resume continues a run and --force starts anew; give one of them")

    def require_text_options(self) -> None:
        """Raise `ConfigError` where options or the name of the text say that it is a file.

        A pipe, a socket and a device are a `SourceError`.
        """
        require_file_or_folder(self.text)
        flags = ["-o"] if self.output else self._flags_of("column", "resume", "force")
        if flags or self.damage != "stop":
            flag = next(iter(flags), "--damage")
            raise ConfigError(f"{flag} is for a file of texts; {self._not_a_file()}")
        if " " not in self.text and Path(self.text).suffix.lower() in FILES:
            raise ConfigError(f"{self._not_a_file()}; a text with blanks is taken as text")

    def require_question_options(self) -> None:
        """Raise `ConfigError` for options of texts with classes."""
        for flag in self._flags_of("target", "context", "choice", "about", "explain", "case"):
            raise ConfigError(f"{flag} is for texts with classes; {self.run} answers questions")

    def _flags_of(self, *names: str) -> list[str]:
        return [f"--{name}" for name in names if getattr(self, name)]

    def _not_a_file(self) -> str:
        return f"{self.text[:60]!r} is not a file"
