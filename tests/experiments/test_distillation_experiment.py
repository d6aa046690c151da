"""The study of distillation in small: what each row trains on, a run that goes on, the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from experiments.distillation.trial import (
    PEOPLE,
    ROWS,
    TEXTS_EACH,
    DistillationStudy,
    RowAnswers,
    milliseconds,
    page,
    run_seed,
    split_texts,
)
from kept.errors import CheckpointError
from kept.lab.reading.cell import open_host
from kept.lab.reading.trial import Opened, ReadingTrial
from tests.kept.training.tiny_pretraining import write_host

CONFIG = Path(__file__).parents[2] / "experiments" / "distillation" / "plain-host.yaml"


@pytest.fixture
def study(tmp_path: Path) -> DistillationStudy:
    committed = yaml.safe_load(CONFIG.read_text("utf-8"))
    small = {
        "host": str(write_host(tmp_path / "host")), "n_layers": 2, "labelled": 16,
        "transferred": 8, "unseen": 8, "teacher_steps": 2, "student_steps": 2, "batch_size": 4,
    }  # fmt: skip
    return DistillationStudy.model_validate(committed | small)


def _open(study: DistillationStudy) -> Opened:
    return open_host(study.cell(0, steps=1).budget)


def test_nobody_who_is_asked_stands_in_the_wrong_texts(study: DistillationStudy) -> None:
    trial = ReadingTrial.of(study.cell(0, steps=2), _open(study))
    texts = split_texts(study, trial)

    def people(examples: list) -> set[str]:  # type: ignore[type-arg]
        return {e.linked.links[0].entity for e in examples}

    assert len(texts.labelled) == len(people(texts.labelled)) == 16
    assert len(texts.transferred) == 8 * (TEXTS_EACH - 1)
    seen, unseen = (texts.evaluation[name] for name in PEOPLE)
    assert people(seen) == people(texts.transferred)
    assert people(seen).isdisjoint(people(texts.labelled))
    assert people(unseen).isdisjoint(people(texts.labelled) | people(texts.transferred))
    assert len(people(unseen)) == 8


def test_the_study_in_small(study: DistillationStudy, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    messages = [run_seed(study, seed, out, lambda: _open(study)) for seed in (0, 1)]
    assert [*messages[0]] == [*ROWS]
    assert all(len(messages[0][row][people]) == 8 for row in ROWS for people in PEOPLE)
    before = json.loads((out / "0.json").read_text("utf-8"))
    (out / "0.json").write_text(json.dumps({**before, "told": {**messages[0], "labels": "kept"}}))
    again: RowAnswers = run_seed(study, 0, out, lambda: _open(study))
    assert again["labels"] == "kept"  # type: ignore[comparison-overlap]
    other = study.model_copy(update={"student_steps": 3})
    with pytest.raises(CheckpointError, match="came of other"):
        run_seed(other, 0, out, lambda: _open(study))
    spent = milliseconds(study, lambda: _open(study), repeats=1)
    text = page(study, messages, spent, "the command")
    assert all(f"| {row} |" in text for row in ROWS)
    assert "distilled − distilled from another" in text
