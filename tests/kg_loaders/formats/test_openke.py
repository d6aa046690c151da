"""OpenKE's numbered files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg_loaders import DamageError, DamageReport, SourceError, Triple, load
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats.openke import read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "entity2id.txt").write_bytes(b"3\r\na b\t0\r\nc\t1\r\nd\t2\r\n")
    (tmp_path / "relation2id.txt").write_bytes(b"1\nr\t0\n")
    (tmp_path / "train2id.txt").write_bytes(b"2\n0 1 0\n2 0 0\n")
    return tmp_path


def test_column_order_is_head_tail_relation(folder: Path) -> None:
    report = DamageReport()
    assert list(read(folder / "train2id.txt", report)) == [
        Triple("a b", "r", "c"), Triple("d", "r", "a b"),
    ]  # fmt: skip
    assert (report.n_lines, report.n_comment) == (3, 1)
    assert load([folder / "train2id.txt"])[0].n_triples == 2


def test_damage(folder: Path) -> None:
    path = folder / "train2id.txt"
    path.write_bytes(b"5\n0 1 0\n\n0 9 0\n0 1\nx y z\n-1 0 0\n")
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert len(list(read(path, report))) == 1
    assert report.reasons == {"a number that no name has": 1, "not three numbers": 3}
    path.write_bytes(b"7\n0 1 0\n")
    with pytest.raises(DamageError, match=r"line 1 .*count of lines is not 1"):
        list(read(path, DamageReport()))


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (b"2\nr\t0\n", SourceError, "names 1"),
        (b"2\nr\t0\ns\t0\n", DamageError, "0 belongs to 'r' already"),
        (b"1\nr 0\n", DamageError, "line 2"),
    ],
)
def test_names_must_be_whole(
    folder: Path, names: bytes, error: type[Exception], message: str
) -> None:
    (folder / "relation2id.txt").write_bytes(names)
    report = DamageReport(policy=DamagePolicy.SKIP)
    with pytest.raises(error, match=message):
        list(read(folder / "train2id.txt", report))
    (folder / "relation2id.txt").unlink()
    with pytest.raises(SourceError, match=r"relation2id\.txt is missing"):
        list(read(folder / "train2id.txt", report))


@pytest.mark.parametrize("line", ["0_1 0 0", "+1 0 0", "\u0661 0 0", "1.0 0 0", "0x1 0 0"])
def test_only_digits_are_a_number(folder: Path, line: str) -> None:
    path = folder / "train2id.txt"
    path.write_text(f"1\n{line}\n", encoding="utf-8")
    with pytest.raises(DamageError, match=r"train2id\.txt, line 2 .*not three numbers"):
        list(read(path, DamageReport()))
    (folder / "entity2id.txt").write_text(f"2\na\t{line.split()[0]}\nb\t0\n", encoding="utf-8")
    with pytest.raises(DamageError, match=r"entity2id\.txt, line 2 .*not a name, TAB and a number"):
        list(read(path, DamageReport()))


def test_a_name_has_one_number(folder: Path) -> None:
    (folder / "entity2id.txt").write_bytes(b"3\na\t0\nb\t1\na\t2\n")
    with pytest.raises(DamageError, match=r"entity2id\.txt, line 4 .*'a' has the number 0 already"):
        list(read(folder / "train2id.txt", DamageReport()))
