"""Files of questions with choices: what is read of them, and what is refused with a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from entity_linking.errors import LinkingError
from kept.tasks.datasets.formats import TaskExample, hold_out, read_examples
from kept.tasks.datasets.questions.choices import choice_example
from kg_loaders.errors import DamageError

COPA = {
    "premise": "Es regnet 🗼.", "choice1": "Ein Café.", "choice2": "巴黎", "question": "cause",
    "label": 1, "idx": 4,
}  # fmt: skip
COMMONSENSE: dict[str, Any] = {
    "id": "q7", "answerKey": "B", "fact1": "Ships sail.",
    "question": {
        "stem": "Where? ",
        "choices": [{"label": "A", "text": "tree"}, {"label": "B", "text": "sea"}],
    },
}  # fmt: skip
LETTERED = {"question": "Where?", "options": "\nA. a bank \nB. B. c\n", "answer": "B. B. c"}


def choices_of(example: TaskExample) -> list[str]:
    return [example.linked.text[target.start : target.end] for target in example.targets]


def read(tmp_path: Path, format: str, *rows: dict[str, Any]) -> list[TaskExample]:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_examples(path, format)


def test_copa_asks_for_cause_or_effect(tmp_path: Path) -> None:
    first, second = read(tmp_path, "copa", COPA, COPA | {"question": "effect", "label": 0})
    assert choices_of(first) == choices_of(second) == ["Ein Café.", "巴黎"]
    assert (first.labels, second.labels) == (("2",), ("1",))
    assert first.group == "Es regnet 🗼. What was the cause?"
    assert second.group == "Es regnet 🗼. What happened as a result?"
    assert first.linked.id == "4"


def test_lettered_options_keep_what_follows_their_letter(tmp_path: Path) -> None:
    with_passage = LETTERED | {"passage": "In town."}
    plain, of_passage, short = read(
        tmp_path, "lettered", LETTERED, with_passage, LETTERED | {"answer": "A"}
    )
    assert choices_of(plain) == ["a bank", "B. c"]
    assert (plain.labels, short.labels) == (("2",), ("1",))
    assert of_passage.group == "In town. Where?"
    assert len(hold_out([plain, of_passage, short], 0.4, 0, "dev")[1]) in (1, 2)


def test_options_below_the_question_are_options(tmp_path: Path) -> None:
    row = {"question": "Where?\nA. here", "options": "B. there", "answer": "B. there"}
    (example,) = read(tmp_path, "lettered", row)
    assert (choices_of(example), example.group) == (["here", "there"], "Where?")


def test_commonsenseqa_in_its_own_files(tmp_path: Path) -> None:
    """A fact stands before its question; the test set's questions have no answer."""
    unanswered = {k: v for k, v in COMMONSENSE.items() if k not in ("answerKey", "fact1")}
    first, second = read(tmp_path, "commonsenseqa", COMMONSENSE, unanswered)
    assert choices_of(first) == choices_of(second) == ["tree", "sea"]
    assert (first.labels, second.labels) == (("2",), ())
    assert (first.group, second.group) == ("Ships sail. Where?", "Where?")
    assert first.linked.id == "q7"


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("commonsenseqa", COMMONSENSE | {"answerKey": "C"}, "answerKey 'C' is none of"),
    (
        "commonsenseqa",
        COMMONSENSE | {"question": {"stem": "Where?", "choices": []}},
        "answerKey 'B' is none of",
    ),
    (
        "commonsenseqa",
        COMMONSENSE | {"question": {**COMMONSENSE["question"], "stem": " "}},
        "a question and two choices",
    ),
    ("copa", COPA | {"label": 2}, "Invalid enum value"),
    ("copa", COPA | {"question": "why"}, "Invalid enum value"),
    ("copa", COPA | {"choice2": " "}, "none of them empty"),
    ("copa", COPA | {"premise": " "}, "empty premise"),
    ("lettered", LETTERED | {"answer": "C. d"}, "is none of"),
    ("lettered", LETTERED | {"answer": "A. d"}, "is none of"),
    ("lettered", LETTERED | {"answer": ""}, "is none of"),
    ("lettered", LETTERED | {"options": "A. a\nC. c"}, "lettered A., B. and on"),
    ("lettered", LETTERED | {"options": "a\nb"}, "lettered A., B. and on"),
    ("lettered", LETTERED | {"options": "A. a", "answer": "A. a"}, "two choices or more"),
    ("lettered", LETTERED | {"question": " "}, "a question and two choices"),
    ("lettered", LETTERED | {"options": ""}, "lettered A., B. and on"),
]


@pytest.mark.parametrize(("format", "row", "reason"), FAULTS)
def test_faulty_rows_are_named(
    format: str, row: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DamageError, match=reason) as caught:
        read(tmp_path, format, row)
    assert "x.jsonl" in str(caught.value)


def test_a_right_choice_must_be_there() -> None:
    with pytest.raises(LinkingError, match="choice 3 is right, there are 2"):
        choice_example("Where?", ["a", "b"], right=3)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "format", "n", "most"),
    [
        ("superglue/copa/train.jsonl", "copa", 350, 2),
        ("superglue/copa/dev.jsonl", "copa", 50, 2),
        ("superglue/copa/test.jsonl", "copa", 100, 2),
        ("qa/multiple_choice/commonsenseqa_validation.jsonl.gz", "lettered", 1221, 5),
        ("qa/multiple_choice/openbookqa_test.jsonl", "lettered", 500, 4),
        ("qa/multiple_choice/piqa_validation.jsonl.gz", "lettered", 1500, 2),
        ("qa/multiple_choice/siqa_test.jsonl.gz", "lettered", 1954, 3),
    ],
)
def test_public_files(data_root: Path, name: str, format: str, n: int, most: int) -> None:
    examples = read_examples(data_root / name, format)
    assert len(examples) == n
    assert max(len(example.targets) for example in examples) == most
