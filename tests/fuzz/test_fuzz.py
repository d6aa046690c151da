"""Every fuzz target for a moment: the corpus, then a few spoilt files. `make fuzz` takes longer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kept.apps.cli.link.inputs import FORMATS as LINK_FORMATS
from kept.tasks.datasets.formats import FORMATS as TASK_FORMATS
from kg_loaders.build import FORMATS as GRAPH_FORMATS
from kg_loaders.rdf.reader import SUFFIXES
from tests.fuzz.__main__ import fuzz
from tests.fuzz.mutation import MOST_BYTES, mutated
from tests.fuzz.openers import OPENERS
from tests.fuzz.options import OPTIONS
from tests.fuzz.settings import SETTINGS
from tests.fuzz.targets import CORPUS, READERS


def test_every_format_is_a_target() -> None:
    assert {f"graph.{name}" for name in GRAPH_FORMATS} <= set(READERS)
    assert {f"link.{name}" for name in LINK_FORMATS} <= set(READERS)
    others = {f"task.{name}" for name in TASK_FORMATS if name not in LINK_FORMATS}
    assert others <= set(READERS), "formats of tasks that are formats of links are read there"
    suffixes = {path.suffix[1:] for path in (CORPUS / "rdf").iterdir()}
    same = {"ntriples": "nt", "nquads": "nq", "turtle": "ttl", "owl": "rdf", "xml": "rdf"}
    assert suffixes == {same.get(suffix, suffix) for suffix in SUFFIXES}


def test_targets_are_clean(tmp_path: Path) -> None:
    """All in one process, which loads for long; it stops at the first finding."""
    targets = [*READERS, *OPENERS, *SETTINGS, *OPTIONS]
    is_clean, message = fuzz(targets, tmp_path / "files", seconds=0, least=5)
    assert is_clean, message
    assert all(f"{name}: " in message for name in targets)


def test_a_finding_is_told(tmp_path: Path) -> None:
    """The harness itself: a time limit of nothing, and a crash."""
    is_clean, message = fuzz(["no such target"], tmp_path / "files", seconds=0)
    assert not is_clean
    assert "invalid choice" in message


def test_mutation_is_repeatable_and_bounded() -> None:
    data = b"a\tr\tb\n" * 5000
    variants = [mutated(data, b"other", Random(f"{seed}")) for seed in range(200)]
    assert variants == [mutated(data, b"other", Random(f"{seed}")) for seed in range(200)]
    assert len(set(variants)) > 150
    assert max(map(len, variants)) <= MOST_BYTES
