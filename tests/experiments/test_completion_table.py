"""The table of all completion scorers: its plan is well formed, its cells are run once."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.completion_table import trial as command
from experiments.completion_table.graphs import NAMES, Evaluated, TableGraph, prepare
from experiments.completion_table.record import Record, judge, place_of
from experiments.completion_table.tables import to_markdown
from experiments.completion_table.trial import MODEL, Plan, TableTrial
from kept.apps.cli.kgc.train_options import TrainOptions
from kept.kge.splits import read_splits
from kept.kge.trained import read_description
from kg_loaders import SourceError

N = 12
TABLE = command.CONFIG


def chain(folder: Path, letter: str) -> Path:
    """A chain with its inverse, and false triples beside it."""
    folder.mkdir()
    lines = [f"{letter}{i:02}\tnext\t{letter}{i + 1:02}" for i in range(N)]
    lines += [f"{letter}{i + 1:02}\tprevious\t{letter}{i:02}" for i in range(N)]
    held = {"test": [lines[3], lines[N + 8]], "valid": [lines[6], lines[N + 1], lines[10]]}
    rest = [line for line in lines if line not in held["test"] + held["valid"]]
    for name, part in (held | {"train": rest}).items():
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    for name in ("valid", "test"):
        wrong = f"{letter}01\tnext\t{letter}07\n{letter}02\tprevious\t{letter}09\n"
        (folder / f"{name}_negatives.txt").write_text(wrong)
    return folder


def test_every_scorer_of_the_plan_is_told_what_it_takes() -> None:
    config = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    assert set(config["graphs"]) == set(NAMES)
    plans = command.read_plans(config)
    for plan in plans.values():
        assert set(plan.graphs) <= set(NAMES)
        if plan.train:
            report = {**plan.train, "weights": None} | ({"of": (Path("a"),)} if plan.of else {})
            TrainOptions.of(seed=0, holdout=0.05, **report)
        assert all(plans[one.name] == one for one in plan.of)
        assert plan.is_table == (plan.graphs == ("codex-s", "codex-s-unseen"))


def test_the_table_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = chain(tmp_path / "own", "a"), chain(tmp_path / "other", "b")
    graph = TableGraph("small", first, (Evaluated("seen", first), Evaluated("unseen", other)))
    vectors = Plan("ComplEx", {"name": "complex", "width": 8, "epochs": 2})
    paths = Plan("ULTRA", {"name": "ultra", "width": 8, "epochs": 1})
    plans = {
        plan.name: plan
        for plan in (
            Plan("degree", {}), vectors, paths, Plan("mix", {"name": "mix"}, of=(vectors, paths)),
            Plan("SimKGC", {"name": "simkgc"}),
        )
    }  # fmt: skip
    run = tmp_path / "run"
    trial = TableTrial(plans, graph, (0,), run, tmp_path)
    trial.run_missing([(name, 0) for name in ("degree", "ComplEx", "ULTRA")])
    own_alone = replace(trial, graph=replace(graph, parts=graph.parts[:1]))
    assert own_alone.cell("mix", 0)["parts"].keys() == {"seen"}
    assert replace(trial, all_seeds=(1,)).stored() == {}
    stored = {row: cells[0] for row, cells in trial.stored().items()}
    stored["mix"] = own_alone.stored()["mix"][0]
    cells = {("small", row): [cell] for row, cell in stored.items()}
    monkeypatch.setattr(command, "train_scorer", None)
    again = trial.run("ComplEx", 0)  # the scorer is there: it is evaluated alone
    before = stored["ComplEx"]
    assert again["parts"] == before["parts"]
    assert before["parts"].keys() == {"seen"}
    assert stored["ULTRA"]["parts"]["unseen"]["strata"]["unseen"]["n_questions"] == 4
    whole: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    config = whole | {"graphs": ["small"], "pairs": [["mix", "ComplEx"]]}
    record = judge(cells, config["pairs"], run, Record())
    page = to_markdown(config, plans, cells, Record())
    assert "- mix against ComplEx: not compared, no folder had the answers of both.\n" in page
    page = to_markdown(config, plans, cells, record)
    for words in ("## small, seen: 2 triples, 13 entities", "Not run on small: SimKGC.",
                  "- mix against ComplEx: MRR", "ComplEx separates true from false"):  # fmt: skip
        assert words in page


SMALL = {
    "title": "small", "graphs": ["small"], "seeds": [0, 1], "published": [], "differs": "all.",
    "scorers": {
        "degree": {}, "ComplEx": {"train": {"name": "complex", "width": 8, "epochs": 2}},
        "ULTRA": {"train": {"name": "ultra", "width": 8, "epochs": 1}},
        "mix": {"train": {"name": "mix"}, "of": ["ComplEx", "ULTRA"]},
    },
    "pairs": [["mix", "ComplEx"], ["ComplEx", "degree"]],
}  # fmt: skip


def test_cells_of_an_earlier_run_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = chain(tmp_path / "own", "a")
    graph = TableGraph("small", folder, (Evaluated("seen", folder),))
    monkeypatch.setattr(command, "prepare", lambda *_: graph)
    monkeypatch.setenv("KEPT_DATA", str(tmp_path))
    config = tmp_path / "table.yaml"
    config.write_text(yaml.safe_dump(SMALL, sort_keys=False))

    def run(name: str, *options: str) -> tuple[list[str], str]:
        """The cells that were run, and the page."""
        command.main([str(config), "-o", str(tmp_path / name), *options])
        began = re.findall("^small, (.*)$", capsys.readouterr().out, re.MULTILINE)
        return began, (tmp_path / name / "results.md").read_text()

    some = ("--scorers", "degree,ComplEx", "--seeds", "1")
    began, page = run("first", *some)
    assert began == ["degree, seed 0", "ComplEx, seed 0"]
    assert run("first", *some) == ([], page)
    shutil.copyfile(tmp_path / "first/results.json", tmp_path / "results.json")
    report = run("second", *some)  # the baseline's questions are of use, the folder has no other
    assert report == (["degree, seed 0"], page)
    assert run("anew", *some, "--anew")[0] == began
    named = ("--earlier", str(tmp_path / "first/results.json"), "--minutes", "0")
    assert run("named", *some, *named) == ([], page)

    began, page = run("second", "--scorers", "ComplEx")
    assert began == ["ComplEx, seed 1"]
    assert re.search(r"^\| ComplEx \| 2: \S+ to \S+ \| \S+ \[\S+, \S+\] of seed 0 \|", page, re.M)
    assert "- ComplEx of seed 0 against degree: MRR" in page
    began, page = run("second", "--scorers", "mix", "--seeds", "1")
    assert began == ["mix, seed 0", "ComplEx, seed 0", "ULTRA, seed 0"]
    assert "of seed" not in page
    assert "- mix against ComplEx: MRR" in page
    with pytest.raises(SystemExit):
        run("second", "--graphs", "large")
    assert "has no large" in capsys.readouterr().err


def test_intervals_of_other_results_are_not_kept(tmp_path: Path) -> None:
    def cell(seed: int, mrr: float) -> dict[str, Any]:
        parts = {"seen": {"filtered": {"mrr": mrr}}}
        return {"graph": "g", "scorer": "A", "seed": seed, "parts": parts}

    def interval(*seeds: int) -> dict[str, Any]:
        return {"graph": "g", "part": "seen", "seeds": {"A": list(seeds)}, "interval": {}}

    first, second = cell(0, 0.5), cell(1, 0.25)
    earlier = Record([first, second], [interval(0), interval(0, 1), interval(1)])
    for now, kept in (
        ([first, second], [interval(0, 1)]), ([first, cell(1, 0.125)], [interval(0)]),
        ([cell(0, 0.125), second], [interval(1)]), ([cell(0, 0.125)], []),
    ):  # fmt: skip
        assert judge({("g", "A"): now}, [], tmp_path, earlier).intervals == kept


def test_a_scorer_of_other_options_is_trained_again(tmp_path: Path) -> None:
    folder = chain(tmp_path / "own", "a")
    graph = TableGraph("small", folder, (Evaluated("seen", folder),))
    for n_epochs in (1, 2):
        plan = Plan("ComplEx", {"name": "complex", "width": 8, "epochs": n_epochs})
        TableTrial({"ComplEx": plan}, graph, (0,), tmp_path, tmp_path).cell("ComplEx", 0)
        training = read_description(place_of(tmp_path, "small", "ComplEx", 0) / MODEL)["training"]
        assert len(training["losses"]) == n_epochs


def test_the_committed_page_is_that_of_the_committed_record() -> None:
    config = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    plans, record = command.read_plans(config), Record.read(TABLE.with_name("results.json"))
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in record.cells:
        cells.setdefault((cell["graph"], cell["scorer"]), []).append(cell)
        assert cell["settings"]["train"] == plans[cell["scorer"]].on(cell["graph"])
    page = to_markdown(config, plans, cells, record)
    assert page == TABLE.with_name("results.md").read_text(encoding="utf-8")


@pytest.mark.data
def test_graphs_are_laid_out(data_root: Path, tmp_path: Path) -> None:
    graph = prepare(data_root, "WN18RR_v1", tmp_path)
    splits = read_splits(graph.parts[0].folder, holdout=0.05, seed=0)
    assert [len(rows) for rows in splits.as_mapping().values()] == [1618, 185, 188]
    assert any(splits.graph.description(i) for i in range(20))
    graph = prepare(data_root, "codex-s-unseen", tmp_path)
    splits_, other = (read_splits(one.folder, holdout=0.05, seed=0) for one in graph.parts)
    assert len(splits_.test) == 1377
    assert len(other.test) == 2941
    seen = {splits_.graph.entities.name(i) for i in range(splits_.graph.n_entities)}
    ends = {other.graph.entities.name(int(i)) for i in other.test[:, [0, 2]].ravel()}
    assert len(ends - seen) == 203
    with pytest.raises(SourceError, match="is none of"):
        prepare(data_root, "nothing", tmp_path)
