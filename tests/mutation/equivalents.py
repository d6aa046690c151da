"""Kinds of change that no test on one machine can tell from the original: none is tried.

Each rule is one function or table with its reason. A single change that is equivalent for a reason
of its function alone is listed in `accepted.json` instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

KEYWORDS = {
    "strict": "an assertion of zip about lengths",
    "indent": "the white space of a JSON file",
    "device": "tests run on a machine with one device; the rest is for machines with more",
    "figsize": "the look of a drawing",
    "fontsize": "the look of a drawing",
    "linewidth": "the look of a drawing",
    "markersize": "the look of a drawing",
    "dpi": "the look of a drawing",
    "non_blocking": "a matter of speed, on a machine with a GPU",
}
"""Neither these arguments nor their values are changed."""

DEFAULTS = {
    ("encoding", "utf-8"): "what Python takes wherever UTF-8 is the encoding of the system",
    ("allow_pickle", False): "what numpy takes by default",
}
"""Arguments with these values are not dropped."""

SMALLEST = 1e-6
"""Smaller numbers say what counts as rounding; they are not doubled."""


def parts_that_decide(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node, without annotations, decorators and what the rules leave out.

    Messages (`raise`, f-strings, `assert`) and imports have no children that decide anything.
    """
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.keyword) and node.arg in KEYWORDS:
        return
    if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
        return
    if _empties_memory(node):
        yield from (*node.body[1:], *node.orelse)
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def is_equivalent(old: ast.AST) -> bool:
    """Whether every change of this node itself, not of its parts, is equivalent."""
    rules = (_is_draw_against_bound, _is_empty_array, _is_rounding, _empties_memory)
    return any(rule(old) for rule in rules)


def may_be_dropped(argument: ast.keyword) -> bool:
    """Whether a call without this argument may do something else."""
    is_default = isinstance(argument.value, ast.Constant) and (
        (argument.arg, argument.value.value) in DEFAULTS
    )
    return argument.arg is not None and argument.arg not in KEYWORDS and not is_default


def _empties_memory(node: ast.AST) -> TypeGuard[ast.If]:
    """`if len(known) > MOST: known.clear()` bounds what is remembered, not what is found."""
    if not isinstance(node, ast.If) or not isinstance(node.body[0], ast.Expr):
        return False
    call = node.body[0].value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    size = f"len({ast.unparse(call.func.value)})"
    return call.func.attr == "clear" and size in map(ast.unparse, _expressions(node.test))


def _is_draw_against_bound(node: ast.AST) -> bool:
    """`random() < p` and `random() <= p` differ in one of 2**53 draws."""
    if not isinstance(node, ast.Compare) or not isinstance(
        node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    ):
        return False
    sides = [node.left, *node.comparators]
    return any(isinstance(s, ast.Call) and _name(s.func) in ("random", "rand") for s in sides)


def _is_empty_array(node: ast.AST) -> bool:
    """An array without rows holds neither zeros nor ones."""
    if not isinstance(node, ast.Call) or _name(node.func) not in ("zeros", "ones") or not node.args:
        return False
    shape = node.args[0]
    sizes = shape.elts if isinstance(shape, ast.Tuple) else [shape]
    return any(isinstance(size, ast.Constant) and size.value == 0 for size in sizes)


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    return (each for each in ast.walk(node) if isinstance(each, ast.expr))


def _is_rounding(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and 0 < abs(node.value) < SMALLEST
    )


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
