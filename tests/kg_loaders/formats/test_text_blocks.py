"""Texts in blocks: the same as line by line, for any line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg_loaders import DamageReport, SourceError, Text, TextKind, load
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats import wikidata5m
from kg_loaders.formats.tsv import read_texts, read_texts_in_blocks
from kg_loaders.reading.blocks import TextBlock

FIELDS = st.sampled_from(
    ["", "a", "Q1", "#", " ", "é", "\r", "b\r", "\0", "\ufeff", "a,b", "long" * 9,
     "id", "name", "kind", "alias", "count", "entity"]
)  # fmt: skip
LINES = st.one_of(st.lists(FIELDS, max_size=5).map("\t".join), st.sampled_from(["", "# c", " "]))


def outcome(items: Any, report: DamageReport) -> list[object]:
    records: list[Text] = []
    try:
        for item in items:
            records += item.records() if isinstance(item, TextBlock) else [item]
    except SourceError as error:  # a header that names no text
        return [str(error)]
    report.n_texts = len(records)
    report.check()
    rejections = sorted((r.line, r.byte_offset, r.reason, r.excerpt) for r in report.rejections)
    return [sorted(records), report.counts(), report.reasons, report.skipped, rejections]


@settings(deadline=None)
@given(
    st.lists(LINES, min_size=1, max_size=9),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([b"", b"\xff\t\xff\n", b"\xef\xbb\xbf"]),
    st.sampled_from(
        [("label",), ("alias", "description"), ("type", "label", "alias"), ("alias", "count")]
    ),
    st.sampled_from(["auto", True, False]),
)
@example(["id\tname\tkind", "a\tA\tT"], "\n", False, b"", ("label",), "auto")
@example(["id\talias\tcount", "a\tA\t3"], "\r\n", True, b"", ("alias", "count"), "auto")
@example(["name\tid", "A\ta"], "\n", False, b"", ("label",), "auto")
@example(["id\tx", "a\tA"], "\n", False, b"", ("label",), "auto")
@example(["a\tb", "c"], "\n", False, b"", ("label",), False)
@example(["a\tb\r"], "\r\n", True, b"", ("label",), False)
def test_blocks_say_what_lines_say(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: str,
    is_ended: bool,
    start: bytes,
    columns: tuple[str, ...],
    header: bool | str,
) -> None:
    path = tmp_path_factory.mktemp("texts") / "x.tsv"
    path.write_bytes(start + (end.join(lines) + end * is_ended).encode())
    options: Any = {"columns": columns, "header": header, "max_line_bytes": 30, "language": "de"}
    actual = []
    for reader in (read_texts_in_blocks, read_texts):
        report = DamageReport(DamagePolicy.SKIP)
        actual.append(outcome(reader(path, report, **options), report))
    assert actual[0] == actual[1]


def test_wikidata5m(tmp_path: Path) -> None:
    (tmp_path / "wikidata5m_transductive_train.txt").write_text("Q1\tP1\tQ2\n")
    names = "Q1\tParis\tCity of Light\t\tParis\nQ2\tFrance\nQ3\n"
    (tmp_path / "wikidata5m_entity.txt").write_text(names)
    (tmp_path / "wikidata5m_relation.txt").write_text("P1\tcountry\tstate\tnation\n")
    (tmp_path / "wikidata5m_text.txt").write_text("Q1\tParis is a town.\n")
    graph, report = load(sorted(tmp_path.iterdir()), policy="skip")
    assert (graph.label(0), graph.aliases(0)) == ("Paris", [("City of Light", 0), ("Paris", 0)])
    assert graph.description(0) == "Paris is a town."
    assert graph.relation_texts.of(0, TextKind.ALIAS) == [("nation", 0), ("state", 0)]
    assert (report.n_rejected, report.n_triples, report.n_texts) == (1, 1, 8)
    assert "1 field instead of 2 or more fields" in next(iter(report.reasons))
    other = tmp_path / "other.txt"
    other.write_text("Q1\tParis\n")
    with pytest.raises(SourceError, match="is none of wikidata5m_entity"):
        list(wikidata5m.read(other, DamageReport()))
