"""Which tests must catch the faults of which modules.

Modules of one group share a run of pytest; a test is tried on a mutant only if it reaches its line,
so a file that is listed too much costs little. Every other module of the three packages is a group
of its own, with the test files that are nearest to it (`nearest`): what is new is covered without a
line here. A module is listed only where its nearest tests miss one that is about it.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

PACKAGES = ("kg_loaders", "entity_linking", "kept")
N_FILES = 6
MOST_FILES = 12
"""Test files of a module that is in no group below: its mutants are tried on one after another, the
first `N_FILES` of them; those whose line none of these reaches, on up to `MOST_FILES`."""


@dataclass(frozen=True)
class Group:
    """Modules and the files of tests that must catch their mutants, all as paths from the root.

    `is_listed` is false for a module with its nearest tests: where these do not reach it, its
    mutants survive, are reported as unreached, and a person decides whether a test is missing.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    is_listed: bool = True

    def only(self, modules: Sequence[str]) -> Group:
        """The same with no other module than those named; with all of its own if none is."""
        kept = [module for module in self.modules if module in modules or not modules]
        return replace(self, modules=tuple(kept))


def _group(folder: str, modules: str, tests: str, *files: str) -> Group:
    paths = tuple(f"{folder}/{module}.py" for module in modules.split())
    places = [(Path("tests", tests) / name) for name in files]
    return Group(paths, tuple(str(p.with_name(f"test_{p.name}.py")) for p in places))


def name_of(path: str) -> str:
    """The dotted name of a module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def modules_of(root: Path) -> list[str]:
    """The modules of the three packages that hold a function, as paths from the root."""
    paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return [
        path.relative_to(root).as_posix()
        for path in paths
        if any(isinstance(node, ast.FunctionDef) for node in ast.walk(_parsed(path)))
    ]


def groups_of(root: Path) -> tuple[Group, ...]:
    """The groups below, and one for each other module of the tree."""
    listed = {module for group in GROUPS for module in group.modules}
    others = [module for module in modules_of(root) if module not in listed]
    return (*GROUPS, *(Group((each,), nearest(each, root), is_listed=False) for each in others))


def drawn(groups: Sequence[Group], n: int, seed: int) -> tuple[Group, ...]:
    """The groups with `n` of their modules, always the same for a seed."""
    modules = [module for group in groups for module in group.modules]
    order = sorted(modules, key=lambda each: hashlib.sha256(f"{seed} {each}".encode()).digest())
    parts = (group.only(order[:n]) for group in groups) if order[:n] else ()
    return tuple(part for part in parts if part.modules)


def nearest(module: str, root: Path) -> tuple[str, ...]:
    """The test files of a module, the nearest first.

    First come those called after it that import it or lie in its folder of the tests. The others
    follow by the words that they share with it, where a rare word counts for more than a frequent
    one; a file that imports the module counts twice, and each folder in common adds half.
    """
    folder, stem = Path(module).parent, Path(name_of(module).replace(".", "/")).name
    importers = _importers(root)[name_of(module)]
    rarity = _rarity(root)
    own = _weights((root / module).read_text(encoding="utf-8"), rarity)

    def order(path: str) -> tuple[bool, float, str]:
        place = Path(path)
        is_called = stem in place.stem and (
            path in importers or place.parent == Path("tests") / folder
        )
        shared = sum(a == b for a, b in zip(place.parts[1:-1], folder.parts, strict=False))
        other = _weights_of_tests(root)[path]
        common = sum(weight * other.get(word, 0.0) for word, weight in own.items())
        return not is_called, -common * (1 + shared / 2) * (1 + (path in importers)), path

    return tuple(sorted(_test_files(root), key=order)[:MOST_FILES])


def _words(text: str) -> Counter[str]:
    return Counter(word.lower() for word in re.findall(r"[^\W\d]\w{2,}", text))


def _weights(text: str, rarity: dict[str, float]) -> dict[str, float]:
    """The words of a text with their weights, whose squares add up to 1."""
    counts = _words(text)
    weights = {word: (1 + math.log(n)) * rarity.get(word, 0.0) for word, n in counts.items()}
    length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
    return {word: weight / length for word, weight in weights.items() if weight}


@cache
def _rarity(root: Path) -> dict[str, float]:
    """Of each word of the test files: 0 where all hold it, larger the fewer do."""
    paths = _test_files(root)
    n_files = Counter(w for path in paths for w in _words((root / path).read_text("utf-8")))
    return {word: math.log(len(paths) / n) for word, n in n_files.items()}


@cache
def _weights_of_tests(root: Path) -> dict[str, dict[str, float]]:
    rarity = _rarity(root)
    return {path: _weights((root / path).read_text("utf-8"), rarity) for path in _test_files(root)}


@cache
def _test_files(root: Path) -> tuple[str, ...]:
    paths = sorted((root / "tests").rglob("test_*.py"))
    return tuple(path.relative_to(root).as_posix() for path in paths)


@cache
def _importers(root: Path) -> dict[str, set[str]]:
    """By the name of a module, the test files that import it."""
    files = defaultdict(set)
    for path in _test_files(root):
        for node in ast.walk(_parsed(root / path)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                files[name].add(path)
    return files


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


GROUPS = (
    _group("kept/evaluation", "ranking ranks/counting", "kept/evaluation", "ranking",
           "ranking_groups", "ranking_budget"),
    _group("kept/lab/study", "run effects judge", "kept/lab/comparison", "experiment_verdicts",
           "experiment_reports", "regression_comparison", "experiment_runs"),
    _group("kept/inputs/controls", "conditions random_texts shuffles link_errors",
           "kept/inputs/controls", "conditions", "random_texts", "link_errors"),
    _group("kg_loaders/formats", "tsv jsonl", "kg_loaders", "formats/tsv", "reading/lines",
           "reading/repeated_keys", "export", "budget"),
    _group("kg_loaders/reading", "lines", "kg_loaders", "reading/lines", "formats/tsv",
           "reading/repeated_keys", "budget"),
    _group("entity_linking/names", "addition candidates folder identifiers index keys known "
           "linker priors rules/capitals rules/case runs segment texts", "entity_linking/names",
           "name_index", "known",
           "name_additions", "name_candidates", "name_folder", "name_linker", "name_variants",
           "keys", "capitals"),
    _group("entity_linking/scoring", "elevant intervals links report spans",
           "entity_linking/scoring", "scoring", "elevant_scores", "intervals", "link_scores"),
)  # fmt: skip
