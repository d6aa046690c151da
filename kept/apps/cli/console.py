"""Rich consoles for tables and progress, which show control characters instead of sending them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from kept.apps.cli.terminal import visible
from kept.training.processes.launch import rank_and_size

MOST_COLUMNS = 100_000
"""A width in characters that exceeds any line."""


class TerminalConsole(Console):
    """A console that shows control characters, and reads no markup in what it prints.

    Of several processes the first prints.
    """

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(
            stderr=stderr,
            soft_wrap=soft_wrap,
            markup=False,
            highlight=False,
            quiet=rank_and_size().rank > 0,
        )
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = MOST_COLUMNS  # what is piped or kept in a file is cut at no column

    def print_whole(self, table: Table) -> None:
        """Print a table as wide as its columns that do not wrap need: identifiers are never cut."""
        wide = self.options.update(width=MOST_COLUMNS)
        for column in table.columns:
            if column.no_wrap:  # else rich takes a cell's longest word for its width
                cells = [column.header, *column.cells]
                column.min_width = max(Measurement.get(self, wide, each).maximum for each in cells)
        needed = Measurement.get(self, wide, table).minimum
        width, self.width = self.width, max(self.width, needed)
        self.print(table)
        self.width = width

    def render_str(self, text: str, **options: Any) -> Any:
        """As rich does; here, so that widths are those of what is shown."""
        return super().render_str(visible(text), **options)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """As rich does; also of texts that are styled already."""
        for segment in super().render(*arguments, **options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=visible(segment.text))
