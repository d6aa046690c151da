"""Which checkpoint a run goes on from, and whether it is this run's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kept.errors import CheckpointError
from kept.layers.products import choice
from kept.training.checkpoint import TrainState, save_checkpoint
from kept.training.config import TrainConfig, binding
from kept.training.optimisers import make_optimisers
from kept.training.processes.together import Processes
from kept.training.resuming import Resume, checkpoint_to_resume, environment, require_same_run
from tests.kept.training.training_toy import toy_config, toy_model

CONFIG = TrainConfig(steps=9, batch_size=2)


def state(step: int = 3, *, fingerprint: str = "d", published: tuple[str, ...] = ()) -> TrainState:
    return TrainState(
        step=step, seconds=1.0, binding=binding(CONFIG), data_fingerprint=fingerprint,
        environment={}, published=published,
    )  # fmt: skip


def save(folder: Path, *steps: int) -> Path:
    model = toy_model()
    for step in steps:
        save_checkpoint(
            folder, model=model, optimisers=make_optimisers(model, toy_config()),
            state=state(step), keep=9,
        )  # fmt: skip
    return folder


def damage(checkpoint: Path) -> None:
    file = max(checkpoint.glob("*.safetensors"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("resume", Resume)
def test_without_a_checkpoint_a_run_begins(tmp_path: Path, resume: Resume) -> None:
    assert checkpoint_to_resume(tmp_path / "none", resume, pytest.fail) is None


def test_the_last_one_is_taken_or_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "run" / "checkpoints", 2, 10)
    for resume in (Resume.LATEST, Resume.IF_ANY, Resume.NEWEST_GOOD):
        checkpoint = checkpoint_to_resume(folder, resume, pytest.fail)
        assert checkpoint is not None
        assert "10" in checkpoint.name
    with pytest.raises(CheckpointError, match=r"run already holds .*10; resume it \(--resume\)"):
        checkpoint_to_resume(folder, Resume.NEVER, pytest.fail)


def test_damaged_ones_are_set_aside_and_said(tmp_path: Path) -> None:
    folder = save(tmp_path / "checkpoints", 1, 2, 3)
    last = checkpoint_to_resume(folder, Resume.LATEST, pytest.fail)
    assert last is not None
    notices: list[str] = []
    damage(last)
    assert checkpoint_to_resume(folder, Resume.LATEST, pytest.fail) == last
    good = checkpoint_to_resume(folder, Resume.NEWEST_GOOD, notices.append)
    assert good is not None
    assert good != last
    assert not last.exists()
    (aside,) = (path for path in folder.iterdir() if "damaged" in path.name)
    assert len(notices) == 1
    assert aside.name in notices[0]
    damage(good)
    (first,) = (p for p in folder.iterdir() if "damaged" not in p.name and p != good)
    damage(first)
    assert checkpoint_to_resume(folder, Resume.NEWEST_GOOD, notices.append) is None
    assert len(notices) == 3


def same(state_: TrainState, n_steps: int = 9, *, data: str = "d", **changes: object) -> None:
    config = TrainConfig(**{**CONFIG.model_dump(), **changes})
    require_same_run(Path("runs/step"), state_, config, data, n_steps)


def test_the_same_run_goes_on() -> None:
    same(state())
    same(state(9))
    same(state(9, published=("model.safetensors",)))
    same(state(), workers=2)


@pytest.mark.parametrize(
    ("state_", "n_steps", "says"),
    [
        (state(fingerprint="other"), 9, "data: fingerprint other, now d"),
        (state(10), 9, "steps: 10 are done, now 9 are requested"),
        (
            state(5, published=("x",)),
            9,
            "steps: 5, after which it was finished; now 9 are requested",
        ),
    ],
)
def test_another_run_is_refused(state_: TrainState, n_steps: int, says: str) -> None:
    with pytest.raises(CheckpointError, match="runs/step belongs to another run") as caught:
        same(state_, n_steps)
    assert str(caught.value).splitlines()[1:] == [f"  {says}"]


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(CheckpointError) as caught:
        same(state(fingerprint="other"), batch_size=4, seed=7)
    text = str(caught.value)
    assert len(text.splitlines()) == 4
    for part in ("batch_size: 2, now 4", "seed: 0, now 7", "data: fingerprint other"):
        assert part in text


def test_what_makes_a_run_bitwise_the_same() -> None:
    facts = environment(CONFIG, torch.device("cpu"), Processes(0, 2))
    assert facts == {
        "torch": torch.__version__, "threads": str(torch.get_num_threads()), "device": "cpu",
        "processes": "2", "products": choice().way,
    }  # fmt: skip
    sharded = TrainConfig(steps=9, batch_size=2, shard=("tables", "layers"))
    assert environment(sharded, torch.device("cpu"), Processes())["shard"] == "tables layers"
