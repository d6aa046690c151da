"""A fine-tuning run on documents: splits, links, what is hidden, and the official score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entity_linking.annotations.relations import RelationExample
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.run import FinetuneRun
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_task_files import document_row


@pytest.fixture(scope="module")
def run(
    examples: list[RelationExample],
    world: KnowledgeGraph,
    host: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> FinetuneRun:
    folder = tmp_path_factory.mktemp("documents")
    world.save(folder / "kg")
    people = list(dict.fromkeys(e.head for e in examples))
    rows = [document_row([e for e in examples if e.head == p][::3], p) for p in people]
    (folder / "docs.json").write_text(json.dumps(rows), encoding="utf-8")
    values = {
        "task": "document_relations", "format": "docred", "train": folder / "docs.json",
        "dev_share": 0.2, "test_share": 0.2, "max_asked": 30, "kg": folder / "kg", "link": True,
        "method": "colake", "host": str(host), "graph": {"max_words": 24},
        "training": {"steps": 1, "batch_size": 4, "device": "cpu"},
    }  # fmt: skip
    return assemble(FinetuneConfig.model_validate(values))


def test_documents_are_split_whole_and_linked(run: FinetuneRun, world: KnowledgeGraph) -> None:
    sets = {"train": run.train, **run.evaluation}
    titles = {name: {e.group for e in data.examples} for name, data in sets.items()}
    assert not titles["train"] & titles["dev"]
    assert not titles["train"] & titles["test"]
    for data in run.evaluation.values():
        seen = [e for e in data.examples if e.document_pair]
        for title in {e.group for e in seen}:
            pairs = {
                (e.document_pair.head, e.document_pair.tail)
                for e in seen
                if e.group == title and e.document_pair
            }
            assert len(pairs) >= 10  # five or six of six pairs of entities, in both orders
        for example in seen:
            assert example.pair is not None
            words = [example.linked.text[t.start : t.end].strip("@# ") for t in example.targets]
            assert list(example.pair) == words
            ends = [world.entities.find(name) for name in example.pair]
            triples = run.train.graph.triples
            assert not [t for t in triples.tolist() if {t[0], t[2]} == set(ends)]
    assert run.facts["n_triples_removed"] > 0
    unrelated = [e for e in run.train.examples if not e.labels]
    assert 0 < len(unrelated) <= 3 * (len(run.train.examples) - len(unrelated))


def test_the_score_counts_facts_that_were_not_asked(run: FinetuneRun) -> None:
    predicted, metrics = run.score("dev")
    documents = {
        e.group: e.document_pair.document for e in run.evaluation["dev"].examples if e.document_pair
    }
    n_facts = sum(len(document.facts) for document in documents.values())
    n_asked = sum(len(e.labels) for e in run.evaluation["dev"].examples)
    assert n_asked <= n_facts
    pairs = zip(predicted, run.evaluation["dev"].examples, strict=True)
    right = sum(len(set(p) & set(e.labels)) for p, e in pairs)
    official = metrics["official"]
    assert official["name"] == "F1"
    assert official["n"] == len(documents)
    assert official["beside"]["recall"] == pytest.approx(right / n_facts)
    assert metrics["baseline"]["official"]["estimate"] == 0
