"""Checkpoints: what was written comes back bitwise, anything else is refused by name."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from kept.errors import CheckpointError
from kept.training.checkpoint import (
    CHECKSUMS,
    TrainState,
    list_checkpoints,
    load_checkpoint,
    publish_model,
    remove_leftovers,
    save_checkpoint,
    verify_checkpoint,
)
from kept.training.optimisers import make_optimisers
from tests.kept.training.training_toy import ToyModel, toy_config, toy_model, weights_hash


def state(step: int = 1) -> TrainState:
    return TrainState(
        step=step, seconds=1.5, binding={"seed": 1}, data_fingerprint="d", environment={}
    )


def trained() -> tuple[ToyModel, dict[str, Optimizer]]:
    model = toy_model()
    optimisers = make_optimisers(model, toy_config())
    for rows in ([1, 2], [2, 9]):
        model.zero_grad()
        loss = model.norm(model.mix(model.entities(torch.tensor(rows)))).square().mean()
        (loss + model.head(model.words.weight).logsumexp(1).mean()).backward()
        for optimiser in optimisers.values():
            optimiser.step()
    return model, optimisers


def save(folder: Path, step: int = 1, keep: int = 9) -> Path:
    model, optimisers = trained()
    return save_checkpoint(folder, model=model, optimisers=optimisers, state=state(step), keep=keep)


def flat_state(optimisers: dict[str, Optimizer]) -> list[tuple[object, ...]]:
    return sorted(
        (kind, number, key, value.tolist() if isinstance(value, torch.Tensor) else value)
        for kind, optimiser in optimisers.items()
        for number, entry in optimiser.state_dict()["state"].items()
        for key, value in entry.items()
    )


def test_weights_and_optimisers_come_back_bitwise(tmp_path: Path) -> None:
    model, optimisers = trained()
    path = save(tmp_path)
    fresh = toy_model()
    fresh_optimisers = make_optimisers(fresh, toy_config())
    assert weights_hash(fresh) != weights_hash(model)
    loaded = load_checkpoint(path, model=fresh, optimisers=fresh_optimisers)
    assert weights_hash(fresh) == weights_hash(model)
    assert fresh.head.weight is fresh.words.weight
    assert flat_state(fresh_optimisers) == flat_state(optimisers)
    assert len(flat_state(optimisers)) == 3 * 5 + 3
    assert loaded.model_copy(update={"scalars": {}}) == state()


def test_from_pretrained_reads_a_checkpoint_and_a_published_model(tmp_path: Path) -> None:
    model, _ = trained()
    publish_model(tmp_path, model)
    for folder in (save(tmp_path / "checkpoints"), tmp_path):
        assert weights_hash(ToyModel.from_pretrained(folder)) == weights_hash(model)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoints", "checksums.json", "config.json", "model.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimiser.safetensors", "state.json", "config.json", CHECKSUMS]
)
def test_any_flipped_bit_and_any_cut_is_refused_by_name(tmp_path: Path, name: str) -> None:
    file = save(tmp_path) / name
    raw = file.read_bytes()
    places = range(0, len(raw), 1 if name == CHECKSUMS else max(1, len(raw) // 25))
    for position in places:
        altered = bytearray(raw)
        altered[position] ^= 1 << (position % 8)
        file.write_bytes(altered)
        with pytest.raises(CheckpointError, match="step-00000001"):
            verify_checkpoint(file.parent)
    for cut in (b"", raw[:5], raw[: len(raw) // 2], raw[:-1], raw + b"\0"):
        file.write_bytes(cut)
        with pytest.raises(CheckpointError, match=name):
            verify_checkpoint(file.parent)
    file.unlink()
    with pytest.raises(CheckpointError, match=name):
        verify_checkpoint(file.parent)
    file.write_bytes(raw)
    verify_checkpoint(file.parent)


def test_a_damaged_checkpoint_leaves_the_model_alone(tmp_path: Path) -> None:
    path = save(tmp_path)
    file = path / "model.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-3] ^= 1
    file.write_bytes(raw)
    model = toy_model()
    before = weights_hash(model)
    with pytest.raises(CheckpointError, match=r"model\.safetensors was altered"):
        load_checkpoint(path, model=model, optimisers=make_optimisers(model, toy_config()))
    assert weights_hash(model) == before


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch hostile-ran",)


def test_a_pickle_in_the_folder_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path)
    for name in ("pytorch_model.bin", "optimizer.pt", "rng_state.pth", "training_args.bin"):
        (path / name).write_bytes(pickle.dumps(Hostile()))
    model = toy_model()
    load_checkpoint(path, model=model, optimisers=make_optimisers(model, toy_config()))
    assert weights_hash(model) == weights_hash(trained()[0])
    assert not (tmp_path / "hostile-ran").exists()


def test_half_written_folders_are_no_checkpoints(tmp_path: Path) -> None:
    whole = save(tmp_path)
    half = tmp_path / ".step-00000002.1.part"
    shutil.copytree(whole, half)
    (half / CHECKSUMS).unlink()
    assert list_checkpoints(tmp_path) == [whole]
    assert save(tmp_path, step=2) == tmp_path / "step-00000002"
    assert not half.exists()
    shutil.copytree(whole, half)
    remove_leftovers(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_the_last_few_are_kept_in_order_of_steps(tmp_path: Path) -> None:
    for step in (9, 10, 100, 11):
        save(tmp_path, step=step, keep=2)
    assert [p.name for p in list_checkpoints(tmp_path)] == ["step-00000011", "step-00000100"]


@contextmanager
def files_no_larger_than(n_bytes: int) -> Iterator[None]:
    """The kernel refuses to write on, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("n_bytes", [0, 100, 3000, 4000])
def test_a_full_disk_leaves_the_old_ones_whole(tmp_path: Path, n_bytes: int) -> None:
    old = save(tmp_path)
    model, optimisers = trained()
    with (
        files_no_larger_than(n_bytes),
        pytest.raises(CheckpointError, match="step-00000002 could not be written"),
    ):
        save_checkpoint(tmp_path, model=model, optimisers=optimisers, state=state(2), keep=1)
    assert sorted(tmp_path.iterdir()) == [old]
    verify_checkpoint(old)


def test_another_model_is_refused_by_tensor(tmp_path: Path) -> None:
    path = save(tmp_path)
    wide = toy_model(width=16)
    with pytest.raises(CheckpointError, match=r"entities\.weight is torch\.float32 \(30, 8\)"):
        load_checkpoint(path, model=wide, optimisers=make_optimisers(wide, toy_config()))
    more = toy_model()
    more.extra = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match=r"lacks 2 tensors.*extra\.weight"):
        load_checkpoint(path, model=more, optimisers=make_optimisers(more, toy_config()))
    less = toy_model()
    del less.mix
    with pytest.raises(CheckpointError, match=r"no tensor 'mix\.bias'"):
        load_checkpoint(path, model=less, optimisers=make_optimisers(less, toy_config()))


def test_optimisers_must_fit(tmp_path: Path) -> None:
    path = save(tmp_path)
    model = toy_model()
    optimisers = make_optimisers(model, toy_config())
    with pytest.raises(CheckpointError, match="states of no optimiser here"):
        load_checkpoint(path, model=model, optimisers={"dense": optimisers["dense"]})
    with pytest.raises(CheckpointError, match="'rows' has no parameter 'entities"):
        load_checkpoint(path, model=model, optimisers={**optimisers, "rows": optimisers["dense"]})
