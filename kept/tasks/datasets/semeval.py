"""SemEval-2010 Task 8 (Hendrickx et al. 2010): the relation between two nominals, and TACRED.

SemEval in the form of thunlp's repositories, a JSON object a line; TACRED (Zhang et al. 2017,
EMNLP) as its owners distribute it, a JSON array. Neither names entities, so examples have no pair
and no link; with `link: true` a linker finds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec

from entity_linking.annotations import read_array
from entity_linking.annotations.relations import read_wiki80
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.tasks.datasets.example import TaskExample, from_relation, word_places
from kg_loaders.damage import DamageReport

BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
"""How TACRED's tokens write brackets, and what they stand for."""


class _TacredRow(msgspec.Struct):
    token: list[str]
    relation: str
    subj_start: int
    subj_end: int
    obj_start: int
    obj_end: int
    id: str = ""


def read_semeval(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """`{"token": [...], "h": {"pos": [first, end]}, "t": ..., "relation": "Cause-Effect(e1,e2)"}`.

    One sentence may ask about several pairs of nominals: nothing counts as a repeat.
    """
    for example in map(from_relation, read_wiki80(path, report)):
        yield dataclasses.replace(example, linked=LinkedText(example.linked.text, ()))


def read_tacred(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Rows of tokens, of subject and object by first and last token, and a relation.

    Types of subject and object are not read: the texts of the methods here show the words.
    """
    return read_array(path, report, _TacredRow, _from_tacred)


def _from_tacred(row: _TacredRow) -> TaskExample:
    words = [BRACKETS.get(token, token) for token in row.token]
    spans, targets = word_places(words), []
    for first, last in ((row.subj_start, row.subj_end), (row.obj_start, row.obj_end)):
        if not 0 <= first <= last < len(words):
            raise LinkingError(f"tokens {first} to {last} are not among the {len(words)}")
        targets.append(Mention(spans[first][0], spans[last][1]))
    return TaskExample(LinkedText(" ".join(words), (), row.id), (row.relation,), tuple(targets))
