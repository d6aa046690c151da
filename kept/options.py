"""Options of a part that a configuration names: from a mapping to the part's own dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from kept.errors import ConfigError

Options = TypeVar("Options")


def read_options(kind: type[Options], values: Mapping[str, Any], what: str) -> Options:
    """`values` as `kind`, a dataclass; raises `ConfigError` for an unknown field of `what`."""
    require_fields(kind, values, what)
    return kind(**values)


def require_fields(kind: type[Any], values: Mapping[str, Any], what: str) -> None:
    """Raise `ConfigError` naming the first of `values` that is not a field of `kind`."""
    names = [field.name for field in dataclasses.fields(kind)]
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ConfigError(f"{what} has no option {unknown[0]!r}; it has {names}")
