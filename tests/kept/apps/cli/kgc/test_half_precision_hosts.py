"""Scorers that read texts train on hosts that are stored in half precision, in float32."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel
from typer.testing import CliRunner

from kept.apps.cli import app

SCORERS = ("simkgc", "dkrl", "colake", "kepler")


@pytest.fixture(scope="module", params=["bfloat16", "float16"])
def half_host(
    request: pytest.FixtureRequest, host: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("half") / "host"
    shutil.copytree(host, folder)
    AutoModel.from_pretrained(host).to(getattr(torch, request.param)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_scorer_is_trained_and_asked(
    scorer: str, half_host: Path, chain: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    done = CliRunner().invoke(
        app,
        ["kgc", "train", str(chain), "--scorer", scorer, "--host", str(half_host), "--epochs", "1",
         "--batch-size", "8", "-o", str(model)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for path in model.rglob("*.safetensors"):
        with safe_open(path, framework="pt") as weights:
            kinds = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
        assert kinds <= {"F32", "I64"}, (path, kinds)
    evaluation = CliRunner().invoke(app, ["kgc", "eval", str(chain), "-m", str(model), "--json"])
    assert evaluation.exit_code == 0, evaluation.output
    assert json.loads(evaluation.stdout)["n_scored"] > 0
