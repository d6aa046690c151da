"""TSV triples in blocks: the same as line by line, for any line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg_loaders import DamageError, DamageReport, KgError, Triple, graph_from_records, load
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats.tsv import ORDERS, read, read_in_blocks
from kg_loaders.formats.tsv_blocks import split_triples
from kg_loaders.reading import lines as reading
from kg_loaders.reading import unpacking
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.reading.lines import LineBlock
from kg_loaders.vocabulary import strings

NUMBERED = st.sampled_from(
    ["Q1", "Q90", "Q0", "Q01", "Q", "Q999999999", "Q1000000000", "Q1a", "Q٣", "P17", "q1", "Q1 "]
)
NAMES = st.one_of(
    NUMBERED, st.sampled_from(["", "a", "#", " ", "é", "\r", "b\r", "\0", "\ufeff", '"', "a,b"])
)
ROWS = st.lists(NAMES, min_size=1, max_size=5).map("\t".join)
TRIPLES = st.tuples(NUMBERED, st.sampled_from(["P1", "P17", "Q1"]), NUMBERED).map("\t".join)
LINES = st.one_of(
    TRIPLES, ROWS, st.tuples(NAMES, NAMES, NAMES).map("\t".join), st.sampled_from(["", "# c", " "])
)


HEADERS = st.sampled_from(
    ["source\tedge\ttarget", "object\tsubject\tpredicate", "h\tr\tt", "id\tname\tkind",
     "subject\tpredicate\tobject\tsubject_label", "node1\tlabel\tnode2", "source\tx\ttarget",
     "#from\trelation\tto", ":ID\tname\t:LABEL", "# c\t\t\nsource\tedge\ttarget"]
)  # fmt: skip


def outcome(reader: Any, path: Path, **options: Any) -> list[object]:
    report = DamageReport(DamagePolicy.SKIP)
    records: list[Any] = []
    try:
        for item in reader(path, report, **options):
            records += item.records() if isinstance(item, TripleBlock) else [item]
    except KgError as error:  # half a header
        return [str(error)]
    report.n_triples = len(records)
    report.check()
    rejections = sorted((r.line, r.byte_offset, r.reason, r.excerpt) for r in report.rejections)
    return [sorted(map(repr, records)), report.counts(), report.reasons, rejections, report.notes]


@settings(deadline=None)
@given(
    HEADERS,
    st.lists(LINES, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["auto", "yes", "no"]),
    st.sampled_from([None, None, "htr", "hrt-", "target,edge,source"]),
    st.integers(1, 40),
)
def test_blocks_and_lines_agree_on_headers(
    tmp_path_factory: pytest.TempPathFactory,
    names: str,
    lines: list[str],
    end: str,
    header: str,
    order: str | None,
    size: int,
) -> None:
    path = tmp_path_factory.mktemp("tsv") / "x.tsv"
    path.write_bytes(end.join([names, *lines]).encode())
    options = {"header": header, "order": order}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", size)
        patch.setattr(reading, "LINE_BLOCK_BYTES", size)
        assert outcome(read_in_blocks, path, **options) == outcome(read, path, **options)


@settings(deadline=None)
@given(
    st.one_of(st.lists(LINES, min_size=1, max_size=9), st.lists(TRIPLES, min_size=1, max_size=9)),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([b"", b"\xff\t\xff\t\xff\n", b"\xef\xbb\xbf"]),
    st.sampled_from([*ORDERS, "hrt", "hrt"]),
)
@example(["Q1\tP1\tQ2", "Q3\tP1"], "\n", False, b"", "hrt")
@example(["a\tr\tb\r"], "\n", False, b"", "hrt")
@example(["Q1\tP1\tQ2", "a\tr\tb\r"], "\r\n", True, b"", "hrt")
def test_blocks_say_what_lines_say(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: str,
    is_ended: bool,
    start: bytes,
    order: str,
) -> None:
    path = tmp_path_factory.mktemp("tsv") / "x.tsv"
    path.write_bytes(start + (end.join(lines) + end * is_ended).encode())
    options = {"order": order, "max_line_bytes": 20}
    assert outcome(read_in_blocks, path, **options) == outcome(read, path, **options)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(LINES, max_size=4), min_size=1, max_size=4), st.integers(1, 60))
def test_graphs_of_many_blocks_and_sources(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], size: int
) -> None:
    """Numbers, names in blocks and names of records are one vocabulary, whatever comes first."""
    folder = tmp_path_factory.mktemp("tsv")
    rows = [Triple("Q7", "P1", "a")]
    paths = [folder / "first.tsv"]
    paths[0].write_text("Q7\tP1\ta\n")
    for i, lines in enumerate(files):
        paths.append(folder / f"{i}.tsv")
        paths[-1].write_bytes("\n".join(lines).encode())
        rows += read(paths[-1], DamageReport(DamagePolicy.SKIP))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", size)
        patch.setattr(reading, "LINE_BLOCK_BYTES", size)
        graph, _ = load(paths, policy="skip")
    assert graph.content_hash == graph_from_records(rows).content_hash


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Q1", "Q90"], [1, 90]),
        (["Q0", "Q999999999"], [0, 999999999]),
        (["Q01", "Q1"], None),
        (["Q1000000000", "Q1"], None),
        (["Q1", "q1"], None),
        (["Q1", "Q/"], None),
        (["Q1", "Q:1"], None),
        (["Q1", "Q"], None),
        (["a", "Q1"], None),
    ],
)
def test_what_is_read_as_numbers(names: Sequence[str], expected: list[int] | None) -> None:
    for order in ("hrt", "thr"):
        places = (order.index("h"), order.index("t"))
        rows = [["", "", ""], ["", "", ""]]
        for row, name in zip(rows, names, strict=True):
            row[order.index("r")], row[places[0]], row[places[1]] = "P1", "Q5", name
        data = "".join("\t".join(row) + "\n" for row in rows).encode()
        triples, odd = split_triples(LineBlock(1, 0, data), order, 100)
        assert triples is not None
        assert not odd.any()
        assert [record.tail for record in triples.records()] == list(names)
        if expected is None:
            assert triples.entities != "Q"
        else:
            assert triples.entities == "Q"
            np.testing.assert_array_equal(triples.ends, [[5, n] for n in expected])


def test_far_numbers_need_no_table_of_their_size() -> None:
    rows = [Triple("Q999999999", "P1", "Q1"), Triple("Q5", "P1", "Q999999999")]
    block = TripleBlock(
        np.array([[999999999, 1], [5, 999999999]], np.int32), np.zeros(2, np.int32), "Q",
        strings(["P1"]),
    )  # fmt: skip
    assert block.records() == rows
    assert graph_from_records([block]).content_hash == graph_from_records(rows).content_hash


@pytest.mark.parametrize("line_number", [0, 1, 5000, 9999])
def test_a_bad_line_is_named_where_it_is(line_number: int, tmp_path: Path) -> None:
    lines = [f"Q{i}\tP1\tQ1" for i in range(10_000)]
    offset = len("\n".join([*lines[:line_number], ""]))
    lines[line_number] = "Q1\tP1"
    (tmp_path / "x.tsv").write_text("\n".join(lines))
    with pytest.raises(DamageError, match=rf"x\.tsv, line {line_number + 1} \(byte {offset}\)"):
        load([tmp_path / "x.tsv"])
    graph, report = load([tmp_path / "x.tsv"], policy="skip")
    assert (graph.n_triples, report.n_rejected, report.n_lines) == (9999, 1, 10_000)
