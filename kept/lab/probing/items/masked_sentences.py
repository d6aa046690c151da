"""Whole sentences with `[MASK]`: LAMA's SQuAD part, and its negated and misprimed questions.

Petroni et al. 2019, section 4.1.4; Kassner and Schütze, "Negated and Misprimed Probes for
Pretrained Language Models: Birds Can Talk, But Cannot Fly" (ACL 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from entity_linking.annotations import gold_link
from entity_linking.mentions import Link, LinkedText, Mention
from kept.errors import EvaluationError
from kept.lab.probing.items.facts import ClozeFact
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.items.sources import rows, stem
from kg_loaders.damage import DamageReport

MASK = "[MASK]"
SQUAD = "Squad"

FactsByName = Mapping[tuple[str, str, str], ClozeFact]


@dataclass(frozen=True, slots=True)
class AlteredItem:
    """A question, its negation, and the question behind a misleading word: "Prime? question".

    `negated` is None where the source's negation is the very question.
    """

    original: ClozeItem
    negated: ClozeItem | None
    misprimed: ClozeItem
    prime: str


class _Squad(msgspec.Struct):
    masked_sentences: list[str]
    obj_label: str
    id: str


class _Altered(msgspec.Struct):
    masked_sentences: list[str]
    masked_negations: list[str]
    masked_misprimed: list[str]
    obj_label: str
    sub_label: str
    uuid: str | int
    pred: str = ""


def read_squad(path: str | Path, report: DamageReport) -> Iterator[ClozeItem]:
    """LAMA's SQuAD part; sentences with several masks are skipped and counted.

    Its subject field holds the collection's name; `subject` is "" here.
    """
    report.units = "questions"
    for name, number, offset, raw, row in rows(path, report, _Squad):
        if len(row.masked_sentences) != 1 or not row.obj_label.strip():
            report.reject(name, number, offset, "not one sentence with an answer", raw)
        elif row.masked_sentences[0].count(MASK) != 1:
            report.skip(f"not exactly one {MASK}")
        else:
            report.n_texts += 1
            yield _item(row.id, SQUAD, row.masked_sentences[0], "", row.obj_label, None)


def facts_by_name(facts: Sequence[ClozeFact]) -> dict[tuple[str, str, str], ClozeFact]:
    """Facts by relation, subject and answer as strings; the first where several share them."""
    by_name: dict[tuple[str, str, str], ClozeFact] = {}
    for fact in facts:
        by_name.setdefault((fact.relation, fact.subject, fact.answer), fact)
    return by_name


def read_altered(
    path: str | Path, report: DamageReport, *, inside: str, facts: FactsByName | None = None
) -> Iterator[AlteredItem]:
    """Negated and misprimed questions: of "TREx", "SQUAD" or "ConceptNet" in the archive `path`.

    `inside` names the part and the choice of primes, such as "TREx/high_ranked": the words that a
    model ranked high ("high_ranked"), low ("low_ranked"), or any ("random"). `facts` gives the
    identifiers of facts, which the source lacks, and with them links.
    """
    report.units = "questions"
    for name, number, offset, raw, row in rows(path, report, _Altered, inside):
        relation = row.pred or stem(name)
        fact = (facts or {}).get((relation, row.sub_label, row.obj_label))
        try:
            item = _altered(row, relation, fact)
        except EvaluationError as error:
            report.reject(name, number, offset, str(error), raw)
            continue
        report.n_texts += 1
        yield item


def _altered(row: _Altered, relation: str, fact: ClozeFact | None) -> AlteredItem:
    texts = (row.masked_sentences, row.masked_negations, row.masked_misprimed)
    if any(len(matches) != 1 or matches[0].count(MASK) != 1 for matches in texts):
        raise EvaluationError(f"not one sentence of each kind with exactly one {MASK}")
    question, negation, misprimed = (matches[0] for matches in texts)
    prime = misprimed.removesuffix(question).rstrip("? ")
    if not prime or not misprimed.endswith(f"? {question}"):
        raise EvaluationError(f"{misprimed!r} is not a word, a question mark and {question!r}")
    id = f"{relation}-{row.uuid}"
    subject = "" if relation == SQUAD else row.sub_label

    def item(kind: str, text: str) -> ClozeItem:
        return _item(f"{id}{kind}", relation, text, subject, row.obj_label, fact, group=id)

    negated = None if negation == question else item("/negated", negation)
    return AlteredItem(item("", question), negated, item("/misprimed", misprimed), prime)


def _item(
    id: str,
    relation: str,
    masked: str,
    subject: str,
    answer: str,
    fact: ClozeFact | None,
    *,
    group: str = "",
) -> ClozeItem:
    start = masked.index(MASK)
    text = masked.replace(MASK, HOLE)
    hole = Mention(start, start + len(HOLE))
    subject_start = (
        text.rfind(subject) if subject else -1
    )  # a prime may hold the subject: take the last
    links: tuple[Link, ...] = ()
    clear = subject_start >= hole.end or 0 <= subject_start <= hole.start - len(subject)
    if fact is not None and clear:
        links = (gold_link(subject_start, subject_start + len(subject), fact.head or None),)
    triple = None if fact is None else fact.triple
    linked = LinkedText(text, links, id)
    return ClozeItem(id, relation, linked, hole, subject, answer, (), triple, group)
