"""The CoNLL-U reader: offsets, multiword tokens, empty nodes, and faults by file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kept.tasks.datasets.conllu import read_conllu
from kg_loaders import DamageError, DamagePolicy, DamageReport


def line(number: str, form: str, head: str, misc: str = "_") -> str:
    relation = "root" if head == "0" else "dep"
    return "\t".join([number, form, form, "X", "_", "_", head, relation, "_", misc])


GOOD = [
    "# sent_id = one",
    "# text = I don't go au lac.",
    line("1", "I", "4"),
    line("2-3", "don't", "_"),
    line("2", "do", "4"),
    line("3", "n't", "4"),
    line("4", "go", "0"),
    line("5-6", "au", "_"),
    line("5", "à", "7"),
    line("6", "le", "7"),
    line("7", "lac", "4", "SpaceAfter=No"),
    line("7.1", "ghost", "_"),
    line("8", ".", "4"),
]


def write(path: Path, *sentences: list[str]) -> Path:
    path.write_text("\n\n".join("\n".join(lines) for lines in sentences) + "\n", encoding="utf-8")
    return path


def test_words_and_their_characters(tmp_path: Path) -> None:
    (sentence,) = read_conllu(write(tmp_path / "a.conllu", GOOD))
    assert sentence.id == "one"
    assert sentence.text == "I don't go au lac."
    cut = [sentence.text[word.start : word.end] for word in sentence.words]
    assert cut == ["I", "do", "n't", "go", "au", "au", "lac", "."]
    assert [word.form for word in sentence.words] == ["I", "do", "n't", "go", "à", "le", "lac", "."]
    assert [word.head for word in sentence.words] == [4, 4, 4, 0, 7, 7, 4, 4]


def test_compressed_files_and_the_last_sentence_without_a_blank_line(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.conllu", GOOD, GOOD)
    packed = tmp_path / "a.conllu.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_conllu(packed)) == list(read_conllu(plain))
    assert len(list(read_conllu(packed))) == 2


def test_another_kind_of_blank_is_taken_from_the_text(tmp_path: Path) -> None:
    lines = ["# text = to\u00a0be", line("1", "to", "2"), line("2", "be", "0")]
    (sentence,) = read_conllu(write(tmp_path / "a.conllu", lines))
    assert sentence.text == "to\u00a0be"


@pytest.mark.parametrize(
    ("lines", "at", "reason"),
    [
        ([line("1", "a", "0"), "2\tb"], 2, "2 columns instead of 10"),
        ([line("x", "a", "0")], 1, "'x' is not a word number"),
        ([line("\u0661", "a", "0")], 1, "'\u0661' is not a word number"),
        ([line("1-2-3", "a", "0")], 1, "'1-2-3' is not a word number"),
        ([line("1", "a", "\u0660")], 1, "head '\u0660' is not a number from 0 to 1"),
        ([line("1", "a", "0"), line("3", "b", "1")], 2, "do not run from 1"),
        ([line("1", "a", "0"), line("2", "b", "9")], 2, "head '9' is not a number from 0 to 2"),
        ([line("1", "a", "_")], 1, "head '_'"),
        ([line("1", "a", "0"), line("2", "b", "0")], 1, "2 roots instead of one"),
        ([line("1", "a", "1")], 1, "0 roots instead of one"),
        ([line("1", "a", "0"), line("2", "b", "3"), line("3", "c", "2")], 1, "hangs in a circle"),
        ([line("1-999999", "a", "_"), line("1", "a", "0")], 1, "words that are not there"),
        ([line("9" * 5000, "a", "0")], 1, "not a word number"),
        ([line("1", "a", "9" * 5000)], 1, "not a number from 0"),
        (["# text = b", line("1", "a", "0")], 1, "the words spell 'a'"),
        ([line("1-2", "ab", "_"), line("1", "a", "0")], 1, "words that are not there"),
        (
            [line("1", "a", "0"), line("3-3", "b", "_"), line("2", "c", "1"), line("3", "b", "1")],
            2,
            "3-3 is not just before its first word",
        ),
        (
            [line("1", "a", "0"), line("2", "b", "1"), line("1-2", "ab", "_"), line("3", "c", "1")],
            3,
            "1-2 is not just before its first word",
        ),
        (["# text = a"], 1, "a sentence without words"),
    ],
)
def test_faults_stop_or_leave_out_the_sentence(
    tmp_path: Path, lines: list[str], at: int, reason: str
) -> None:
    path = write(tmp_path / "a.conllu", lines, GOOD)
    with pytest.raises(DamageError, match=rf"a\.conllu, line {at} \(.*{reason}"):
        list(read_conllu(path))
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert [sentence.id for sentence in read_conllu(path, report)] == ["one"]
    assert report.n_rejected == 1


@pytest.mark.data
def test_english_web_treebank(data_root: Path) -> None:
    folder = data_root / "linguistic/ud_english_ewt"
    for name, n_sentences, n_words in (("dev", 2001, 25147), ("test", 2077, 25094)):
        sentences = list(read_conllu(folder / f"en_ewt-ud-{name}.conllu.gz"))
        assert len(sentences) == n_sentences
        assert sum(len(sentence.words) for sentence in sentences) == n_words
