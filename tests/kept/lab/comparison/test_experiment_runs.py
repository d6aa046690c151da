"""Runs of an experiment: hashes, records, stages, controls, comparison, the command."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kept.errors import (
    CheckpointError,
    ConfigError,
)
from kept.lab.comparison import trial as experiment_runs
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study import run as engine
from kept.lab.study.comparison_tables import to_json, to_markdown
from kept.lab.study.design import RunKey, planned_runs
from kept.lab.study.effects import finished
from kept.lab.study.run import Study
from kept.lab.study.store import RECORDS, RunRecord, read_records
from kept.methods import BASELINE, METHODS
from kept.training.finetuning.answers import ANSWERS
from kept.training.finetuning.model_costs import size
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import claim
from kg_loaders.errors import InUseError
from tests.kept.tiny_hosts import untaught_encoder

OF_AN_ANSWER = ("set", "index", "id", "group", "gold", "predicted")


def test_runs_are_planned_seed_by_seed_the_baseline_first() -> None:
    keys = [str(key) for key in planned_runs(["none", "kbert"], ["off", "shuffled"], 2)]
    assert keys[:4] == [
        "none, knowledge off, seed 0", "kbert, knowledge true, seed 0",
        "kbert, knowledge off, seed 0", "kbert, knowledge shuffled, seed 0",
    ]  # fmt: skip
    assert len(keys) == 8


def test_a_run_is_recorded_once_and_shares_its_first_stage(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    runs = Study(ComparisonTrial(experiment, experiment_root, tmp_path))
    key = RunKey("kbert", "true", 0)
    assert runs.record(key) is None
    record = runs.run(key)
    assert record is not None
    assert runs.record(key) == record
    assert record.scores["dev"]["n_scored"] == 30
    assert record.costs["steps"] == 2
    assert record.costs["n_texts"] == 16
    assert record.costs["mentions_in_graph"] == record.costs["mentions"] == 60
    left = sorted(path.name for path in (tmp_path / record.run).iterdir())
    assert left == ["curves.png", "log.jsonl", "predictions.jsonl"]
    other = Study(ComparisonTrial(experiment, experiment_root, tmp_path)).run(
        RunKey("kbert", "true", 1)
    )
    assert other is not None
    assert other.run != record.run
    assert other.costs["pretraining"] == record.costs["pretraining"]
    assert set(read_records(tmp_path)) == {record.run, other.run}


def test_a_kill_while_a_run_is_tidied_up_costs_no_run(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path) -> None:
        (folder / "checkpoints" / next(iter(os.listdir(folder / "checkpoints")))).rename(
            folder / "x"
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "remove_other_files", killed)
    runs, key = (
        Study(ComparisonTrial(experiment, experiment_root, tmp_path)),
        RunKey("none", "off", 0),
    )
    with pytest.raises(KeyboardInterrupt):
        runs.run(key)
    assert runs.record(key) is not None
    assert runs.run(key) == runs.record(key)


def test_a_stop_leaves_a_run_that_goes_on(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    key = RunKey("kbert", "true", 0)
    answers = iter([False, True, *[False] * 3, True])
    stopped = Study(
        ComparisonTrial(experiment, experiment_root, tmp_path / "a", None, lambda: next(answers))
    )
    assert stopped.run(key) is None
    assert read_records(tmp_path / "a") == {}
    resumed = Study(ComparisonTrial(experiment, experiment_root, tmp_path / "a")).run(key)
    whole = Study(ComparisonTrial(experiment, experiment_root, tmp_path / "b")).run(key)
    assert resumed is not None
    assert whole is not None
    assert resumed.scores == whole.scores


def test_methods_are_compared_with_their_controls(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def again() -> Any:
        return compare(
            experiment, root=experiment_root, folder=tmp_path, methods=["none", "kbert", "kepler"],
            controls=["off", "shuffled"], seeds=2, announce=lines.append,
        )  # fmt: skip

    compared = again()
    assert not compared.missing
    assert not compared.left_out
    arms = [(row.method, row.knowledge, len(row.seeds)) for row in compared.rows]
    assert ("none", "off", 2) in arms
    assert ("kepler", "shuffled", 2) in arms
    same = {row.method for row in compared.rows if "same_as" in row.record.costs}
    assert same == {"kbert", "kepler"}  # without knowledge they are the host alone
    assert [(p.method, p.theirs) for p in compared.pairs] == [
        ("kbert", ("none", "off")), ("kbert", ("kbert", "shuffled")),
        ("kepler", ("none", "off")), ("kepler", ("kepler", "shuffled")),
    ]  # fmt: skip
    for row in compared.rows:
        assert row.score.estimate == pytest.approx(np.mean(row.seeds))
        assert row.score.low <= row.score.estimate <= row.score.high
    for pair in compared.pairs:
        assert 0 < pair.effect.p <= pair.holm <= 1
    page = to_markdown(compared, "kept compare")
    assert "| K-BERT | true |" in page
    assert "What differs: Everything." in page
    assert "majority" in page
    values = json.loads(json.dumps(to_json(compared)))
    assert set(values["verdicts"]) == {"kbert", "kepler"}
    lines.clear()
    with monkeypatch.context() as patched:  # counts are stored: what is asked is not read again
        patched.setattr(experiment_runs, "read_sets", None)
        assert to_markdown(again(), "kept compare") == page
    assert all("done before" in line for line in lines)
    for path in tmp_path.glob(f"*/{ANSWERS}"):  # as 0.1 stored them: counted from the task's files
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        old = [{k: v for k, v in row.items() if k not in ("counts", "traits")} for row in rows]
        assert all(row.keys() == {*OF_AN_ANSWER} for row in old)
        path.write_text("".join(json.dumps(row) + "\n" for row in old), encoding="utf-8")
    assert to_markdown(again(), "kept compare") == page


def test_what_another_process_is_at_is_asked_for_later(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run, and the first stage of the second, are held until each was asked for twice."""
    monkeypatch.setattr(engine, "POLL_SECONDS", 0.0)
    runs = Study(ComparisonTrial(experiment, experiment_root, tmp_path))
    record = runs.run(RunKey("kbert", "true", 1))
    assert record is not None
    held = [
        tmp_path / runs.of(RunKey("none", "off", 0)).name,
        tmp_path / "pretrained" / record.costs["pretraining"],
    ]
    lines: list[str] = []
    with ExitStack() as locks:
        for path in held:
            path.parent.mkdir(parents=True, exist_ok=True)
            locks.enter_context(claim(path))

        def announce(line: str) -> None:
            lines.append(line)
            if sum("later" in line for line in lines) == 4:
                locks.close()

        compared = compare(
            experiment, root=experiment_root, folder=tmp_path, methods=["none", "kbert"],
            controls=[], seeds=1, announce=announce,
        )  # fmt: skip
    assert sum("another process" in line for line in lines) == 4
    assert [(row.method, row.knowledge) for row in compared.rows] == [
        ("none", "off"), ("kbert", "true"),
    ]  # fmt: skip
    assert not compared.missing


