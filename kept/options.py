"""Options of a part that a configuration names: from a mapping to the part's own dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Integral
from typing import Any, TypeVar

from kept.errors import ConfigError

Options = TypeVar("Options")


def read_options(kind: type[Options], values: Mapping[str, Any], what: str) -> Options:
    """Return `values` as `kind`, a dataclass; raises `ConfigError` as `require_fields` does."""
    require_fields(kind, values, what)
    return kind(**values)


def require_fields(kind: type[Any], values: Mapping[str, Any], what: str) -> None:
    """Raise `ConfigError` for the first of `values` that is not a field of `kind` or cannot be.

    A field that is a whole number takes no other, and no field but a switch takes true or false.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise ConfigError(f"{what} has no option {unknown[0]!r}; it has {[*fields]}")
    for name, value in values.items():
        expected = _EXPECTED.get(str(fields[name].type), "")
        if expected and not _fits(value, expected):
            raise ConfigError(f"{what}: {name} is {value!r}, expected {expected}")


_EXPECTED = {"int": "a whole number", "float": "a number", "bool": "true or false"}
"""By the annotation of a field."""


def _fits(value: Any, expected: str) -> bool:
    if expected == _EXPECTED["bool"] or isinstance(value, bool):
        return isinstance(value, bool) and expected == _EXPECTED["bool"]
    return expected == _EXPECTED["float"] or isinstance(value, Integral)


def merged(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` updated by `fields`, mappings field by field."""
    result = dict(values)
    for name, value in fields.items():
        inner = result.get(name)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[name] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return result
