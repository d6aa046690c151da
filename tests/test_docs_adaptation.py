"""docs/how-to/adaptation.md: its options and commands are ones that `kept finetune` takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from kept.apps.cli.settings import read_setting
from kept.training.finetuning.config import FinetuneConfig

PAGE = (Path(__file__).parent.parent / "docs/how-to/adaptation.md").read_text(encoding="utf-8")
LEAST = {
    "task": "relation", "format": "wiki80", "train": "train.txt", "kg": "kg", "method": "ernie",
    "training.steps": 1, "training.batch_size": 1,
}  # fmt: skip
OPTIONS = [
    option
    for line in PAGE.splitlines()
    if line.startswith("|")
    for option in re.findall(r"`(\w+: [^`…]+)`", line.rsplit(" | ", 1)[-1])
    if not option.startswith("model:")
]
COMMANDS = [
    line
    for line in PAGE.replace("\\\n", "").splitlines()
    if line.startswith("kept finetune … --set")
]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_one(option: str) -> None:
    values: dict[str, Any] = yaml.safe_load(option)
    flat = {
        f"training.{inner}" if name == "training" else name: value
        for name, outer in values.items()
        for inner, value in (outer.items() if name == "training" else [(name, outer)])
    }
    read = FinetuneConfig.read(None, {**LEAST, **flat})
    assert read != FinetuneConfig.read(None, LEAST)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_read(command: str) -> None:
    words = shlex.split(command)
    settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    assert FinetuneConfig.read(None, {**LEAST, **dict(map(read_setting, settings))})


def test_the_page_has_them() -> None:
    assert (len(OPTIONS), len(COMMANDS)) == (14, 12)


def test_each_unfreezing_bears_the_name_of_its_paper() -> None:
    rows = {
        option.split("order: ")[1].split(",")[0]: line.split(" | ")[:2]
        for line in PAGE.splitlines()
        for option in re.findall(r"`(training: {unfreezing[^`]+)`", line)
    }
    assert {order: [cell.lstrip("| ") for cell in cells] for order, cells in rows.items()} == {
        "gradual": ["gradual unfreezing", "Howard and Ruder 2018, section 3.3"],
        "chain": ["chain-thaw", "Felbo et al. 2017, section 3.3"],
        "sequential": ["sequential unfreezing", "Chronopoulou et al. 2019, section 3"],
        "two-stage": ["what is new first, then all", "Yang et al. 2019 (KT-NET)"],
    }
