"""The atlas's form: read, written, and what is wrong with a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.tasks.datasets.atlas import atlas_examples, linked_texts, write_atlas
from kept.tasks.datasets.formats import from_relation, read_examples
from kg_loaders import atlas
from kg_loaders.errors import DamageError


def test_the_shipped_sentences_are_such_a_file() -> None:
    shipped = Path(atlas.__file__).with_name("sentences.jsonl")
    wanted = list(map(from_relation, atlas_examples(atlas.sentences())))
    assert len(wanted) > 7_000
    assert read_examples(shipped, "atlas") == wanted


def test_what_is_written_is_read(tmp_path: Path) -> None:
    examples = list(atlas_examples(atlas.sentences("valid")))
    write_atlas(tmp_path / "file.jsonl", examples)
    assert read_examples(tmp_path / "file.jsonl", "atlas") == list(map(from_relation, examples))
    assert linked_texts(atlas.sentences("valid"))[0].links


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "Paris", "mentions": [[0, 9, "Q90"]], "facts": []}',
        '{"text": "Paris", "mentions": [[0, 5]], "facts": []}',
        "[]",
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(DamageError, match=r"file.jsonl, line 1"):
        read_examples(path, "atlas")
