"""K-BERT's `.spo` files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg_loaders import DamageError, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.formats.spo import read


def test_names_come_back_byte_for_byte_and_heads_are_labelled(tmp_path: Path) -> None:
    path = tmp_path / "small.spo"
    path.write_bytes('\ufeff北京\t类别\t城市\r\n#1 "x" \t类别\t NA\n\n北京\t位于\t中国'.encode())
    report = DamageReport()
    assert list(read(path, report)) == [
        Triple("北京", "类别", "城市"),
        Text("北京", TextKind.LABEL, "北京", "zh"),
        Triple('#1 "x" ', "类别", " NA"),
        Text('#1 "x" ', TextKind.LABEL, '#1 "x" ', "zh"),
        Triple("北京", "位于", "中国"),
    ]
    assert (report.n_lines, report.n_further, report.n_blank) == (4, 2, 1)
    assert len(list(read(path, DamageReport(), labels=False))) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("北京\t类别", "2 fields instead of 3"),
        ("北京\t类别\t城市\t首都", "4 fields instead of 3"),
        ("北京\t\t城市", "empty field"),
        ("\t\t", "empty field"),
        ("北京 类别 城市", "1 field instead of 3"),
    ],
)
def test_a_bad_line_is_never_read_with_the_fields_of_another(
    line: str, reason: str, tmp_path: Path
) -> None:
    path, good = tmp_path / "small.spo", "北京\t类别\t城市\n"
    path.write_text(f"{good}{line}\n{good}")
    with pytest.raises(DamageError, match=rf"line 2 \(byte {len(good.encode())}\): {reason}"):
        list(read(path, DamageReport()))
    for policy, sink in ((DamagePolicy.SKIP, None), (DamagePolicy.QUARANTINE, tmp_path / "bad")):
        report = DamageReport(policy, sink)
        assert list(read(path, report, labels=False)) == [Triple("北京", "类别", "城市")] * 2
        assert report.reasons == {reason: 1}
    assert (tmp_path / "bad").read_text() == f"{line}\n"


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_triples", "n_heads"), [("HowNet", 52_576, 45_124), ("Medical", 13_864, 13_553)]
)
def test_the_original_graphs(name: str, n_triples: int, n_heads: int, data_root: Path) -> None:
    report = DamageReport()
    records = list(read(data_root / f"kbert_zh/kgs/{name}.spo.gz", report))
    graph = graph_from_records(records)
    report.n_triples, report.n_texts = graph.n_triples, len(graph.entity_texts)
    report.n_duplicates = len(records) - report.n_triples - report.n_texts
    report.check()
    assert (report.n_lines, report.n_triples, report.n_duplicates) == (n_triples, n_triples, 0)
    assert report.n_texts == n_heads
    assert graph.n_relations == 1
