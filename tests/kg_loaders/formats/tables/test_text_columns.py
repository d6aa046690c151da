"""What the columns of a table of texts are: by a header, or by the option that names the file."""

from __future__ import annotations

from typing import Any

import pytest

from kg_loaders.errors import SourceError
from kg_loaders.formats.tables.text_columns import TextColumns, text_columns


def columns(*rows: list[str], names: tuple[str, ...] = ("label",), **options: Any) -> TextColumns:
    return text_columns(list(rows), names, "f", **options)


def test_without_a_header_columns_are_what_the_option_says() -> None:
    assert columns(["n1", "Weir"], ["n2", "Isle"]) == TextColumns(("label",))
    assert columns(names=("alias", "count")) == TextColumns(("alias", "count"))
    assert columns(["id", "label"], header="no") == TextColumns(("label",))
    assert columns(["x", "y"], ["n1", "Weir"], header="yes") == TextColumns(
        ("label",), has_header=True
    )


@pytest.mark.parametrize(
    ("header", "names", "expected", "places"),
    [
        (["id", "label"], ("label",), ("label",), ()),
        (["label", "id"], ("label",), ("label",), (1, 0)),
        (["id", "name"], ("alias", "count"), ("alias", "count"), ()),
        (["id", "name", "count"], ("alias",), ("alias", "count"), ()),
        (["id", "name", "alias"], ("alias",), ("label", "alias"), ()),
        (["id", "description"], ("label",), ("description",), ()),
        (["id", "type"], ("label",), ("type",), ()),
        (["description", "qid", "label"], ("label",), ("description", "label"), (1, 0, 2)),
        (["id", "count", "label"], ("label",), ("-", "label"), ()),
    ],
)
def test_a_header_names_them(
    header: list[str], names: tuple[str, ...], expected: tuple[str, ...], places: tuple[int, ...]
) -> None:
    actual = columns(header, ["a"] * len(header), names=names)
    assert actual == TextColumns(expected, places, has_header=True)


def test_columns_that_are_left_out_are_noted() -> None:
    notes: list[str] = []
    actual = columns(["id", "colour", "label", "size"], ["a", "b", "c", "d"], notes=notes)
    assert actual.columns == ("-", "label", "-")
    assert notes == ["f: columns that were left out: colour, size"]


def test_an_identifier_without_a_text_is_refused() -> None:
    with pytest.raises(SourceError, match=r"names an identifier \('id'\) but none of the texts"):
        columns(["id", "colour"], ["n1", "red"])
    assert columns(["id", "colour"], ["n1", "red"], header="no").columns == ("label",)
    assert columns(["id", "colour"], ["n1", "red"], header="yes").has_header


def test_a_first_row_that_looks_like_a_header_is_noted() -> None:
    notes: list[str] = []
    rows = [["node_name", "node_text"], *[[f"Q{i}", f"Weir {i}"] for i in range(30)]]
    actual = text_columns(rows, ["label"], "f", notes=notes)
    assert actual == TextColumns(("label",))
    assert len(notes) == 1
    assert "was read as a text, and looks like a header" in notes[0]
