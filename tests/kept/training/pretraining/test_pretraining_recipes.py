"""`kept pretrain --method X` takes the recipe of X, `--as-published` the settings of its paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.methods import METHODS
from kept.training.pretraining.config import PretrainConfig
from kept.training.pretraining.recipes import with_defaults, with_recipe
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything


@pytest.mark.parametrize("name", METHODS)
def test_what_a_recipe_says_lies_under_what_is_given(name: str) -> None:
    recipe = METHODS[name].recipe
    fields = with_recipe({"method": name})
    assert fields == {"method": name, **recipe.fields()}
    assert "training" not in fields  # rates are for a task
    assert with_recipe({"method": name, "as_published": True}) == {
        "method": name, "as_published": True,
    }  # fmt: skip
    view = {"max_branches": 3} if name == "kbert" else {}
    assert with_recipe({"method": name, "view": view})["view"] == view | {
        key: value for key, value in recipe.view.items() if key not in view
    }


def test_the_usual_method_is_colake_and_faults_stay_for_the_configuration() -> None:
    assert with_recipe({})["options"] == {"anchor_rows": "masked"}
    assert with_recipe({"method": "colak"}) == {"method": "colak"}
    assert with_recipe({"method": "kbert", "treebank": ["a"]}).get("view") is None
    lengths = with_defaults({"method": "none", "host": "minilm"})["graph"]
    assert lengths == {"max_words": 512, "max_nodes": 1024}


@pytest.fixture
def files(tmp_path: Path, small_graph: KnowledgeGraph) -> list[str]:
    values = write_everything(tmp_path, small_graph)
    host, text, kg = values["host"], values["text"][0], values["kg"]
    return ["--kg", str(kg), "--text", str(text), "--host", str(host), "--steps", "2",
            "--batch-size", "2"]  # fmt: skip


def pretrain(*words: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["pretrain", *map(str, words)])
    assert result.exit_code == 0, result.output
    written = json.loads((Path(str(words[-1])) / "pretrain.json").read_text(encoding="utf-8"))
    return dict(written)


@pytest.mark.parametrize("name", ["ernie", "knowbert", "kbert", "words", "colake", "ebert"])
def test_every_recipe_pre_trains(name: str, files: list[str], tmp_path: Path) -> None:
    written = pretrain("--method", name, *files, "-o", tmp_path / "run")
    recipe = METHODS[name].recipe.fields()
    for field in recipe:
        assert {key: written[field][key] for key in recipe[field]} == recipe[field]
    assert written["as_published"] is False


def test_a_run_goes_on_as_the_one_that_it_starts_from(files: list[str], tmp_path: Path) -> None:
    objective = ("--objective", "mlm")
    published = pretrain(
        "--method", "kbert", "--as-published", *objective, *files, "-o", tmp_path / "1"
    )
    assert "max_branches" not in published["view"]
    start = ("--method", "kbert", *objective, *files, "--start-from")
    again = pretrain(*start, tmp_path / "1", "-o", tmp_path / "2")
    assert again["as_published"]
    assert again["view"] == published["view"]
    pretrain("--method", "kbert", *objective, *files, "-o", tmp_path / "3")
    usual = pretrain(*start, tmp_path / "3", "-o", tmp_path / "4")
    assert usual["view"]["max_branches"] == 8
    file = tmp_path / "run.yaml"
    fields = {"method": "kbert", "as_published": True, "objectives": {"mlm": {}}}
    file.write_text(yaml.safe_dump(fields), encoding="utf-8")
    assert pretrain("--config", file, *files, "-o", tmp_path / "5")["as_published"]


def test_a_task_on_a_recipe_run_reads_as_finetune_does(files: list[str], tmp_path: Path) -> None:
    """What the folder says is what `kept finetune --model` and `AutoEncoder` take."""
    from kept.auto import saved_builder, saved_view

    written = pretrain("--method", "kbert", "--objective", "mlm", *files, "-o", tmp_path / "run")
    assert saved_view(tmp_path / "run")["max_branches"] == 8
    assert saved_builder(tmp_path / "run").directions == "both"
    assert PretrainConfig.read(None, written).as_published is False
