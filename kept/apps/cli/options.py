"""Options that several commands share, and help texts that list the names in a table."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from kept.bounds import (
    MAX_THREADS,
    CaseName,
)
from kept.errors import ConfigError
from kept.help_texts import (
    CASE,
    REDIRECTS,
    THREADS,
)
from kept.packaged import READY
from kept.suggestions import no_such, require_local, require_there
from kg_loaders import plugins
from kg_loaders.counting import counted
from kg_loaders.disk.kinds import require_file_or_folder
from kg_loaders.plugins import plugins_of


def local_or_hub(value: str | None) -> str | None:
    """A callback of options for models: refuses a folder that does not exist."""
    if value is not None:
        require_local(value)
    return value


WRITTEN = frozenset(
    {"output", "out", "cache", "corrections", "latex", "quarantine", "plot", "verdicts", "work"}
)
"""Options for paths that a command makes; every other path is read, and must be there."""
MADE_BY = {"kg": "`kept kg build` makes the folder of a graph"}
"""What to do when a path of that name is missing."""

Threads = Annotated[int | None, typer.Option(min=1, max=MAX_THREADS, help=THREADS)]


def known_case(value: str | None) -> str | None:
    """A callback of `LinkCase`: refuses what is not a case policy, before anything is loaded."""
    if value not in (None, *get_args(CaseName)):
        raise ConfigError(f"--case is {value!r}; choose one of {', '.join(get_args(CaseName))}")
    return value


LinkCase = Annotated[
    str | None,
    typer.Option("--case", callback=known_case, help=CASE),
]
RedirectFile = Annotated[
    Path | None,
    typer.Option("--redirects", metavar="FILE", help=REDIRECTS),
]
_TABLE = re.compile(r"\{([\w.]+):(\w+)\}")


class KeptCommand(TyperCommand):
    """Every command of kept: checks that inputs exist and numbers are finite, completes its help.

    Checked before the command imports anything. In its help `{module:TABLE}` stands for the names
    in that table; the module is imported when the help is shown.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with names, in lines as wide as the terminal."""
        self.help = unwrapped(self.help or "")
        for parameter in self.params:
            help_text = getattr(parameter, "help", None)
            if help_text:
                parameter.help = with_names(help_text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Check the values, then run."""
        for parameter in self.params:
            values = ctx.params.get(str(parameter.name))
            for value in values if isinstance(values, (list, tuple)) else [values]:
                if isinstance(value, str) and not _is_utf8(value):
                    raise typer.BadParameter(
                        f"{value!r} is not text in UTF-8", ctx=ctx, param_hint=parameter.opts
                    )
                if isinstance(value, float) and not math.isfinite(value):
                    raise typer.BadParameter(
                        f"{value} is not a finite number", ctx=ctx, param_hint=parameter.opts
                    )
                is_input = isinstance(value, Path) and parameter.name not in WRITTEN
                if is_input and not str(value).startswith(READY):
                    require_there(value, MADE_BY.get(str(parameter.name), ""))
                    require_file_or_folder(value)
        return super().invoke(ctx)


