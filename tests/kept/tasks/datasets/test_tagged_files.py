"""A file of words and tags, one per line, is a table of `kept fit` under any name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.errors import ConfigError
from kept.tasks.datasets.tables import TAGGING, read_labelled

LINES = (
    "-DOCSTART- O\n\nAnna B-PER\nBerg I-PER\nleft O\n. O\n\n\nOslo NNP B-LOC\nis VBZ O\ncold JJ O\n"
)


@pytest.mark.parametrize("name", ["a.bio", "a.conll", "a.txt", "a.tsv", "a.iob2", "a"])
def test_words_with_tags_are_sentences_whatever_the_file_is_called(
    name: str, tmp_path: Path
) -> None:
    text = LINES.replace(" ", "\t") if name == "a.tsv" else LINES
    (tmp_path / name).write_text(text)
    table = read_labelled(tmp_path / name)
    assert table.kind == TAGGING
    assert [each.linked.text for each in table.examples] == ["Anna Berg left .", "Oslo is cold"]
    assert table.examples[0].labels == ("B-PER", "I-PER", "O", "O")
    assert [each.linked.id for each in table.examples] == ["3", "9"]


def test_other_files_say_what_would_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.bio").write_text("Anna left\nOslo is\n")
    with pytest.raises(ConfigError, match="does not hold a word and its tag in each line"):
        read_labelled(tmp_path / "a.bio")
    (tmp_path / "a.csv").write_text("text,label\nA day.,x\n")
    assert read_labelled(tmp_path / "a.csv").kind == "classification"
