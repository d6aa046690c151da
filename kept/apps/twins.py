"""The commands of kept as Python functions: the same options, from the same declaration.

`kept.finetune(task="typing", train="train.json", method="kbert", kg=graph, output="runs/a")` does
what `kept finetune --task typing …` does, with the same defaults, checks and errors, and returns a
result instead of printing one. `kept/apps/commands.pyi` has the signatures for editors and type
checkers; `python -m tests.docs` writes it from the declarations.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from kept.linking.graphs import folder_of
from kept.results import Result
from kg_loaders.disk.writing import write_text

COMMANDS: dict[str, tuple[str, str]] = {
    "ask": ("kept.apps.cli.ask", "ask"),
    "compare": ("kept.apps.cli.comparing.compare", "compare_command"),
    "complete": ("kept.apps.cli.kgc", "predict_command"),
    "finetune": ("kept.apps.cli.training.finetune", "finetune_command"),
    "fit": ("kept.apps.cli.training.fit", "fit_command"),
    "predict": ("kept.apps.cli.training.predict", "predict_command"),
    "pretrain": ("kept.apps.cli.training.pretrain", "pretrain_command"),
    "probe": ("kept.apps.cli.probe", "probe_command"),
}
"""The Python name of a command, and the module and function that declare it."""
HIDDEN = frozenset({"as_json", "open_page"})
"""Options about printing, which a function that returns its result has no use for."""


def command(name: str) -> Callable[..., Any]:
    """Return the function for a key of `COMMANDS`."""
    return _function(name)


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    module, attribute = COMMANDS[name]
    declared = getattr(import_module(module), attribute)

    def run(*args: Any, **options: Any) -> Any:
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"kept.{name}: {error}; {_call_form(name, signature)}") from None
        return _run(name, declared, bound.arguments)

    signature = public_signature(declared)
    plain = [
        each.replace(annotation=_plain_type(each.annotation))
        for each in signature.parameters.values()
    ]
    run.__name__ = run.__qualname__ = name
    run.__module__ = "kept"
    run.__doc__ = _docstring(declared, signature)
    run.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    return run


def public_signature(declared: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a command for Python: arguments first, options by keyword alone.

    The graph that a command needs comes by its place, too: `kept.ask(question, graph)`.
    """
    import typer

    parameters = []
    every = declared_parameters(declared)
    has_arguments = any(isinstance(_info(each), typer.models.ArgumentInfo) for each in every)
    for each in every:
        if each.name in HIDDEN:
            continue
        info = _info(each)
        is_argument = isinstance(info, typer.models.ArgumentInfo)
        is_argument |= each.name == "kg" and (each.default is each.empty or has_arguments)
        kind = each.POSITIONAL_OR_KEYWORD if is_argument else each.KEYWORD_ONLY
        parameters.append(each.replace(kind=kind))
    parameters.sort(key=_rank_in_signature)
    return inspect.Signature(parameters)


def _call_form(name: str, signature: inspect.Signature) -> str:
    """How a command is called: what comes by place, and the options that it needs."""
    by_place, needed = [], []
    for each in signature.parameters.values():
        if each.kind == each.POSITIONAL_OR_KEYWORD:
            by_place.append(each.name if each.default is each.empty else f"[{each.name}]")
        elif each.default is each.empty:
            needed.append(f"{each.name}=…")
    call = ", ".join([*by_place, *needed, "option=…"])
    return f"call it as kept.{name}({call}), and see help(kept.{name}) for the options"


def _plain_type(annotation: Any) -> Any:
    """The type of a parameter without the settings for typer, as `help` prints it."""
    return (
        getattr(annotation, "__origin__", annotation)
        if hasattr(annotation, "__metadata__")
        else annotation
    )


