"""From answers to counts and scores, for answers made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.errors import CheckpointError, EvaluationError
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.items import EvaluationItems
from kept.lab.study.judge import Judge
from kept.lab.study.slices import FACT, KNOWLEDGE, NOTHING
from kept.lab.study.store import RunRecord
from kept.tasks.datasets.example import TaskExample
from kept.training.finetuning.answers import ANSWERS, Answer, read_answers, write_answers
from kg_loaders import Triple, graph_from_records

GRAPH = graph_from_records([Triple("a", "r", "b")])
Row = tuple[Sequence[str], Sequence[str]]
MakeJudge = Callable[..., tuple[Judge, Callable[..., RunRecord]]]


@pytest.fixture
def judged(tmp_path: Path) -> MakeJudge:
    """A judge of so many asked texts, and a way to store the answers of a run, as 0.1 did.

    A text holds no link but the first, to an entity with a fact.
    """

    def make_judge(
        metric: str, n_asked: int, **task: Any
    ) -> tuple[Judge, Callable[..., RunRecord]]:
        texts = [TaskExample(LinkedText(f"text {i}", ()), ("r",)) for i in range(n_asked)]
        mention = Link(Mention(0, 4), (Candidate("a", 1.0, 1.0),), "a", 1.0)
        texts[0] = TaskExample(LinkedText("text 0", (mention,)), ("r",))
        config: Any = SimpleNamespace(**{"no_relation": None, "format": "wiki80"} | task)
        experiment = Experiment(name="e", task=task, metric=metric, methods={"kbert": {}})
        items = EvaluationItems("dev", texts, texts[:1], GRAPH, config)
        trial = SimpleNamespace(counted=items.counted)
        runs: Any = SimpleNamespace(folder=tmp_path, plan=experiment, trial=trial)

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

    return make_judge


ROWS: list[Row] = [(["a"], ["a"]), (["none"], ["a"]), (["b"], ["none"]), (["none"], ["none"])]


def test_micro_f1_leaves_the_relation_none_out(judged: MakeJudge) -> None:
    judge, stored = judged("micro", 4, task="relation", no_relation="none")
    counts = judge.counts(stored("run", ROWS))
    assert counts.tolist() == [[1, 1, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert judge.score(counts) == pytest.approx(0.5)
    judge, stored = judged("micro", 4, task="relation")
    counts = judge.counts(stored("plain", ROWS))
    assert counts.tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]]


def test_of_a_mask_the_others_count_nothing(judged: MakeJudge) -> None:
    judge, stored = judged("accuracy", 4, task="relation")
    counts = judge.counts(stored("run", ROWS), np.array([True, False, False, True]))
    assert counts.tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0], [1, 1, 1]]


def test_the_majority_of_a_run(judged: MakeJudge) -> None:
    judge, stored = judged("micro", 4, task="relation")
    record = stored("run", ROWS)
    scored = replace(record, scores={"dev": {"baseline": {"micro": {"f1": 0.3}}}})
    alone = replace(record, scores={"dev": {}})
    assert (judge.majority(scored), judge.majority(alone)) == (0.3, None)


def test_accuracy_wants_all_labels_of_an_item(judged: MakeJudge) -> None:
    judge, stored = judged("accuracy", 3, task="typing")
    rows: list[Row] = [(["a", "b"], ["b", "a"]), (["a"], ["a", "b"]), ([], ["a"])]
    counts = judge.counts(stored("run", rows))
    assert counts.tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1]]
    assert judge.score(counts) == pytest.approx(1 / 3)


def test_answers_to_what_is_not_asked_are_refused(judged: MakeJudge) -> None:
    judge, stored = judged("accuracy", 4, task="relation")
    assert np.shape(judge.counts(stored("whole", ROWS))) == (4, 3)
    with pytest.raises(CheckpointError, match="answers item 4, but the split has 4"):
        judge.counts(stored("more", ROWS, first=1))


def test_a_run_without_answers_has_no_counts(judged: MakeJudge) -> None:
    judge, stored = judged("accuracy", 1, task="relation")
    assert len(judge.counts(stored("nothing", []))) == 0


def test_runs_must_have_answered_the_same(judged: MakeJudge) -> None:
    judge, stored = judged("accuracy", 5, task="relation")
    whole, part, other = stored("a", ROWS), stored("b", ROWS[:3]), stored("c", ROWS, first=1)
    judge.require_same_items([whole, whole])
    with pytest.raises(EvaluationError, match=r"run b .* answered 3 items, run a .* 4, 1 of them"):
        judge.require_same_items([whole, part])
    with pytest.raises(EvaluationError, match=r"4 items, run a .* 4, 2 of them"):
        judge.require_same_items([whole, other])


def test_runs_with_other_groups_are_counted(judged: MakeJudge) -> None:
    judge, stored = judged("accuracy", 4, task="relation")
    alike, regrouped = stored("a", ROWS, groups="wxyz"), stored("b", ROWS, groups="wwyz")
    assert judge.n_regrouped([alike]) == 0
    assert judge.n_regrouped([alike, regrouped, regrouped]) == 2


def test_counts_that_are_stored_are_read_and_no_file_of_the_task(judged: MakeJudge) -> None:
    judge, stored = judged("official", 5, task="relation", format="tacred")
    record = stored("run", ROWS)
    path = judge.study.folder / record.run / ANSWERS
    old, slices = judge.counts(record), judge.slices(record)
    assert old.tolist() == [[0, 1, 1]] * 4 + [[0, 0, 1]]  # what is cut off is to be found, too
    assert [answer.is_cut_off for answer in judge.answers(record)] == [False] * 4 + [True]
    write_answers(path, judge.answers(record))
    assert read_answers(path, "dev") == judge.answers(record)
    alone = Judge(SimpleNamespace(folder=judge.study.folder, plan=judge.study.plan))  # type: ignore[arg-type]
    assert (alone.counts(record) == old).all()
    assert alone.n_regrouped([record]) == 0
    assert {name: mask.tolist() for name, mask in alone.slices(record)[KNOWLEDGE].items()} == {
        FACT: [True, False, False, False, False], NOTHING: [False, True, True, True, True],
    }  # fmt: skip
    assert alone.slices(record).keys() == slices.keys()
    assert alone.answered(record, alone.slices(record)[KNOWLEDGE][NOTHING]) == (3, 3)
    micro = SimpleNamespace(asked="dev", metric="micro", task={})
    one = Judge(SimpleNamespace(folder=judge.study.folder, plan=micro))  # type: ignore[arg-type]
    assert one.counts(record).tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("damage", ["a line is gone", "no traits"])
def test_stored_counts_that_are_not_whole_are_refused(judged: MakeJudge, damage: str) -> None:
    judge, stored = judged("accuracy", 4, task="relation")
    record = stored("run", ROWS)
    rows = list(judge.answers(record))
    if damage == "no traits":
        rows[1] = msgspec.structs.replace(rows[1], traits={"has_entity": 3})
    else:
        del rows[1]
    write_answers(judge.study.folder / record.run / ANSWERS, rows)
    with pytest.raises(CheckpointError, match=r"run/predictions.jsonl .*run kept compare"):
        Judge(judge.study).slices(record)


def test_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    """With what a comparison adds, and without."""
    answer = Answer("dev", 0, "a", "é", ("x", "y"), ())
    full = Answer("dev", 1, "", "g", ("x",), ("y",), False, {"accuracy": [0.0, 1.0]}, {"n": 1})
    gone = msgspec.structs.replace(answer, index=2, is_cut_off=True, counts={})
    other = msgspec.structs.replace(answer, set="further/dev")
    write_answers(tmp_path / ANSWERS, [answer, full, gone, other])
    assert read_answers(tmp_path / ANSWERS, "dev") == [answer, full, gone]
    assert read_answers(tmp_path / ANSWERS, "further/dev") == [other]
    assert len((tmp_path / ANSWERS).read_bytes().splitlines()) == 4
    (tmp_path / ANSWERS).write_text('\n{"set": "dev", "index": "0"}\n', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"predictions.jsonl:2 is not an answer .*index"):
        read_answers(tmp_path / ANSWERS, "dev")
