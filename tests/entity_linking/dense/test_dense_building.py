"""Vectors of cards in shards: a build goes on, another's folder is refused, two may work in one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_linking.dense.building import Shards, encode_distinct, mean_of
from entity_linking.errors import LinkIndexError, LinkingError
from kg_loaders.disk.writing import GRACE_SECONDS, claim
from kg_loaders.errors import DamageError

PLAN = {"width": 2, "encoder": "x"}
VECTORS = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def test_a_shard_is_there_once_it_is_whole(tmp_path: Path) -> None:
    shards = Shards(tmp_path / "new" / "folder", PLAN)
    assert shards.load(3, (2, 2), "float32") is None
    shards.store(3, VECTORS)
    again = Shards(tmp_path / "new" / "folder", dict(reversed(PLAN.items())))
    loaded = again.load(3, (2, 2), "float32")
    assert loaded is not None
    assert loaded.tolist() == VECTORS.tolist()
    names = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert names == ["plan.json", "shard-00003.npy", "shard-00003.sha256"]
    (tmp_path / "new" / "folder" / "shard-00003.sha256").unlink()
    assert again.load(3, (2, 2), "float32") is None, "without its checksum it is made again"


def test_the_plan_can_be_read(tmp_path: Path) -> None:
    Shards(tmp_path / "folder", PLAN)
    text = (tmp_path / "folder" / "plan.json").read_text(encoding="utf-8")
    assert text.splitlines() == ["{", '  "encoder": "x",', '  "width": 2', "}"]
    assert json.loads(text) == PLAN


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(LinkIndexError, match="file is not an empty folder; give one"):
        Shards(tmp_path / "file", PLAN)
    with pytest.raises(LinkIndexError, match="is not an empty folder"):
        Shards(tmp_path, PLAN)
    (tmp_path / "empty").mkdir()
    Shards(tmp_path / "empty", PLAN)
    with pytest.raises(LinkIndexError, match=r"holds shards of another build .* delete this one"):
        Shards(tmp_path / "empty", {**PLAN, "width": 3})


def test_an_altered_shard_is_an_error(tmp_path: Path) -> None:
    shards = Shards(tmp_path / "folder", PLAN)
    shards.store(0, VECTORS)
    for shape, kind in (((2, 3), "float32"), ((2, 2), "float16")):
        with pytest.raises((DamageError, LinkIndexError)):
            shards.load(0, shape, kind)
    path = tmp_path / "folder" / "shard-00000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises((DamageError, LinkIndexError), match="its checksum is not that in"):
        shards.load(0, (2, 2), "float32")


@pytest.mark.parametrize("name", ["shard-00001.npy", "shard-00001.sha256"])
def test_one_process_waits_for_another_that_writes_the_same(tmp_path: Path, name: str) -> None:
    shards = Shards(tmp_path / "folder", PLAN)
    done = threading.Event()
    with claim(tmp_path / "folder" / name):
        thread = threading.Thread(target=lambda: (shards.store(1, VECTORS), done.set()))
        thread.start()
        assert not done.wait(GRACE_SECONDS + 0.5), "longer than others who write wait"
    assert done.wait(20)
    thread.join()
    assert shards.load(1, (2, 2), "float32") is not None


class Encoder:
    """Gives each text its length and place; notes what it was asked."""

    name, width = "lengths", 2

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.texts = answer, list[list[str]]()

    def encode(self, texts: list[str]) -> Any:
        self.texts.append(list(texts))
        if self.answer is not None:
            return self.answer
        return np.array([[len(t), i] for i, t in enumerate(texts)], np.float32)


def test_equal_texts_are_encoded_once() -> None:
    encoder: Any = Encoder()
    actual = encode_distinct(encoder, ["aa", "b", "aa"])
    assert actual.tolist() == [[2, 0], [1, 1], [2, 0]]
    assert encoder.texts == [["aa", "b"]]
    assert encode_distinct(encoder, []).shape == (0, 2)
    assert len(encoder.texts) == 1


@pytest.mark.parametrize(
    "answer", [np.zeros((1, 2)), np.zeros((2, 3)), np.array([[1.0, np.nan], [0.0, 0.0]])]
)
def test_what_is_no_finite_vector_for_each_text_is_refused(answer: Any) -> None:
    encoder: Any = Encoder(answer)
    with pytest.raises(LinkingError, match=r"lengths returned .* for 2 texts"):
        encode_distinct(encoder, ["a", "b"])


def test_the_mean_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from entity_linking.dense import building

    monkeypatch.setattr(building, "ROWS_PER_STEP", 2)
    rows = np.arange(10, dtype=np.float16).reshape(5, 2)
    assert mean_of(rows).tolist() == [4, 5]
    assert mean_of(rows[:0]).tolist() == [0, 0]