def _is_utf8(text: str) -> bool:
    """Whether an argument is text; bytes that are none came as half surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unwrapped(help_text: str) -> str:
    r"""Return a help text with a line per paragraph, which the terminal then wraps.

    >>> unwrapped("Train.\n\nOnly triples that\n    occur in training count.")
    'Train.\n\nOnly triples that occur in training count.'
    """
    paragraphs = inspect.cleandoc(help_text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def with_names(help_text: str) -> str:
    """Return a help text with the names of a table in the place of each `{module:TABLE}`."""
    return _TABLE.sub(_names, help_text)


def _names(match: re.Match[str]) -> str:
    module, table = match.groups()
    names = _written_names(module, table)
    return ", ".join(getattr(import_module(module), table) if names is None else names)


def require_named(
    flags: Mapping[str, Any], tables: Mapping[str, str], settings: Sequence[str] = ()
) -> None:
    """Raise `ConfigError` naming every flag, or setting, that is not a name of its table.

    Tables are read as they stand in their files, so that a slip is answered before torch is loaded.
    """
    values = dict(each.split("=", 1) for each in settings if "=" in each) | dict(flags)
    faults = []
    for name, table in tables.items():
        value, names = values.get(name), _written_names(*table.split(":"))
        if not isinstance(value, str) or names is None:
            continue
        folded = {_folded(each) for each in names}
        if _folded(value) not in folded:
            faults.append(f"{name}: {no_such(name, value, names)}")
    if faults:
        listed = "\n  ".join(faults)
        raise ConfigError(f"{counted(len(faults), 'faults')} in the options:\n  {listed}")


def require_names(
    kind: str, text: str, table: str, more: Iterable[str] = (), *, every: str = "", never: str = ""
) -> None:
    """Raise `ConfigError` for a name in a comma-separated text that is in no table, nor in `more`.

    `every` is a word for all of them, `never` a name of the table that is not taken. The table is
    read as in `require_named`.
    """
    names = _written_names(*table.split(":"))
    if names is None or text.strip() == every:
        return
    names = [name for name in names if name != never]
    known = {_folded(name) for name in (*names, *more)}
    for name in filter(None, map(str.strip, text.split(","))):
        if _folded(name) not in known:
            raise no_such(kind, name, names)


def require_graph(folder: object) -> None:
    """Raise the error of `KnowledgeGraph.open` for a folder without the manifest of a graph.

    A manifest is small, so that a wrong folder is answered before torch is loaded; anything but a
    folder is left to whoever opens it.
    """
    if isinstance(folder, Path) and folder.is_dir():
        from kg_loaders.disk.folder import GRAPH
        from kg_loaders.disk.seals import read_manifest

        read_manifest(folder, GRAPH)


def require_given(
    flags: Mapping[str, Any], groups: Sequence[Sequence[str]], settings: Sequence[str] = ()
) -> None:
    """Raise `ConfigError` naming every group of options of which none is given."""
    names_given = {each.partition("=")[0].strip() for each in settings}
    names_given |= {name for name, value in flags.items() if value is not None}
    missing = [group for group in groups if names_given.isdisjoint(group)]
    if missing:
        names = "; ".join(" or ".join(map(_flag, group)) for group in missing)
        raise ConfigError(
            f"missing: {names}; give them, or a file that has them (--config), and see --help"
        )


def _flag(name: str) -> str:
    """An option as it is written: a field of `training` has its last part."""
    last = name.rpartition(".")[2]
    return f"--set {name}=N" if last == "node_budget" else f"--{last.replace('_', '-')}"


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _written_names(module: str, table: str) -> list[str] | None:
    """The names in a table as they stand in its file, so that a help text loads no torch.

    A table is a dictionary, a tuple, a `Literal`, or a `Table` of such a dictionary, whose plugins
    are named, too; None where it is not written out in full.
    """
    package, *inner = module.split(".")
    spec = find_spec(package)  # a module in it would be looked for by importing the package
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], *inner).with_suffix(".py")
    if not path.is_file():
        return None
    values = dict(_assignments(ast.parse(path.read_text(encoding="utf-8"))))
    value = values.get(table)
    if not isinstance(value, ast.Call):
        return _strings_of(value)
    group, lines = value.args[:2]
    names = _strings_of(values.get(lines.id) if isinstance(lines, ast.Name) else lines)
    if names is None or not isinstance(group, ast.Attribute):
        return None
    return list(
        dict.fromkeys([*names, *(p.name for p in plugins_of(getattr(plugins, group.attr)))])
    )


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.AST | None]]:
    """The names that a module assigns at its top, and the values as they are written."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, getattr(node, "value", None)


def _strings_of(value: ast.AST | None) -> list[str] | None:
    """The keys of a dictionary, or what stands in a tuple or a `Literal`; None for anything else.

    >>> _strings_of(ast.parse("Literal['a', 'b']", mode="eval").body)
    ['a', 'b']
    """
    if isinstance(value, ast.Subscript):
        value = value.slice
    parts = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    strings = [part.value for part in parts if isinstance(part, ast.Constant)]
    plain = [each for each in strings if isinstance(each, str)]
    return plain if plain and len(plain) == len(parts) else None
