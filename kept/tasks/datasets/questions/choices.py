"""Questions with a few answers to choose from: COPA, CommonsenseQA, and files of lettered options.

Roemmele et al. 2011, "Choice of Plausible Alternatives" (AAAI spring symposium), in the form of
SuperGLUE; and prompts made of CommonsenseQA and others, a JSON object a line: `question`, `options`
("A. bank\\nB. library"), `answer` ("A. bank" or "A"), and `passage` or none. Talmor et al. 2019,
"CommonsenseQA: A Question Answering Challenge Targeting Commonsense Knowledge" (NAACL), in the form
of its own files, which OpenBookQA's share.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from entity_linking.annotations import read_rows
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.graphs.words import join_texts
from kept.tasks.datasets.example import TaskExample
from kg_loaders.damage import DamageReport

BETWEEN = " | "
"""Stands between the choices in the text, and is read with none of them."""
QUESTIONS = {"cause": "What was the cause?", "effect": "What happened as a result?"}
_LETTERED = re.compile(r"([A-Z])\. ?(.*)")


def choice_example(
    question: str, choices: Sequence[str], right: int | None = None, id: str = ""
) -> TaskExample:
    """Question and choices as a pair of texts, its targets the choices, its label the number of the
    right one, from "1"; none where it is not known.

    Raises `LinkingError` for an empty question or choice, fewer than two, or no such number.

    >>> found = choice_example("Where do fish live?", ["sea", "tree"], right=1)
    >>> [found.linked.text[t.start : t.end] for t in found.targets], found.labels
    (['sea', 'tree'], ('1',))
    """
    question_text, choice_texts = question.strip(), [choice.strip() for choice in choices]
    if not question_text or not all(choice_texts) or len(choice_texts) < 2:
        raise LinkingError(
            f"{question_text[:40]!r} with {len(choice_texts)} choices {choice_texts}: a question "
            "and two choices or more are needed, none of them empty"
        )
    if right is not None and not 1 <= right <= len(choice_texts):
        raise LinkingError(
            f"{question_text[:40]!r}: choice {right} is right, there are {len(choice_texts)}"
        )
    pair = join_texts(LinkedText(question_text, ()), LinkedText(BETWEEN.join(choice_texts), ()))
    start, targets = pair.pair_start or 0, []
    for choice in choice_texts:
        targets.append(Mention(start, start + len(choice)))
        start += len(choice) + len(BETWEEN)
    labels = () if right is None else (str(right),)
    linked = dataclasses.replace(pair, id=id or pair.id)
    return TaskExample(linked, labels, tuple(targets), source=question_text)


class _Copa(msgspec.Struct):
    premise: str
    choice1: str
    choice2: str
    question: Literal["cause", "effect"]
    label: Literal[0, 1]
    idx: int = 0


def read_copa(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """A premise, and which of two sentences is its cause or effect."""
    return read_rows(path, report, _Copa, _of_copa)


def _of_copa(row: _Copa) -> TaskExample:
    if not row.premise.strip():
        raise LinkingError(f"{row.idx} has an empty premise; leave it out")
    question_text = f"{row.premise.strip()} {QUESTIONS[row.question]}"
    return choice_example(question_text, (row.choice1, row.choice2), row.label + 1, str(row.idx))


class _Lettered(msgspec.Struct):
    question: str
    options: str
    answer: str
    passage: str = ""


def read_lettered(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Questions with lettered options, a passage before the question where there is one.

    The first options may stand below the question instead, and of an answer its end may be missing,
    as in a few rows of CommonsenseQA.
    """
    return read_rows(path, report, _Lettered, _of_lettered)


def _of_lettered(row: _Lettered) -> TaskExample:
    whole = f"{row.question}\n{row.options}".splitlines()
    lines = [line.strip() for line in whole if line.strip()]
    matches = [_LETTERED.fullmatch(line) for line in lines]
    first = max((i for i, match in enumerate(matches) if match and match[1] == "A"), default=0)
    options = [match for match in matches[first:] if match]
    letters = [match[1] for match in options]
    if letters != [chr(ord("A") + i) for i in range(len(lines) - first)]:
        raise LinkingError(
            f"{row.question[:40]!r}: options {lines[first:]} are not one a line, lettered A., B. "
            "and on"
        )
    answer = row.answer.strip()
    right = letters.index(answer[:1]) if answer[:1] in letters else None
    if right is None or not lines[first + right].startswith(answer):
        raise LinkingError(f"{row.question[:40]!r}: {answer!r} is none of {lines[first:]}")
    question = " ".join([row.passage.strip(), *lines[:first]]).strip()
    return choice_example(question, [match[2] for match in options], right + 1)


class _Option(msgspec.Struct):
    label: str
    text: str


class _Row(msgspec.Struct):
    stem: str
    choices: list[_Option]


class _Commonsense(msgspec.Struct):
    question: _Row
    id: str = ""
    answerKey: str = ""
    fact1: str = ""


def read_commonsenseqa(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """CommonsenseQA's own lines, and OpenBookQA's, whose fact stands before its question.

    The test set has no `answerKey`: its questions have no label.
    """
    return read_rows(path, report, _Commonsense, _of_commonsense)


def _of_commonsense(row: _Commonsense) -> TaskExample:
    options = row.question.choices
    labels = [option.label for option in options]
    if row.answerKey and row.answerKey not in labels:
        raise LinkingError(
            f"{row.question.stem[:40]!r}: answerKey {row.answerKey!r} is none of {labels}"
        )
    right = labels.index(row.answerKey) + 1 if row.answerKey else None
    question = " ".join([row.fact1.strip(), row.question.stem.strip()]).strip()
    if not row.question.stem.strip():
        question = ""
    return choice_example(question, [option.text for option in options], right, row.id)
