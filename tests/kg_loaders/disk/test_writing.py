"""One writer for every output: whole or nothing, one at a time, nothing replaced unasked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from errno import EDQUOT, ENOSPC
from pathlib import Path

import numpy as np
import pytest

from kg_loaders.disk.writing import claim, whole_file, whole_folder, write_lines, write_text
from kg_loaders.errors import ExistsError, InUseError, SourceError, WriteError


def is_box(folder: Path) -> bool:
    return (folder / "box").is_file()


def write_folder(path: str | os.PathLike[str], text: str, **options: object) -> None:
    with whole_folder(path, kind="box", is_kind=is_box, **options) as part:  # type: ignore[arg-type]
        (part / "box").write_text(text)
        (part / "inner").mkdir()
        np.save(part / "inner" / "a.npy", np.arange(3))


Write = Callable[..., None]
WRITERS = {"file": write_text, "folder": write_folder}


@pytest.fixture(params=sorted(WRITERS))
def write(request: pytest.FixtureRequest) -> Write:
    return WRITERS[request.param]


def content(path: Path) -> str:
    return (path / "box" if path.is_dir() else path).read_text()


def test_appears_whole_and_alone(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "out", "one")
    assert content(tmp_path / "out") == "one"
    assert os.listdir(tmp_path) == ["out"]


def test_replaces_only_with_force(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "out", "one")
    with pytest.raises(ExistsError, match="--force"):
        write(tmp_path / "out", "two")
    assert content(tmp_path / "out") == "one"
    write(tmp_path / "out", "two", force=True)
    assert content(tmp_path / "out") == "two"
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_of_another_kind_stays_even_with_force(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", "an empty one is filled")
    (tmp_path / "out" / "box").unlink()
    with pytest.raises(ExistsError, match="is no box"):
        write_folder(tmp_path / "out", "x", force=True)
    assert (tmp_path / "out" / "inner" / "a.npy").is_file()


def test_without_an_exchange_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none: two renames, and what a death between them left is put back."""
    monkeypatch.setattr("ctypes.CDLL", lambda _: None)
    write_folder(tmp_path / "out", "one")
    write_folder(tmp_path / "out", "two", force=True)
    assert content(tmp_path / "out") == "two"
    (tmp_path / "out").rename(tmp_path / ".out.1.old")
    with claim(tmp_path / "out") as target:
        assert content(target) == "two"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("how", ["same", "dots", "symlink", "hard link"])
