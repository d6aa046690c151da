"""The study of E-BERT's linking in small: data, rows, what is stored, the page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from entity_linking.annotations.relations import read_trex
from entity_linking.mentions import LinkedText
from experiments.ebert.trial import (
    NAMES,
    Data,
    LinkingStudy,
    LinkingTrial,
    by_text,
    counts_of,
    page,
    spans_of,
)
from experiments.wk_completion.data import RelationData
from kept.errors import CheckpointError
from kg_loaders import KnowledgeGraph, Text, TextKind
from kg_loaders.damage import DamageReport
from tests.kept.tiny_lama import write_lama
from tests.kept.training.tiny_pretraining import write_host

CONFIG = Path(__file__).parents[2] / "experiments" / "ebert" / "linking.yaml"


@pytest.fixture
def study(tmp_path: Path) -> LinkingStudy:
    small = {"host": str(write_host(tmp_path / "host")), "n_layers": 1, "n_train": 5, "n_asked": 3,
             "steps": 2, "batch_size": 4, "seeds": (0, 1), "max_words": 40}  # fmt: skip
    committed = LinkingStudy.read(CONFIG)
    space = committed.space | {"width": 8, "epochs": 1, "min_word_count": 1, "min_tokens": 2}
    return committed.model_copy(update=small | {"space": space})


@pytest.fixture
def data(study: LinkingStudy, tmp_path: Path, small_graph: KnowledgeGraph) -> Data:
    folder = write_lama(tmp_path / "lama")
    report = DamageReport()
    examples = tuple(read_trex(folder / "TREx", report, distinct=True))
    world = RelationData(examples, small_graph, (), report)
    return Data(study, world, [Text("Q90", TextKind.ALIAS, "old", "en")])


def test_the_study_in_small(study: LinkingStudy, data: Data, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    trial = LinkingTrial(study, data, tmp_path / "run")
    trial.run_missing()
    cells = trial.stored()
    assert [*cells] == [NAMES, *study.rows]
    assert [len(of_seed) for of_seed in cells.values()] == [1, 2, 2, 2]
    text = page(study, cells, "the command")
    assert all(f"\n| {row} | " in text for row in cells)
    assert all(f"| {one} − {other} | " in text for one, other in study.differences)
    texts = [text for of_row in cells.values() for cell in of_row.values() for text in cell]
    assert all(0 <= right <= min(predicted, gold) for right, predicted, gold in texts)
    other = dataclasses.replace(trial, study=study.model_copy(update={"steps": 3}))
    with pytest.raises(CheckpointError, match="came of other settings"):
        other.cell("joint", 0)


def test_texts_have_the_links_of_all_their_facts(data: Data) -> None:
    texts = [*data.train, *data.questions]
    assert len({text.text for text in texts}) == len(texts) == 8
    assert all(len(text.links) >= 2 for text in texts)
    assert "Q90" in {c.entity for t in data.proposed for k in t.links for c in k.candidates}


def test_spans_are_counted_by_words_and_entity(data: Data) -> None:
    for text in data.train:
        for first, last, entity in spans_of(text):
            words = text.text.split(" ")[first : last + 1]
            (link,) = [k for k in text.links if k.entity == entity][:1]
            assert link.entity == entity
            assert words
    gold = data.train[:2]
    assert counts_of(gold, gold) == [[len(t.links)] * 3 for t in gold]
    nothing = [LinkedText(t.text, ()) for t in gold]
    assert [row[:2] for row in counts_of(gold, nothing)] == [[0, 0], [0, 0]]


def test_by_text_merges(data: Data, tmp_path: Path) -> None:
    folder = write_lama(tmp_path / "again")
    examples = tuple(read_trex(folder / "TREx", DamageReport(), distinct=True))
    actual = by_text(RelationData(examples, data.graph, (), DamageReport()))
    assert len(actual) == len({e.linked.text for e in examples})
