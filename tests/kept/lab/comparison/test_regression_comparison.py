"""A task of scores, compared: read by a correlation, with the same intervals and tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from entity_linking import RelationExample
from kept.errors import ConfigError
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.report import differences, write_report
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.comparison_tables import to_markdown
from kept.lab.study.judge import Judge
from kept.lab.study.run import Study
from kept.training.finetuning.answers import ANSWERS, read_answers


@pytest.fixture
def scored(
    experiment: Experiment, experiment_root: Path, examples: list[RelationExample], tmp_path: Path
) -> Experiment:
    """The texts of the made-up world, scored by their length; no first stage."""
    for name, part in (("train", examples[:60]), ("dev", examples[60:100])):
        rows = [f"{len(e.linked.text) / 7:.3f}\t{e.linked.text}\n" for e in part]
        (tmp_path / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
    files = {name: str(tmp_path / f"{name}.tsv") for name in ("train", "dev")}
    task_fields = {"task": "regression", "format": "scores", "link": True, **files}
    fields = experiment.model_dump() | {"task": experiment.task | task_fields, "metric": "pearson"}
    return Experiment.read(None, fields | {"pretraining": None, "methods": {"kbert": {}}})


def test_runs_are_compared_by_their_correlation(
    scored: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    compared = compare(
        scored, root=experiment_root, folder=folder, methods=["none", "kbert"], controls=[], seeds=1
    )
    for row in compared.rows:
        answers = read_answers(folder / row.record.run / ANSWERS, "dev")
        ours, gold = (
            [float(getattr(a, side)[0]) for a in answers] for side in ("predicted", "gold")
        )
        expected = 0.0 if np.ptp(ours) == 0 else np.corrcoef(ours, gold)[0, 1]
        assert row.seeds == (pytest.approx(expected, abs=1e-6),)
        assert row.score.estimate == pytest.approx(row.seeds[0], abs=1e-6)
        assert row.score.low <= row.score.estimate <= row.score.high
    (pair,) = compared.pairs
    interval = pair.effect.interval()
    assert interval.low <= pair.effect.estimate <= interval.high
    assert 0 < pair.effect.p <= 1
    assert "pearson" in to_markdown(compared, "kept compare")
    runs = Study(ComparisonTrial(scored, experiment_root, folder))
    assert differences(compared, Judge(runs), "kbert") == []  # no answer is right or wrong
    write_report(compared, runs, tmp_path / "page.html")
    assert "What K-BERT changed" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", ["accuracy", "micro"])
def test_a_regression_has_no_right_answers_to_count(scored: Experiment, metric: str) -> None:
    with pytest.raises(ConfigError, match="a regression is read by pearson or spearman"):
        Experiment.read(None, scored.model_dump() | {"metric": metric})


def test_other_tasks_have_no_correlation(experiment: Experiment) -> None:
    with pytest.raises(ConfigError, match="a regression is read by pearson or spearman"):
        Experiment.read(None, experiment.model_dump() | {"metric": "spearman"})
