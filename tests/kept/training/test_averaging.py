"""The mean of a model's parameters over steps: kept over stops, published, and learned from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from entity_linking import RelationExample
from kept.errors import ConfigError
from kept.heads.model import TEACHER_LOSS
from kept.training.averaging import HISTORY, ParameterHistory, with_teacher_logits
from kept.training.checkpoint import list_checkpoints
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.log import read_log
from kept.training.loop import Resume, train
from kept.training.optimisers import make_optimisers
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_task_files import wiki80_row
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_toy import toy_config, toy_model, weights_hash


@pytest.mark.parametrize("n_steps", [1, 3, None])
def test_the_mean_is_that_of_the_last_steps(n_steps: int | None) -> None:
    values = np.random.default_rng(0).normal(size=(7, 2, 3)).astype(np.float32)
    weight = nn.Parameter(torch.full((2, 3), 9.0))
    past = ParameterHistory([weight], n_steps=n_steps)
    assert torch.equal(past.mean(weight), torch.full((2, 3), 9.0))
    for count, value in enumerate(values, start=1):
        weight.data.copy_(torch.from_numpy(value))
        past.step()
        expected = values[max(0, count - (n_steps or count)) : count].mean(0)
        torch.testing.assert_close(past.mean(weight), torch.from_numpy(expected))
    assert torch.equal(weight.detach(), torch.from_numpy(values[-1]))


def run(folder: Path, *, stop_at: int = 99, **changes: Any) -> nn.Module:
    model, steps = toy_model(), [0]

    def is_enough() -> bool:
        steps[0] += 1
        return steps[0] >= stop_at

    train(model, ToyData(), toy_config(**changes), folder, resume=Resume.IF_ANY,
          should_stop=is_enough)  # fmt: skip
    return model


@pytest.mark.parametrize("steps", [3, "all"])
def test_a_published_mean_is_that_of_the_checkpoints(steps: int | str, tmp_path: Path) -> None:
    changes = {"checkpoint_steps": 1, "keep": 99, "averaging": {"steps": steps, "publish": True}}
    model = run(tmp_path / "whole", **changes)
    saved = [
        load_file(path / "model.safetensors")
        for path in list_checkpoints(tmp_path / "whole/checkpoints")
    ]
    assert len(saved) == 12
    published = load_file(tmp_path / "whole/model.safetensors")
    for name, value in published.items():
        last = [each[name] for each in saved[-steps if isinstance(steps, int) else 0 :]]
        mean = last[-1] if name.startswith("entities") else torch.stack(last).mean(0)
        torch.testing.assert_close(value, mean, rtol=1e-4, atol=1e-6)
        assert torch.equal(value, model.state_dict()[name])
    assert not torch.equal(published["mix.weight"], saved[-1]["mix.weight"])


@pytest.mark.parametrize("steps", [3, "all"])
def test_a_stopped_run_ends_with_the_same_mean(steps: int | str, tmp_path: Path) -> None:
    changes = {"averaging": {"steps": steps, "publish": True}}
    whole = weights_hash(run(tmp_path / "whole", **changes))
    run(tmp_path / "cut", stop_at=5, **changes)
    assert weights_hash(run(tmp_path / "cut", **changes)) == whole
    assert weights_hash(run(tmp_path / "plain")) != whole


# ---- learning from it ------------------------------------------------------
@pytest.fixture
def config(
    tmp_path: Path, examples: list[RelationExample], world: KnowledgeGraph, host: Path
) -> FinetuneConfig:
    world.save(tmp_path / "kg")
    rows = [json.dumps(wiki80_row(example)) for example in examples[:24]]
    (tmp_path / "train.txt").write_text("\n".join(rows[:16]), encoding="utf-8")
    (tmp_path / "dev.txt").write_text("\n".join(rows[16:]), encoding="utf-8")
    return FinetuneConfig.model_validate({
        "task": "relation", "format": "wiki80", "train": tmp_path / "train.txt",
        "dev": tmp_path / "dev.txt", "kg": tmp_path / "kg", "method": "kbert", "host": str(host),
        "training": {"steps": 3, "batch_size": 4, "device": "cpu", "threads": 1, "log_every": 1,
                     "learning_rate": 0.01, "averaging": {"steps": 2, "distil": True}},
    })  # fmt: skip


def test_the_loss_is_on_what_the_mean_says(config: FinetuneConfig) -> None:
    built = assemble(config)
    model, data = built.model, built.train
    past = make_optimisers(model, config.training)[HISTORY]
    assert isinstance(past, ParameterHistory)
    samples = [data.sample(i, epoch=0, seed=0) for i in range(4)]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    states = []
    for shift in (0.0, 0.1, 0.3):
        with torch.no_grad():
            for parameter in past.remembered():
                parameter.add_(shift)
        past.step()
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    with_teacher = with_teacher_logits(model, past, batch)
    assert model.training
    assert batch.teacher_logits is None
    losses = model(with_teacher).losses
    mean = {name: (states[1][name] + states[2][name]) / 2 for name in states[0]}
    model.load_state_dict(mean)
    expected = model.eval()(batch).class_logits
    torch.testing.assert_close(with_teacher.teacher_logits, expected)
    assert losses[TEACHER_LOSS] > 0
    assert "class" in losses


def test_a_run_teaches_itself(config: FinetuneConfig, tmp_path: Path) -> None:
    built = assemble(config)
    train(built.model, built.data, config.training, tmp_path / "run")
    losses = [row["losses"] for row in read_log(tmp_path / "run/log.jsonl")]
    assert [{*each} for each in losses] == [{"class", TEACHER_LOSS}] * 3


def test_what_cannot_be_is_refused(config: FinetuneConfig, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the mean is for nothing"):
        toy_config(averaging={"steps": 2})
    values = config.model_dump() | {"teacher": tmp_path}
    with pytest.raises(ValueError, match="a batch has one teacher"):
        FinetuneConfig.model_validate(values)
    values = config.model_dump() | {"task": "tagging", "format": "conll", "markers": None}
    with pytest.raises(ValueError, match=r"averaging\.distil: tagging has no one answer"):
        FinetuneConfig.model_validate(values)
    pretraining = {"method": "none", "text": ["x.jsonl"], "training": config.training.model_dump()}
    with pytest.raises(ConfigError, match="pre-training has no classes"):
        PretrainConfig.read(None, pretraining)
