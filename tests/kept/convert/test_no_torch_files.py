"""Files that are no torch files: refused by name, whatever torch takes their bytes for."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest

from kept.convert.tables import read_pickle
from kept.errors import CheckpointError

CONTENTS = [
    b"", b"\0", b"Q1\tP1\tQ2\n", b"a\n", b"t.", b"e.", b"s.", b"u.", b"0.", b"1.", b"2.", b"N.N",
    b"(.", b"I9\n.", b"F.\n.", b"cos\nsystem\n.", b"cposix\nsystem\n(S'true'\ntR.", b"R.", b"o.",
    b"b.", b"\x80\x02.", b"\x80\xff.", b"\x80\x02K\x01", b"PK\x03\x04", b"{}", b"[1, 2]",
    b"h\0.", b"j\0\0\0\0.", b"X\xff\xff\xff\x7fab.", b"\x8a\xff", b"q\x01", b"Q.", b"\x1f\x8b\x08",
    bytes(range(256)), b"\xff" * 300, pickle.dumps(object), "Zoë\n".encode("utf-16"),
]  # fmt: skip


@pytest.mark.parametrize("data", CONTENTS)
def test_bytes_of_other_files(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"x\.bin"):
        read_pickle(tmp_path / "x.bin")


@pytest.mark.parametrize(
    "members", [{}, {"x/data.pkl": b""}, {"x/data.pkl": b"e.", "x/version": b"3"}]
)
def test_archives_of_others(members: dict[str, bytes], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.bin", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(CheckpointError, match=r"x\.bin"):
        read_pickle(tmp_path / "x.bin")


@pytest.mark.parametrize("kind", ["folder", "none"])
def test_no_file(kind: str, tmp_path: Path) -> None:
    if kind == "folder":
        (tmp_path / "x.bin").mkdir()
    with pytest.raises(CheckpointError, match=r"x\.bin"):
        read_pickle(tmp_path / "x.bin")
