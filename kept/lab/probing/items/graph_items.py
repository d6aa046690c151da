"""Cloze questions from anyone's graph: its own triples, in templates or by their labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kept.errors import ConfigError
from kept.lab.probing.items.facts import (
    ClozeFact,
    QuestionSet,
    answers_by_subject,
    draw_facts,
    questions,
)
from kept.lab.probing.items.item import HOLE
from kept.lab.probing.items.templates import SUBJECT, Template, Templates
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.damage import DamageReport
from kg_loaders.entity import relation_named
from kg_loaders.errors import AmbiguousNameError, UnknownNodeError

UNLABELLED = "triple whose head or tail has no label"


def graph_questions(
    graph: KnowledgeGraph,
    relations: Sequence[str] | None,
    templates: Templates,
    *,
    max_items: int | None,
    seed: int,
) -> QuestionSet:
    """The triples of `relations` as questions for their tails; None: of all that have any.

    Relations and keys of `templates` are identifiers or labels. A relation without a template gets
    "[X] LABEL [Y] .". Other tails of the same head and relation
    are right, too. At most `max_items` triples per relation, sampled by the seed. Raises
    `ConfigError` for a relation that the graph does not have, one without a triple that has labels,
    or a graph without any.
    """
    asks_all = relations is None
    relations = list(graph.relations) if relations is None else relations
    relations = list(dict.fromkeys(_identifier(graph, name) for name in relations))
    templates = {_identifier(graph, name): texts for name, texts in templates.items()}
    unknown = [relation for relation in relations if graph.relations.find(relation) is None]
    if unknown:
        some = ", ".join(graph.relations.name(row) for row in range(min(10, graph.n_relations)))
        raise ConfigError(f"the graph has no relation {', '.join(unknown)}; it has {some} …")
    facts, n_unlabelled = graph_facts(graph, relations)
    if asks_all:
        relations = _labelled(facts, graph)
    by_default = [relation for relation in relations if not templates.get(relation)]
    used = {relation: list(templates.get(relation, ())) for relation in relations}
    for relation in by_default:
        used[relation] = [_default(graph, relation)]
    empty = [name for name in relations if not any(fact.relation == name for fact in facts)]
    if empty:
        raise ConfigError(
            f"no triple of {', '.join(empty)} has a label at both ends; add labels to the graph, "
            "or leave the relation out"
        )
    report = DamageReport()
    sampled = draw_facts(facts, max_items, seed=seed)
    items = questions(sampled, used, report, known_answers=answers_by_subject(facts))
    left_out = {UNLABELLED: n_unlabelled} if n_unlabelled else {}
    objects = {name: sorted({f.answer for f in facts if f.relation == name}) for name in relations}
    left_out |= report.skipped
    return QuestionSet(items, objects, len(facts), left_out, used, by_default)


def _identifier(graph: KnowledgeGraph, name: str) -> str:
    """The identifier of a relation by identifier or label; a name that is neither stays."""
    try:
        return relation_named(graph, name)
    except AmbiguousNameError:
        raise
    except UnknownNodeError:
        return name


def _labelled(facts: Sequence[ClozeFact], graph: KnowledgeGraph) -> list[str]:
    """The relations of `facts`; raises `ConfigError` where there are none."""
    if not facts:
        raise ConfigError(
            f"none of the graph's {graph.n_triples} triples has a label at both ends, so there is "
            "nothing to ask; add labels to its entities, or ask a collection"
        )
    return list(dict.fromkeys(fact.relation for fact in facts))


def graph_facts(graph: KnowledgeGraph, relations: Sequence[str]) -> tuple[list[ClozeFact], int]:
    """The triples of `relations` whose ends have labels, and how many others there are."""
    facts: list[ClozeFact] = []
    n_unlabelled = 0
    for relation in dict.fromkeys(relations):
        triples = graph.triples[graph.triples[:, 1] == graph.relations.find(relation)]
        labels = {i: _label(graph, i) for i in np.unique(triples[:, [0, 2]]).tolist()}
        for head, _, tail in triples.tolist():
            subject, answer = labels[head], labels[tail]
            if subject and answer:
                names = graph.entities.name(head), graph.entities.name(tail)
                id = f"{names[0]} {relation} {names[1]}"
                facts.append(ClozeFact(id, relation, subject, answer, *names))
            else:
                n_unlabelled += 1
    return facts, n_unlabelled


def _label(graph: KnowledgeGraph, entity: int) -> str:
    """The entity's own label, "" where it has none."""
    labels = graph.entity_texts.of(entity, TextKind.LABEL)
    return labels[0][0].strip() if labels else ""


def _default(graph: KnowledgeGraph, relation: str) -> Template:
    row = graph.relations.find(relation)
    assert row is not None
    return Template(relation, f"{SUBJECT} {graph.relation_label(row)} {HOLE} .")
