"""What a report knows of a folder of runs: every run by its hash, and what was asked for."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from entity_linking import RelationExample
from kept.errors import CheckpointError
from kept.evaluation.statistics import holm
from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.comparison_tables import conditions, score_table
from kept.lab.study.design import RunKey, planned_runs
from kept.lab.study.effects import finished
from kept.lab.study.requests import REQUESTED, RequestedRow, read_requested, store_requested
from kept.lab.study.run import Study
from kept.lab.study.verdicts import Compared
from kept.training.finetuning.answers import ANSWERS
from kg_loaders import KnowledgeGraph
from tests.kept.lab.comparison.written_runs import N, compare_again, experiment_of, say, write_run
from tests.kept.tiny_task_files import wiki80_row


def test_one_text_asked_twice_is_one_group_also_in_runs_stored_before(
    examples: list[RelationExample], world: KnowledgeGraph, tmp_path: Path
) -> None:
    rows = [wiki80_row(example) for example in examples[:N]]
    for row in rows:
        row["h"].pop("id"), row["t"].pop("id")  # no pair: a text is what is asked about
    twice = [{**row, "h": row["t"], "t": row["h"]} for row in rows]  # other marks, the same text
    root = tmp_path / "data"
    root.mkdir()
    for name, part in (("dev", [*rows, *twice]), ("train", rows)):
        text = "\n".join(map(json.dumps, part))
        (root / f"{name}.txt").write_text(text, encoding="utf-8")
    world.save(root / "kg")
    task = experiment_of("x").task | {"format": "semeval", "keep_repeats": True}
    experiment = Experiment(name="twice", task=task, methods={"kbert": {}})
    runs = Study(ComparisonTrial(experiment, root, tmp_path / "runs"))
    for key, answers in ((RunKey("none", "off", 0), "az"), (RunKey("kbert", "true", 0), "aa")):
        write_run(runs, key, list(answers) * N)
    compared = finished(runs)
    n_texts = len({example.linked.text for example in examples[:N]})
    assert {row.score.n for row in compared.rows} == {n_texts}
    assert compared.pairs[0].effect.n_items == n_texts
    assert compared.n_regrouped == 2
    assert "2 of the runs were stored with other groups" in conditions(compared)
    for row in compared.rows:
        path = runs.folder / row.record.run / ANSWERS
        stored = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for answer in stored:
            answer["group"] = rows[answer["index"] % N]["token"]
            answer["group"] = " ".join(answer["group"])
        text = "".join(json.dumps(answer) + "\n" for answer in stored)
        path.write_text(text, encoding="utf-8")
    assert finished(runs).n_regrouped == 0
    assert "other groups" not in conditions(finished(runs))
    path.write_text(text.replace('"index": 0,', '"index": 80,'), encoding="utf-8")
    with pytest.raises(CheckpointError, match="answers item 80, but the split has 80"):
        finished(runs)


def test_what_no_run_could_read_is_wrong_in_an_official_comparison(
    examples: list[RelationExample], world: KnowledgeGraph, tmp_path: Path
) -> None:
    rows = [wiki80_row(example) for example in examples[::3][:N]]
    root = tmp_path / "data"
    root.mkdir()
    world.save(root / "kg")
    task = experiment_of("x").task | {"format": "tacred", "keep_repeats": True}
    tokens = [
        {"token": r["token"], "relation": "a", "subj_start": 0, "subj_end": 0, "obj_start": 1,
         "obj_end": 1} for r in rows
    ]  # fmt: skip
    for name in ("dev", "train"):
        (root / f"{name}.txt").write_text(json.dumps(tokens), encoding="utf-8")
    experiment = Experiment(name="cut", task=task, methods={"kbert": {}}, metric="official")
    runs = Study(ComparisonTrial(experiment, root, tmp_path / "runs"))
    for key in (RunKey("none", "off", 0), RunKey("kbert", "true", 0)):
        write_run(runs, key, ["a"] * 3)  # what is right of N: the rest was cut off
        path = runs.folder / "runs.jsonl"
        path.write_text(path.read_text().replace('"n_asked":3', f'"n_asked":{N}'))
    compared = finished(runs)
    recall = 3 / N
    for row in compared.rows:
        assert row.score.estimate == row.seeds[0] == pytest.approx(2 * recall / (1 + recall))
        assert (row.n, row.n_asked) == (3, N)
    assert compared.baseline == 1.0  # as the runs say
    page = to_markdown_scores(compared)
    assert f"3 of {N}" in page
    assert f"{N - 3} items whose targets were cut off with their texts count as wrong." in (
        conditions(compared)
    )


def to_markdown_scores(compared: Compared) -> str:
    return "\n".join(" | ".join(map(str, cells)) for cells in score_table(compared).rows)


def test_a_run_counts_whoever_recorded_it(data: Path, tmp_path: Path) -> None:
    first = Study(ComparisonTrial(experiment_of("tiny"), data, tmp_path))
    second = Study(ComparisonTrial(experiment_of("second"), data, tmp_path))
    write_run(first, RunKey("none", "off", 0), ["z"] * N)
    write_run(first, RunKey("ernie", "true", 0), ["a"] * N)  # no row of the second
    write_run(second, RunKey("kbert", "true", 0), ["a"] * N)
    verdict = say(compare_again(second, []))
    assert verdict == (
        [("none", "off", 1), ("kbert", "true", 1)],
        "no verdict from one seed: other seeds may give another result",
    )
    assert say(finished(second)) == verdict
    assert [row.method for row in finished(first).rows] == ["none", "kbert", "ernie"]


def test_p_is_corrected_over_the_whole_table(data: Path, tmp_path: Path) -> None:
    """By itself the shuffled control would be beaten; among four questions it is not."""
    runs = Study(ComparisonTrial(experiment_of("tiny"), data, tmp_path))
    n_right: dict[Knowledge, int] = {
        "true": 20, "off": 10, "shuffled": 15, "random-entity": 20, "random-tokens": 20,
    }  # fmt: skip
    for (knowledge, n), seed in product(n_right.items(), range(3)):
        key = RunKey("none" if knowledge == "off" else "kbert", knowledge, seed)
        write_run(runs, key, ["a"] * n + ["z"] * (N - n))
    pairs = finished(runs).pairs
    assert len(pairs) == 4
    assert [pair.holm for pair in pairs] == holm([pair.effect.p for pair in pairs])
    (shuffled,) = (pair for pair in pairs if pair.effect.p < 0.05 < pair.holm)
    assert shuffled.effect.interval().low > 0
    assert (shuffled.theirs[1], shuffled.is_better) == ("shuffled", False)


def test_a_report_says_what_is_not_finished(data: Path, tmp_path: Path) -> None:
    runs = Study(ComparisonTrial(experiment_of("tiny"), data, tmp_path))
    helps = "knowledge helps; every effect is visible with"
    for key, answer in zip(planned_runs(["kbert"], ["off"], 2), "zaz" * 2, strict=True):
        write_run(runs, key, [answer] * N)
    assert say(finished(runs))[1] == f"{helps} 2 seeds"  # nobody asked for more
    unfinished = compare_again(runs, ["off", "shuffled"], seeds=2)
    assert unfinished.missing == tuple(f"kbert, knowledge shuffled, seed {seed}" for seed in (0, 1))
    assert unfinished.conclusion("kbert") == "better than none so far; not every run is finished"
    report = finished(runs)
    assert (say(report), report.missing) == (say(unfinished), unfinished.missing)
    compare_again(runs, ["off"], seeds=2)  # the last word on this row
    assert say(finished(runs))[1] == f"{helps} 2 seeds"
    assert finished(runs).missing == ()
    compare_again(runs, ["off"], seeds=3)
    assert [name.partition(",")[0] for name in finished(runs).missing] == ["none", "kbert", "kbert"]
    assert finished(runs).conclusion("kbert").startswith("better than none so far")
    for key, answer in zip(list(planned_runs(["kbert"], ["off"], 3))[6:], "zaz", strict=True):
        write_run(runs, key, [answer] * N)
    assert finished(runs).conclusion("kbert") == f"{helps} 3 seeds"


def test_what_was_asked_of_other_rows_stays_asked(data: Path, tmp_path: Path) -> None:
    runs = Study(ComparisonTrial(experiment_of("tiny"), data, tmp_path))
    for key, answer in zip(planned_runs(["kbert"], ["off"], 1), "zaz", strict=True):
        write_run(runs, key, [answer] * N)
    why = "it would not be a control"
    store_requested(
        tmp_path, "tiny", {"kbert": RequestedRow(("off", "shuffled"), 1, {"shuffled": why})}
    )
    store_requested(tmp_path, "tiny", {"ernie": RequestedRow((), 1), "gone": RequestedRow((), 3)})
    store_requested(tmp_path, "other", {"kbert": RequestedRow(("off",), 9)})
    report = finished(runs)
    assert report.left_out == {"kbert, knowledge shuffled": why}
    assert report.missing == ("ernie, knowledge true, seed 0",)  # no word on a row that is gone
    assert report.conclusion("kbert").startswith("no verdict from one seed")
    (tmp_path / REQUESTED).write_text("[]")
    with pytest.raises(CheckpointError, match="does not say what was requested"):
        read_requested(tmp_path, "tiny")


def test_a_row_may_go_with_some_kinds_of_knowledge_alone(data: Path, tmp_path: Path) -> None:
    methods = {"kbert": {}, "ernie": {"options": {"vectors": "here"}}}  # refused with knowledge off
    runs = Study(ComparisonTrial(experiment_of("tiny", methods=methods), data, tmp_path))
    for key in planned_runs(["kbert"], ["off"], 1):
        write_run(runs, key, ["a"] * N)
    write_run(runs, RunKey("ernie", "true", 0), ["a"] * N)
    assert [row.method for row in finished(runs).rows] == ["none", "kbert", "kbert", "ernie"]
