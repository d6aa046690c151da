"""Questions of a file and of templates: what is read, what is refused and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kept import atlas
from kept.errors import ConfigError
from kept.lab.questions.items import QuestionSet, question_sets, read_items, spread
from kept.lab.questions.source import Source, Wording
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import DamageError

ROW = {
    "question": "Where was Ada Lovelace born?", "subject": "Q1", "relation": "P19",
    "answer": "London", "begin": "She was born in",
}  # fmt: skip


def graph() -> KnowledgeGraph:
    names = {"Q1": "Ada Lovelace", "Q2": "Alan Turing", "Q3": "London", "Q4": "Paris", "Q5": "Rome"}
    names |= {"Q6": "Rome"}
    relations = {"P19": "place of birth", "P106": "occupation"}
    return graph_from_records(
        [
            *(Text(e, TextKind.LABEL, name) for e, name in names.items()),
            Text("Q1", TextKind.ALIAS, "Countess of Lovelace"),
            *(Text(r, TextKind.LABEL, n, is_relation=True) for r, n in relations.items()),
            Triple("Q1", "P19", "Q3"), Triple("Q2", "P19", "Q4"), Triple("Q2", "P19", "Q5"),
            Triple("Q1", "P106", "Q6"),
        ]
    )  # fmt: skip


def write(path: Path, *rows: Any) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    rows = [
        ROW,
        ROW | {"question": "Whose city was the Countess of Lovelace's?", "subject": "Ada Lovelace"},
        {"question": "And Alan Turing?", "subject": "Q2", "relation": "place of birth",
         "answer": ["Paris", "Q5"]},
    ]  # fmt: skip
    items = list(read_items(write(tmp_path / "q.jsonl", rows[0], "", *rows[1:]), graph()))
    assert [item.name for item in items] == ["Ada Lovelace", "Countess of Lovelace", "Alan Turing"]
    assert [item.entity for item in items] == ["Q1", "Q1", "Q2"]
    assert {item.relation for item in items} == {"P19"}
    assert [item.answers for item in items] == [("London",), ("London",), ("Paris", "Rome")]
    assert [item.begin for item in items] == ["She was born in", "She was born in", ""]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r"q\.jsonl, line 2 .*Input data was truncated"),
        ({k: v for k, v in ROW.items() if k != "answer"}, "line 2 .*missing required field"),
        (ROW | {"answers": "London"}, "line 2 .*unknown field `answers`"),
        (ROW | {"subject": "Q9"}, "line 2 .*no entity in the graph 'Q9'"),
        (ROW | {"subject": "Rome"}, "line 2 .*2 entities are called 'Rome': give the id, one of"),
        (ROW | {"relation": "P20"}, "line 2 .*no relation in the graph 'P20'"),
        (ROW | {"question": "Where was she born?"}, "does not name its subject 'Q1'; write one of"),
        (ROW | {"answer": "Londn"}, "'Londn' is not in the graph.*mean London.*kept kg add"),
        (ROW | {"answer": []}, "answer is an empty list; give one value or more"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path / "q.jsonl", ROW, row)
    with pytest.raises(DamageError, match=message):
        list(read_items(path, graph()))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone.jsonl does not exist.*JSON lines with question"):
        list(read_items(tmp_path / "gone.jsonl", graph()))


def test_facts_are_asked_for_by_templates(tmp_path: Path) -> None:
    folder = tmp_path / "kg"
    atlas.graph().save(folder)
    whole = atlas.graph()
    wording = {"capital": {"question": "Which city rules {name}?", "begin": ""}}
    source = Source(
        kg="kg", wording={k: Wording(**v) for k, v in wording.items()}, max_asked=10_000
    )
    train, questions = question_sets(source, tmp_path)
    assert questions.items
    assert train.items
    assert not {i.entity for i in train.items} & {i.entity for i in questions.items}
    pairs = {tuple(pair) for pair in whole.triples[:, :2].tolist()}
    assert len(train.items) + len(questions.items) == len(pairs)
    for item in questions.items:
        entity, relation = questions.fact_of(item)
        assert whole.label(entity) == item.name
        tails = {t for h, r, t in whole.triples.tolist() if (h, r) == (entity, relation)}
        assert set(item.answers) == {whole.label(tail) for tail in tails}
    named = {item.question for item in questions.items if item.relation == "capital"}
    assert all(question.startswith("Which city rules ") for question in named)
    few = question_sets(source.model_copy(update={"max_asked": 5}), tmp_path)[1]
    assert len({item.entity for item in few.items}) == 5
    with pytest.raises(ConfigError, match="no relation"):
        question_sets(source.model_copy(update={"relations": ("captal",)}), tmp_path)


def test_the_first_items_are_of_many_entities_and_relations() -> None:
    source = Source(world="bearers", n_train=4, n_test=6, max_asked=24)
    items = question_sets(source, Path())[1].items
    assert len({item.entity for item in items[:6]}) == 6
    assert len({item.relation for item in items[:6]}) == 4
    assert sorted(map(str, spread(items))) == sorted(map(str, items))


def test_the_demos_company_is_asked_in_its_own_words() -> None:
    train, questions = question_sets(Source(world="company", n_train=8, n_test=4), Path())
    first = questions.items[0]
    assert first.question == f"What does {first.name} work as?"
    assert first.begin == f"{first.name} works as a"
    assert isinstance(train, QuestionSet)
    relation = questions.fact_of(first)[1]
    assert questions.statement(first.name, relation, "baker") == f"{first.name} works as a baker."


def test_an_entity_of_both_files_is_refused(tmp_path: Path) -> None:
    graph().save(tmp_path / "kg")
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", ROW)
    source = Source(kg="kg", asked="a.jsonl", train="b.jsonl")
    with pytest.raises(ConfigError, match="1 entities are in questions of training and of the"):
        question_sets(source, tmp_path)
    alone = question_sets(source.model_copy(update={"train": None}), tmp_path)
    assert (len(alone[0].items), len(alone[1].items)) == (0, 1)
    write(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match=r"nothing to ask: a.jsonl has no question"):
        question_sets(source.model_copy(update={"train": None}), tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give world .* or kg, exactly one"),
        ({"world": "bearers", "kg": "kg"}, "exactly one"),
        ({"world": "bearers", "asked": "q.jsonl"}, "are of a graph of your own: give kg"),
        ({"kg": "kg", "train": "q.jsonl"}, "give asked, too"),
        ({"kg": "kg", "wording": {"P1": {"question": "Who?"}}}, "needs {name}"),
        ({"kg": "kg", "wording": {"P1": {"begin": "{value}"}}}, "only {name}, {relation}"),
        ({"kg": "kg", "wording": {"P1": {"statement": "{name} is"}}}, "needs {value}"),
    ],
)
def test_faulty_sources(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source.model_validate(fields)


@pytest.mark.parametrize(
    "question",
    ["Where was the Countess of Lovelace, Ada Lovelace, born?",
     "Where was Ada Lovelace, Countess of Lovelace, born?"],
)  # fmt: skip
def test_of_two_names_in_a_question_the_longest_is_the_mention(
    question: str, tmp_path: Path
) -> None:
    """Whichever comes first: a label that is part of a longer name is not the mention."""
    path = write(tmp_path / "a.jsonl", ROW | {"question": question})
    (item,) = read_items(path, graph())
    assert item.name == "Countess of Lovelace"
    assert item.mention.start == question.index("Countess")


def test_an_id_in_the_question_is_a_name_and_shorter_than_a_label(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ROW | {"question": "Q1: where was Ada Lovelace born?"},
                 ROW | {"question": "Where was Q1 born?"})  # fmt: skip
    assert [item.name for item in read_items(path, graph())] == ["Ada Lovelace", "Q1"]
