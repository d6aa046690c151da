"""Data sets from an owner on the loopback interface: whole, resumed, checked, or refused."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from kept.apps.cli import app
from kept.errors import ConfigError
from kept.tasks.public_data import fetching
from kept.tasks.public_data.sources import Source, read_sources
from kg_loaders.disk.writing import claim

FILES = {"train.txt": b"a\tb\tc\n" * 5000, "note.txt": b"hello\n"}


class Owner(ThreadingHTTPServer):
    """Serves `FILES`; breaks off after `breaks_at` bytes; `asked` are the ranges asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.requests = dict(FILES), list[tuple[str, str]]()
        self.breaks_at: int | None = None
        self.takes_ranges, self.refuses_ranges, self.n_ranges_refused = True, False, 0


class _Handler(BaseHTTPRequestHandler):
    server: Owner

    def do_GET(self) -> None:
        content = self.server.files.get(self.path.strip("/"))
        byte_range = self.headers.get("Range", "")
        self.server.requests.append((self.path.strip("/"), byte_range))
        if content is None:
            self.send_error(404)
            return
        if byte_range and self.server.refuses_ranges:
            self.server.n_ranges_refused += 1
            self.send_error(416)
            return
        start = 0
        if byte_range and self.server.takes_ranges:
            start = int(byte_range.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.server.breaks_at is None else self.server.breaks_at
        self.wfile.write(content[start:end])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def sources(owner: Owner, tmp_path: Path) -> Path:
    rows = [
        {"path": f"toy/{name}{'.gz' if name == 'train.txt' else ''}", "size": len(content),
         "sha256": hashlib.sha256(content).hexdigest(),
         "url": f"http://127.0.0.1:{owner.server_port}/{name}"}
        for name, content in FILES.items()
    ]  # fmt: skip
    toy = {"what": "A toy", "owner": "me", "licence": "CC0", "files": rows}
    path = tmp_path / "sources.yaml"
    path.write_text(yaml.safe_dump({"toy": toy}), encoding="utf-8")
    return path


def run(command: str, sources: Path, data: Path) -> Result:
    return CliRunner().invoke(
        app, ["data", *command.split(), "--sources", str(sources), "--data", str(data)]
    )


def test_a_data_set_comes_whole_and_is_checked(owner: Owner, sources: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    refused = run("get toy", sources, data)
    assert refused.exit_code == 1
    assert "licence: CC0" in refused.output
    assert owner.requests == []
    done = run("get toy --accept", sources, data)
    assert (done.exit_code, "fetched: 2 files" in done.output) == (0, True), done.output
    assert gzip.decompress((data / "toy/train.txt.gz").read_bytes()) == FILES["train.txt"]
    assert (data / "toy/note.txt").read_bytes() == FILES["note.txt"]
    assert sorted(path.name for path in data.iterdir()) == ["toy"]
    assert run("check", sources, data).output == "toy: 2 of 2 files are right\n"
    again = run("get toy", sources, data)
    assert (again.exit_code, "already here: 2 files; fetched: 0 files" in again.output) == (0, True)
    assert len(owner.requests) == 2
    (data / "toy/note.txt").write_bytes(b"hullo\n")
    checked = run("check toy", sources, data)
    assert (checked.exit_code, "not what its owner has" in checked.output) == (1, True)
    assert run("get toy --accept", sources, data).exit_code == 0
    assert (data / "toy/note.txt").read_bytes() == FILES["note.txt"]


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_a_download_that_broke_off_goes_on(
    owner: Owner, sources: Path, tmp_path: Path, takes_ranges: bool
) -> None:
    owner.breaks_at, owner.takes_ranges = 10_000, takes_ranges
    data = tmp_path / "data"
    data.mkdir()
    broken = run("get toy --accept", sources, data)
    assert (broken.exit_code, "the same command goes on" in broken.output) == (1, True)
    assert not (data / "toy").exists()
    owner.breaks_at = None
    assert run("get toy --accept", sources, data).exit_code == 0
    assert ("train.txt", "bytes=8192-") in owner.requests
    assert run("check toy", sources, data).exit_code == 0


def test_another_file_at_the_address_is_refused(
    owner: Owner, sources: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for content in (b"x" * len(FILES["train.txt"]), FILES["train.txt"] * 100):
        owner.files["train.txt"] = content
        done = run("get toy --accept", sources, data)
        assert (done.exit_code, "could not be fetched" in done.output) == (1, True)
        assert not (data / "toy").exists()
    owner.files = dict(FILES)
    assert run("get toy --accept", sources, data).exit_code == 0


def test_what_has_no_address_is_said(owner: Owner, sources: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(sources.read_text())
    del values["toy"]["files"][1]["url"]
    sources.write_text(yaml.safe_dump(values))
    done = run("get toy --accept", sources, tmp_path)
    assert done.exit_code == 1
    assert "no address is known for 1 file: download them from me" in done.output
    assert (tmp_path / "toy/train.txt.gz").is_file()
    assert "(1 by hand)" in run("list", sources, tmp_path).output


def test_the_list_names_what_it_can_stand_for() -> None:
    sources = read_sources()
    assert {"codex-s", "wiki80", "tacred"} <= set(sources)
    for source in sources.values():
        assert source.owner
        assert source.licence
        for file in source.files:
            url = file.url or "https://raw.githubusercontent.com/o/r/" + "0" * 40 + "/x"
            commit = url.removeprefix("https://raw.githubusercontent.com/").split("/")[2]
            assert len(commit) == 40
    for path in ("../x", "/x", ""):
        with pytest.raises(ValueError, match="not a path below"):
            Source.model_validate({"what": "", "owner": "", "licence": "", "files": [
                {"path": path, "sha256": "0" * 64, "size": 1}]})  # fmt: skip
    with pytest.raises(ConfigError, match="names no data sets"):
        read_sources(Path("gone.yaml"))


@pytest.mark.data
def test_the_hashes_are_those_of_the_files_here(data_root: Path) -> None:
    done = CliRunner().invoke(app, ["data", "check", "codex-s", "indications", "wnut17",
                                    "--data", str(data_root)])  # fmt: skip
    assert done.exit_code == 0, done.output


def test_a_beginning_that_the_address_does_not_know_is_fetched_anew(
    owner: Owner, sources: Path, tmp_path: Path
) -> None:
    owner.breaks_at = 20_000
    (tmp_path / "data").mkdir()
    assert run("get toy --accept", sources, tmp_path / "data").exit_code == 1
    owner.breaks_at, owner.refuses_ranges = None, True
    again = run("get toy --accept", sources, tmp_path / "data")
    assert again.exit_code == 0, again.output
    assert owner.n_ranges_refused == 1
    packed = (tmp_path / "data" / "toy" / "train.txt.gz").read_bytes()
    assert gzip.decompress(packed) == FILES["train.txt"]


def test_what_a_killed_download_left_goes(owner: Owner, sources: Path, tmp_path: Path) -> None:
    """The files are in place; the process died before it removed its locks and the parts."""
    data = tmp_path / "data"
    data.mkdir()
    assert run("get toy --accept", sources, data).exit_code == 0
    digest = hashlib.sha256(FILES["note.txt"]).hexdigest()
    (data / f".downloads/{digest}.whole").mkdir(parents=True)
    for name in (f"{digest}.whole/tmp1", f"{digest}.part", f".{digest}.lock"):
        (data / ".downloads" / name).touch()
    (data / "toy/.note.txt.lock").touch()
    assert run("get toy", sources, data).exit_code == 0
    assert sorted(path.name for path in data.rglob("*")) == ["note.txt", "toy", "train.txt.gz"]


def test_the_folder_of_downloads_may_go_at_any_time(
    owner: Owner, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that has fetched its files removes it, just before this one locks a file."""
    data, n_gone = tmp_path / "data", 0

    def claim_late(path: Path) -> AbstractContextManager[Path]:
        nonlocal n_gone
        if n_gone < 2:
            n_gone += 1
            path.parent.rmdir()
        return claim(path)

    data.mkdir()
    monkeypatch.setattr(fetching, "claim", claim_late)
    result = run("get toy --accept", sources, data)
    assert result.exit_code == 0, result.output
    assert n_gone == 2
    assert sorted(path.name for path in data.rglob("*")) == ["note.txt", "toy", "train.txt.gz"]
