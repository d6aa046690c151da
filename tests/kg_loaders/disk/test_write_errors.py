"""What the file system says of an output becomes an error with a remedy; the rest stays."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kg_loaders.disk.write_errors import write_errors
from kg_loaders.errors import SourceError, WriteError

TARGET = Path("out/graph")


def says(error: Exception, target: Path = TARGET) -> str:
    with pytest.raises(WriteError) as caught, write_errors(target):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room, then run the same command again; earlier files are untouched"),
        (errno.EDQUOT, "make room in your quota, then"),
        (errno.EFBIG, "raise the limit on the size of files, then"),
        (errno.EACCES, "choose a folder that you may write to"),
        (errno.EPERM, "choose a folder that you may write to"),
        (errno.EROFS, "choose a folder that you may write to"),
        (errno.ENOTDIR, "choose another place"),
    ],
)
def test_each_number_has_its_remedy(number: int, remedy: str) -> None:
    text = says(OSError(number, "the reason", str(TARGET)))
    assert text.startswith(f"{TARGET} cannot be written: the reason; {remedy}")


@pytest.mark.parametrize(
    "name",
    ["out/graph", "out", "out/.graph.part", "out/graph/triples.npy", "out/.graph.x/deep/file"],
)
def test_errors_about_the_output_and_what_is_written_for_it(name: str) -> None:
    assert "no room" in says(OSError(errno.ENOSPC, "no room", name))


@pytest.mark.parametrize(
    "name",
    ["in/graph", "out/other", "out/graphs", "out/.graphics", "out/.other.graph", "elsewhere"],
)
def test_errors_about_other_files_stay(name: str) -> None:
    with pytest.raises(OSError, match="no room") as caught, write_errors(TARGET):
        raise OSError(errno.ENOSPC, "no room", name)
    assert not isinstance(caught.value, WriteError)


def test_open_files_have_no_name() -> None:
    assert "make room" in says(OSError(errno.ENOSPC, "no room"))
    full = OSError("1000 requested and 24 written")  # as numpy says it
    assert "no space left (1000 requested and 24 written); make room" in says(full)
    with pytest.raises(OSError, match="nothing about a file"), write_errors(TARGET):
        raise OSError("nothing about a file")


def test_other_libraries_put_the_number_into_the_text() -> None:
    error = RuntimeError("No space left on device (os error 28)")
    assert says(error).endswith("make room, then run the same command again; earlier files are "
                                "untouched")  # fmt: skip
    assert "choose another place" in says(RuntimeError("x (os error 5)"))
    with pytest.raises(RuntimeError, match="error 28"), write_errors(TARGET):
        raise RuntimeError("os error 28")


def test_errors_of_the_package_stay_as_they_are() -> None:
    with pytest.raises(SourceError, match="mine"), write_errors(TARGET):
        raise SourceError("mine (os error 28)")
    with write_errors(TARGET):
        pass
