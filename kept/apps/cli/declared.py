"""Commands whose options are the fields of one class, which the command gets.

Of a command that makes a run the class is a pydantic model, which reads files of `--config`, too
(`kept.training.options`). Of any other it is a dataclass, whose fields are made by `option`,
`required`, `switch` and `argument`; `kept link` would wait a tenth of a second for pydantic.
`kept.apps.commands` makes the Python function of the same declaration.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from kept.apps.cli.options import known_case, local_or_hub

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from kept.training.config import RunConfig


_CLOSED = (("ge", "min"), ("le", "max"))
_CHECKS: dict[str, Callable[[str | None], str | None]] = {
    "case": known_case, "local or hub": local_or_hub,
}  # fmt: skip
"""Checks of a value before anything is loaded, by the `check` of a field."""


def required(help: str, *flags: str, **settings: Any) -> Any:
    """Return a field that is an option which must be given; see `option`."""
    return option(help, *flags, default=dataclasses.MISSING, **settings)


def option(help: str, *flags: str, default: Any = None, **settings: Any) -> Any:
    """Return a field that is an option; without `flags` it has the field's name.

    `bounds` in `settings` are the least and the largest number; other settings are typer's.
    """
    if "bounds" in settings:
        settings["min"], settings["max"] = settings.pop("bounds")
    return _field(default, lambda _: typer.Option(*flags, help=help, **settings))


def switch(help: str, *flags: str) -> Any:
    """Return a field that is true where the option is given."""
    return _field(False, lambda name: typer.Option(*(flags or (_flag(name),)), help=help))


def argument(help: str, default: Any = dataclasses.MISSING, **settings: Any) -> Any:
    """Return a field that is an argument; its place is that of the field."""
    return _field(default, lambda _: typer.Argument(help=help, **settings))


def _field(default: Any, info: Callable[[str], Any]) -> Any:
    return dataclasses.field(default=default, metadata={"info": info})


def takes(options: type) -> Callable[[Callable[[Any], Any]], Declared]:
    """Return a decorator for a command that gets `options`, a dataclass.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     text: str = argument("A text.")
    ...     force: bool = switch("Replace the file.")
    >>> @takes(Options)
    ... def show(options: Options) -> None:
    ...     print(options)
    >>> show(text="a", force=True)
    Options(text='a', force=True)
    """
    return lambda run: Declared(options, run)


class Declared:
    """A command whose options are the fields of a class, which `run` gets.

    The class is a dataclass, or a pydantic model named as `MODULE:NAME`, imported when it is used.
    The name and help of `run` are the command's. `arguments` are fields of a model without a flag.
    A field of a model may have, in its `json_schema_extra`, a `flag` where that is not its name, a
    `short` one, a `metavar`, the `envvar` of its default, and a `check` (`_CHECKS`). A field of a
    tuple may be repeated.

    >>> def fit(options): "Fit."
    >>> command = Declared("kept.lab.fitting.options:FitOptions", fit)
    >>> list(inspect.signature(command).parameters)[:3]
    ['data', 'kg', 'output']
    """

    def __init__(
        self, model: str | type, run: Callable[[Any], Any], *, arguments: Sequence[str] = ()
    ) -> None:
        self._model, self._run, self._arguments = model, run, tuple(arguments)
        self.__name__, self.__doc__ = run.__name__, run.__doc__
        self.__module__ = run.__module__

    def __call__(self, **values: Any) -> Any:
        if not isinstance(self._model, str):
            return self._run(self._model(**values))
        values_given = {name: value for name, value in values.items() if value is not None}
        return self._run(self.model.read(None, values_given))

    @property
    def model(self) -> Any:
        """The class of the options."""
        if not isinstance(self._model, str):
            return self._model
        module, _, name = self._model.partition(":")
        model: type[RunConfig] = getattr(import_module(module), name)
        return model

    @cached_property
    def __signature__(self) -> inspect.Signature:
        if isinstance(self._model, str):
            return inspect.Signature(list(_parameters(self.model, self._arguments)))
        return inspect.Signature(list(_parameters_of_fields(self._model)))

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {p.name: p.annotation for p in self.__signature__.parameters.values()}


def _parameters_of_fields(options: Any) -> Iterator[inspect.Parameter]:
    """The parameters of a dataclass; a field whose type has the option in it is one as it is."""
    types = get_type_hints(options, include_extras=True)
    for each in dataclasses.fields(options):
        kind = types[each.name]
        if "info" in each.metadata:
            kind = Annotated[kind, each.metadata["info"](each.name)]
        default = inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(each.name, keyword, default=default, annotation=kind)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parameters(model: type[RunConfig], arguments: Sequence[str]) -> Iterator[inspect.Parameter]:
    """The parameters of a model's fields, those of the classes that it extends last."""
    fields = inspect.get_annotations(model)
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] not in fields):
        kind, choices = _plain(field.annotation)
        text = (field.description or "") + (f" One of {', '.join(choices)}." if choices else "")
        settings: dict[str, Any] = _bounds(field, kind) if kind in (int, float) else {}
        settings["help"] = text + _open_bounds(field, kind)
        settings |= _extra_settings(field)
        info: Any = (
            typer.Argument(**settings)
            if name in arguments
            else typer.Option(*_flags(name, field), **settings)
        )
        default = inspect.Parameter.empty if field.is_required() else field.default
        is_plain = field.is_required() or default not in (None, ())
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if default == () else default,
            annotation=Annotated[kind if is_plain else kind | None, info],
        )


