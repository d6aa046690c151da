"""Which tests must catch the faults of which modules.

Modules of one group share a run of pytest; a test is tried on a mutant only if it reaches its line,
so a file that is listed too much costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Group:
    """Modules and the files of tests that must catch their mutants, all as paths from the root."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]

    def only(self, modules: Sequence[str]) -> Group:
        """The same with no other module than those named; with all of its own if none is."""
        kept = [module for module in self.modules if module in modules or not modules]
        return Group(tuple(kept), self.tests)


def _group(folder: str, modules: str, tests: str, *files: str) -> Group:
    paths = tuple(f"{folder}/{module}.py" for module in modules.split())
    places = [(Path("tests", tests) / name) for name in files]
    return Group(paths, tuple(str(p.with_name(f"test_{p.name}.py")) for p in places))


def name_of(path: str) -> str:
    """The dotted name of a module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


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
