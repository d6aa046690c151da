from __future__ import annotations

import json
from pathlib import Path

import pytest

from entity_linking import RelationExample
from kg_loaders import KnowledgeGraph
from tests.kept.lab.comparison.written_runs import N
from tests.kept.tiny_task_files import wiki80_row


@pytest.fixture(scope="module")
def data(
    tmp_path_factory: pytest.TempPathFactory,
    examples: list[RelationExample],
    world: KnowledgeGraph,
) -> Path:
    """The files that a hash is made of; no two examples are of one pair, each is its own group."""
    root = tmp_path_factory.mktemp("reports")
    examples = list({(e.head, e.tail): e for e in examples}.values())
    assert len(examples) > N
    for name, part in (("train", examples[N:]), ("dev", examples[:N])):
        lines = [json.dumps(wiki80_row(example)) for example in part]
        (root / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    world.save(root / "kg")
    return root