def _rank_in_signature(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """Arguments without a default first, of these the graph last; then options."""
    by_place = parameter.kind == parameter.POSITIONAL_OR_KEYWORD
    has_default = by_place and parameter.default is not parameter.empty
    return parameter.kind, has_default, by_place and parameter.name == "kg"


def _docstring(declared: Callable[..., Any], signature: inspect.Signature) -> str:
    """The help of the command, and of each option."""
    from kept.apps.cli.options import with_names

    text = inspect.cleandoc(declared.__doc__ or "").partition("\nExample:")[0].rstrip()
    lines = [text, "", "Arguments:"]
    for each in signature.parameters.values():
        help_text = with_names(getattr(_info(each), "help", "") or "")
        lines.append(f"    {each.name}: {help_text}".rstrip())
    return "\n".join(lines) + "\n"


def _run(name: str, declared: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Check the values as the command line does, run the command, return what it came to."""
    import typer
    from typer.main import get_command

    from kept.apps.cli.errors import FAULTY_LINE
    from kept.apps.cli.options import KeptCommand
    from kept.apps.cli.terminal import CALL
    from kept.errors import ConfigError

    app = typer.Typer(add_completion=False)
    app.command(name, cls=KeptCommand)(declared)
    parsed: Any = get_command(app)
    printed = io.StringIO()
    try:
        with parsed.context_class(parsed, info_name=name) as context:
            _require_places(name, parsed.params, values)
            for parameter in parsed.params:
                if parameter.name == "help":
                    continue
                if parameter.name in values and values[parameter.name] is not None:
                    value = _plain(values[parameter.name], parameter)
                else:
                    value, _ = parameter.consume_value(context, {})
                context.params[parameter.name] = parameter.process_value(context, value)
            call = CALL.set(_call(name, values))
            try:
                with redirect_stdout(printed):
                    outcome = parsed.invoke(context)
            finally:
                CALL.reset(call)
    except FAULTY_LINE as error:
        raise ConfigError(f"kept.{name}: {_in_python(error.format_message(), parsed)}") from error
    except typer.Exit as stop:
        outcome = Result(values={"exit_code": stop.exit_code})
    text = printed.getvalue()
    if outcome is None:
        outcome = Result()
    return outcome.with_text(text) if isinstance(outcome, Result) else outcome


def _require_places(name: str, parameters: Sequence[Any], values: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a graph in the place of another argument."""
    from kept.errors import ConfigError
    from kg_loaders import KnowledgeGraph

    for each in parameters:
        is_argument = each.param_type_name == "argument" and each.name != "kg"
        if is_argument and isinstance(values.get(each.name), KnowledgeGraph):
            raise ConfigError(
                f"kept.{name}: {each.name} is a graph; {each.name} comes first, and the graph is kg"
            )


def _call(name: str, values: Mapping[str, Any]) -> str:
    """The call as somebody would write it, for pages that say how they were made."""
    return f"kept.{name}({', '.join(f'{key}={value!r}' for key, value in values.items())})"


def _in_python(message: str, parsed: Any) -> str:
    """A message about options with their names in Python: `max_items` for `--max-items`."""
    for parameter in parsed.params:
        for option in sorted(parameter.opts, key=len, reverse=True):
            if option.startswith("--"):
                message = re.sub(rf"{re.escape(option)}(?![\w-])", parameter.name, message)
    return message


def _plain(value: Any, parameter: Any) -> Any:
    """A value of Python as the option takes it: graphs by their folder, lists by commas."""
    from kg_loaders import KnowledgeGraph, open_graph

    if parameter.name == "kg" and not isinstance(value, str | Path):
        return str(folder_of(open_graph(value)))
    if isinstance(value, KnowledgeGraph):
        return str(folder_of(value))
    if parameter.name == "data" and (rows := _rows(value)) is not None:
        return str(_table_of(rows))
    if parameter.param_type_name == "argument":
        _require_plain(value, parameter)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return [f"{name}={each}" for name, each in value.items()]
    if isinstance(value, list | tuple | set):
        items = [str(each) for each in value]
        return items if parameter.multiple else ",".join(items)
    return [value] if parameter.multiple and not isinstance(value, bool) else value


def _rows(value: Any) -> list[Mapping[str, Any]] | None:
    """The rows of a data frame, or of a list of mappings; None for anything else."""
    if hasattr(value, "itertuples"):
        cells = value.astype(object).where(value.notna(), None)
        return list(cells.to_dict("records"))
    is_table = isinstance(value, list | tuple) and all(isinstance(row, Mapping) for row in value)
    return list(value) if is_table and value else None


def _table_of(rows: Sequence[Mapping[str, Any]]) -> Path:
    """Return a file of JSON lines with the rows; the same rows are in the same file.

    So a run that was interrupted goes on when it is called again.
    """
    from kept.cache_folder import cache_folder

    lines = "".join(json.dumps(dict(row), ensure_ascii=False, default=str) + "\n" for row in rows)
    digest = hashlib.sha256(lines.encode()).hexdigest()[:16]
    path = cache_folder() / "tables" / f"{digest}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, lines, force=True)
    return path


def _require_plain(value: Any, argument: Any) -> None:
    """ConfigError unless an argument has one value, or paths and texts where it takes several."""
    from kept.errors import ConfigError

    is_several = isinstance(value, list | tuple | set)
    if is_several and value and all(isinstance(each, Mapping) for each in value):
        raise ConfigError(f"{argument.name} takes one value, not rows of a table")
    for each in value if is_several else [value]:
        if not isinstance(each, str | Path | int | float | Mapping):
            raise ConfigError(
                f"{argument.name}: give text or the path of a file, not a {type(each).__name__}; "
                "write data to a file first (a data frame has .to_csv)"
            )
    if is_several and not argument.multiple and argument.nargs != -1:
        raise ConfigError(
            f"{argument.name}: give one value, not {len(value)}; for several, call it for each"
        )


def declared_parameters(declared: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a command with their annotations evaluated."""
    return list(inspect.signature(declared, eval_str=True).parameters.values())


def _info(parameter: inspect.Parameter) -> Any:
    """What typer knows of a parameter: its help, bounds and names on the command line."""
    infos = getattr(parameter.annotation, "__metadata__", ())
    return next((each for each in infos if hasattr(each, "help")), None)
