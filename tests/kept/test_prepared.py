"""Models prepared in the user's cache: whole or not at all, and made again where damaged."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kept import prepared
from kept.cache_folder import cache_folder
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
    with pytest.raises(WriteError, match="name a folder that can be written as KEPT_CACHE"):
        prepared.prepared_folder("model", lambda folder: None)


def _spoil_seal(text: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / prepared.SEAL).write_bytes(text)


def _instead(put: Callable[[Path], object]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        shutil.rmtree(folder)
        put(folder)

    return spoil


def _all_gone(folder: Path) -> None:
    (folder / "weights").unlink()
    _spoil_seal(b"{}")(folder)


def _seal_is_a_pipe(folder: Path) -> None:
    (folder / prepared.SEAL).unlink()
    os.mkfifo(folder / prepared.SEAL)


def _weights_are_a_pipe(folder: Path) -> None:
    (folder / "weights").unlink()
    os.mkfifo(folder / "weights")


SPOILT: dict[str, Callable[[Path], object]] = {
    "no seal": lambda folder: (folder / prepared.SEAL).unlink(),
    "a seal of nothing": _spoil_seal(b"{}"),
    "nothing but a seal of nothing": _all_gone,
    "a seal that is a pipe": _seal_is_a_pipe,
    "a seal that is nested": _spoil_seal(b'{"weights": {"size": ' + b"[" * 100_000),
    "a seal of a name with NUL": _spoil_seal(b'{"a\\u0000b": {"size": 4}}'),
    "a seal of half a character": _spoil_seal(b'{"\\ud800": {"size": 4}}'),
    "a seal in no encoding": _spoil_seal(b"\xff"),
    "a seal without hashes": _spoil_seal(b'{"weights": {"size": 4}}'),
    "a seal of two megabytes": _spoil_seal(b" " * (1 << 21) + b"{}"),
    "weights that are a pipe": _weights_are_a_pipe,
    "a file": _instead(lambda folder: folder.write_text("x")),
    "a pipe": _instead(os.mkfifo),
    "a link to nothing": _instead(lambda folder: folder.symlink_to("gone")),
    "a link to itself": _instead(lambda folder: folder.symlink_to(folder.name)),
    "an empty folder": _instead(lambda folder: folder.mkdir()),
}


@pytest.mark.parametrize("form", SPOILT)
def test_whatever_has_the_name_gives_way(form: str, cache: Path) -> None:
    """The cache is kept's own: nobody can choose another name for what is damaged in it."""

    def prepare(folder: Path) -> None:
        (folder / "weights").write_bytes(b"1234")

    SPOILT[form](prepared.prepared_folder("model", prepare))
    assert not prepared.is_whole(cache / "model")
    folder = prepared.prepared_folder("model", prepare)
    assert (folder / "weights").read_bytes() == b"1234"
    assert prepared.is_whole(folder)


def test_a_cache_on_another_disk(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    cache.symlink_to(tmp_path / "disk")
    prepared.prepared_folder("model", lambda folder: (folder / "x").touch())
    assert (tmp_path / "disk/model/x").is_file()


def test_who_waited_for_another_takes_what_that_one_prepared(cache: Path) -> None:
    n_calls = []

    def prepare(folder: Path) -> None:
        n_calls.append(1)
        time.sleep(0.5)
        (folder / "weights").write_bytes(b"1234")

    with ThreadPoolExecutor(3) as pool:
        folders = {*pool.map(lambda _: prepared.prepared_folder("model", prepare), range(3))}
    assert folders == {cache / "model"}
    assert len(n_calls) == 1


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container that is started with a number for its user."""
    for name in ("KEPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache/kept"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it says where none is
    with pytest.raises(WriteError, match=r"no home folder .* as KEPT_CACHE"):
        prepared.prepared_folder("model", lambda folder: None)
    from kept.layers.products import choose_products

    assert choose_products().way in ("torch", "onednn")


def test_questions_are_answered_without_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("ctranslate2")
    from kept.decoders.answering.encoder import answer_encoder

    (tmp_path / "file").touch()
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "file/cache"))
    vectors = answer_encoder().encode(["Ada", "Weir"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert "answered slowly, by torch" in caplog.text
    assert "as KEPT_CACHE" in caplog.text
