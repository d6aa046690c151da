"""Facts of LAMA, ParaRel and LPAQA, and the questions that templates make of them.

`ClozeFact` knows strings and, where the source gives them, identifiers; `questions` puts facts into
templates. Counts go through a `DamageReport`: every fact is used, or skipped with its reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.items.sources import rows, stem
from kept.lab.probing.items.templates import Templates
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport


@dataclass(frozen=True, slots=True)
class ClozeFact:
    """A subject, a relation and the answer; `head` and `tail` are identifiers, "" where unknown."""

    id: str
    relation: str
    subject: str
    answer: str
    head: str = ""
    tail: str = ""

    @property
    def triple(self) -> tuple[str, str, str] | None:
        """The fact as identifiers of a graph, None unless both ends are known."""
        return (self.head, self.relation, self.tail) if self.head and self.tail else None

    @property
    def key(self) -> tuple[str, str]:
        """The relation, and the subject by identifier or else by name."""
        return self.relation, self.head or self.subject


@dataclass(frozen=True)
class QuestionSet:
    """Items with every object of their relations, and what was left out, by reason.

    `n_drawn_from`: facts before sampling. `templates`: those used, where they are the user's or the
    graph's own; `by_default`: relations whose template is their label.
    """

    items: list[ClozeItem]
    objects: dict[str, list[str]]
    n_drawn_from: int
    left_out: dict[str, int]
    templates: Templates = field(default_factory=dict)
    by_default: list[str] = field(default_factory=list)

    @property
    def texts(self) -> dict[str, list[str]]:
        """The bare texts of the templates."""
        return {
            relation: [one.text for one in templates]
            for relation, templates in self.templates.items()
        }


class _Row(msgspec.Struct):
    sub_label: str
    obj_label: str
    uuid: str = ""
    sub_uri: str = ""
    obj_uri: str = ""
    predicate_id: str = ""


def read_facts(path: str | Path, report: DamageReport) -> Iterator[ClozeFact]:
    """Facts of LAMA's T-REx part (Petroni et al. 2019), of ParaRel or of LPAQA.

    All three have one object per line. ParaRel's have no identifiers, LPAQA's no `uuid` (the id is
    then the line); both have no relation, which is the file's name. `path` is a file, a folder or
    an archive.
    """
    report.units = "facts"
    for name, number, offset, raw, row in rows(path, report, _Row):
        if not row.sub_label.strip() or not row.obj_label.strip():
            report.reject(name, number, offset, "a subject or object without a name", raw)
            continue
        relation = row.predicate_id or stem(name)
        id = row.uuid or f"{relation}-{number}"
        report.n_texts += 1
        yield ClozeFact(id, relation, row.sub_label, row.obj_label, row.sub_uri, row.obj_uri)


def draw_facts(
    facts: Sequence[ClozeFact], per_relation: int | None, *, seed: int
) -> list[ClozeFact]:
    """Sample at most so many facts per relation, keeping their order; None takes all."""
    if per_relation is None:
        return list(facts)
    by_relation: dict[str, list[int]] = {}
    for index, fact in enumerate(facts):
        by_relation.setdefault(fact.relation, []).append(index)
    sampled: list[int] = []
    for relation, indices in by_relation.items():
        order = generator(seed, "probed facts", relation).permutation(len(indices))
        sampled.extend(indices[i] for i in order[:per_relation].tolist())
    return [facts[index] for index in sorted(sampled)]


def answers_by_subject(facts: Iterable[ClozeFact]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Every right answer to a subject and relation that the facts hold, in their order."""
    by_subject: dict[tuple[str, str], dict[str, None]] = {}
    for fact in facts:
        by_subject.setdefault(fact.key, {})[fact.answer] = None
    return {key: tuple(answers) for key, answers in by_subject.items()}


def questions(
    facts: Sequence[ClozeFact],
    templates: Templates,
    report: DamageReport,
    *,
    known_answers: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> list[ClozeItem]:
    """Each fact in every template of its relation; the questions of one fact are one group.

    `known_answers` are the right answers by subject (`answers_by_subject`, default: of these
    facts); those other than the fact's own are `also_right`. A fact whose relation has no template,
    or whose subject holds `[Y]`, is skipped and counted. Units are facts.
    """
    report.units = "facts"
    answers = answers_by_subject(facts) if known_answers is None else known_answers
    items: list[ClozeItem] = []
    for fact in facts:
        report.n_lines += 1
        reason = _why_not(fact, templates)
        if reason is not None:
            report.skip(reason)
            continue
        report.n_texts += 1
        others = tuple(a for a in answers.get(fact.key, ()) if a != fact.answer)
        items.extend(_items_of(fact, templates, others))
    return items


def _why_not(fact: ClozeFact, templates: Templates) -> str | None:
    if not templates.get(fact.relation):
        return "no template of the relation"
    return f"{HOLE} in the subject" if HOLE in fact.subject else None


def _items_of(
    fact: ClozeFact, templates: Templates, others: tuple[str, ...]
) -> Iterator[ClozeItem]:
    texts = templates[fact.relation]
    for number, template in enumerate(texts):
        id = fact.id if len(texts) == 1 else f"{fact.id}/{number}"
        linked, hole = template.fill(fact.subject, fact.head or None, id)
        yield ClozeItem(
            id,
            fact.relation,
            linked,
            hole,
            fact.subject,
            fact.answer,
            others,
            fact.triple,
            f"{fact.relation}/{fact.id}",
        )


def with_answers_of(items: Iterable[ClozeItem], graph: KnowledgeGraph) -> list[ClozeItem]:
    """Add to `also_right` the graph's answers to the same subject and relation (1:N answers)."""
    completed = []
    for item in items:
        names = [*item.also_right, *_tails(item, graph)]
        others = tuple(name for name in dict.fromkeys(names) if name != item.answer)
        completed.append(dataclasses.replace(item, also_right=others))
    return completed


def _tails(item: ClozeItem, graph: KnowledgeGraph) -> list[str]:
    if item.fact is None:
        return []
    head, relation = graph.entities.find(item.fact[0]), graph.relations.find(item.fact[1])
    if head is None or relation is None:
        return []
    rows = graph.outgoing(head)
    return [graph.label(int(tail)) for _, r, tail in rows if r == relation]
