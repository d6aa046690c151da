"""Which test files must catch the faults of which module.

Every module of the three packages has `MOST_FILES` of them, the nearest first, and the test of the
examples in its docstrings: what is new is covered without a line here. A test is tried on a mutant
only if it reaches its line, so a file that is listed too much costs little. `LISTED` names what is
about a module and not near enough to it.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

PACKAGES = ("kg_loaders", "entity_linking", "kept")
N_FILES = 6
MOST_FILES = 12
"""A mutant is tried on the first `N_FILES` of its module; what survives, on all of them and on
other files of which it is known that they reach its line."""
EXAMPLES = "tests/test_doctests.py::test_examples[{}]"


def name_of(path: str) -> str:
    """The dotted name of a module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def modules_of(root: Path) -> tuple[str, ...]:
    """The modules of the three packages that hold a function, as paths from the root."""
    facts = _facts(root)
    return tuple(path for path in _sources(root) if facts[path][0])


def draw(modules: Sequence[str], n: int, seed: int) -> tuple[str, ...]:
    """Return `n` of the modules, always the same for a seed, as are the first of them."""
    ranked = sorted(modules, key=lambda each: hashlib.sha256(f"{seed} {each}".encode()).digest())
    return tuple(ranked[:n])


def files_of(module: str, root: Path) -> tuple[str, ...]:
    """The test files that are tried on a module: those of `LISTED`, then the nearest.

    After the first of them comes the test of the module's own examples, where it shows any.
    """
    listed = [path for modules, paths in LISTED for path in paths if module in modules]
    near = nearest(module, root)
    has_examples = ">>> " in (root / module).read_text(encoding="utf-8")
    examples = [EXAMPLES.format(name_of(module))] if has_examples else []
    return tuple(dict.fromkeys([*(listed or near[:1]), *examples, *near]))[:MOST_FILES]


def nearest(module: str, root: Path) -> tuple[str, ...]:
    """The test files of a module, the nearest first.

    First come those called after it that import it or lie in its folder of the tests. The others
    follow by the words that they share with it, where a rare word counts for more than a frequent
    one; a file that imports the module counts twice, one that imports an importer of it one and a
    half times, and each folder in common adds half.
    """
    folder, stem = Path(module).parent, Path(name_of(module).replace(".", "/")).name
    importers = _importers(root)
    direct = importers[name_of(module)]
    through = {path for each in direct for path in importers[name_of(each)]}
    rarity = _rarity(root)
    weights = _weights((root / module).read_text(encoding="utf-8"), rarity)

    def order(path: str) -> tuple[bool, float, str]:
        file = Path(path)
        is_namesake = stem in file.stem and (
            path in direct or file.parent == Path("tests") / folder
        )
        shared = sum(a == b for a, b in zip(file.parts[1:-1], folder.parts, strict=False))
        other = _weights_of_tests(root)[path]
        common = sum(weight * other.get(word, 0.0) for word, weight in weights.items())
        imports = 2.0 if path in direct else 1.5 if path in through else 1.0
        return not is_namesake, -common * (1 + shared / 2) * imports, path

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
def _sources(root: Path) -> tuple[str, ...]:
    paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return tuple(path.relative_to(root).as_posix() for path in paths)


@cache
def _test_files(root: Path) -> tuple[str, ...]:
    paths = sorted((root / "tests").rglob("test_*.py"))
    return tuple(path.relative_to(root).as_posix() for path in paths)


@cache
def _importers(root: Path) -> dict[str, set[str]]:
    """By the name of a module, the files of modules and tests that import it."""
    files: dict[str, set[str]] = defaultdict(set)
    for path, (_, names) in _facts(root).items():
        for name in names:
            files[name].add(path)
    return files


@cache
def _facts(root: Path) -> dict[str, tuple[bool, set[str]]]:
    """Of each module and test file, whether it holds a function, and the names that it imports."""
    return {
        path: _facts_of((root / path).read_text(encoding="utf-8"))
        for path in (*_sources(root), *_test_files(root))
    }


def _facts_of(source: str) -> tuple[bool, set[str]]:
    names = set()
    has_function = False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            has_function = True
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return has_function, names


def _listed(folder: str, modules: str, tests: str, *files: str) -> tuple[set[str], list[str]]:
    places = [(Path("tests", tests) / name) for name in files]
    paths = {f"{folder}/{module}.py" for module in modules.split()}
    return paths, [str(path.with_name(f"test_{path.name}.py")) for path in places]


LISTED = (
    _listed("kept/evaluation", "ranking ranks/counting", "kept/evaluation", "ranking",
            "ranking_groups", "ranking_budget"),
    _listed("kept/lab/study", "run effects judge", "kept/lab/comparison", "experiment_verdicts",
            "experiment_reports", "regression_comparison", "experiment_runs"),
    _listed("kept/inputs/controls", "conditions random_texts shuffles link_errors",
            "kept/inputs/controls", "conditions", "random_texts", "link_errors"),
    _listed("kg_loaders/formats", "tsv jsonl", "kg_loaders", "formats/tsv", "reading/lines",
            "reading/repeated_keys", "export", "budget"),
    _listed("kg_loaders/reading", "lines", "kg_loaders", "reading/lines", "formats/tsv",
            "reading/repeated_keys", "budget"),
    _listed("entity_linking/names", "addition candidates folder identifiers index keys known "
            "linker priors rules/capitals rules/case runs segment texts", "entity_linking/names",
            "name_index", "known",
            "name_additions", "name_candidates", "name_folder", "name_linker", "name_variants",
            "keys", "capitals"),
    _listed("entity_linking/scoring", "elevant intervals links report spans",
            "entity_linking/scoring", "scoring", "elevant_scores", "intervals", "link_scores"),
)  # fmt: skip
