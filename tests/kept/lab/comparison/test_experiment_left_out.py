"""Rows that a comparison leaves out, with their reasons, and those it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kept.errors import (
    ConfigError,
    EvaluationError,
    NoControlError,
    NoKnowledgeError,
)
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.comparison_tables import to_markdown
from kept.lab.study.design import RunKey
from kept.lab.study.effects import finished
from kept.lab.study.run import Study
from kept.lab.study.store import read_records
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from tests.kept.tiny_task_files import relation_examples, write_task_file


def test_rows_that_answered_other_items_are_not_paired(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    dev = experiment_root / "dev.txt"
    rows = [json.loads(line) for line in dev.read_text(encoding="utf-8").splitlines()]
    for row in rows[::3]:  # eight words hold head and tail of the other rows alone
        row["token"][row["t"]["pos"][0] : row["t"]["pos"][0]] = ["old"] * 8
        row["t"]["pos"] = [position + 8 for position in row["t"]["pos"]]
    dev.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    short = {"graph": {"max_words": 8}}
    changed = {"methods": {"kbert": {"view": {"predicate": False}, **short}}}
    options = {"experiment": experiment.model_copy(update=changed), "root": experiment_root}
    rows_and_seeds = {"methods": ["none", "kbert"], "controls": [], "seeds": 1}
    with pytest.raises(EvaluationError, match=r"\(kbert\) answered \d+ items, run \w+ \(none\) 30"):
        compare(**options, **rows_and_seeds, folder=tmp_path)  # type: ignore[arg-type]


def test_a_control_that_changes_nothing_is_left_out_with_a_reason(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    alone = experiment.model_copy(update={"pretraining": None})
    trained = Study(ComparisonTrial(experiment, experiment_root, tmp_path)).run(
        RunKey("kepler", "true", 0)
    )
    assert trained is not None
    model = tmp_path / "pretrained" / trained.costs["pretraining"]
    run = Study(ComparisonTrial(alone, experiment_root, tmp_path))
    config = run.trial.config(RunKey("kepler", "shuffled", 0)).model_dump()
    fields = FinetuneConfig.read(None, config | {"model": model, "method": None})
    with pytest.raises(NoControlError, match="it would not be a control"):
        assemble(fields)
    # what is not trained before has nothing to take away: every kind of knowledge is left out
    compared = compare(
        alone,
        root=experiment_root,
        folder=tmp_path,
        methods=["kepler", "kbert"],
        controls=["shuffled"],
        seeds=1,
    )
    assert list(compared.left_out) == ["kepler, knowledge true", "kepler, knowledge shuffled"]
    for why in compared.left_out.values():
        assert "reads the graph in pre-training alone" in why
    assert {row.method for row in compared.rows} == {"none", "kbert"}
    assert finished(run).left_out == compared.left_out
    page = to_markdown(compared, "kept compare")
    assert "## Left out\n\n- kepler, knowledge true: KEPLER reads the graph in pre-training" in page


def test_links_without_facts_and_another_entity_at_every_reading(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    without_pretraining = experiment.model_copy(update={"pretraining": None})
    controls: list[Any] = ["anchors-only", "redrawn"]
    options: dict[str, Any] = {"root": experiment_root, "methods": ["none", "kbert", "colake"]}
    compared = compare(without_pretraining, folder=tmp_path, controls=controls, seeds=1, **options)
    assert not compared.left_out
    kinds = {(row.method, row.knowledge) for row in compared.rows}
    assert kinds == {("none", "off")} | {
        (name, kind) for name in ("kbert", "colake") for kind in ("true", *controls)
    }
    same = {(row.method, row.knowledge) for row in compared.rows if "same_as" in row.record.costs}
    assert same == {("kbert", "anchors-only")}, "branches alone are gone; CoLAKE keeps its anchors"
    with pytest.raises(ConfigError, match="would still have the true ones"):
        compare(experiment, folder=tmp_path, controls=["redrawn"], seeds=1, **options)


def test_a_first_stage_that_a_control_leaves_as_it_is_is_left_out(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    """Ends of a relation have one type here, whichever way its objects are shuffled."""
    compared = compare(
        experiment.model_copy(update={"methods": {"wklm": {}}}), root=experiment_root,
        folder=tmp_path, methods=["none", "wklm"], controls=["shuffled", "random-entity"], seeds=1,
    )  # fmt: skip
    assert list(compared.left_out) == ["wklm, knowledge shuffled"]
    assert "rewritten as under the true graph" in compared.left_out["wklm, knowledge shuffled"]
    kinds = {(row.method, row.knowledge) for row in compared.rows}
    assert kinds == {("none", "off"), ("wklm", "true"), ("wklm", "random-entity")}


def test_rows_that_get_nothing_from_the_graph_are_left_out_and_all_of_them_stop(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    task = experiment.task | {"format": "semeval"}  # its texts bring no link
    for name in ("train", "dev"):
        write_task_file(tmp_path / f"{name}.txt", "semeval", relation_examples()[:60])
    task |= {name: str(tmp_path / f"{name}.txt") for name in ("train", "dev")}
    task |= {"keep_repeats": True}
    options: dict[str, Any] = {
        "experiment": experiment.model_copy(update={"task": task}),
        "root": experiment_root, "folder": tmp_path, "controls": ["off", "shuffled"], "seeds": 1,
    }  # fmt: skip
    with pytest.raises(NoKnowledgeError, match=r"no method gets anything .*kbert: nothing of"):
        compare(**options, methods=["none", "kbert"])
    compared = compare(**options, methods=["none", "kbert", "kepler"])
    assert list(compared.left_out) == ["kbert, knowledge true", "kbert, knowledge shuffled"]
    assert "`link: true`" in compared.left_out["kbert, knowledge true"]
    rows_compared = {(row.method, row.knowledge) for row in compared.rows}
    assert ("kepler", "true") in rows_compared


def test_that_nothing_reads_is_said_before_the_baseline_is_trained(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    write_task_file(tmp_path / "bare.txt", "semeval", relation_examples()[:60])
    unlinked_files = {name: str(tmp_path / "bare.txt") for name in ("train", "dev")}
    task = {**experiment.task, **unlinked_files, "format": "semeval", "keep_repeats": True}
    plain = experiment.model_copy(update={"task": task, "pretraining": None})
    with pytest.raises(NoKnowledgeError, match=r"no method gets anything .*kbert: nothing of"):
        compare(
            plain, root=experiment_root, folder=tmp_path / "runs", methods=["none", "kbert"],
            controls=[], seeds=1,
        )  # fmt: skip
    assert read_records(tmp_path / "runs") == {}
