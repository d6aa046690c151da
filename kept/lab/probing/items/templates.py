"""Cloze templates of relations: "[X] was born in [Y] .", from every collection of prompts.

LAMA (Petroni et al. 2019), LPAQA (Jiang et al. 2020), AutoPrompt (Shin et al. 2020, as OptiPrompt,
Zhong et al. 2021, hands them on) and ParaRel (Elazar et al. 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from entity_linking.annotations import decode_row, gold_link
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.errors import EvaluationError
from kept.lab.probing.items.item import HOLE
from kept.lab.probing.items.sources import lines, stem
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import JSON_FAULTS

SUBJECT = "[X]"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with `[X]` and `[Y]` once each; `weight` is LPAQA's, 1 elsewhere.

    `kind` is LAMA's class of relation (1-1, N-1, N-M) and `label` the relation's name, "" where the
    source gives none.
    """

    relation: str
    text: str
    weight: float = 1.0
    label: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        if self.text.count(SUBJECT) != 1 or self.text.count(HOLE) != 1:
            raise EvaluationError(
                f"template {self.text!r} of {self.relation} needs {SUBJECT} and {HOLE} once each"
            )

    def fill(self, subject: str, entity: str | None, id: str) -> tuple[LinkedText, Mention]:
        """The text about a subject, linked where its entity is known, and the place of the hole.

        >>> linked, hole = Template("P19", "[X] was born in [Y] .").fill("Ada", "Q7259", "1")
        >>> linked.text, linked.links[0].mention, hole
        ('Ada was born in [Y] .', Mention(start=0, end=3), Mention(start=16, end=19))
        """
        start, hole = self.text.index(SUBJECT), self.text.index(HOLE)
        hole += len(subject) - len(SUBJECT) if hole > start else 0
        text = self.text.replace(SUBJECT, subject)
        links = (gold_link(start, start + len(subject), entity),)
        return LinkedText(text, links, id), Mention(hole, hole + len(HOLE))


Templates = Mapping[str, Sequence[Template]]


class _Row(msgspec.Struct):
    template: str | None = None
    pattern: str | None = None
    relation: str = ""
    weight: float = 1.0
    label: str = ""
    type: str = ""


def read_templates(
    path: str | Path, report: DamageReport, *, inside: str = ""
) -> dict[str, list[Template]]:
    """Templates by relation, in the order of their files, each text once a relation.

    A row is an object with `template` (LAMA, LPAQA, OptiPrompt) or `pattern` (ParaRel), in a `.tsv`
    file `relation<TAB>template`, in a `.txt` file the bare text; without `relation` the file's name
    is the relation. Several templates of a relation are paraphrases. Of an archive only files below
    a folder named `inside` count. A text without `[X]` or `[Y]`, or with more than one, is
    rejected.
    """
    report.units = "templates"
    templates: dict[str, list[Template]] = {}
    for name, number, offset, raw in lines(path, report, inside):
        try:
            row = _row(name, raw)
            text, relation = row.template or row.pattern or "", row.relation or stem(name)
            template = Template(relation, text, row.weight, row.label, row.type)
        except (EvaluationError, LinkingError, *JSON_FAULTS) as error:
            report.reject(name, number, offset, str(error), raw)
            continue
        of_relation = templates.setdefault(relation, [])
        if any(text == other.text for other in of_relation):
            report.n_duplicates += 1
            continue
        report.n_texts += 1
        of_relation.append(template)
    return templates


def _row(name: str, raw: bytes) -> _Row:
    if name.endswith(".txt"):
        return _Row(raw.decode())
    if not name.endswith(".tsv"):
        return decode_row(raw, msgspec.json.Decoder(_Row))
    relation, tab, text = raw.decode().strip().partition("\t")
    if not tab:
        raise EvaluationError(f"no tab in {relation!r}; write relation<TAB>template")
    return _Row(text.strip(), relation=relation)


def first_of_each(templates: Templates) -> dict[str, list[Template]]:
    """One template a relation: that of the largest weight, the first among equals."""
    return {
        relation: [max(texts, key=lambda template: template.weight)]
        for relation, texts in templates.items()
    }
