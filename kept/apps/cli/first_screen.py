"""`kept --help`: a few commands to begin with, then all of them, by what they are for.

Plain lines, made of the table of commands without making any of them: typer makes every option of
every command before it shows one, and the library that draws its boxes takes as long again.
"""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterator
from typing import get_type_hints

import typer

EXAMPLES = (
    ("kept kg build triples.tsv -o kg/", "your graph, checked and ready"),
    ('kept link "Ada met Bruno." --kg kg/', "which entities a text mentions"),
    ('kept ask "Where was Ada born?" --kg kg/', "an answer with the fact behind it"),
    ("kept fit labelled.csv --kg kg/ -o run/", "a model that reads the graph, and a verdict"),
    ("kept demo --open", "two data sets, true and false facts, one page"),
)
"""What a newcomer tries first, and what it gives."""
COMPLETION = (
    ("--install-completion", "Complete commands and options in this shell from now on."),
    ("--show-completion", "Print the completion script for this shell, to install it yourself."),
    ("--help", "Show this page."),
)
"""Options that typer adds."""
PANELS = ("Look", "Graphs and texts", "Train and predict", "Compare and check")
"""What commands are for, in the order in which they are shown."""
NARROWEST, WIDEST = 40, 100
"""Characters a line."""


def first_screen(app: typer.Typer, width: int | None = None) -> str:
    """Return the help of `app`: its usage, `EXAMPLES`, its commands by panel, its options.

    `width` in characters is that of the terminal, between `NARROWEST` and `WIDEST`.
    """
    columns = shutil.get_terminal_size().columns if width is None else width
    width = min(max(columns, NARROWEST), WIDEST)
    lines = ["Usage: kept [OPTIONS] COMMAND [ARGS]...", ""]
    lines += [*textwrap.wrap(str(app.info.help), width), "", "Start here"]
    lines += _rows(EXAMPLES, width)
    for panel, rows in panels(app).items():
        lines += ["", panel, *_rows(rows, width)]
    lines += ["", "Options", *_rows(list(_options(app)), width), ""]
    lines.append("kept COMMAND --help explains a command, with an example.")
    return "\n".join(lines)


def panels(app: typer.Typer) -> dict[str, list[tuple[str, str]]]:
    """Names of commands and groups with the first sentence of their help, by their panel.

    >>> from kept.apps.cli import app
    >>> panels(app)["Graphs and texts"][0]
    ('kg', 'Build, extend, query, check and export knowledge graphs.')
    """
    rows_of_panel: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        rows_of_panel.setdefault(str(command.rich_help_panel), []).append((str(command.name), text))
    for group in app.registered_groups:
        assert group.typer_instance is not None
        callback = group.typer_instance.registered_callback
        help_text = group.typer_instance.info.help
        if callback is not None:
            help_text = inspect.getdoc(callback.callback)
        rows_of_panel.setdefault(str(group.rich_help_panel), []).append(
            (str(group.name), str(help_text))
        )
    return {
        panel: [(name, " ".join(text.split("\n\n")[0].split())) for name, text in rows]
        for panel, rows in rows_of_panel.items()
    }


def _options(app: typer.Typer) -> Iterator[tuple[str, str]]:
    """Options before any command, from what `app`'s callback declares, and typer's own."""
    assert app.registered_callback is not None
    declared = get_type_hints(app.registered_callback.callback, include_extras=True)
    for name, annotation in declared.items():
        for option in getattr(annotation, "__metadata__", ()):
            names = [each for each in (option.default, *option.param_decls) if type(each) is str]
            flags = " ".join(names or [f"--{name.replace('_', '-')}"])  # the first is the default
            yield f"{flags} {option.metavar or ''}".strip(), option.help
    yield from COMPLETION


def _rows(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...], width: int) -> list[str]:
    """Two columns; a text that does not fit next to a long name goes below it."""
    left = max(len(name) for name, _ in rows) + 4
    if left > width // 2:
        pad = " " * 6
        lines = []
        for name, text in rows:
            lines += [f"  {name}", *(pad + line for line in textwrap.wrap(text, width - 6))]
        return lines
    lines = []
    for name, text in rows:
        first, *others = textwrap.wrap(text, width - left) or [""]
        lines.append(f"  {name}".ljust(left) + first)
        lines += [" " * left + line for line in others]
    return lines
