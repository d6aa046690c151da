"""Configuration: every fault at once, with its field."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from kept.errors import ConfigError
from kept.training.config import TrainConfig, binding, differences
from kept.training.pretraining.config import PretrainConfig

GOOD = """
host: minilm
kg: kg
text: [a.jsonl]
training: {steps: 10, batch_size: 4, learning_rate: 1e-4}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_lie_over_the_file(tmp_path: Path) -> None:
    config = PretrainConfig.read(
        write(tmp_path, GOOD), {"training.steps": 20, "host": "bert-base-uncased"}
    )
    assert (config.host, config.training.steps, config.training.batch_size) == (
        "bert-base-uncased", 20, 4,
    )  # fmt: skip
    assert config.training.learning_rate == 1e-4  # YAML 1.1 reads 1e-4 as a string


def test_flags_alone_are_enough() -> None:
    flags = {"kg": "kg", "text": ["a"], "training.epochs": 1, "training.node_budget": 512}
    assert PretrainConfig.read(None, flags).training.epochs == 1


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "metod: colake\ntext: []\ngraph: {max_neighbour: 3, max_nodes: x}\n"
        "objectives: {masked_nodes: 3}\n"
        "training: {steps: 10, epochs: 2, seed: -1, schedule: cubic, batchsize: 3}\n",
    )
    with pytest.raises(ConfigError) as caught:
        PretrainConfig.read(path)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"11 faults in {path}:"
    assert [line.split(":")[0].strip() for line in sorted(lines[1:])] == sorted(
        ["kg", "treebank", "graph.max_neighbour", "graph.max_nodes", "objectives.masked_nodes",
         "metod", "training.epochs", "training.node_budget", "training.seed", "training.schedule",
         "training.batchsize"]
    )  # fmt: skip
    assert "training.epochs: give steps or epochs, exactly one, not 2" in str(caught.value)


@pytest.mark.parametrize("text", ["- a\n", "a: [", "", "a: \x00"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"run\.yaml"):
        PretrainConfig.read(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        PretrainConfig.read(tmp_path / "none.yaml")


def test_a_faulty_section_survives_dotted_flags(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="training: "):
        PretrainConfig.read(write(tmp_path, "training: 3\n"), {"training.steps": 3})


def test_train_config_needs_a_length_and_a_size() -> None:
    with pytest.raises(ValidationError, match="steps or epochs"):
        TrainConfig(batch_size=1)
    with pytest.raises(ValidationError, match="batch_size or node_budget"):
        TrainConfig(steps=1)


def test_binding_leaves_out_what_does_not_touch_the_weights() -> None:
    base = TrainConfig(steps=5, batch_size=1)
    other = base.model_copy(update={"workers": 2, "keep": 9, "budget_minutes": 1.0})
    assert binding(base) == binding(other)
    changed = base.model_copy(update={"seed": 3, "steps": 6})
    assert differences(binding(base), binding(changed)) == ["seed: 0, now 3", "steps: 5, now 6"]


def test_a_constant_schedule_leaves_the_length_free() -> None:
    base = TrainConfig(steps=5, batch_size=1, schedule="constant")
    assert binding(base) == binding(base.model_copy(update={"steps": 6}))
