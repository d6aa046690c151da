"""Questions whose answer is a stretch of a text: SQuAD's JSON, versions 1.1 and 2.0.

Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (EMNLP);
Rajpurkar et al. 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD" (ACL).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec

from entity_linking.annotations import convert_row, decode_whole, whole_file
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.graphs.words import join_texts
from kept.tasks.datasets.example import TaskExample
from kg_loaders.damage import DamageReport

NO_ANSWER = ""
"""The answer to a question that the text does not answer."""


class _Answer(msgspec.Struct):
    text: str
    answer_start: int


class _Question(msgspec.Struct):
    id: str | int
    question: str
    answers: list[_Answer] = []
    is_impossible: bool = False


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[msgspec.Raw]


class _Article(msgspec.Struct):
    paragraphs: list[_Paragraph]


class _File(msgspec.Struct):
    data: list[_Article]


def read_squad(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Question and context as a pair, its labels the answers that count, its target the first one.

    Units are questions. Offsets are characters (code points) of the context; an answer that does
    not stand where its offset says is refused. Questions about one context are one group.
    """
    return _read(path, report, has_impossible=False)


def read_squad2(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """As `read_squad`; a question that `is_impossible` has the one label `NO_ANSWER`, no target."""
    return _read(path, report, has_impossible=True)


def _read(path: Path, report: DamageReport, *, has_impossible: bool) -> Iterator[TaskExample]:
    report.units = "questions"
    decoder = msgspec.json.Decoder(_Question)
    data = whole_file(path, report.budget)
    end = 0
    paragraphs = (
        p for a in decode_whole(path, data, _File, report.budget).data for p in a.paragraphs
    )
    for paragraph in paragraphs:
        for qa in paragraph.qas:
            raw = bytes(qa)
            offset = data.index(raw, end)
            end = offset + len(raw)
            report.n_lines += 1

            def example(row: _Question, context: str = paragraph.context) -> TaskExample:
                return _example(row, context, has_impossible)

            source = (str(path), report.n_lines, offset)
            yield from convert_row(raw, decoder, example, report, source)


def _example(row: _Question, context: str, has_impossible: bool) -> TaskExample:
    question = row.question.strip()
    if not question or not context.strip():
        raise LinkingError(f"{row.id!r}: an empty question or context; leave the question out")
    if row.is_impossible and not has_impossible:
        raise LinkingError(
            f"{row.id!r} is impossible, as questions of SQuAD 2.0 may be: give --task span_or_none "
            "--format squad2"
        )
    if row.is_impossible == bool(row.answers):
        n = f"{len(row.answers)} answers"
        what = "is impossible" if row.is_impossible else "is not impossible"
        raise LinkingError(f"{row.id!r} has {n} and {what}; mend one of them")
    for answer in row.answers:
        _require_there(row.id, answer, context)
    pair = join_texts(LinkedText(question, ()), LinkedText(context, ()))
    linked, start = dataclasses.replace(pair, id=str(row.id)), pair.pair_start or 0
    labels = tuple(dict.fromkeys(answer.text for answer in row.answers)) or (NO_ANSWER,)
    return TaskExample(
        linked, labels, tuple(_mention(a, start) for a in row.answers[:1]), source=context
    )


def _require_there(id: str | int, answer: _Answer, context: str) -> None:
    start, end = answer.answer_start, answer.answer_start + len(answer.text)
    if not answer.text.strip():
        raise LinkingError(f"{id!r} has an answer without text; leave it out")
    if start < 0 or context[start:end] != answer.text:
        raise LinkingError(
            f"{id!r}: the answer {answer.text[:40]!r} is not at answer_start {start}, but "
            f"{context[max(start, 0) : max(end, 0)][:40]!r}; count in characters, or leave it out"
        )


def _mention(answer: _Answer, shift: int) -> Mention:
    """Where an answer stands, white space around it left out."""
    text = answer.text.strip()
    start = shift + answer.answer_start + answer.text.index(text)
    return Mention(start, start + len(text))
