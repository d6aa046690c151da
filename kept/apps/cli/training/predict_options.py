"""The options of `kept predict` for a file, and what they go with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kept.errors import ConfigError
from kg_loaders.disk.kinds import LONGEST_NAME, require_file_or_folder

FILES = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")


@dataclass(frozen=True)
class FileOptions:
    """The options of `kept predict` for a file; `damage` is "stop" or "skip"."""

    output: Path | None
    columns: tuple[str, ...]
    damage: str
    resume: bool
    force: bool

    def require_file_only(self, about_text: Mapping[str, object]) -> None:
        """Raise `ConfigError` for options of `about_text`, and for others that do not fit."""
        flags = [name for name, value in about_text.items() if value]
        if flags:
            raise ConfigError(f"{flags[0]} is for a single text; in a file, use a column")
        if self.damage not in ("stop", "skip"):
            raise ConfigError(f"--damage is {self.damage!r}; choose stop or skip")
        if (self.resume or self.force) and self.output is None:
            raise ConfigError("--resume and --force are about a file; name it with -o")
        if self.resume and self.force:
            raise ConfigError("--resume continues a run and --force starts anew; give one of them")

    def require_text_only(self, text: str) -> None:
        """Raise `ConfigError` if `text` is not a file and options or its name say that it is.

        A pipe, a socket and a device are a `SourceError`.
        """
        require_file_or_folder(text)
        flags = {"-o": self.output, "--column": self.columns, "--resume": self.resume,
                 "--force": self.force, "--damage": self.damage != "stop"}  # fmt: skip
        names = [name for name, value in flags.items() if value]
        if names:
            raise ConfigError(f"{names[0]} is for a file of texts; {not_a_file(text)}")
        if " " not in text and Path(text).suffix.lower() in FILES:
            raise ConfigError(f"{not_a_file(text)}; a text with blanks is taken as text")

    def names(self) -> dict[str, str]:
        """The columns by use; raises `ConfigError` for anything but USE=NAME."""
        from kept.suggestions import no_such
        from kept.tasks.datasets.tables import COLUMNS

        names = {}
        for each in self.columns:
            use, separator, name = each.partition("=")
            if not (separator and name):
                raise ConfigError(f"--column {each}: write USE=NAME, such as text=sentence")
            if use not in COLUMNS:
                raise no_such("use of a column", use, COLUMNS)
            names[use] = name
        return names


def is_file(text: str) -> bool:
    """Whether an argument names a file that is there."""
    return len(text) <= LONGEST_NAME and "\0" not in text and Path(text).is_file()


def not_a_file(text: str) -> str:
    """Say that a text is not a file."""
    return f"{text[:60]!r} is not a file"