def test_an_input_is_never_the_output(how: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("precious")
    if how == "same":
        target = source
    elif how == "dots":
        (tmp_path / "deep").mkdir()
        target = tmp_path / "deep" / ".." / "in.txt"
    else:
        (target.symlink_to if how == "symlink" else target.hardlink_to)(source)
    with pytest.raises(ExistsError, match="is the input"):
        write_text(target, "x", force=True, inputs=[tmp_path / "none", source])
    assert source.read_text() == "precious"


def test_a_folder_around_an_input_is_not_replaced(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", "one")
    with pytest.raises(ExistsError, match=r"holds the input .*a\.npy"):
        write_folder(
            tmp_path / "out", "x", force=True, inputs=[tmp_path / "out" / "inner" / "a.npy"]
        )
    assert content(tmp_path / "out") == "one"


def test_a_link_stays_a_link_and_a_mode_stays(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    real, link = tmp_path / "deep" / "real", tmp_path / "link"
    write_text(real, "one")
    real.chmod(0o600)
    link.symlink_to(real)
    write_text(link, "two", force=True)
    assert link.is_symlink()
    assert real.read_text() == "two"
    assert real.stat().st_mode & 0o777 == 0o600


def test_the_wrong_kind_of_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExistsError, match="is a folder"):
        write_text(tmp_path / "folder", "x", force=True)
    with pytest.raises(ExistsError, match="is a file"):
        write_folder(tmp_path / "file", "x", force=True)
    with pytest.raises(ExistsError, match="not a regular file"):
        write_text(tmp_path / "pipe", "x", force=True)


def test_missing_folders_above(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"there is no folder .*deep; make it"):
        write_text(tmp_path / "deep" / "out", "x")
    write_folder(tmp_path / "deep" / "er" / "out", "x")
    assert content(tmp_path / "deep" / "er" / "out") == "x"
    with (
        pytest.raises(ZeroDivisionError),
        whole_folder(tmp_path / "new" / "out", kind="box", is_kind=is_box),
    ):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["deep"]


def test_a_place_that_takes_no_files(write: Write, tmp_path: Path) -> None:
    path = Path("/sys/kernel") if os.getuid() == 0 else tmp_path
    path.chmod(0o555)
    with pytest.raises(WriteError, match="choose a folder that you may write to"):
        write(path / "out", "x")
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        write(tmp_path / "file" / "out", "x")
    with pytest.raises(WriteError, match="name too long"):
        write(tmp_path / ("x" * 300), "x")


FULL = [
    OSError(ENOSPC, "No space left"), OSError(EDQUOT, "Quota"), OSError("9 requested and 0"),
    Exception("No space left on device (os error 28)"),  # as tokenizers and safetensors tell it
]  # fmt: skip


@pytest.mark.parametrize("error", FULL)
def test_a_full_disk_leaves_nothing(
    write: Write, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out", "one")
    name = "write_text" if write is write_folder else "write_bytes"
    monkeypatch.setattr(Path, name, fails(error))
    with pytest.raises(WriteError, match="out cannot be written"):
        write(tmp_path / "out", "two", force=True)
    assert content(tmp_path / "out") == "one"
    assert os.listdir(tmp_path) == ["out"]


def fails(error: Exception) -> Callable[..., None]:
    def write_half(path: Path, _: object) -> None:
        path.touch()
        raise error

    return write_half


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """The system itself refuses; nothing is patched."""
    code = (
        "import resource, signal, sys; from kg_loaders.disk.writing import write_bytes\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_bytes(sys.argv[1], bytes(5000))"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], capture_output=True)
    assert b"WriteError" in run.stderr
    assert b"raise the limit" in run.stderr
    assert os.listdir(tmp_path) == []


def test_errors_of_inputs_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "out") as part:
        part.write_text((tmp_path / "in.txt").read_text())
    with pytest.raises(SourceError, match="cut"), whole_file(tmp_path / "out"):
        raise SourceError("cut")
    assert os.listdir(tmp_path) == []


def test_lines_that_fail_leave_nothing(tmp_path: Path) -> None:
    assert write_lines(tmp_path / "out", iter([b"a\n", b"b\n"])) == 2
    with pytest.raises(ZeroDivisionError):
        write_lines(tmp_path / "out", (b"%d" % (1 // n) for n in (1, 0)), force=True)
    assert content(tmp_path / "out") == "a\nb\n"
    assert os.listdir(tmp_path) == ["out"]


HOLDER = """
import os, sys, time
from kg_loaders.disk.writing import whole_file
with whole_file(sys.argv[1], force=True) as part:
    part.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
    part.write_text("theirs")
"""


def hold(path: Path) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def test_the_second_writer_is_refused_and_the_first_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = hold(out)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InUseError, match="is being written by another process"):
        write_text(out, "ours", force=True)
    assert sorted(os.listdir(tmp_path)) == before == [f".out.{child.pid}.part", ".out.lock"]
    child.communicate(b"")
    assert content(out) == "theirs"
    assert os.listdir(tmp_path) == ["out"]


def test_the_second_writer_may_wait(tmp_path: Path) -> None:
    child = hold(tmp_path / "out")
    threading.Timer(0.3, child.communicate).start()
    with pytest.raises(ExistsError):  # by now it is there
        write_text(tmp_path / "out", "ours", wait=30)
    assert content(tmp_path / "out") == "theirs"


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    child = hold(tmp_path / "out")
    child.kill()
    child.communicate()
    # the number of a process that lives is no excuse: its lock has fallen
    (tmp_path / f".out.{os.getppid()}.part").mkdir()
    foreign = [".out.x.part", ".out.part", "out.1.part", ".outer.1.part", ".out.1.party"]
    for name in foreign:
        (tmp_path / name).touch()
    write_text(tmp_path / "out", "ours")
    assert sorted(os.listdir(tmp_path)) == sorted([*foreign, "out"])


def test_many_threads_one_at_a_time(tmp_path: Path) -> None:
    """The lock file goes with every writer, and still no two hold it at once."""
    inside, worst, done = [0], [0], [0]

    def work() -> None:
        for _ in range(20):
            with claim(tmp_path / "out", wait=60):
                inside[0] += 1
                worst[0] = max(worst[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1
                done[0] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (worst, done) == ([1], [80])
    assert os.listdir(tmp_path) == []
