"""The address of an outcome: a hash of all that it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kept.training.config import OPERATIONAL, TrainConfig


def run_hash(settings: dict[str, Any]) -> str:
    """Return twelve hexadecimal digits of everything that a run's outcome depends on."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fingerprint(values: Any, n_digits: int = 64) -> str:
    """Return the first digits of SHA-256 over JSON values, keys sorted, other letters escaped."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:n_digits]


def _plain(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} is no setting: give numbers, strings, lists and mappings")


def binding_of(training: TrainConfig) -> dict[str, Any]:
    """Return the settings of a training that affect the weights and are not the default.

    A precision that the machine chooses is no part of them, as the machine is none.
    """
    left_out = {*OPERATIONAL, *(["precision"] if training.precision == "auto" else [])}
    return training.model_dump(mode="json", exclude=left_out, exclude_defaults=True)


def digests_of(*values: Any) -> dict[str, str]:
    """Return the hashes of every folder or file that the values name."""
    return {text: _of_folder(Path(text)) for text in sorted(set(_paths(values)))}


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, str | Path):
        if value and Path(value).exists():  # an empty string would be the working directory
            yield str(value)
    elif isinstance(value, Mapping):
        yield from _paths(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _paths(each)


@cache
def _of_folder(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(path.parent).as_posix().encode())
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]
