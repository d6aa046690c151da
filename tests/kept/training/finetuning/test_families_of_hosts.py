"""`kept finetune` on a host of every family; its run predicts, encodes and is exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel
from typer.testing import CliRunner

import kept
from kept import hosts
from kept.apps.cli import app
from kept.training.finetuning.predictor import Predictor
from tests.kept.encoders.test_hosts_table import SIZES, whole_host
from tests.kept.tiny_hosts import FAMILIES, tiny_host


def command(finetuned: Path, host: Path, method: str, output: Path) -> list[str]:
    return [
        "finetune", "--task", "classification", "--format", "tsv", "--link", "--method", method,
        "--train", str(finetuned / "train.tsv"), "--kg", str(finetuned / "kg"),
        "--host", str(host), "--steps", "1", "--batch-size", "4", "-o", str(output),
        "--device", "cpu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "method"),
    [*((name, "kbert") for name in FAMILIES), *((name, "words") for name in SIZES)],
)
def test_a_run_on_any_family(
    family: str, method: str, finetuned: Path, tokenizer: Any, tmp_path: Path
) -> None:
    n_words = len(tokenizer)
    host = (
        whole_host(family, n_words)
        if family in SIZES
        else tiny_host(family, n_words=n_words, n_positions=160)
    )
    host.save_pretrained(tmp_path / "host")
    tokenizer.save_pretrained(tmp_path / "host")
    done = CliRunner().invoke(app, command(finetuned, tmp_path / "host", method, tmp_path / "run"))
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "run/finetune.json").read_text())["host"] == str(
        tmp_path / "host"
    )

    predictor = Predictor.from_pretrained(tmp_path / "run")
    text = (finetuned / "train.tsv").read_text(encoding="utf-8").split("\n")[0].split("\t")[1]
    first, again = predictor.predict([text, text], kg=finetuned / "kg")
    assert first == again
    encoder = kept.AutoEncoder.from_pretrained(tmp_path / "run")
    encoded = encoder.encode([text], kg=finetuned / "kg")
    assert encoded.sentences.isfinite().all()
    long = encoder.encode([" ".join([text] * 60)], kg=finetuned / "kg")
    assert long.cut is not None
    assert long.cut.n_windowed == 1
    assert long.sentences.isfinite().all()
    encoder.export_host(tmp_path / "exported")
    exported = AutoModel.from_pretrained(tmp_path / "exported")
    trained, before = exported.state_dict(), host.state_dict()
    assert trained.keys() >= before.keys()
    assert any(not torch.equal(trained[name], before[name]) for name in before)
    assert hosts.positions_by_config(tmp_path / "host") in (None, hosts.n_positions(host))
