"""The small faults that are tried: one change in the body of one function, told as `old → new`.

A mutant's name holds its module, function and change, and no line number, so that it stays the same
while the file around it changes.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutation.equivalents import is_equivalent, may_be_dropped, parts_that_decide

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
OTHER_NAMES = {
    "all": "any", "any": "all", "min": "max", "max": "min", "minimum": "maximum",
    "maximum": "minimum", "argmin": "argmax", "argmax": "argmin", "sorted": "list",
    "startswith": "endswith", "endswith": "startswith", "zeros": "ones", "ones": "zeros",
}  # fmt: skip
DROPPED_CALLS = {
    "abs", "casefold", "clip", "copy", "cumsum", "detach", "exp", "log", "log1p", "lower", "lstrip",
    "reversed", "round", "rstrip", "sort", "sqrt", "strip",
}  # fmt: skip
MODULES = {"np", "numpy", "math", "torch"}


@dataclass(frozen=True)
class Mutant:
    """One change: its name, the line of its statement, and where it is in the tree.

    Attributes:
        name: `PATH::FUNCTION::OLD → NEW`, with `#2` and so on for the same change elsewhere in it.
        line: of the innermost statement that changes.
        site: number of the changed node in `ast.walk`.
        change: number of the change of that node.
    """

    name: str
    line: int
    site: int
    change: int


def source_of(node: ast.AST) -> str:
    """The source of a node."""
    try:
        return ast.unparse(node)
    except ValueError:  # before Python 3.12 it cannot write every string within a string
        return ast.dump(node)


def mutants_of(source: str, path: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its source."""
    mutants, seen = [], Counter[str]()
    tree = ast.parse(source)
    numbers = {id(node): i for i, node in enumerate(ast.walk(tree))}
    for function, owner in _functions(tree):
        for statement in function.body:
            for node, line in _nodes(statement, statement.lineno):
                for change, (change_name, _) in enumerate(_changes(node)):
                    name = f"{path}::{owner}::{change_name}"
                    seen[name] += 1
                    name += f" #{seen[name]}" if seen[name] > 1 else ""
                    mutants.append(Mutant(name, line, numbers[id(node)], change))
    return mutants


def sample(mutants: list[Mutant], n: int) -> list[Mutant]:
    """The `n` that every run tries: those whose names have the smallest hashes."""
    return sorted(mutants, key=lambda m: hashlib.sha256(m.name.encode()).digest())[:n]


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The module with the change in it.

    Names that the change drops are kept in a line that never runs: the function needs the same
    variables of the scopes around it, or its code could not take the place of the old one.
    """
    tree = ast.parse(source)
    old = list(ast.walk(tree))[mutant.site]
    function = next(f for f, _ in _functions(tree) if any(node is old for node in ast.walk(f)))
    names = {node.id for node in ast.walk(old) if isinstance(node, ast.Name)}
    names |= {"__class__"} if "super" in names else set()
    uses = [ast.Expr(ast.Name(name, ast.Load())) for name in sorted(names)]
    new = list(_changes(old))[mutant.change][1]
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list):
                value[:] = [new if item is old else item for item in value]
    ast.copy_location(new, old)
    if uses:
        last = function.body[-1]
        function.body.append(ast.copy_location(ast.If(ast.Constant(False), uses, []), last))
    return ast.fix_missing_locations(tree)


def traced(source: str, path: str) -> ast.Module:
    """The module with `__reached__(PATH, LINE)` before every statement of every function."""
    tree = ast.parse(source)
    for function, _ in _functions(tree):
        for node in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, [new for old in block for new in (_call(old, path), old)])
    return ast.fix_missing_locations(tree)


def _call(before: ast.stmt, path: str) -> ast.stmt:
    arguments: list[ast.expr] = [ast.Constant(path), ast.Constant(before.lineno)]
    return ast.copy_location(
        ast.Expr(ast.Call(ast.Name("__reached__", ast.Load()), arguments, [])), before
    )


def _functions(node: ast.AST, owner: str = "") -> Iterator[tuple[ast.FunctionDef, str]]:
    """Outermost functions and methods, with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child, f"{owner}{child.name}"
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{owner}{child.name}.")
        elif isinstance(child, ast.If):
            yield from _functions(child, owner)


def _nodes(node: ast.AST, line: int) -> Iterator[tuple[ast.AST, int]]:
    """A node and those in it that decide something: no annotation, message or documentation."""
    line = node.lineno if isinstance(node, ast.stmt) else line
    yield node, line
    for part in parts_that_decide(node):
        yield from _nodes(part, line)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Each change of one node, in words and as the node that takes its place."""
    is_tried = not is_equivalent(node)
    if isinstance(node, ast.stmt):
        yield from _changed_statements(node) if is_tried else ()
    elif isinstance(node, ast.expr):
        for new in _changed_expressions(node) if is_tried else ():
            yield f"{source_of(node)} → {source_of(new)}", new
        if isinstance(node, ast.Call):
            for i, keyword in enumerate(node.keywords):
                if may_be_dropped(keyword):
                    rest = node.keywords[:i] + node.keywords[i + 1 :]
                    words = f"{source_of(node.func)}(… {source_of(keyword)}) → dropped"
                    yield words, ast.Call(node.func, node.args, rest)
    elif isinstance(node, ast.comprehension):
        for i, test in enumerate(node.ifs):
            rest_ifs = node.ifs[:i] + node.ifs[i + 1 :]
            new = ast.comprehension(node.target, node.iter, rest_ifs, node.is_async)
            yield f"for … if {source_of(test)} → no filter", new


def _changed_statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Yield))
    ):
        yield f"{source_of(node)[:90]} → pass", ast.Pass()
    elif isinstance(node, ast.Continue):
        yield "continue → break", ast.Break()
    elif isinstance(node, ast.Break):
        yield "break → continue", ast.Continue()
    elif isinstance(node, ast.If) and not isinstance(node.body[0], (ast.Raise, ast.Continue)):
        new = ast.If(ast.Constant(False), node.body, node.orelse)
        yield f"if {source_of(node.test)} → if False", new
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATIONS:
        swapped = ast.AugAssign(node.target, OPERATIONS[type(node.op)](), node.value)
        yield f"{source_of(node)} → {source_of(swapped)}", swapped


def _changed_expressions(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops = [*node.ops[:i], COMPARISONS[type(op)](), *node.ops[i + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.BoolOp(other, node.values)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        yield ast.BinOp(node.left, OPERATIONS[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        is_float = isinstance(node.value, float)
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        else:
            yield ast.Constant((2 * node.value or 1.0) if is_float else node.value + 1)
    elif isinstance(node, ast.Call):
        yield from _changed_calls(node)


def _changed_calls(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Name):
        name, receiver = node.func.id, None
    elif isinstance(node.func, ast.Attribute):
        name, receiver = node.func.attr, node.func.value
    else:
        return
    if name in OTHER_NAMES:
        if receiver is None:
            keywords = [] if name == "sorted" else node.keywords
            yield ast.Call(ast.Name(OTHER_NAMES[name], ast.Load()), node.args, keywords)
        else:
            swapped = ast.Attribute(receiver, OTHER_NAMES[name], ast.Load())
            yield ast.Call(swapped, node.args, node.keywords)
    elif name in DROPPED_CALLS:
        is_function = receiver is None or (
            isinstance(receiver, ast.Name) and receiver.id in MODULES
        )
        if not is_function and receiver is not None:
            yield receiver
        elif node.args:
            yield node.args[0]
