"""What the loop refuses, and what it tells of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kept.errors import CheckpointError, ConfigError, TrainingError
from kept.layers import products
from kept.layers.products import Way
from kept.training import resuming
from kept.training.checkpoint import list_checkpoints
from kept.training.loop import Resume, train
from kg_loaders.disk.writing import claim
from kg_loaders.errors import InUseError
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_run import Watcher, run
from tests.kept.training.training_toy import ToyModel, toy_config, toy_model, weights_hash


# ---- what is refused ---------------------------------------------------------------------------
def test_a_folder_with_checkpoints_is_not_overwritten(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError, match="already holds step-00000012"):
        run(tmp_path)


def test_resuming_nothing_says_so(tmp_path: Path) -> None:
    watcher = Watcher()
    train(
        toy_model(), ToyData(), toy_config(steps=1, warmup_steps=0), tmp_path, reporter=watcher,
        resume=Resume.LATEST,
    )  # fmt: skip
    assert "holds no checkpoint: starting at step 0" in watcher.notices[0]


def test_a_damaged_checkpoint_is_passed_over_only_when_asked(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", stop_at=10)
    bad = tmp_path / "cut/checkpoints/step-00000010/optimiser.safetensors"
    raw = bytearray(bad.read_bytes())
    raw[len(raw) // 2] ^= 4
    bad.write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"step-00000010/optimiser\.safetensors was altered"):
        run(tmp_path / "cut", resume=Resume.LATEST)
    assert bad.exists()
    model, watcher = toy_model(), Watcher()
    result = train(
        model, ToyData(), toy_config(), tmp_path / "cut", reporter=watcher,
        resume=Resume.NEWEST_GOOD,
    )  # fmt: skip
    assert weights_hash(model) == whole
    assert watcher.records[0].step == 9
    assert "optimiser.safetensors was altered" in result.notices[0]
    assert "step-00000008" in result.notices[1]
    assert len(list((tmp_path / "cut/checkpoints").glob("step-00000010.damaged-*"))) == 1


def test_another_configuration_or_other_data_are_named(tmp_path: Path) -> None:
    run(tmp_path, stop_at=6)
    config = toy_config(seed=6, learning_rate=0.5, workers=1)
    with pytest.raises(CheckpointError) as caught:
        train(toy_model(), ToyData(fingerprint="other"), config, tmp_path, resume=Resume.LATEST)
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        "seed: 5, now 6", "learning_rate: 0.01, now 0.5", "data: fingerprint toy, now other",
    ]  # fmt: skip


def test_a_constant_schedule_can_be_prolonged_but_not_cut(tmp_path: Path) -> None:
    run(tmp_path / "short", schedule="constant", steps=6)
    longer = run(tmp_path / "short", resume=Resume.LATEST, schedule="constant", steps=12)
    assert longer == run(tmp_path / "long", schedule="constant", steps=12)
    with pytest.raises(CheckpointError, match="steps: 12 are done, now 3 are requested"):
        run(tmp_path / "long", resume=Resume.LATEST, schedule="constant", steps=3)


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    with (
        claim(tmp_path / "checkpoints"),
        pytest.raises(InUseError, match="is being written by another process"),
    ):
        run(tmp_path)


def test_unknown_objectives_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\['word'\].*\['words', 'size'\]"):
        run(tmp_path, objective_weights={"word": 1.0})


def test_a_loss_that_is_not_finite_stops_with_its_step(tmp_path: Path) -> None:
    calls = itertools.count()

    class Diverging(ToyModel):
        def forward(self, batch: Any) -> Any:
            output = super().forward(batch)
            if next(calls) == 6:
                output.losses["words"] = output.losses["words"] * float("nan")
            return output

    model = Diverging(toy_model().config)
    with pytest.raises(TrainingError, match=r"loss \{'words': nan\} at step 6"):
        train(model, ToyData(), toy_config(), tmp_path)
    assert [p.name for p in list_checkpoints(tmp_path / "checkpoints")] == ["step-00000004"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_missing_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="device 'cuda' is not there"):
        run(tmp_path, device="cuda")


def test_another_machine_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, stop_at=5)
    watcher, installed = Watcher(), torch.__version__
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    train(
        toy_model(), ToyData(), toy_config(), tmp_path, reporter=watcher, resume=Resume.LATEST,
    )  # fmt: skip
    (notice,) = [line for line in watcher.notices if "bitwise" in line]
    assert notice.startswith("not bitwise the same from here: ")
    assert "torch" in notice
    assert installed in notice
    assert "9.9.9" in notice


@pytest.mark.skipif(not products.has_onednn(), reason="this torch was built without oneDNN")
def test_a_resumed_run_computes_its_products_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LEAST_WORK", 1)
    ways: list[str] = []

    class Noting(ToyModel):
        def forward(self, batch: Any) -> Any:
            ways.append(products.choice().way)
            return super().forward(batch)

    def model() -> Noting:
        noting = Noting(toy_model().config)
        noting.load_state_dict(toy_model().state_dict())
        products.use_products(noting)
        return noting

    def resumed(folder: Path, first: Way, going_on: Way) -> tuple[str, Watcher]:
        with products.using(first):
            train(model(), ToyData(), toy_config(), folder, should_stop=stop_after(5))
        watcher, ending = Watcher(), model()
        del ways[:]
        with products.using(going_on):
            result = train(
                ending, ToyData(), toy_config(), folder, reporter=watcher, resume=Resume.LATEST
            )  # fmt: skip
            assert products.choice().way == going_on
        assert result.products == first
        assert set(ways) == {first}
        return weights_hash(ending), watcher

    whole, watcher = resumed(tmp_path / "same", "onednn", "onednn")
    assert not [line for line in watcher.notices if "products" in line]
    other, watcher = resumed(tmp_path / "other", "onednn", "torch")
    assert other == whole
    assert "products: onednn, as this run began" in watcher.notices
    assert not [line for line in watcher.notices if "bitwise" in line]


def test_a_run_whose_library_is_gone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with products.using("torch"):
        with monkeypatch.context() as patch:  # as a machine with oneDNN would have written it
            patch.setattr(resuming, "choice", lambda: products.ProductChoice("onednn"))
            run(tmp_path, stop_at=5)
        monkeypatch.setattr(resuming, "has_onednn", lambda: False)
        watcher = Watcher()
        train(
            toy_model(), ToyData(), toy_config(), tmp_path, reporter=watcher, resume=Resume.LATEST,
        )  # fmt: skip
    (notice,) = [line for line in watcher.notices if "bitwise" in line]
    assert "products: 'onednn', now 'torch'" in notice


def stop_after(n: int) -> Callable[[], bool]:
    """A `should_stop` that says so after `n` steps."""
    steps = itertools.count(1)
    return lambda: next(steps) >= n
