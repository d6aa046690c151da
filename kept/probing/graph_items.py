"""Cloze items from anyone's graph: its own triples, asked by templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.probing.items import HOLE, ClozeItem
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from kg_loaders.lines import read_lines

SUBJECT = "[X]"
UNLABELLED = "head or tail has no label"


@dataclass(frozen=True)
class GraphQuestions:
    """Items of a graph with every object of their relations, and what was left out, by reason.

    `templates`: relation to those used; `by_default`: relations whose template is their label.
    """

    items: list[ClozeItem]
    objects: dict[str, list[str]]
    templates: dict[str, list[str]]
    by_default: list[str]
    left_out: dict[str, int] = field(default_factory=dict)


def read_templates(path: Path) -> dict[str, list[str]]:
    """Templates of each relation: `relation<TAB>template` lines, or JSONL with these two fields.

    A relation may have several: they ask for the same facts in other words. Raises `ConfigError`
    naming the line for a template without exactly one [X] and one [Y].
    """
    found: dict[str, list[str]] = {}
    for line, _, raw in read_lines(path, DamageReport()):
        text = raw.decode().strip()
        if not text:
            continue
        relation, template = _template(text, f"{path}:{line}")
        found.setdefault(relation, []).append(template)
    if not found:
        raise ConfigError(f"{path} holds no template")
    return found


def _template(text: str, place: str) -> tuple[str, str]:
    if text.startswith("{"):
        try:
            values = json.loads(text)
            relation, template = str(values["relation"]), str(values["template"])
        except (ValueError, KeyError) as error:
            raise ConfigError(
                f"{place}: {error!r}; a line of JSON has the fields relation and template"
            ) from error
    else:
        relation, tab, template = text.partition("\t")
        if not tab:
            raise ConfigError(f"{place}: no tab in {text!r}; write relation<TAB>template")
    relation, template = relation.strip(), template.strip()
    if template.count(SUBJECT) != 1 or template.count(HOLE) != 1:
        raise ConfigError(
            f"{place}: the template {template!r} of {relation} needs {SUBJECT} and {HOLE}, each "
            "once"
        )
    return relation, template


def graph_questions(
    graph: KnowledgeGraph,
    relations: Sequence[str],
    templates: Mapping[str, Sequence[str]],
    *,
    max_items: int | None,
    seed: int,
) -> GraphQuestions:
    """The triples of `relations` as questions for their tails.

    A relation without a template gets "[X] LABEL [Y] .". Other tails of the same head and relation
    are right, too. At most `max_items` triples a relation, drawn by the seed, in the graph's order;
    triples whose head or tail has no label are left out, and counted. Raises `ConfigError` for
    relations that the graph does not have, or that have no triple.
    """
    ids = {relation: graph.relations.find(relation) for relation in relations}
    unknown = [relation for relation, row in ids.items() if row is None]
    if unknown:
        raise ConfigError(
            f"the graph has no relation {', '.join(unknown)}; kept kg stats DIR lists them"
        )
    found = GraphQuestions([], {}, {}, [], {})
    for relation, row in ids.items():
        assert row is not None
        default = f"{SUBJECT} {graph.relation_label(row)} {HOLE} ."
        chosen = list(templates.get(relation, ()))
        if not chosen:
            found.by_default.append(relation)
        found.templates[relation] = chosen or [default]
        rows = np.flatnonzero(graph.triples[:, 1] == row)
        _add(found, graph, relation, graph.triples[rows], max_items, seed)
    if not found.items:
        raise ConfigError(f"no triple of {', '.join(relations)} has labels: {found.left_out}")
    return found


def _add(
    found: GraphQuestions,
    graph: KnowledgeGraph,
    relation: str,
    triples: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    max_items: int | None,
    seed: int,
) -> None:
    """The items of one relation."""
    labels = {i: _label(graph, i) for i in np.unique(triples[:, [0, 2]]).tolist()}
    pairs = [(head, tail) for head, _, tail in triples.tolist()]
    named = [(head, tail) for head, tail in pairs if labels[head] and labels[tail]]
    if n := len(pairs) - len(named):
        found.left_out[UNLABELLED] = found.left_out.get(UNLABELLED, 0) + n
    found.objects[relation] = sorted({labels[tail] or "" for _, tail in named})
    tails: dict[int, list[str]] = {}
    for head, tail in named:
        tails.setdefault(head, []).append(labels[tail] or "")
    if max_items is not None and len(named) > max_items:
        order = generator(seed, "probed triples", relation).permutation(len(named))
        named = [named[i] for i in np.sort(order[:max_items]).tolist()]
    for head, tail in named:
        subject, answer = labels[head] or "", labels[tail] or ""
        fact = (graph.entities.name(head), relation, graph.entities.name(tail))
        others = tuple(dict.fromkeys(name for name in tails[head] if name != answer))
        for number, template in enumerate(found.templates[relation]):
            linked, hole = from_template(template, subject, fact[0])
            item_id = " ".join(fact) if not number else f"{' '.join(fact)} {number}"
            found.items.append(
                ClozeItem(
                    item_id, relation, linked, hole, subject, answer, others, fact, " ".join(fact)
                )
            )


def from_template(template: str, subject: str, entity: str) -> tuple[LinkedText, Mention]:
    """The template about a subject, linked to its entity, and where its hole is."""
    before, after = template.split(SUBJECT)
    start = len(before)
    text = before + subject + after
    hole = text.index(HOLE, 0 if HOLE in before else start + len(subject))
    link = gold_link(start, start + len(subject), entity)
    return LinkedText(text, (link,)), Mention(hole, hole + len(HOLE))


def _label(graph: KnowledgeGraph, entity: int) -> str | None:
    """A label of its own, not the identifier."""
    label = graph.label(entity).strip()
    return label if label and label != graph.entities.name(entity) else None
