"""Types and shapes of `kept` are checked at every call, by jaxtyping where axes are named.

jaxtyping binds the arguments, notes the size of each axis and checks every argument twice. A
function whose annotations name no axis needs none of that: beartype checks the same types alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray, install_import_hook, jaxtyped

CHECKED = ("kept.batches", "kept.outputs", "kept.layers", "kept.encoders", "kept.adapters")


def install() -> None:
    """Check the modules of `CHECKED`, and those below them, from their import on."""
    install_import_hook([*CHECKED], "beartype.beartype")
    jaxtyping.jaxtyped = check_types


def check_types(*, typechecker: Any) -> Callable[[Any], Any]:
    """The decorator of a function or a class; the import hook puts it on each."""

    def decorate(value: Any) -> Any:
        if not isinstance(value, FunctionType):
            return jaxtyped(value, typechecker=typechecker)
        annotations = value.__annotations__
        types = {name: _resolved(each, value.__globals__) for name, each in annotations.items()}
        if any(map(_names_axes, types.values())):
            return jaxtyped(value, typechecker=typechecker)
        value.__annotations__ = types
        wrapper = beartype(value)
        value.__annotations__ = wrapper.__annotations__ = annotations
        return wrapper

    return decorate


def _resolved(annotation: Any, names: Mapping[str, Any]) -> Any:
    """The type; `Any`, as jaxtyping has it, where a name is only imported for type checkers."""
    holder = type("_", (), {"__annotations__": {"it": annotation}})
    try:
        return get_type_hints(holder, {**names})["it"]
    except NameError:
        return Any


def _names_axes(annotation: Any) -> bool:
    is_array = isinstance(annotation, type) and issubclass(annotation, AbstractArray)
    return is_array or any(map(_names_axes, get_args(annotation)))
