"""What a row keeps of its weights, and what it removes of its trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch

from kept.lab.questions.training_context import WEIGHTS, TrainingContext


def context_of(folder: Path, **fields: Any) -> TrainingContext:
    nothing = cast(Any, None)
    empty = dict.fromkeys(("host", "prompting", "train_items", "questions"), nothing)
    settings = {**empty, "seed": 0, "folder": folder, "new_encoder": lambda: nothing}
    return TrainingContext(**{**settings, **fields})


def test_weights_are_there_once_they_are_stored(tmp_path: Path) -> None:
    shop = context_of(tmp_path)
    assert shop.stored() is None
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    shop.store({"plain": weight, "turned": weight.T})
    stored = shop.stored()
    assert stored is not None
    assert {name: value.tolist() for name, value in stored.items()} == {
        "plain": [[0, 1, 2], [3, 4, 5]], "turned": [[0, 3], [1, 4], [2, 5]],
    }  # fmt: skip
    shop.store({"plain": torch.zeros(1)})
    again = shop.stored()
    assert again is not None
    assert [*again] == ["plain"], "new weights take the place of older ones"


def test_of_trainings_a_person_keeps_what_can_be_read(tmp_path: Path) -> None:
    training = tmp_path / "facts"
    training.mkdir()
    (training / "train.jsonl").write_text("{}\n", encoding="utf-8")
    (training / "checkpoint.pt").write_bytes(b"large")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    context_of(tmp_path).store({"plain": torch.zeros(1)})
    assert not (training / "checkpoint.pt").exists()
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / WEIGHTS).is_file()


def test_the_encoder_is_opened_once_and_only_when_it_is_needed(tmp_path: Path) -> None:
    opened: list[int] = []

    def new_encoder() -> Any:
        opened.append(1)
        return object()

    shop = context_of(tmp_path, new_encoder=new_encoder)
    assert opened == []
    assert shop.encoder is shop.encoder
    assert opened == [1]
