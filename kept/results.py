"""`Result`: what a command came to, for Python: values by name, rows, and the text it prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from kept.errors import MissingExtraError


@dataclass(frozen=True, repr=False, kw_only=True)
class Result:
    """The outcome of a command.

    `values` are its numbers and settings by name, as its JSON files have them; `rows` its table,
    a mapping per row; `folder` is where it wrote, None where it wrote nothing; `text` is what the
    command line prints, which is also how the result shows itself.

    >>> result = Result(values={"accuracy": 0.91}, text="accuracy 0.91")
    >>> result
    accuracy 0.91
    >>> result["accuracy"]
    0.91
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()
    folder: Path | None = None
    text: str = ""

    def __getitem__(self, name: str) -> Any:
        """Return the value called `name`; `KeyError` lists the names there are."""
        if name not in self.values:
            raise KeyError(f"no value {name!r}; there are {', '.join(self.values) or 'none'}")
        return self.values[name]

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of the rows; without rows, one row of the plain values."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("to_pandas needs pandas: pip install pandas") from error
        if self.rows:
            return pandas.json_normalize([dict(row) for row in self.rows])
        return pandas.json_normalize([dict(self.values)])

    def with_text(self, text: str) -> Result:
        """Return the same result with what was printed."""
        return dataclasses.replace(self, text=text)

    def __repr__(self) -> str:
        return self.text.rstrip("\n") or f"Result({dict(self.values)})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
