"""Methods compared on the made-up world, with two steps a stage."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from entity_linking import RelationExample
from kept.cli import app
from kept.completion.method_comparison import (
    MethodComparison,
    compare_methods,
    method_names,
    planned,
)
from kept.completion.method_runs import STAGES, MethodRuns, MethodsConfig, Outcome
from kept.completion.method_tables import (
    cost_cells,
    difference_cells,
    loss_cells,
    score_cells,
    to_json,
)
from kept.completion.split import CompletionSplit, split_examples
from kept.controls.conditions import objectives_of
from kept.errors import CheckpointError, ConfigError
from kept.methods import METHODS
from kept.report.demo import methods_config
from kept.report.methods import method_sections
from kept.report.page import page
from kg_loaders import KnowledgeGraph

CHOSEN = ("colake", "kepler")


@pytest.fixture(scope="module")
def split(examples: list[RelationExample], world: KnowledgeGraph) -> CompletionSplit:
    return split_examples(
        examples,
        world,
        n_valid=0,
        n_transductive=12,
        n_inductive=6,
        inductive_heads=["p00", "p01", "p02"],
        generator=np.random.default_rng(0),
    )


@pytest.fixture(scope="module")
def config(host: Path) -> MethodsConfig:
    training = {"steps": 2, "batch_size": 4, "threads": 1, "log_every": 1}
    return MethodsConfig(
        methods=CHOSEN,
        host=str(host),
        builder={"max_neighbours": 2, "max_words": 24, "max_nodes": 64},
        pretraining=training,
        finetuning=training,
        options={"ernie": {"vector_epochs": 1}, "knowbert": {"vector_epochs": 1}},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("methods")


@pytest.fixture(scope="module")
def compared(split: CompletionSplit, config: MethodsConfig, folder: Path) -> MethodComparison:
    return compare_methods(split, config, folder)


def _outcomes(compared: MethodComparison) -> dict[tuple[str, str], Outcome]:
    return {(o.method, o.knowledge): o for o in compared.outcomes}


# ---- what is compared ------------------------------------------------------------------------
def test_every_planned_run_has_a_row_in_every_setting(compared: MethodComparison) -> None:
    wanted = list(planned(CHOSEN))
    for setting, n in (("transductive", 12), ("inductive", 6)):
        rows = [row for row in compared.rows if row.setting == setting]
        assert rows[0].method.startswith("always P")
        assert rows[0].knowledge is None
        assert [(row.method, row.knowledge) for row in rows[1:]] == wanted
        assert {row.n for row in rows} == {n}
    assert compared.missing == ()


def test_rows_count_the_right_predictions(
    compared: MethodComparison, split: CompletionSplit
) -> None:
    for row in compared.rows:
        if row.knowledge is not None:
            predicted = _outcomes(compared)[row.method, row.knowledge].predictions[row.setting]
            gold = [example.relation for example in split.tests[row.setting]]
            n_right = sum(p == g for p, g in zip(predicted, gold, strict=True))
            assert row.accuracy.estimate == pytest.approx(n_right / len(gold))


def test_each_method_is_compared_with_none_and_with_its_own_controls(
    compared: MethodComparison,
) -> None:
    found = {(d.method, d.theirs) for d in compared.differences}
    assert found == {
        ("colake", "none"),
        ("colake", "CoLAKE, knowledge shuffled"),
        ("colake", "CoLAKE, knowledge off"),
        ("kepler", "none"),
        ("kepler", "KEPLER, knowledge shuffled"),
    }


def test_kepler_without_knowledge_is_none_and_is_not_trained(
    compared: MethodComparison, folder: Path
) -> None:
    outcomes = _outcomes(compared)
    off, none = outcomes["kepler", "off"], outcomes["none", "off"]
    assert off.is_baseline
    assert off.predictions == none.predictions
    assert not (folder / "kepler-off" / "pretraining").exists()
    assert not outcomes["colake", "off"].is_baseline


@pytest.mark.parametrize("name", METHODS)
def test_only_methods_that_add_nothing_are_the_baseline(
    split: CompletionSplit, config: MethodsConfig, name: str
) -> None:
    expected = name in ("none", "kbert", "kepler")
    assert MethodRuns(split, config).is_baseline(name) == expected


def test_kbert_trained_without_knowledge_answers_as_none(
    split: CompletionSplit, config: MethodsConfig, compared: MethodComparison, tmp_path: Path
) -> None:
    trained = MethodRuns(split, config).run("kbert", "off", tmp_path)
    none = _outcomes(compared)["none", "off"]
    assert trained is not None
    assert trained.losses == none.losses
    assert trained.predictions == none.predictions


# ---- knowledge -------------------------------------------------------------------------------
def test_conditions_differ_in_graph_links_and_objectives(
    split: CompletionSplit, config: MethodsConfig
) -> None:
    runs = MethodRuns(split, config)
    true, shuffled, off = (
        runs._texts_data("colake", knowledge) for knowledge in ("true", "shuffled", "off")
    )
    assert true.graph.n_triples > 0
    assert true.graph.content_hash != shuffled.graph.content_hash
    assert off.graph.n_triples == 0
    assert not off.frequencies().any()
    assert true.frequencies().any()
    sample: Callable[[Any], Any] = lambda data: data.sample(0, epoch=0, seed=0)  # noqa: E731
    assert int(sample(off).node_kinds.max()) == 0
    assert int(sample(true).node_kinds.max()) > 0
    assert list(objectives_of("colake", "true")) == ["masked_nodes"]
    assert list(objectives_of("colake", "off")) == ["mlm"]


def test_no_graph_joins_an_asked_pair(split: CompletionSplit, config: MethodsConfig) -> None:
    runs = MethodRuns(split, config)
    pairs = {frozenset(e.pair) for part in runs.asked.values() for e in part if e.pair}
    assert pairs
    for graph in runs.graphs["true"]:
        name = graph.entities.name
        joined = {frozenset((name(h), name(t))) for h, _, t in graph.triples.tolist()}
        assert not joined & pairs


def test_entity_vectors_come_from_the_graph_of_the_condition(
    split: CompletionSplit, config: MethodsConfig
) -> None:
    runs = MethodRuns(split, config)
    true, shuffled = (runs._encoder("ernie", k) for k in ("true", "shuffled"))
    vectors = [encoder.get_parameter("entity_vectors.weight") for encoder in (true, shuffled)]
    assert not torch.equal(*vectors)
    fused = [
        torch.nn.utils.parameters_to_vector(e.get_submodule("fusions").parameters())
        for e in (true, shuffled)
    ]
    assert torch.equal(*fused)


@pytest.mark.parametrize("name", [n for n in METHODS if n not in ("none", *CHOSEN)])
def test_every_other_method_runs_with_true_knowledge(
    split: CompletionSplit, config: MethodsConfig, tmp_path: Path, name: str
) -> None:
    found = MethodRuns(split, config).run(name, "true", tmp_path)
    assert found is not None
    assert {key: len(part) for key, part in found.predictions.items()} == {
        "transductive": 12,
        "inductive": 6,
    }
    assert "class" in found.losses


def test_links_counted_are_those_that_a_method_reads(compared: MethodComparison) -> None:
    linked = {key: o.linked for key, o in _outcomes(compared).items()}
    assert linked["colake", "true"] == (36, 36)
    assert linked["colake", "off"] == linked["kepler", "true"] == (0, 36)


# ---- resuming --------------------------------------------------------------------------------
def test_finished_runs_are_read_and_leave_no_weights(
    split: CompletionSplit, config: MethodsConfig, compared: MethodComparison, folder: Path
) -> None:
    told: list[str] = []
    again = compare_methods(split, config, folder, announce=told.append)
    assert again == compared
    assert len(told) == 7
    assert all("read from" in line for line in told)
    assert not list(folder.rglob("*.safetensors"))
    for stage in STAGES:
        assert (folder / "colake-true" / stage / "curves.png").exists()


def test_another_configuration_in_the_same_folder_is_refused(
    split: CompletionSplit, config: MethodsConfig, compared: MethodComparison, folder: Path
) -> None:
    with pytest.raises(CheckpointError, match="none-off belongs to another run"):
        compare_methods(split, config.model_copy(update={"seed": 1}), folder)


def test_a_run_that_was_stopped_goes_on_to_the_same_end(
    split: CompletionSplit, config: MethodsConfig, compared: MethodComparison, tmp_path: Path
) -> None:
    only = config.model_copy(update={"methods": ("none",)})
    part = dataclasses.replace(MethodRuns(split, only), should_stop=lambda: True)
    assert part.run("none", "off", tmp_path / "none-off") is None
    found = compare_methods(split, only, tmp_path)
    whole = _outcomes(compared)["none", "off"]
    assert found.outcomes[0].predictions == whole.predictions
    assert found.outcomes[0].losses == whole.losses


def test_without_time_runs_are_missing_and_named(
    split: CompletionSplit, config: MethodsConfig, tmp_path: Path
) -> None:
    found = compare_methods(split, config, tmp_path, should_stop=lambda: True)
    assert found.missing[:2] == ("none", "CoLAKE, knowledge true")
    assert len(found.missing) == 7
    html = page("t", "", method_sections(found, config, tmp_path))
    assert "Not finished, run again to go on: none, CoLAKE" in html


# ---- tables ----------------------------------------------------------------------------------
def test_tables_name_methods_conditions_and_losses(
    compared: MethodComparison, config: MethodsConfig, folder: Path
) -> None:
    scores = score_cells(compared.rows, compared.outcomes)
    assert ["KEPLER", "off: the same model as none"] in [line[:2] for line in scores]
    assert len(difference_cells(compared.differences)) == 10
    assert len(cost_cells(compared.outcomes)) == 6
    losses = {tuple(line[:3]) for line in loss_cells(compared.outcomes)}
    assert ("KEPLER", "true", "ke") in losses
    assert ("CoLAKE", "off", "mlm") in losses
    values = json.loads(json.dumps(to_json(compared)))
    assert {d["verdict"] for d in values["differences"]} >= {"no difference is shown"}
    html = page("t", "", method_sections(compared, config, folder))
    assert html.count("<figure>") == 3
    assert "10 comparisons" in html


def test_names_are_checked() -> None:
    assert method_names("all") == tuple(METHODS)
    with pytest.raises(ConfigError, match="no method 'kbird'"):
        method_names("ernie,kbird")
    with pytest.raises(ConfigError, match="name methods"):
        method_names(",")


def test_the_shipped_configuration_is_read() -> None:
    config = methods_config(("kbert",))
    assert config.methods == ("kbert",)
    assert config.finetuning.batch_size == config.pretraining.batch_size


def test_the_command_refuses_unknown_methods(tmp_path: Path) -> None:
    run = tmp_path / "run"
    found = CliRunner().invoke(app, ["demo", "--methods", "kbird", "--output", str(run)])
    assert found.exit_code != 0
    assert "kbird" in f"{found.output} {found.exception}"
    assert not run.exists()
    found = CliRunner().invoke(app, ["demo", "--budget-minutes", "3", "--output", str(run)])
    assert found.exit_code != 0
    assert not run.exists()
