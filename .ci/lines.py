"""Counts of the code by room: what shows whether the tree becomes simpler.

    python .ci/lines.py              # a table of the rooms of every package
    python .ci/lines.py kept/lab     # of the rooms below a folder
    python .ci/lines.py --functions  # names each function that is long or takes many parameters

Lines of code leave out blank lines, comments and docstrings. A module of at most 25 of them, a
function of more than 60 lines or 8 parameters, and many comprehensions are places to look at.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lines_per_system import essential_lines

ROOT = Path(__file__).parents[1]
PACKAGES = ("kg_loaders", "entity_linking", "kept", "experiments", "tests")
COLUMNS = (
    "room", "modules", "lines of code", "modules ≤ 25", "functions > 60 lines", "> 8 parameters",
    "comprehensions a 1,000 lines", "fmt: skip",
)  # fmt: skip
SMALL, LONG, MANY = 25, 60, 8
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def counts_of(file: Path) -> Counter[str]:
    """Return the counts of one module by the columns of the table."""
    source = file.read_text(encoding="utf-8")
    tree, n_lines = ast.parse(source), essential_lines(source)
    counts = Counter({"modules": 1, "lines of code": n_lines})
    counts["modules ≤ 25"] = int(0 < n_lines <= SMALL)
    counts["functions > 60 lines"] = sum(_length(f) > LONG for f in _functions(tree))
    counts["> 8 parameters"] = sum(_n_parameters(f) > MANY for f in _functions(tree))
    counts["comprehensions"] = sum(isinstance(node, COMPREHENSIONS) for node in ast.walk(tree))
    counts["fmt: skip"] = source.count("# fmt: skip")
    return counts


def _functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _n_parameters(function: Function) -> int:
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def rooms(below: Path) -> dict[str, list[Path]]:
    """Return the modules below a folder by room: a folder there, or a module that lies in none."""
    by_room: dict[str, list[Path]] = {}
    for file in sorted(below.rglob("*.py")):
        room = file.relative_to(below).parts[0]
        by_room.setdefault(str((below / room).relative_to(ROOT)), []).append(file)
    return by_room


def table(below: Path) -> str:
    """Return the counts of each room below a folder, and their sum, as Markdown."""
    total, lines = Counter[str](), [COLUMNS, ("---",) * len(COLUMNS)]
    for room, files in rooms(below).items():
        counts = sum(map(counts_of, files), Counter[str]())
        total += counts
        lines.append(_cells(room, counts))
    lines.append(_cells(f"**{below.relative_to(ROOT)}**", total))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(name: str, counts: Counter[str]) -> tuple[str, ...]:
    shares = 1000 * counts["comprehensions"] / max(counts["lines of code"], 1)
    numbers = {**counts, COLUMNS[-2]: round(shares)}
    return name, *(f"{numbers.get(column, 0):,}" for column in COLUMNS[1:])


def large_functions(below: Path) -> Iterator[str]:
    """Yield a line for each function that is too long or takes too many parameters."""
    for file in sorted(below.rglob("*.py")):
        for each in _functions(ast.parse(file.read_text(encoding="utf-8"))):
            length, n_parameters = _length(each), _n_parameters(each)
            if length > LONG or n_parameters > MANY:
                place = f"{file.relative_to(ROOT)}:{each.lineno}"
                yield f"{place} {each.name}: {length} lines, {n_parameters} parameters"


def main() -> None:
    """Print the table of each folder that is named, of every package without a name."""
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    for name in names or PACKAGES:
        below = ROOT / name
        lines = large_functions(below) if "--functions" in sys.argv else [table(below)]
        print("\n".join(lines))


if __name__ == "__main__":
    main()
