"""The table of all completion scorers: its plan is well formed, its cells are run once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.completion_table import __main__ as command
from experiments.completion_table import cells as cells_module
from experiments.completion_table.cells import Plan, is_done, place_of, run_cell, settings_of
from experiments.completion_table.graphs import NAMES, Asked, TableGraph, prepare
from experiments.completion_table.tables import to_markdown
from kept.cli.kgc.train_options import TrainOptions, require_options
from kept.kge.splits import read_splits
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
    for plan in plans:
        assert set(plan.graphs) <= set(NAMES)
        if plan.train:
            told = {**plan.train, "weights": None} | ({"of": (Path("a"),)} if plan.of else {})
            require_options(TrainOptions(seed=0, holdout=0.05, **told))
        assert set(plan.of) <= {one.name for one in plans}
        assert plan.is_table == (plan.graphs == ("codex-s", "codex-s-unseen"))


def test_the_table_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = chain(tmp_path / "own", "a"), chain(tmp_path / "other", "b")
    graph = TableGraph("small", own, (Asked("seen", own), Asked("unseen", other)))
    plans = [
        Plan("degree", {}), Plan("ComplEx", {"name": "complex", "width": 8, "epochs": 2}),
        Plan("ULTRA", {"name": "ultra", "width": 8, "epochs": 1}),
        Plan("mix", {"name": "mix"}, of=("ComplEx", "ULTRA")), Plan("SimKGC", {"name": "simkgc"}),
    ]  # fmt: skip
    run, found = tmp_path / "run", {}
    for plan in plans[:3]:
        run_cell(plan, graph, 0, run, tmp_path)
    own_alone = replace(graph, asked=graph.asked[:1])
    mixed = run_cell(plans[3], own_alone, 0, run, tmp_path)
    assert mixed["parts"].keys() == {"seen"}
    for plan in plans[:4]:
        place = place_of(run, "small", plan.name, 0)
        settings = settings_of(plan, own_alone if plan.of else graph, 0, tmp_path)
        assert is_done(place, settings)
        assert not is_done(place, settings | {"seed": 1})
        found["small", plan.name] = [json.loads((place / "cell.json").read_text())]
    monkeypatch.setattr(cells_module, "train_scorer", None)
    again = run_cell(plans[1], graph, 0, run, tmp_path)  # the scorer stands: it is asked alone
    before = found["small", "ComplEx"][0]
    assert again["parts"] == before["parts"]
    assert before["parts"].keys() == {"seen"}
    assert found["small", "ULTRA"][0]["parts"]["unseen"]["strata"]["unseen"]["n_questions"] == 4
    whole: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    config = whole | {"graphs": ["small"], "pairs": [["mix", "ComplEx"]]}
    page = to_markdown(config, plans, found, run)
    for words in ("## small, seen: 2 triples, 13 entities", "Not run on small: SimKGC.",
                  "- mix against ComplEx: MRR", "ComplEx tells true from false"):  # fmt: skip
        assert words in page


@pytest.mark.data
def test_graphs_are_laid_out(data_root: Path, tmp_path: Path) -> None:
    graph = prepare(data_root, "WN18RR_v1", tmp_path)
    splits = read_splits(graph.asked[0].folder, holdout=0.05, seed=0)
    assert [len(rows) for rows in splits.as_mapping().values()] == [1618, 185, 188]
    assert any(splits.graph.description(i) for i in range(20))
    graph = prepare(data_root, "codex-s-unseen", tmp_path)
    own, other = (read_splits(one.folder, holdout=0.05, seed=0) for one in graph.asked)
    assert len(own.test) == 1377
    assert len(other.test) == 2941
    seen = {own.graph.entities.name(i) for i in range(own.graph.n_entities)}
    ends = {other.graph.entities.name(int(i)) for i in other.test[:, [0, 2]].ravel()}
    assert len(ends - seen) == 203
    with pytest.raises(SourceError, match="is none of"):
        prepare(data_root, "nothing", tmp_path)
