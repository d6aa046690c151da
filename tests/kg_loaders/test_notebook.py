"""Values in a notebook: escaped, cut where they are long, and told so."""

from __future__ import annotations

from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.notebook import N_SHOWN, marked, table


def test_a_graph_shows_its_labels(small_graph: KnowledgeGraph) -> None:
    html = small_graph._repr_html_()
    assert "<td>Paris</td><td>capital of</td><td>France</td>" in html
    assert "more" not in html


def test_labels_from_outside_are_text() -> None:
    bad = "<script>alert(1)</script>"
    graph = graph_from_records([Triple("a", "r", "b"), Text("a", TextKind.LABEL, bad, "en")])
    html = graph._repr_html_()
    assert bad not in html
    assert "&lt;script&gt;" in html
    assert '"' not in marked("x", [(0, 1, 'a"b')]).split("title=")[1].split(">")[0].strip('"')


def test_what_is_left_out_is_counted() -> None:
    rows = [[i] for i in range(N_SHOWN + 5)]
    html = table("t", ["n"], rows, len(rows))
    assert "and 5 more" in html
    assert html.count("<tr>") == N_SHOWN + 1


def test_of_overlapping_marks_the_first() -> None:
    html = marked("New York City", [(0, 13, "Q60"), (0, 8, "Q1384")])
    assert html == '<p><mark title="Q60">New York City</mark></p>'
