"""E-BERT on LAMA in small: no training but the spaces, controls, what is stored, the page."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from experiments.lama.data import LamaWorld
from experiments.lama.mapped import CellResult, MappedStudy, MappedTrial, page
from experiments.lama.probing import read_questions
from experiments.lama.study import HOST, LamaStudy, Row
from experiments.lama.trial import LamaTrial
from kept.objectives.model import KnowledgeForPreTraining
from tests.experiments.test_lama_experiment import folder, study, world  # noqa: F401 - fixtures

CONFIG = Path(__file__).parents[2] / "experiments" / "lama" / "mapped.yaml"


def small() -> MappedStudy:
    committed = MappedStudy.read(CONFIG)
    few = {"width": 8, "epochs": 1, "min_word_count": 1, "min_tokens": 2}
    spaces = {name: message | few for name, message in committed.spaces.items()}
    return committed.model_copy(update={"seeds": (0, 1), "spaces": spaces})


def test_the_study_in_small(
    study: LamaStudy,  # noqa: F811
    world: LamaWorld,  # noqa: F811
    folder: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    torch.set_num_threads(1)
    mapped, out = small(), tmp_path / "run"
    questions = read_questions(folder, study, world)
    first = LamaTrial(study, out, world, questions)
    first.train(Row(HOST))
    without = first.names()
    trial = MappedTrial(mapped, first)
    trial.run_missing()
    cells = trial.stored()
    assert [*cells] == [HOST, *mapped.rows]
    assert [len(cells[name]) for name in (HOST, "labels", "wang2014")] == [1, 1, 2]
    ids = frozenset(item.id for item in questions.items)
    assert without <= ids
    scores = {n: {s: _of_words(message) for s, message in c.items()} for n, c in cells.items()}
    text = page(mapped, scores, ids, len(questions.items), "the command")
    assert all(f"\n| {name} | " in text for name in cells)
    assert all(f"| {one} − {other} | " in text for one, other in mapped.differences)
    host = KnowledgeForPreTraining.from_pretrained(out / HOST)
    result = trial.model(mapped.rows["wang2014"], 0)
    theirs = host.encoder.host.state_dict()
    ours = result._encoder.host.state_dict()  # type: ignore[attr-defined]
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())


def _of_words(record: CellResult) -> CellResult:
    """Two questions are too few for an interval where words of one piece leave one."""
    return {**record, "restricted": record["objects"]}


def test_the_committed_file_names_its_study() -> None:
    committed = MappedStudy.read(CONFIG)
    data = yaml.safe_load(CONFIG.with_name(committed.study).read_text(encoding="utf-8"))
    assert LamaStudy.model_validate(data | committed.changes).facts_per_relation == 12
    assert {row.space for row in committed.rows.values()} - {None} == {*committed.spaces}
