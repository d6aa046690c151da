"""Recipes under what a user gives, and warnings before and after a training that cannot read."""

from __future__ import annotations

from typing import Any

import pytest

from kept.errors import ConfigError
from kept.lab.comparison.experiment import Experiment
from kept.methods import METHODS
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.recipes import budget_warning, with_recipe
from kept.training.finetuning.shortfall import shortfall

TASK = {"task": "typing", "method": "kbert"}
FILES = {"format": "tagme", "train": "t", "kg": "kg"}


def filled(**fields: Any) -> dict[str, Any]:
    return with_recipe({**TASK, **fields})


def config(**fields: Any) -> FinetuneConfig:
    training = {"steps": 100, "batch_size": 16} | fields.pop("training", {})
    return FinetuneConfig.read(None, filled(**FILES, training=training, **fields))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("task", ["classification", "mention", "typing", "relation", "tagging"])
def test_every_recipe_makes_a_configuration(name: str, task: str) -> None:
    fields = {"task": task, "method": name, "format": "table", "train": "t", "kg": "kg",
              "training": {"steps": 4, "batch_size": 2}}  # fmt: skip
    config_ = FinetuneConfig.read(None, with_recipe(fields))
    config_.all_head_options()
    assert config_.method == name
    assert config_.with_absolute_paths().options == config_.options  # none of them is a path


def test_what_is_given_goes_before_the_recipe() -> None:
    assert filled()["view"] == {"max_branches": 8}
    assert filled(view={"max_branches": 3})["view"] == {"max_branches": 3}
    both = filled(graph={"max_words": 64})["graph"]
    assert both == {"directions": "both", "max_words": 64}
    assert filled(markers="kadapter")["markers"] == "kadapter"
    assert "head_options" not in filled(markers="kadapter")
    assert filled(head="transform").get("markers") is None
    assert filled(as_published=True) == {**TASK, "as_published": True}
    assert with_recipe({"task": "typing", "model": "run"}) == {"task": "typing", "model": "run"}


@pytest.mark.parametrize(
    ("fields", "rates"),
    [
        ({}, {"learning_rate": 1e-3, "host_learning_rate": 2e-4}),
        ({"host": "minilm:3"}, {"learning_rate": 1e-3, "host_learning_rate": 2e-4}),
        ({"host": "bert-base"}, {"learning_rate": 1e-3 / 3, "host_learning_rate": 2e-4 / 3}),
        ({"training": {"learning_rate": 1e-5}}, {"learning_rate": 1e-5}),
        ({"strategy": "features"}, {"learning_rate": 1e-3}),
        ({"freeze": ["encoder"]}, {"learning_rate": 1e-3}),
        ({"lora": {}}, {"learning_rate": 1e-3}),
    ],
)
def test_rates_follow_host_and_adaptation(fields: dict[str, Any], rates: dict[str, float]) -> None:
    training = with_recipe({"task": "typing", "method": "ernie", **fields})["training"]
    rates_of_config = {name: value for name, value in training.items() if name.endswith("rate")}
    assert rates_of_config == pytest.approx(rates)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "more",
    [
        {"strategy": "features"}, {"freeze": ("encoder",)}, {"lora": {"rank": 2}}, {"houlsby": {}},
        {"layer_mix": {}}, {"head": "transform"}, {"head": "pooled"}, {"markers": "ernie-typing"},
    ],
)  # fmt: skip
def test_recipes_go_with_every_way_to_adapt(name: str, more: dict[str, Any]) -> None:
    config_ = config(method=name, **more)
    assert config_.method == name


def test_a_shorter_warm_up_fits_a_short_run() -> None:
    assert filled(training={"steps": 50})["training"]["warmup_steps"] == 5
    assert filled(training={"steps": 5000})["training"]["warmup_steps"] == 20
    assert filled(training={"steps": 50, "warmup_steps": 9})["training"]["warmup_steps"] == 9


def test_a_budget_in_which_nothing_is_read_is_said_before_training() -> None:
    assert budget_warning(config(), 300) is None
    short = budget_warning(config(training={"steps": 20}), 300)
    assert short is not None
    assert "960 examples" in short
    assert "this run reads 320" in short
    assert budget_warning(config(method="none", training={"steps": 2}), 300) is None
    assert budget_warning(config(knowledge="off", training={"steps": 2}), 300) is None


SCORES: dict[str, Any] = {
    "accuracy": {"estimate": 0.149}, "baseline": {"accuracy": {"estimate": 0.189}},
    "coverage": {"shares": {"read": 1.0}},
}  # fmt: skip


def test_a_score_below_the_most_frequent_answer_is_said_with_a_cause() -> None:
    warning = shortfall("test", SCORES, config(), 300)
    assert warning is not None
    assert "0.149 is no better" in warning
    assert "0.189" in warning
    assert "kept fit" in warning
    low = SCORES | {"coverage": {"shares": {"read": 0.1}}}
    assert "10% of the texts" in str(shortfall("test", low, config(), 300))
    published = FinetuneConfig.read(
        None, {**TASK, **FILES, "as_published": True, "training": {"steps": 100, "batch_size": 16}}
    )
    assert "--as-published" in str(shortfall("test", SCORES, published, 300))
    few = config(training={"steps": 10})
    assert "more --steps" in str(shortfall("test", SCORES, few, 300))
    good = SCORES | {"accuracy": {"estimate": 0.6}}
    assert shortfall("test", good, config(), 300) is None
    blind = config(method="none")
    assert "kept fit" in str(shortfall("dev", SCORES, blind, 300))


def test_rows_of_a_comparison_have_recipes_unless_as_published() -> None:
    task = {**FILES, "task": "typing", "training": {"steps": 4, "batch_size": 2}}
    fields = {"name": "e", "task": task, "methods": {"kbert": {"view": {"max_pieces": 4}}}}
    row = Experiment(**fields).row("kbert")
    lengths = row["view"].keys() - {"max_branches", "max_pieces"}
    assert lengths == {"max_nodes"}  # as long as the host reads
    assert row["view"].items() >= {"max_branches": 8, "max_pieces": 4}.items()
    published = Experiment(**fields, as_published=True).row("kbert")
    assert published == {**task, "view": {"max_pieces": 4}}


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(ConfigError, match="kbrt"):
        with_recipe({"task": "typing", "method": "kbrt"})


def test_a_field_that_is_none_does_not_hide_the_recipe() -> None:
    """As options of the command line are where they are not given."""
    assert filled(view=None, graph=None) == filled()
    assert filled(view=None)["view"] == {"max_branches": 8}
    assert filled(markers=None) == filled()
