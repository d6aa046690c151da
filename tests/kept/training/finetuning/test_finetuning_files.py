"""Which files a fine-tuning run takes when a user names one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.apps.cli.training.finetune_run import dev_file_of


@pytest.mark.parametrize(
    ("train", "there", "dev_name"),
    [
        ("train.txt", "dev.txt", "dev.txt"),
        ("train.txt", "valid.txt", "valid.txt"),
        ("wiki.train.jsonl", "wiki.dev.jsonl", "wiki.dev.jsonl"),
        ("train.txt", "dev.jsonl", None),
        ("data.txt", "dev.txt", None),
    ],
)
def test_the_dev_file_of_a_train_file(
    tmp_path: Path, train: str, there: str, dev_name: str | None
) -> None:
    for name in (train, there):
        (tmp_path / name).touch()
    assert dev_file_of(tmp_path / train) == (None if dev_name is None else tmp_path / dev_name)