def test_it_waits_only_when_all_that_is_left_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three runs are held until each was tried twice."""
    keys = list(planned_runs(["none", "kbert"], ["off"], 1))
    lines: list[str] = []
    tries = Counter[RunKey]()

    def run(key: RunKey) -> str:
        tries[key] += 1
        lines.append(f"{key.method} {key.knowledge}")
        if key != keys[2] and tries[key] < 3:
            raise InUseError("held")
        return "a record"

    runs: Any = SimpleNamespace(
        record=lambda key: None, run=run, trial=SimpleNamespace(device="cpu")
    )
    monkeypatch.setattr(engine.time, "sleep", lambda seconds: lines.append("wait"))
    done = engine.run_all(runs, keys, announce=lambda line: None)
    assert list(done.done) == keys
    first, second, third = (f"{key.method} {key.knowledge}" for key in keys)
    assert lines == [first, second, third, first, second, "wait", first, second]


def test_runs_that_were_done_before_are_tidied_and_new_ones_are_not() -> None:
    keys = list(planned_runs(["none", "kbert"], ["off"], 1))
    records = {keys[0]: "a record", keys[1]: None, keys[2]: None}
    tidied: list[RunKey] = []
    runs: Any = SimpleNamespace(
        record=records.get,
        run=lambda key: f"{key}",
        tidy=tidied.append,
        trial=SimpleNamespace(device="cpu"),
    )
    outcome = engine.run_all(runs, keys, announce=lambda line: None)
    assert tidied == keys[:1]
    assert list(outcome.done) == keys
    stopped = engine.run_all(runs, keys, announce=lambda line: None, should_stop=lambda: True)
    assert tidied == [keys[0], keys[0]]
    assert stopped.missing == [str(key) for key in keys[1:]]


def test_every_table_tells_the_coverage_and_an_old_run_tells_none(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "root": experiment_root, "folder": tmp_path, "methods": ["none", "kbert"],
        "controls": ["off"], "seeds": 1,
    }  # fmt: skip
    compared = compare(experiment, **options)
    coverage = compared.coverage("kbert")
    assert coverage is not None
    shares = [coverage["shares"][name] for name in ("link", "fact", "both_facts", "read")]
    assert shares[:2] == [1.0, 1.0]
    assert 0 < shares[3] < 1  # a town is no head: K-BERT is shown no fact of it
    cell = " / ".join(f"{100 * share:.1f}" for share in shares)
    page = to_markdown(compared, "kept compare")
    for heading in ("Verdict", "Scores", "Shares, means over seeds", "Differences", "Costs"):
        part = page.partition(f"## {heading}")[2].partition("\n## ")[0]
        assert "samples with link / fact / both facts / shown" in part
        assert cell in part, heading
    assert to_json(compared)["coverage"]["kbert, knowledge true"] == coverage
    assert "Low coverage" not in page

    path = tmp_path / RECORDS
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["method"] == "kbert":
            record["scores"]["dev"]["coverage"]["shares"]["read"] = 0.04
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    low = compare(experiment, **options)
    assert (
        "**Low coverage:** K-BERT: the model gets facts or entities of the graph in 4.0% of the"
        in to_markdown(low, "x")
    )
    for record in records:  # as a run of before it was recorded
        del record["scores"]["dev"]["coverage"], record["scores"]["coverage"]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    old = compare(experiment, **options)
    assert [row.record.run for row in old.rows] == [row.record.run for row in compared.rows]
    assert old.cautions == []
    page = to_markdown(old, "kept compare")
    assert page.count("not recorded") == 1 + 3 + 2 + 1 + 2


def test_a_variant_is_a_row_of_its_own_under_its_own_name(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    variant = {"method": "kbert", "view": {"soft_positions": False, "visible_matrix": False}}
    alone = experiment.model_copy(
        update={"pretraining": None, "methods": {"kbert": {}, "in-line": variant}}
    )
    runs = Study(ComparisonTrial(alone, experiment_root, tmp_path))
    keys = [RunKey(name, "true", 0) for name in ("kbert", "in-line")]
    assert [runs.of(key).settings["method"] for key in keys] == ["kbert", "kbert"]
    assert runs.of(keys[0]).name != runs.of(keys[1]).name
    compared = compare(
        alone, root=experiment_root, folder=tmp_path, methods=["in-line"], controls=["off"], seeds=1
    )
    assert [row.method for row in compared.rows] == ["none", "in-line", "in-line"]
    assert "same_as" in compared.rows[2].record.costs  # without facts it is the host itself
    assert "| in-line | true |" in to_markdown(compared, "kept compare")
    lines = (tmp_path / RECORDS).read_bytes().splitlines(keepends=True)
    (tmp_path / RECORDS).write_bytes(b"".join(lines[::-1]))  # as several processes may leave them
    assert [row.knowledge for row in finished(runs).rows] == ["off", "true", "off"]
    without = Study(
        ComparisonTrial(alone.model_copy(update={"methods": {}}), experiment_root, tmp_path)
    )
    assert [row.method for row in finished(without).rows] == ["none"]
    assert [alone.title(name) for name in alone.methods] == ["K-BERT", "in-line"]
    for faulty, message in (({"a": {}}, "no method 'a'"), ({"a": {"method": "kbert"}}, "differs")):
        with pytest.raises(ConfigError, match=message):
            Experiment.read(experiment_root / "tiny.yaml", {"methods": faulty})


def test_a_cut_record_is_not_counted_and_a_faulty_one_is_named(
    experiment: Experiment, tmp_path: Path
) -> None:
    (tmp_path / RECORDS).write_bytes(b'{"run": "a"')
    assert read_records(tmp_path) == {}
    record = RunRecord("b", "tiny", "none", "off", 0, {}, {}, {})
    Study(ComparisonTrial(experiment, tmp_path, tmp_path)).keep(record)
    assert read_records(tmp_path) == {"b": record}
    (tmp_path / RECORDS).write_bytes(b'{"run": "a"}\n')
    with pytest.raises(CheckpointError, match=r"runs\.jsonl:1"):
        read_records(tmp_path)


@pytest.mark.parametrize("name", METHODS)
def test_only_methods_that_add_nothing_are_the_baseline(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, name: str,
    small_graph: KnowledgeGraph, tokenizer: Any,
) -> None:  # fmt: skip
    runs = Study(ComparisonTrial(experiment, experiment_root, tmp_path))
    is_same_method = experiment.methods.get(name, {}) == experiment.methods.get("none", {})
    encoder = untaught_encoder(name, small_graph, tokenizer)
    is_same = is_same_method and name != BASELINE and size(encoder) == size(encoder.host)
    assert runs.trial._is_baseline(RunKey(name, "off", 0)) == is_same
