"""A page of a study, with each of its tables as a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kept.lab.report.page import Section, page
from kept.lab.study.tables import Table
from kg_loaders.disk.writing import refuse_file, write_text


def csv_path(path: Path, table: Table) -> Path:
    """Return the CSV file of a table of the page at `path`."""
    return path.with_name(f"{path.stem}.{table.name}.csv")


def refuse_pages(path: Path, tables: Sequence[Table], *pictures: Path, force: bool) -> None:
    """Make the folder of a page, and raise `WriteError` where one of its files is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in (path, *pictures, *(csv_path(path, table) for table in tables)):
        refuse_file(each, force=force)


def write_pages(
    path: Path, title: str, sections: Sequence[Section], tables: Sequence[Table], *, force: bool
) -> list[Path]:
    """Write the offline page and its tables as CSV files; return all that is written."""
    for table in tables:
        write_text(csv_path(path, table), table.csv(), force=force)
    write_text(path, page(title, "", sections), force=force)
    return [path, *(csv_path(path, table) for table in tables)]
