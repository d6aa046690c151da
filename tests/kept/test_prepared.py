"""Models prepared in the user's cache: whole or not at all, and made again where damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kept import prepared
from kg_loaders.errors import WriteError


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_prepared_once_and_again_where_damaged(cache: Path) -> None:
    calls = []

    def prepare(folder: Path) -> None:
        calls.append(folder)
        (folder / "weights").write_bytes(b"1234")

    folder = prepared.prepared_folder("model", prepare)
    assert folder == cache / "model"
    assert prepared.prepared_folder("model", prepare) == folder
    assert len(calls) == 1
    (folder / "weights").write_bytes(b"1235")
    assert not prepared.is_whole(folder)
    prepared.prepared_folder("model", prepare)
    assert (folder / "weights").read_bytes() == b"1234"
    (folder / prepared.SEAL).write_text('{"weights": "a digest alone, as once"}', encoding="utf-8")
    prepared.prepared_folder("model", prepare)
    assert len(calls) == 3
    (folder / "weights").unlink()
    assert not prepared.is_whole(folder)


def test_nothing_is_left_of_what_failed(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "weights").write_bytes(b"12")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        prepared.prepared_folder("model", fail)
    assert not (cache / "model").exists()


def test_a_large_file_is_read_only_where_its_time_differs(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(folder: Path) -> None:
        (folder / "weights").write_bytes(b"1234")

    monkeypatch.setattr(prepared, "LARGE", 4)
    folder = prepared.prepared_folder("model", prepare)
    read = []
    monkeypatch.setattr(prepared, "sha256_of", lambda file: read.append(file) or "another")
    assert prepared.is_whole(folder)
    assert not read
    os.utime(folder / "weights", ns=(1, 1))
    assert not prepared.is_whole(folder)
    assert read == [folder / "weights"]


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(WriteError):
        prepared.prepared_folder("model", lambda folder: None)
