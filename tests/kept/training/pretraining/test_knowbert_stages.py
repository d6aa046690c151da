"""KnowBERT's two stages as two runs: the linker on a frozen host, then everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.errors import ConfigError
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.log import read_log
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything

KAR = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}


@pytest.fixture(scope="module")
def settings(
    tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("stages")
    return write_everything(folder, small_graph) | {"method": "knowbert"}


def pretrain(settings: dict[str, Any], folder: Path) -> Path:
    config = folder.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    result = CliRunner().invoke(app, ["pretrain", "--config", str(config), "-o", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def moved(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in one.keys() & other.keys() if not torch.equal(one[name], other[name])}


def test_the_linker_first_then_everything(
    settings: dict[str, Any], small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    training = settings["training"] | {"learning_rate": 0.01}
    first = pretrain(
        settings
        | {
            "options": {"kars": [KAR]},
            "objectives": {"el": {}},
            "train_only": ["linker"],
            "training": training,
        },
        tmp_path / "first",
    )
    host = load_file(Path(settings["host"]) / "model.safetensors")
    after = load_file(first / "model.safetensors")
    hosted = {k.removeprefix("encoder.host."): v for k, v in after.items()}
    assert len(host.keys() & hosted.keys()) > 20
    assert not moved(host, hosted)
    losses = [row["losses"]["el"] for row in read_log(first / "log.jsonl")]
    assert losses[-1] < losses[0]

    second = pretrain(
        settings | {"start_from": str(first), "training": training}, tmp_path / "second"
    )
    weights = load_file(second / "model.safetensors")
    names = moved(after, weights)
    assert "encoder.linkers.kg.entities.vectors.weight" not in names
    for part in ("host.encoder", "linkers.kg.scorer", "recontextualisations.kg.attention"):
        assert any(name.startswith(f"encoder.{part}") for name in names), part
    assert list(read_log(second / "log.jsonl")[0]["losses"]) == ["mlm", "el"]
    model = KnowledgeForPreTraining.from_pretrained(second, graph=small_graph)
    assert not model.encoder.linker("kg").entities.vectors.weight.requires_grad


def test_the_recontextualisation_stays_as_it_starts_in_the_first_stage(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    staged = settings | {
        "options": {"kars": [KAR]},
        "objectives": {"el": {}},
        "train_only": ["linker"],
    }
    start, _ = assemble(PretrainConfig.model_validate(staged))
    end = load_file(pretrain(staged, tmp_path / "run") / "model.safetensors")
    names = moved(start.state_dict(), end)
    assert names
    assert all(name.startswith("encoder.linkers.") for name in names)
    assert "encoder.linkers.kg.entities.vectors.weight" not in names


def test_a_second_graph_by_options(settings: dict[str, Any], tmp_path: Path) -> None:
    second = {**KAR, "name": "again", "layer": 1, "loss": "softmax", "kg": settings["kg"]}
    run = pretrain(
        settings
        | {
            "options": {"kars": [{**KAR, "layer": 0}, second]},
            "view": {"further": [{"kg": settings["kg"], "labelled": True}]},
        },
        tmp_path / "run",
    )
    rows = read_log(run / "log.jsonl")
    assert list(rows[0]["losses"]) == ["mlm", "el_kg", "el_again"]
    model = KnowledgeForPreTraining.from_pretrained(run)
    assert [spec.loss for spec in model.encoder.specs] == ["margin", "softmax"]


def test_an_unknown_option_of_the_view_is_named(settings: dict[str, Any]) -> None:
    faulty = PretrainConfig.model_validate(settings | {"view": {"furthr": []}})
    with pytest.raises(ConfigError, match=r"no option 'furthr'; it has further, max_candidates"):
        assemble(faulty)
    none = PretrainConfig.model_validate(settings | {"method": "colake", "view": {"further": []}})
    with pytest.raises(ConfigError, match=r"CoLAKEView has no option 'further'; it has weigh"):
        assemble(none)
