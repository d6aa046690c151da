"""Names of methods, as people write them."""

from __future__ import annotations

import pytest

from kept.errors import ConfigError
from kept.methods import METHODS, method, method_key
from kept.training.finetuning.config import FinetuneConfig


@pytest.mark.parametrize("name", METHODS)
def test_case_and_dashes_do_not_matter(name: str) -> None:
    assert method_key(name.upper()) == method_key(f"{name[0]}-{name[1:]}") == name
    assert method(name.title()) is METHODS[name]


def test_papers_spellings() -> None:
    assert [method_key(name) for name in ("K-BERT", "CoLAKE", "K-Adapter")] == [
        "kbert", "colake", "kadapter",
    ]  # fmt: skip


def test_near_names_are_suggested() -> None:
    with pytest.raises(ConfigError, match=r"no method 'ernei'; did you mean ernie"):
        method_key("ernei")


def test_a_configuration_holds_the_key(tmp_path: object) -> None:
    fields = {"task": "relation", "format": "wiki80", "train": "t", "kg": "kg", "host": "minilm"}
    training = {"steps": 1, "batch_size": 1}
    config = FinetuneConfig.read(None, {**fields, "method": "K-BERT", "training": training})
    assert config.method == "kbert"
