"""From answers to counts and scores, for answers made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.comparison import judging
from kept.comparison.experiment import Experiment, RunRecord
from kept.comparison.judging import Judge
from kept.datasets.example import TaskExample
from kept.errors import CheckpointError, EvaluationError
from kept.finetuning.scoring.answers import ANSWERS

Row = tuple[Sequence[str], Sequence[str]]
Made = Callable[..., tuple[Judge, Callable[..., RunRecord]]]


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A judge of so many asked texts, and a way to store the answers of a run."""

    def made(metric: str, n_asked: int, **task: Any) -> tuple[Judge, Callable[..., RunRecord]]:
        texts = [TaskExample(LinkedText(f"text {i}", ()), ("r",)) for i in range(n_asked)]
        sets = {"train": texts[:1], "dev": texts}
        monkeypatch.setattr(judging, "read_sets", lambda *_: (sets,))
        experiment = Experiment(name="e", task=task, metric=metric, methods={"kbert": {}})
        runs: Any = SimpleNamespace(
            folder=tmp_path, experiment=experiment, of=lambda _: SimpleNamespace(config=None),
            data=SimpleNamespace(graph=None),
        )  # fmt: skip

        def stored(name: str, rows: Sequence[Row], groups: str = "", first: int = 0) -> RunRecord:
            (tmp_path / name).mkdir()
            lines = [
                {"set": "dev", "index": first + i, "id": f"{i}", "predicted": ours, "gold": gold,
                 "group": groups[i] if groups else f"{i}"}
                for i, (ours, gold) in enumerate(rows)
            ]  # fmt: skip
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (tmp_path / name / ANSWERS).write_text(text, encoding="utf-8")
            return RunRecord(name, "e", "kbert", "true", 0, {}, {}, {})

        return Judge(runs), stored

    return made


ROWS: list[Row] = [(["a"], ["a"]), (["none"], ["a"]), (["b"], ["none"]), (["none"], ["none"])]


def test_micro_f1_leaves_the_relation_none_out(judged: Made) -> None:
    judge, stored = judged("micro", 4, task="relation", no_relation="none")
    counts = judge.counts(stored("run", ROWS))
    assert counts.tolist() == [[1, 1, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert judge.score(counts) == pytest.approx(0.5)
    judge, stored = judged("micro", 4, task="relation")
    counts = judge.counts(stored("plain", ROWS))
    assert counts.tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]]


def test_accuracy_wants_all_labels_of_an_item(judged: Made) -> None:
    judge, stored = judged("accuracy", 3, task="typing")
    rows: list[Row] = [(["a", "b"], ["b", "a"]), (["a"], ["a", "b"]), ([], ["a"])]
    counts = judge.counts(stored("run", rows))
    assert counts.tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1]]
    assert judge.score(counts) == pytest.approx(1 / 3)


def test_answers_to_what_is_not_asked_are_refused(judged: Made) -> None:
    judge, stored = judged("accuracy", 4, task="relation")
    assert np.shape(judge.counts(stored("whole", ROWS))) == (4, 3)
    with pytest.raises(CheckpointError, match="answers item 4, but 4 are asked"):
        judge.counts(stored("more", ROWS, first=1))


def test_a_run_without_answers_has_no_counts(judged: Made) -> None:
    judge, stored = judged("accuracy", 1, task="relation")
    assert len(judge.counts(stored("nothing", []))) == 0


def test_runs_must_have_answered_the_same(judged: Made) -> None:
    judge, stored = judged("accuracy", 5, task="relation")
    whole, part, other = stored("a", ROWS), stored("b", ROWS[:3]), stored("c", ROWS, first=1)
    judge.require_same_items([whole, whole])
    with pytest.raises(EvaluationError, match=r"run b .* answered 3 items, run a .* 4, 1 of them"):
        judge.require_same_items([whole, part])
    with pytest.raises(EvaluationError, match=r"4 items, run a .* 4, 2 of them"):
        judge.require_same_items([whole, other])


def test_runs_with_other_groups_are_counted(judged: Made) -> None:
    judge, stored = judged("accuracy", 4, task="relation")
    alike, fewer = stored("a", ROWS, groups="wxyz"), stored("b", ROWS, groups="wwyz")
    assert judge.n_regrouped([alike]) == 0
    assert judge.n_regrouped([alike, fewer, fewer]) == 2
