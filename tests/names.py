"""`python -m tests.names`: how often code binds a name of the glossary's left column, per room.

A name is counted where it is bound: a variable, an argument, an attribute, a function, a class or a
name that an import gives. `glossary_names.tsv` lists the names, with what to write instead. `whole`
stands for names that are this word, `part` for names with this word among theirs, `class` for
classes of this name.

    python -m tests.names            # the table
    python -m tests.names kept/hosts # every place of a room
    python -m tests.names --write    # lower the numbers that the test holds rooms to
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kg_loaders.disk.writing import write_text

ROOT = Path(__file__).parents[1]
GLOSSARY = Path(__file__).with_name("glossary_names.tsv")
NUMBERS = Path(__file__).with_name("names_per_room.tsv")
GUARDED = ("kg_loaders", "entity_linking", "kept", "benchmarks", "experiments", "tests")
OF_USERS = {
    "entity_linking/scorers/asking.py": ("dear", "asked"),  # fields of a re-ranker's manifest
    "experiments/entity_linking/end_to_end/parts.py": ("bare",),  # fields of YAML files
    "experiments/joint_spaces/reading.py": ("strangers",),
    "experiments/joint_spaces/trial.py": ("strangers_of",),
    "kept/apps/cli/ask.py": ("ask",),  # the command
    "kept/apps/serve/mcp_server.py": ("ask",),  # the tool
    "kept/apps/serve/service.py": ("ask",),
    "kept/decoders/asking.py": ("ask",),
    "kept/kge/options.py": ("ask",),  # the option --ask
    "kept/lab/comparison/experiment.py": ("asked",),  # fields of YAML files
    "kept/lab/completion/config.py": ("asked",),
    "kept/lab/completion/inductive_config.py": ("asked",),
    "kept/lab/questions/plan.py": ("asked",),
    "kept/lab/questions/source.py": ("asked",),
    "kept/lab/study/design.py": ("asked",),
    "tests/kept/lab/study/test_study.py": ("asked",),  # a field of the protocol above
}
"""Names that people write on the command line or that stored files have: they stay."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


class Binding(NamedTuple):
    """A name that a file binds, and where."""

    name: str
    line: int


def bindings(source: str) -> Iterator[Binding]:
    """Return every name that a Python source binds.

    >>> [each.name for each in bindings("def f(x):\\n    y = self.z = x\\n    import a as b")]
    ['f', 'x', 'y', 'z', 'b']
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield Binding(name, node.lineno)
            case ast.arg(arg=name) | ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield Binding(name, node.lineno)
            case ast.AsyncFunctionDef(name=name) | ast.ExceptHandler(name=str(name)):
                yield Binding(name, node.lineno)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield Binding(name, node.lineno)
            case ast.alias(asname=str(name)):
                yield Binding(name, node.lineno)


def glossary() -> dict[str, tuple[str, str]]:
    """Return each word of the left column: whether it counts whole or as a part, and its term."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines[1:])
    return {word: (kind, term) for word, kind, term in rows}


def unwanted(name: str, words: dict[str, tuple[str, str]]) -> str | None:
    """Return the word for which a name counts, or None.

    >>> words = {"found": ("whole", "the thing"), "beside": ("part", "baseline")}
    >>> unwanted("_found", words), unwanted("n_found", words), unwanted("WithBeside", words)
    ('found', None, 'beside')
    """
    whole = name.strip("_")
    kind = words.get(whole.lower(), ("", ""))[0]
    if kind in ("whole", "part") or (kind == "class" and whole[:1].isupper()):
        return whole.lower()
    parts = (part.lower() for part in _WORD.findall(name))
    return next((part for part in parts if words.get(part, ("", ""))[0] == "part"), None)


def room_of(path: str) -> str:
    """Return the room of a file: its package, in `kept` the folder below it, in large ones two.

    >>> room_of("kept/hosts.py"), room_of("kept/linking/a.py"), room_of("tests/b.py")
    ('kept', 'kept/linking', 'tests')
    """
    folders = path.split("/")[:-1]
    if folders[0] != "kept":
        return folders[0]
    return "/".join(folders[: 3 if folders[1:2] in (["lab"], ["apps"], ["training"]) else 2])


def files(packages: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Return the Python files of packages, each with its path in the repository."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def counted(packages: tuple[str, ...]) -> Iterator[tuple[str, str, Binding]]:
    """Return every binding that counts: its file, the glossary's word and the binding."""
    words = glossary()
    for name, path in files(packages):
        for each in bindings(path.read_text(encoding="utf-8")):
            word = unwanted(each.name, words)
            if word is not None and each.name not in OF_USERS.get(name, ()):
                yield name, word, each


def numbers(packages: tuple[str, ...]) -> Counter[str]:
    """Return how many bindings count in each room; rooms without one have 0."""
    counts = Counter({room_of(name): 0 for name, _ in files(packages)})
    counts.update(room_of(name) for name, _, _ in counted(packages))
    return counts


def allowed() -> dict[str, int]:
    """Return the number that each room must not exceed."""
    lines = NUMBERS.read_text(encoding="utf-8").splitlines()
    return {room: int(n) for room, n in (line.split("\t") for line in lines[1:])}


def lowered(counts: Counter[str], before: dict[str, int]) -> Counter[str]:
    """Return the numbers to hold rooms to: those of before, lower where names have gone.

    >>> lowered(Counter({"a": 3, "b": 1, "new": 2}), {"a": 2, "b": 5, "gone": 1})
    Counter({'a': 2, 'new': 2, 'b': 1})
    """
    return Counter({room: min(n, before.get(room, n)) for room, n in counts.items()})


def numbers_file(counts: Counter[str]) -> str:
    """Return the file of numbers."""
    return "room\tnames\n" + "".join(f"{room}\t{counts[room]}\n" for room in sorted(counts))


def table() -> str:
    """Return a table: a row per room, its number and its most frequent words."""
    per_room: dict[str, Counter[str]] = {}
    for name, word, _ in counted(GUARDED):
        per_room.setdefault(room_of(name), Counter())[word] += 1
    rows = [f"{'room':24}{'names':>6}  most frequent"]
    for room, words in sorted(per_room.items()):
        most = ", ".join(f"{word} {n}" for word, n in words.most_common(6))
        rows.append(f"{room:24}{words.total():6}  {most}")
    guarded = sum(n.total() for room, n in per_room.items() if room.startswith(GUARDED))
    return "\n".join([*rows, f"{'guarded rooms together':24}{guarded:6}"])


def main(arguments: list[str]) -> None:
    """Print the table, the places of rooms, or write the numbers."""
    if arguments == ["--write"]:
        write_text(NUMBERS, numbers_file(lowered(numbers(GUARDED), allowed())), force=True)
        return
    for name, word, each in counted(GUARDED) if arguments else ():
        if room_of(name) in arguments or name in arguments:
            sys.stdout.write(f"{name}:{each.line}: {each.name} ({glossary()[word][1]})\n")
    if not arguments:
        sys.stdout.write(table() + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
