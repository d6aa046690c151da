"""Which data sets there are, where their owners have them, and under which terms."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath

import pydantic
import yaml

from kept.errors import ConfigError
from kept.suggestions import no_such


class SourceFile(pydantic.BaseModel):
    """A file: `path` below the data folder, and size and SHA-256 of its content, never gzipped.

    A path in `.gz` is gzipped in the data folder. `url` None: nobody knows an address.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    path: str
    sha256: str = pydantic.Field(pattern="^[0-9a-f]{64}$")
    size: int = pydantic.Field(ge=0)
    url: str | None = None

    @pydantic.field_validator("path")
    @classmethod
    def _below(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or {"..", "."} & {*parts}:
            raise ValueError(f"{path!r} is not a path below a folder")
        return path


class Source(pydantic.BaseModel):
    """A data set; `forbidden` says why nobody may fetch it for another."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    what: str
    owner: str
    licence: str
    files: tuple[SourceFile, ...]
    forbidden: str | None = None


@dataclass(frozen=True)
class Missing:
    """A file that is not there, or is not the owner's: `fault` says which."""

    file: SourceFile
    fault: str


def read_sources(path: Path | None = None) -> dict[str, Source]:
    """Return the data sets of a YAML file, by default those that kept names.

    Raises `ConfigError` naming the faults.
    """
    location = files("kept.tasks.public_data") / "sources.yaml" if path is None else path
    try:
        values = yaml.safe_load(location.read_text(encoding="utf-8"))
        return {name: Source.model_validate(value) for name, value in values.items()}
    except (OSError, AttributeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{location} names no data sets: {error}") from error


def source_of(name: str, sources: dict[str, Source]) -> Source:
    """Return the data set of that name; raises `ConfigError` with near names."""
    if name not in sources:
        raise no_such("data set", name, sources)
    return sources[name]
