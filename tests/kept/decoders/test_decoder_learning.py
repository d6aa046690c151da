"""Decoders on the common training loop: held against plain loops; what each process gets."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from kept.decoders import load_decoder
from kept.decoders.kblam.training import LAST_SHARE, new_optimiser
from kept.decoders.learning import DecoderBatch, DecoderLearner, Lessons, training_config
from kept.errors import BatchError, ConfigError
from kept.hosts import load_tokenizer
from kept.training.config import TrainConfig
from kept.training.log import read_log
from kept.training.loop import train
from kept.training.optimisers import rate_factor
from tests.kept.tiny_questions import write_decoder
from tests.kept.training.train_decoders import KINDS, training_of

PAGE = Path(__file__).parents[3] / "docs/how-to/decoders.md"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_takes_the_steps_of_a_plain_one(kind: str, host: Path, tmp_path: Path) -> None:
    """AdamW without decay, its own schedule, no clipping; batches in their order: bit by bit."""
    learner, lessons, config = training_of(kind, host)
    trained = [p for p in learner.parameters() if p.requires_grad]
    n_steps = int(config.steps or 0)
    if kind == "kblam":
        optimiser, schedule = new_optimiser(
            learner.parts["kblam"], n_steps, learning_rate=1e-3, value_rate=1e-2  # type: ignore[arg-type]
        )  # fmt: skip
    else:
        optimiser = AdamW(trained, lr=config.learning_rate, weight_decay=0.0)
        cosine = CosineAnnealingLR(optimiser, n_steps)
        schedule = cosine if kind in ("prompt-words", "kblam-alignment") else None  # type: ignore[assignment]
    for group in optimiser.param_groups:
        group["fused"] = True
    losses = []
    for step in range(n_steps):
        optimiser.zero_grad()
        loss = learner(lessons.share(step, seed=0, rank=0, n=1).batch).losses["loss"]
        loss.backward()
        optimiser.step()
        if schedule is not None:
            schedule.step()
        losses.append(float(loss.detach()))
    expected = {name: value.detach().clone() for name, value in learner.own_tensors().items()}
    train(*training_of(kind, host), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], value) for name, value in expected.items())
    rows = read_log(tmp_path / "log.jsonl")
    assert [row["losses"]["loss"] for row in rows] == losses
    assert rows[-1]["learning_rate"] == pytest.approx(
        config.learning_rate * rate_factor(n_steps - 1, n_steps, config)
    )


def lessons_of(n: int) -> Lessons[list[int], DecoderBatch]:
    def make(rows: list[int], rows_of_batch: slice) -> DecoderBatch:
        return DecoderBatch(node_mask=torch.tensor(rows[rows_of_batch])[:, None])

    return Lessons("", 1, lambda seed, number: list(range(n)), make)


@pytest.mark.parametrize("n_rows", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_shares_hold_every_sample_once(n_rows: int, n: int) -> None:
    shares = [lessons_of(n_rows).share(0, seed=0, rank=rank, n=n) for rank in range(n)]
    real = [share.batch.node_mask for share in shares if not share.is_spare]
    assert torch.cat(real)[:, 0].tolist() == list(range(n_rows))
    assert len(real) == min(n, n_rows)
    assert all(share.batch.node_mask.equal(real[0]) for share in shares if share.is_spare)


def test_a_learner_keeps_the_modes_of_its_parts_and_names_what_is_trained(tmp_path: Path) -> None:
    frozen, moving = nn.Linear(2, 2).requires_grad_(False), nn.Sequential(nn.Linear(2, 1))
    learner = DecoderLearner(
        {"host": frozen.eval(), "new": moving.eval()}, lambda batch: batch, rates={"new.0.b": 3.0}
    )
    assert learner.train().training
    assert not moving.training
    assert not learner.eval().training
    assert list(learner.own_tensors()) == ["parts.new.0.weight", "parts.new.0.bias"]
    bias = learner.own_tensors()["parts.new.0.bias"]
    assert learner.rate_shares() == {id(bias): 3.0}
    learner.save_pretrained(tmp_path)
    assert load_file(tmp_path / "model.safetensors").keys() == learner.own_tensors().keys()


def test_half_a_cosine_falls_to_its_last_share() -> None:
    config = training_config(0, 10, 1, 0.1, schedule="cosine", last_share=LAST_SHARE)
    for step in range(10):
        share = LAST_SHARE + (1 - LAST_SHARE) * (1 + math.cos(math.pi * step / 10)) / 2
        assert rate_factor(step, 10, config) == pytest.approx(share)
    warm = TrainConfig(steps=6, batch_size=1, schedule="cosine", warmup_steps=2)
    assert [round(rate_factor(step, 6, warm), 3) for step in range(6)] == [
        0.5, 1.0, 1.0, 0.854, 0.5, 0.146
    ]  # fmt: skip
    with pytest.raises(ValueError, match="last_share"):
        TrainConfig(steps=1, batch_size=1, last_share=2)


def test_a_cache_stays_where_it_was_made_and_what_a_decoder_cannot_have_is_refused(
    host: Path, tmp_path: Path
) -> None:
    learner, lessons, config = training_of("kblam", host)
    batch = lessons.share(0, seed=0, rank=0, n=1).batch
    assert batch.to(torch.device("cpu", 0)) is batch
    with pytest.raises(BatchError, match="the cache of this batch is on cpu, not meta"):
        batch.to(torch.device("meta"))
    for fields, message in (
        ({"workers": 1}, "batches of Lessons are made by the process that trains"),
        ({"shard": ("layers",)}, "there is one process, so there is nothing to split"),
    ):
        with pytest.raises(ConfigError, match=message):
            train(learner, lessons, config.model_copy(update=fields), tmp_path)
    with_teacher = TrainConfig.model_validate(
        config.model_dump() | {"averaging": {"steps": 1, "distil": True}}
    )
    with pytest.raises(ConfigError, match=r"averaging\.distil is for tasks with classes"):
        train(learner, lessons, with_teacher, tmp_path)


def test_the_page_on_decoders_trains(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its second block, with the host and the tokenizer of the first one."""
    monkeypatch.chdir(tmp_path)
    _, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names = {"host": load_decoder(host), "tokenizer": load_tokenizer(host)}
    exec(compile(block, str(PAGE), "exec"), names)
    assert int(capsys.readouterr().out) == len(load_file("runs/reading/model.safetensors")) == 12
