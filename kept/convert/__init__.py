"""Released checkpoints of other projects into `save_pretrained` folders, one module per method.

A module holds key tables as data and one function `convert(path, **options)`, whose options are
keyword-only strings, integers, booleans and paths. Nothing is unpickled but with
`weights_only=True`.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from kept.errors import CheckpointError, ConfigError
from kept.methods import METHODS
from kg_loaders.counting import counted
from kg_loaders.disk.writing import refuse_folder, whole_folder

CONVERTERS: dict[str, str] = {
    name: f"{__name__}.{name}" for name, line in METHODS.built_in.items() if not line.unreleased
}
"""Method to the module that reads its released checkpoints; imported when needed."""

Convert = Callable[..., Any]


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote. `sha256`: of each file of weights in `folder`."""

    folder: Path
    model: str
    n_parameters: int
    sha256: Mapping[str, str]


def converter(method: str) -> Convert:
    """The `convert` of a method; raises `ConfigError` listing all names."""
    if method not in CONVERTERS:
        raise ConfigError(f"no converter {method!r}; there are {sorted(CONVERTERS)}")
    convert: Convert = import_module(CONVERTERS[method]).convert
    return convert


def describe(method: str) -> str:
    """Return the converter's docstring and options as text."""
    reader = converter(method)
    hints = get_type_hints(reader)
    lines = []
    for name, parameter in _options(reader).items():
        kinds = "|".join(t.__name__.upper() for t in _types(hints[name]) if t is not type(None))
        default = f"default {parameter.default!r}"
        if parameter.default is parameter.empty:
            default = "required"
        lines.append(f"--set {name}={kinds}  ({default})")
    return "\n".join([inspect.getdoc(reader) or "", "", *(lines or ["no options"])])


def convert(
    method: str, path: Path, output: Path, options: Mapping[str, Any], *, force: bool = False
) -> Converted:
    """Convert the released checkpoint `path` into the new folder `output`.

    The folder appears whole or not at all; `force` replaces a converted model that is there.
    `options` are those of the method's own `convert`. Raises `ConfigError` on other options,
    `CheckpointError` on a file that is not the original's and `WriteError` on an `output` that
    holds something or cannot be written.
    """
    reader = converter(method)
    reader_options = read_options(reader, options)
    inputs = [path, *(value for value in reader_options.values() if isinstance(value, Path))]
    how: Any = {"kind": "converted model", "is_kind": _is_model, "force": force, "inputs": inputs}
    refuse_folder(output, **how)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    model = reader(path, **reader_options)
    with whole_folder(output, **how) as part:
        model.save_pretrained(part)
    return Converted(
        output,
        type(model).__name__,
        sum(parameter.numel() for parameter in model.parameters()),
        {file.name: _sha256(file) for file in sorted(output.glob("*.safetensors"))},
    )


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def read_options(reader: Convert, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as the keyword-only parameters of `reader` want them; all faults at once."""
    parameters, hints = _options(reader), get_type_hints(reader)
    faults = [f"{name}: no such option" for name in values if name not in parameters]
    faults += [
        f"{name}: required"
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in values
    ]
    parsed = {}
    for name in parameters:
        if name in values:
            types = _types(hints[name])
            try:
                parsed[name] = _as_type(values[name], types)
            except TypeError:
                names = " or ".join(t.__name__ for t in types if t is not type(None))
                faults.append(f"{name}: {values[name]!r} is no {names}")
    if faults:
        about = ", ".join(f"{name}: {parameters[name].annotation}" for name in parameters)
        raise ConfigError(
            f"{counted(len(faults), 'faults')} in the options: {'; '.join(faults)}. "
            f"Options of this method: {about or 'none'}"
        )
    return parsed


def _options(reader: Convert) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a converter."""
    parameters = inspect.signature(reader).parameters.items()
    return {
        name: parameter
        for name, parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def _types(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) or (hint,)


def _as_type(value: Any, types: tuple[Any, ...]) -> Any:
    if value is None and type(None) in types:
        return None
    if Path in types and isinstance(value, str):
        return Path(value)
    if str in types and isinstance(value, int | float) and int not in types and float not in types:
        return str(value)
    if float in types and type(value) is int:
        return float(value)
    if type(value) not in types:
        raise TypeError
    return value


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
