"""The fact-edit probe: who reads the graph follows an edit, who does not stays as they were."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from kept.errors import EvaluationError
from kept.graphs.builder import BuilderConfig
from kept.lab.probing.edits import (
    NEW,
    SCOPES,
    FactEdit,
    Moved,
    draw_edits,
    edit_table,
    edited,
    probe_edits,
    scope_of,
    summarise,
)
from kept.lab.probing.engine import probe
from kept.lab.probing.items.graph_items import graph_questions
from kept.lab.probing.items.item import ClozeItem, objects_of
from kept.lab.probing.items.templates import Template
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.lab.probing.results import ProbeAnswer, ProbeResult, Ranking
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_hosts import method_encoder

TEMPLATES = {"P17": [Template("P17", "the [X] of [Y] ."), Template("P17", "[X] near [Y] .")]}
EDIT = FactEdit(("Q90", "P17", "Q142"), "Q183", "France", "Germany")


@pytest.fixture(scope="module")
def items(small_graph: KnowledgeGraph) -> list[ClozeItem]:
    relations = ["P17", "P36", "P37"]
    return graph_questions(small_graph, relations, TEMPLATES, max_items=None, seed=0).items


def ranking(graph: KnowledgeGraph, item: ClozeItem, knows: KnowledgeGraph) -> Ranking:
    """Two answers compete; the true one in `knows` has the better score."""
    assert item.fact is not None
    head, relation, tail = item.fact
    row = [graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)]
    holds = bool(knows.contains(np.array([row], np.int32))[0])
    return Ranking(1 if holds else 2, 2, float(holds), (item.answer if holds else "?",), 0.5, holds)


def ask_with(reads: bool, whole: KnowledgeGraph) -> Any:
    def probe_graph(graph: KnowledgeGraph, items: Sequence[ClozeItem]) -> ProbeResult:
        answers = tuple(
            ProbeAnswer(
                i.id, i.relation, i.group, i.subject, i.answer, asked_shown=reads,
                objects=None if i.relation == "P37"
                else ranking(whole, i, graph if reads else whole),
            )
            for i in items
        )  # fmt: skip
        return ProbeResult("oracle", "x", "graph", "shown", "at_once", answers)

    return probe_graph


def test_one_triple_changes(small_graph: KnowledgeGraph) -> None:
    graph = edited(small_graph, EDIT)
    assert graph.n_triples == small_graph.n_triples
    assert int(small_graph.contains(graph.triples).sum()) == small_graph.n_triples - 1
    assert graph.id_space_hash == small_graph.id_space_hash
    back = edited(graph, FactEdit(("Q90", "P17", "Q183"), "Q142", "Germany", "France"))
    assert back.content_hash == small_graph.content_hash


def test_scopes(items: list[ClozeItem]) -> None:
    scopes = {item.fact: scope_of(item, EDIT) for item in items}
    assert scopes["Q90", "P17", "Q142"] == "edited"
    assert scopes["Q1471", "P17", "Q142"] == "same answer"
    assert scopes["Q64", "P17", "Q183"] == "same relation"
    assert scopes["Q142", "P36", "Q90"] == "unrelated"
    other = FactEdit(("Q142", "P36", "Q90"), "Q64", "Paris", "Berlin")
    assert {scope_of(i, other) for i in items if i.fact == ("Q142", "P37", "Q150")} == {
        "same subject"
    }


def test_a_reader_follows_and_leaves_the_rest_alone(
    small_graph: KnowledgeGraph, items: list[ClozeItem]
) -> None:
    moved = probe_edits(small_graph, [EDIT], items, ask_with(True, small_graph), seed=1)
    rows = {row.scope: row for row in summarise(moved)}
    for scope in ("edited", "paraphrase"):
        assert (rows[scope].new_first_before, rows[scope].new_first_after) == (0.0, 1.0)
        assert (rows[scope].changed, rows[scope].rank_change, rows[scope].n_shown) == (1, 1, 1)
    assert rows["same answer"].new_first_after == rows["same answer"].changed == 0
    assert rows["same relation"].new_first_after is None
    assert (rows["unrelated"].n_items, rows["unrelated"].n_ranked) == (4, 2)  # P37 has no rank
    assert len(moved) == len(items)
    table = edit_table(list(rows.values()))
    assert "| edited | 1 | 1 | 1 | 0.000 | 1.000 | 1.000 | 1.000 | -1.000 |" in table
    assert [*rows] == [scope for scope in SCOPES if scope in rows]


def test_who_does_not_read_stays(small_graph: KnowledgeGraph, items: list[ClozeItem]) -> None:
    edits = draw_edits(items, small_graph, 3, seed=0)
    moved = probe_edits(small_graph, edits, items, ask_with(False, small_graph), per_scope=1)
    rows = summarise(moved)
    assert {m.edit for m in moved} == {0, 1, 2}
    assert all(row.changed in (0.0, None) and row.score_change in (0.0, None) for row in rows)
    without_paraphrases = [m for m in moved if m.scope != "paraphrase"]
    assert len(without_paraphrases) == len({(m.edit, m.scope) for m in without_paraphrases})
    assert next(row for row in rows if row.scope == "edited").new_first_interval is not None


def test_edits_are_drawn_from_what_is_asked(
    small_graph: KnowledgeGraph, items: list[ClozeItem]
) -> None:
    edits = draw_edits(items, small_graph, 100, seed=3)
    assert edits == draw_edits(items, small_graph, 100, seed=3)
    assert len(edits) == len({item.fact for item in items})
    for edit in edits:
        assert (
            edit.old_answer
            != edit.new_answer
            == small_graph.label(small_graph.entities.id(edit.tail))
        )
        assert edited(small_graph, edit).content_hash != small_graph.content_hash


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (FactEdit(("Q90", "P17", "Q46"), "Q183", "a", "b"), "is not a triple"),
        (FactEdit(("Q90", "P17", "Q142"), "Q142", "a", "b"), "is true already"),
        (FactEdit(("Q90", "P17", "Q142"), "Q9", "a", "b"), "does not know all of its names"),
        (FactEdit(("Q90", "P206", "Q1471"), "Q142", "a", "b"), "no item is about"),
    ],
)
def test_faulty_edits(
    edit: FactEdit, message: str, small_graph: KnowledgeGraph, items: list[ClozeItem]
) -> None:
    with pytest.raises(EvaluationError, match=message):
        probe_edits(small_graph, [edit], items, ask_with(True, small_graph))


def test_a_network_that_reads_the_graph_moves_and_one_that_does_not_stays(
    small_graph: KnowledgeGraph, items: list[ClozeItem], tokenizer: Any
) -> None:
    torch.manual_seed(5)
    model = KnowledgeForPreTraining.of(method_encoder("kbert", small_graph, tokenizer), {"mlm": {}})
    moved: dict[str, list[Moved]] = {}
    for mode in ("graph", "weights"):

        def probe_graph(
            graph: KnowledgeGraph, questions: Sequence[ClozeItem], mode: Any = mode
        ) -> ProbeResult:
            reads = mode == "graph"
            reader = KeptMaskedLM(
                model, tokenizer, mode, graph if reads else None, show_asked=reads,
                builder=BuilderConfig(max_neighbours=9),
            )  # fmt: skip
            return probe(reader, questions, vocabulary=None, objects=objects_of(items))

        moved[mode] = probe_edits(small_graph, [EDIT], items, probe_graph)
    rows = {mode: {row.scope: row for row in summarise(moves)} for mode, moves in moved.items()}
    assert rows["graph"]["edited"].n_shown == 1
    assert rows["graph"]["same answer"].n_shown == rows["graph"]["same answer"].n_items == 2
    assert rows["graph"]["edited"].score_change != 0
    assert all(row.score_change == 0 for row in rows["weights"].values())


def test_both_answers_are_scored_on_the_same_facts(tokenizer: Any) -> None:
    names = [f"city{i}" for i in range(30)]
    triples = [Triple("paris", f"r{i % 3}", name) for i, name in enumerate(names)]
    labels = [Text(name, TextKind.LABEL, name.title(), "en") for name in ("paris", *names)]
    graph = graph_from_records([*triples, *labels])
    items = graph_questions(graph, None, {}, max_items=None, seed=0).items
    edits = [FactEdit(("paris", "r0", f"city{i}"), "city1", f"City{i}", "City1") for i in (0, 3)]
    torch.manual_seed(5)
    model = KnowledgeForPreTraining.of(method_encoder("kbert", graph, tokenizer), {"mlm": {}})
    objects = {relation: sorted(names) for relation in graph.relations}
    pairs: list[tuple[float, float]] = []

    def probe_graph(world: KnowledgeGraph, questions: Sequence[ClozeItem]) -> ProbeResult:
        settings = BuilderConfig(max_neighbours=15)
        reader = KeptMaskedLM(model, tokenizer, "graph", world, show_asked=True, builder=settings)
        result = probe(reader, questions, vocabulary=None, objects=objects)
        sure = {answer.id: answer.objects.probability for answer in result.answers
                if answer.objects}  # fmt: skip
        pairs.extend((sure[id], sure[id + NEW]) for id in sure if id + NEW in sure)
        return result

    probe_edits(graph, edits, items, probe_graph, seed=0)
    assert len(pairs) == 4
    for old, new in pairs:
        assert old == pytest.approx(new, rel=1e-6)


def test_a_new_answer_is_known_to_the_graph(
    small_graph: KnowledgeGraph, items: list[ClozeItem]
) -> None:
    (paris,) = (item for item in items if item.fact == ("Q142", "P36", "Q90"))
    others = [
        dataclasses.replace(paris, answer=f"X{i}", fact=("Q142", "P36", f"X{i}")) for i in range(50)
    ]
    edits = draw_edits([*items, *others], small_graph, 100, seed=3)
    (edit,) = (edit for edit in edits if edit.fact == paris.fact)
    assert edit.tail in small_graph.entities


def test_relations_and_templates_are_named_by_label_too(small_graph: KnowledgeGraph) -> None:
    by_id = graph_questions(small_graph, ["P17"], {"P17": TEMPLATES["P17"]}, max_items=None, seed=0)
    label = small_graph.relation_label(small_graph.relations.id("P17"))
    assert label != "P17"
    templates = {label: TEMPLATES["P17"]}
    assert graph_questions(small_graph, [label], templates, max_items=None, seed=0) == by_id