def _extra(field: FieldInfo) -> dict[str, Any]:
    """What the command line knows of a field besides its type."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _flags(name: str, field: FieldInfo) -> list[Any]:
    extra = _extra(field)
    flags = [extra.get("flag", _flag(name)), extra.get("short")]
    return [flag for flag in flags if flag is not None]


def _extra_settings(field: FieldInfo) -> dict[str, Any]:
    extra = _extra(field)
    settings = {name: extra[name] for name in ("metavar", "envvar") if name in extra}
    return settings | ({"callback": _CHECKS[extra["check"]]} if "check" in extra else {})


def _plain(annotation: Any) -> tuple[Any, tuple[str, ...]]:
    """The type that a command line reads, and the words of a `Literal`."""
    if get_origin(annotation) is Literal:
        return str, tuple(map(str, get_args(annotation)))
    if get_origin(annotation) is tuple:
        return list[get_args(annotation)[0]], ()  # type: ignore[misc]
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if get_origin(annotation) is Annotated or len(inner) == 1:
        return _plain(inner[0])
    return annotation, ()


def _bounds(field: FieldInfo, kind: Any) -> dict[str, Any]:
    """Bounds that typer knows: those that belong to the range, of whole numbers also the others."""
    limits = dict(_limits(field))
    bounds = {option: limits[name] for name, option in _CLOSED if name in limits}
    if kind is int:
        for name, option, step in (("gt", "min", 1), ("lt", "max", -1)):
            if name in limits:
                bounds.setdefault(option, limits[name] + step)
    return bounds


def _open_bounds(field: FieldInfo, kind: Any) -> str:
    """A sentence about bounds of a fraction that do not belong to its range, which typer lacks."""
    limits = dict(_limits(field))
    words = (("gt", "more than"), ("lt", "less than"))
    parts = [f"{word} {limits[name]:g}" for name, word in words if name in limits]
    return f" {' and '.join(parts).capitalize()}." if parts and kind is float else ""


def _limits(field: FieldInfo) -> Iterator[tuple[str, Any]]:
    """Every bound of a field by pydantic's name, those inside `PositiveInt | None` too."""
    inner = [each for arm in get_args(field.annotation) for each in get_args(arm)[1:]]
    for each in [*inner, *field.metadata]:
        for name in ("ge", "le", "gt", "lt"):
            if getattr(each, name, None) is not None:
                yield name, getattr(each, name)
