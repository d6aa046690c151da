"""The device of a run and the settings of its process, which are the caller's again afterwards."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kept.errors import ConfigError
from kept.training.config import TrainConfig
from kept.training.device import autocast, device_of, make_accelerator, process_settings


def config(**fields: Any) -> TrainConfig:
    return TrainConfig(**{"steps": 1, "batch_size": 1, **fields})


def test_the_processor_is_torchs_own() -> None:
    accelerator = make_accelerator(config(device="cpu"))
    assert device_of(accelerator) == torch.device("cpu")
    for name, expected in (("cpu:0", "cpu"), ("cuda:1", "cuda:1"), ("mps", "mps")):
        device = device_of(cast(Any, SimpleNamespace(device=torch.device(name))))
        assert device == torch.device(expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="device 'cuda' is not there; accelerate found cpu"):
        make_accelerator(config(device="cuda"))
    assert make_accelerator(config(device="auto")).device.type == "cpu"


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_precision_is_that_of_the_run(precision: Any, dtype: torch.dtype) -> None:
    with autocast(config(precision=precision), torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_threads_and_draws_are_the_callers_again() -> None:
    before = torch.get_num_threads()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with suppress(ValueError), process_settings(config(threads=before + 2)):
        assert torch.get_num_threads() == before + 2
        torch.rand(100)
        raise ValueError("also where a run ends with an error")
    assert torch.get_num_threads() == before
    torch.testing.assert_close(torch.rand(3), expected)
    with process_settings(config()):
        assert torch.get_num_threads() == before
