"""kept/apps/commands.pyi: signatures of `kept.finetune`, `kept.compare` …, as they are declared."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from kept.apps.twins import COMMANDS, command

ROOT = Path(__file__).parents[2]
STUBS = ROOT / "kept" / "apps" / "commands.pyi"
HEAD = '''"""Signatures of kept's commands; made by `python -m tests.docs`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from kept.decoders.answering.answer import Answer
from kept.kge.prediction import Answers
from kept.results import Result
from kg_loaders import KnowledgeGraph

'''
RESULTS = {"ask": "Answer", "complete": "Answers", "predict": "Any"}
"""What a command returns in Python where it is no `Result`; `predict` has one for each kind."""
PATH = "str | Path"
GRAPH = "KnowledgeGraph | str | Path"
TABLE = "str | Path | pd.DataFrame | Sequence[Mapping[str, Any]]"


def stubs() -> str:
    """Return the text of the file."""
    return HEAD + "".join(_function(name) for name in sorted(COMMANDS))


def _function(name: str) -> str:
    parts, is_keyword = [], False
    for each in inspect.signature(command(name)).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            parts.append("*")
            is_keyword = True
        default = "" if each.default is each.empty else " = ..."
        parts.append(f"{each.name}: {_type(each.name, each.annotation)}{default}")
    lines = "".join(f"    {part},\n" for part in parts)
    return f"def {name}(\n{lines}) -> {RESULTS.get(name, 'Result')}: ...\n"


def _type(name: str, annotation: Any) -> str:
    """A type as Python's users give it: graphs and paths in any form, lists as sequences."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        options = [_type(name, each) for each in get_args(annotation) if each is not NoneType]
        return " | ".join([*dict.fromkeys(options), "None"])
    if get_origin(annotation) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(annotation)))}]"
    if annotation is Path:
        return {"kg": GRAPH, "source": GRAPH, "data": TABLE}.get(name, PATH)
    if get_origin(annotation) is list:
        (inner,) = get_args(annotation)
        return f"{_type('', inner)} | Sequence[{_type('', inner)}] | Mapping[str, Any]"
    if annotation is str and name in ("methods", "controls", "relations"):
        return "str | Sequence[str]"
    return getattr(annotation, "__name__", "Any")
