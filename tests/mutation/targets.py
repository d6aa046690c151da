"""Which tests must catch the faults of which modules.

Modules of one group share a run of pytest; a test is tried on a mutant only if it reaches its line,
so a file that is listed too much costs little. Every other module of the three packages is a group
of its own, with the test files that are nearest to it (`nearest`): what is new is covered without a
line here.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

PACKAGES = ("kg_loaders", "entity_linking", "kept")
MOST_FILES = 6
"""Test files of a module that is in no group below."""


@dataclass(frozen=True)
class Group:
    """Modules and the files of tests that must catch their mutants, all as paths from the root.

    `is_listed` is false for a module with its nearest tests: where these do not reach it, its
    mutants survive, and a person decides whether a test is missing.
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
    """The test files of a module: those that import it, else those of the folder beside it.

    First come files that are called after the module, then those that lie nearest to it.
    """
    folder, stem = Path(module).parent, Path(name_of(module).replace(".", "/")).name
    found = set(_importers(root)[name_of(module)])
    found |= {path for path in _test_files(root) if _is_called(path, stem, folder)}
    place = Path("tests") / folder
    while not found:
        found = {path for path in _test_files(root) if Path(path).parent == place}
        if place == Path("tests"):
            break
        place = place.parent

    def order(path: str) -> tuple[bool, int, str]:
        shared = sum(a == b for a, b in zip(Path(path).parts[1:-1], folder.parts, strict=False))
        return stem not in Path(path).stem, -shared, path

    return tuple(sorted(found, key=order)[:MOST_FILES])


def _is_called(path: str, stem: str, folder: Path) -> bool:
    """Whether a test file is named after a module, in a folder of the same package."""
    place = Path(path)
    return place.name == f"test_{stem}.py" and place.parts[1] == folder.parts[0]


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
    _group("kept/evaluation", "statistics", "kept/evaluation", "statistics"),
    _group("kept/evaluation", "ranking ranks/counting", "kept/evaluation", "ranking",
           "ranking_groups", "ranking_budget"),
    _group("kept/evaluation", "crossed", "kept/evaluation", "crossed"),
    _group("kept/evaluation", "leakage", "kept/evaluation", "leakage", "audit"),
    _group("kept/comparison", "compare", "kept/comparison", "experiment_verdicts",
           "experiment_reports", "regression_comparison", "experiment_runs"),
    _group("kept/comparison", "judging", "kept/comparison", "judging", "regression_comparison"),
    _group("kept/controls", "conditions random_texts shuffles link_errors", "kept/controls",
           "conditions", "random_texts", "link_errors"),
    _group("kept/training", "loop", "kept/training", "loop", "adaptation_contract"),
    _group("kept/training", "row_adam", "kept/training", "row_adam"),
    _group("kg_loaders/formats", "tsv jsonl", "kg_loaders", "formats/tsv", "reading/lines",
           "reading/repeated_keys", "export", "reading/budget"),
    _group("kg_loaders/reading", "lines", "kg_loaders", "reading/lines", "formats/tsv",
           "reading/repeated_keys", "reading/budget"),
    _group("kg_loaders", "store", "kg_loaders", "store"),
    _group("kg_loaders/disk", "columns", "kg_loaders", "disk/columns", "store"),
    _group("kg_loaders", "neighbours", "kg_loaders", "neighbours"),
    _group("entity_linking/names", "addition candidates folder identifiers index keys known "
           "linker priors rules/capitals rules/case runs segment texts", "entity_linking/names",
           "name_index", "known",
           "name_additions", "name_candidates", "name_folder", "name_linker", "name_variants",
           "keys", "capitals"),
    _group("entity_linking/names", "counts rules/document", "entity_linking/names", "name_counts"),
    _group("entity_linking/names/rules", "variants", "entity_linking/names", "name_variants",
           "name_candidates"),
    _group("entity_linking/calibration", "fitting reliability", "entity_linking/calibration",
           "calibration", "reliability"),
    _group("entity_linking/scoring", "elevant intervals links report spans",
           "entity_linking/scoring", "scoring", "elevant_scores", "intervals", "link_scores"),
)  # fmt: skip
