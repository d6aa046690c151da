"""Ultra-fine entity typing (Choi et al. 2018, ACL): a mention in its sentence, and free types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from entity_linking.annotations import read_rows
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.tasks.datasets.example import TaskExample
from kg_loaders.damage import DamageReport


class _Row(msgspec.Struct):
    left_context_token: list[str]
    mention_span: str
    right_context_token: list[str]
    y_str: list[str]
    annot_id: str = ""


def read_ultrafine(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """A JSON object a line; the text is left context, mention and right context, blanks between.

    A type that a row names twice counts once.
    """
    return read_rows(path, report, _Row, _example)


def _example(row: _Row) -> TaskExample:
    if not row.mention_span.strip():
        raise LinkingError("an empty mention_span")
    before = "".join(f"{token} " for token in row.left_context_token)
    mention = Mention(len(before), len(before) + len(row.mention_span))
    text = " ".join([before + row.mention_span, *row.right_context_token])
    return TaskExample(
        LinkedText(text, (), row.annot_id), tuple(dict.fromkeys(row.y_str)), (mention,)
    )
