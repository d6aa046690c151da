"""What the file system says of an output, as the package's own error with its remedy."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kg_loaders.errors import KgError, WriteError

_AGAIN = ", then run the same command again; earlier files are untouched"
_REMEDIES = {
    errno.ENOSPC: f"make room{_AGAIN}",
    errno.EDQUOT: f"make room in your quota{_AGAIN}",
    errno.EFBIG: f"raise the limit on the size of files{_AGAIN}",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "choose a folder that you may write to",
}
_NATIVE = re.compile(r"\(os error (\d+)\)")
"""How safetensors and tokenizers, which raise no `OSError`, report the system's error."""


@contextmanager
def write_errors(target: Path) -> Iterator[None]:
    """Turn what the file system says of writing `target` into `WriteError`, for appenders too.

    An error about anything else, such as an input that cannot be read, stays what it is.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, KgError) or not _is_of(error, target):
            raise
        if error.errno is None:  # numpy gives no number when a disk takes a part of an array
            raise _refused(target, f"no space left ({error})", errno.ENOSPC) from error
        raise _refused(target, str(error.strerror or error), error.errno) from error
    except Exception as error:
        match = _NATIVE.search(str(error))
        if isinstance(error, KgError) or match is None:
            raise
        raise _refused(target, str(error), int(match[1])) from error


def _refused(target: Path, reason: str, number: int) -> WriteError:
    remedy = _REMEDIES.get(number, "choose another place")
    return WriteError(f"{target} cannot be written: {reason}; {remedy}")


def _is_of(error: OSError, target: Path) -> bool:
    if error.filename is None:  # of an open file; numpy gives no number when a disk is full
        return error.errno is not None or "requested and" in str(error)
    named = Path(os.fsdecode(error.filename))
    inside = target.parent in named.parents
    first_part = named.relative_to(target.parent).parts[:1] if inside else ()
    return named in (target, target.parent) or any(
        part == target.name or part.startswith(f".{target.name}.") for part in first_part
    )
