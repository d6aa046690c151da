"""A study is a trial: settings that decide a run, and answers. The engine does the rest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kept.lab.study.design import Design, PrimaryContrast, RunKey
from kept.lab.study.effects import finished
from kept.lab.study.run import Study, run_missing
from kept.lab.study.store import read_records
from kept.lab.study.tables import Table
from kept.lab.study.trial import Answers, Trial
from kept.lab.study.verdicts import headline
from kept.methods import BASELINE
from kept.training.finetuning.answers import ANSWERS, Answer

N = 40
TRAITS = {
    "has_entity": True, "has_fact": True, "degree": 1, "popularity": 0, "is_seen": False,
    "n_words": 1,
}  # fmt: skip


class CoinDesign(Design):
    """Coins, of which one kind falls on its head more often."""

    name: str = "coins"
    metric: str = "accuracy"
    asked: str = "test"
    primary: PrimaryContrast | None = None
    published: tuple[Any, ...] = ()
    differs: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CoinTrial(Trial):
    design: CoinDesign
    folder: Path
    runs: list[RunKey] = field(default_factory=list)

    @property
    def plan(self) -> CoinDesign:
        return self.design

    def settings(self, key: RunKey) -> dict[str, Any]:
        return {"row": key.method, "condition": key.knowledge, "seed": key.seed}

    def same_as(self, key: RunKey) -> RunKey | None:
        is_baseline = key.method == BASELINE or key.knowledge != "off"
        return None if is_baseline else RunKey(BASELINE, "off", key.seed)

    def run(self, key: RunKey, run_folder: Path) -> Answers:
        self.runs.append(key)
        n_right = 36 - key.seed if key.knowledge == "true" else 20
        rows = [
            Answer(
                "test", i, str(i), str(i), ("head",), ("head" if i < n_right else "tail",),
                counts={"accuracy": [float(i < n_right), 1.0, 1.0]}, traits=TRAITS,
            )
            for i in range(N)
        ]  # fmt: skip
        return Answers(rows, {"test": {"n_asked": N, "n_scored": N}}, {"seconds": 0.0})


def test_a_trial_is_run_once_compared_and_copied_where_it_is_the_baseline(tmp_path: Path) -> None:
    trial = CoinTrial(CoinDesign(), tmp_path)
    study = Study(trial)
    outcome = run_missing(study, methods=["kbert"], controls=["shuffled", "off"], seeds=3)
    assert len(outcome.done) == 12
    assert len(trial.runs) == 9  # three copies of the baseline
    copy = outcome.done[RunKey("kbert", "off", 1)]
    assert copy.costs["same_as"] == outcome.done[RunKey(BASELINE, "off", 1)].run
    assert (tmp_path / copy.run / ANSWERS).is_file()
    run_missing(study, methods=["kbert"], controls=["shuffled", "off"], seeds=3)
    assert len(trial.runs) == 9
    assert len(read_records(tmp_path)) == 12
    compared = finished(study)
    pair = next(pair for pair in compared.pairs if pair.theirs[0] == BASELINE)
    assert pair.effect.estimate == (35 - 20) / N
    assert headline(compared).startswith("kbert: knowledge helps.")


def test_a_stopped_run_is_missing_and_made_by_the_next_command(tmp_path: Path) -> None:
    study = Study(CoinTrial(CoinDesign(), tmp_path))
    stopped = run_missing(study, methods=["kbert"], controls=[], seeds=1, should_stop=lambda: True)
    assert stopped.missing == ["none, knowledge off, seed 0", "kbert, knowledge true, seed 0"]
    assert run_missing(study, methods=["kbert"], controls=[], seeds=1).missing == []
    again = Study(replace(study.trial, runs=[]))
    assert again.record(RunKey("kbert", "true", 0)) is not None
    assert again.trial.runs == []


def test_a_table_is_written_in_each_form() -> None:
    table = Table(("row", "", "p"), [["=1", "a", 0.5]], "Title", "name")
    assert table.markdown() == "| row | | p |\n| --- | --- | --- |\n| =1 | a | 0.5 |\n"
    assert table.compact() == "| row | | p |\n|---|---|---|\n| =1 | a | 0.5 |"
    assert table.csv() == "row,,p\n'=1,a,0.5\n"
    assert "<caption>Title</caption>" in table.html()
    assert table.without_last_column().columns == ("row", "")
    assert not Table(("row",), [])
