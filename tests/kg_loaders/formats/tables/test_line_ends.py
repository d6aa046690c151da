"""A table whose lines end in CRLF gives the graph of the same table with LF, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg_loaders.build import Source, load

TRIPLES = [
    ("x.tsv", "a\tr\tb\nb\tr\tc\n"),
    ("header.tsv", "head\trelation\ttail\na\tr\tb\n"),
    ("last.tsv", "a\tr\tb\nb\tr\tc"),
    ("blank.tsv", "a\tr\tb\n\nb\tr\tc\n"),
    ("kgtk.tsv", "id\tnode1\tlabel\tnode2\n1\ta\tr\tb\n"),
    ("hetionet.tsv", "source\tmetaedge\ttarget\na\tr\tb\n"),
    ("mapping.sssom.tsv", "#mapping_set_id: x\nsubject_id\tpredicate_id\tobject_id\na\tr\tb\n"),
    ("x.csv", "a,r,b\nb,r,c\n"),
    ("header.csv", "source,target,edge\na,b,r\n"),
    ("excel.csv", "sep=;\nhead;relation;tail\na;r;b\n"),
    ("quoted.csv", 'head,relation,tail\n"a",r,"b"\nb,"r","c, d"\n'),
    ("neo4j.csv", ":START_ID,:TYPE,:END_ID\na,r,b\n"),
    ("nodes.csv", ":ID,name,:LABEL\na,Mira,Person\n"),
    ("x.spo", "a\tr\tb\n"),
]
TEXTS = [
    ("plain.tsv", "a\tAnna\nb\tBert\n"),
    ("header.tsv", "id\tname\nr\tlies in\na\tAnna\n"),
    ("kinds.tsv", "id\tname\tkind\na\tAnna\tPerson\n"),
]


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a graph but the manifest, which names the source's own hash."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", "checksums.json")
    }


def graphs_of(
    folder: Path, name: str, text: str, *more: Source
) -> list[tuple[str, dict[str, bytes]]]:
    """The hash and the files of the graphs of `text` with LF and with CRLF."""
    graphs = []
    for line_end in ("\n", "\r\n"):
        path = folder / f"ends{len(line_end)}"
        path.mkdir()
        (path / name).write_bytes(text.replace("\n", line_end).encode())
        source = Source(path / name, "texts") if more else Source(path / name)
        graph, _ = load([*more, source])
        graph.save(path / "kg")
        graphs.append((graph.content_hash, content(path / "kg")))
    return graphs


@pytest.mark.parametrize(("name", "text"), TRIPLES)
def test_triples(name: str, text: str, tmp_path: Path) -> None:
    plain, windows = graphs_of(tmp_path, name, text)
    assert plain == windows


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_texts(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tr\tb\n")
    plain, windows = graphs_of(tmp_path, name, text, Source(tmp_path / "t.tsv"))
    assert plain == windows
