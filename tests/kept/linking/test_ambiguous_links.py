"""Equal homonyms: marked in links, JSON, table, picture and page, never shown as certain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import kept
from entity_linking.annotations import read_jsonl, to_json
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.apps.cli import app
from kept.apps.explorer.opening import open_explorer
from kept.apps.explorer.questions import Choice, Question
from kept.apps.explorer.readers import with_choices
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport

TEXT = "Mercury is near the Sun."


def run(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    """Two entities with one label and as many facts, and one that nobody else is called like."""
    return graph_from_records(
        [
            Triple("e1", "near", "sun"), Triple("e2", "part of", "table"),
            Text("e1", TextKind.LABEL, "Mercury", "en"),
            Text("e2", TextKind.LABEL, "Mercury", "en"),
            Text("e1", TextKind.DESCRIPTION, "planet", "en"),
            Text("e2", TextKind.DESCRIPTION, "metal", "en"),
            Text("sun", TextKind.LABEL, "Sun", "en"), Text("table", TextKind.LABEL, "Table", "en"),
        ]
    )  # fmt: skip


@pytest.fixture(scope="module")
def kg(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ambiguous") / "kg"
    graph.save(folder)
    return folder


def a_link(*scores: float, entity: str | None = "a", confidence: float = 0.5) -> Link:
    names = zip("abcd", scores, strict=False)
    candidates = tuple(Candidate(name, 0.25, score) for name, score in names)
    return Link(Mention(0, 7), candidates, entity, confidence)


@pytest.mark.parametrize(
    ("link", "equals"),
    [
        (a_link(0.0, 0.0), ("b",)),
        (a_link(0.0, 0.0, -1.0, 0.0), ("b", "d")),
        (a_link(0.3 - 0.1, 0.2), ("b",)),
        (a_link(-700.0, -700.0), ("b",)),
        (a_link(0.0, -1e-6), ()),
        (a_link(0.0), ()),
        (a_link(), ()),
        (a_link(0.0, 0.0, entity=None), ()),
        (a_link(0.0, 0.0, confidence=1.0), ()),
        (a_link(0.0, 0.0, entity="elsewhere"), ()),
        (a_link(1.0, 0.0, 0.0), ()),
    ],
)
def test_only_equal_scores_are_ambiguous(link: Link, equals: tuple[str, ...]) -> None:
    assert link.equals == equals
    assert link.is_ambiguous is bool(equals)


def test_context_may_decide(graph: KnowledgeGraph) -> None:
    """The prior alone never knows; the mix does where a neighbour is in the text."""

    def is_ambiguous(text: str, method: str) -> bool:
        return bool(kept.link(text, graph, method=method).links[0].is_ambiguous)

    assert is_ambiguous(TEXT, "prior")
    assert not is_ambiguous(TEXT, "mix")
    assert is_ambiguous("Mercury is old.", "mix")


def test_json_lines_say_so_and_are_read_again(kg: Path, tmp_path: Path) -> None:
    done = run("link", TEXT, "--kg", kg, "--json")
    row = json.loads(done.stdout)
    assert [mention.get("ambiguous", False) for mention in row["mentions"]] == [True, False]
    path = tmp_path / "linked.jsonl"
    path.write_text(done.stdout, encoding="utf-8")
    (text,) = read_jsonl(path, DamageReport())
    assert [link.is_ambiguous for link in text.links] == [True, False]
    assert to_json(text) == done.stdout.strip().encode()


@pytest.mark.parametrize("flags", [(), ("--explain",)])
def test_the_table_says_so(kg: Path, flags: tuple[str, ...]) -> None:
    done = run("link", TEXT, "--kg", kg, *flags)
    assert "0.500 ambiguous" in done.output
    assert "1 ambiguous: two entities are equally likely" in done.stderr
    assert "ambiguous" not in run("link", "The Sun.", "--kg", kg, *flags).output


def test_the_picture_has_a_dashed_box_and_a_sentence(kg: Path, tmp_path: Path) -> None:
    for name in ("graph.svg", "graph.html"):
        done = run("show", TEXT, "--kg", kg, "-o", tmp_path / name)
        assert "“Mercury” is ambiguous" in " ".join(done.stderr.split())
        picture = (tmp_path / name).read_text(encoding="utf-8")
        assert picture.count('class="node anchor ambiguous"') == 1
        assert "“Mercury” is ambiguous: " in picture
        assert "Ambiguous: " in picture
    run("show", "The Sun.", "--kg", kg, "-o", tmp_path / "sure.svg")
    assert "ambiguous: " not in (tmp_path / "sure.svg").read_text(encoding="utf-8")


def test_the_explorer_says_so_until_a_person_chooses(
    kg: Path, tokenizer: object, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path / "tokenizer")  # type: ignore[attr-defined]
    explorer = open_explorer(kg, (), tokenizer=str(tmp_path / "tokenizer"))
    links = explorer.link(Question(TEXT))["links"]
    assert [(link["ambiguous"], link["equals"]) for link in links] == [
        (True, ["Mercury"]), (False, []),
    ]  # fmt: skip
    choice = Choice(0, 7, links[0]["candidates"][1]["entity"])
    links = explorer.link(Question(TEXT, choices=(choice,)))["links"]
    assert links[0]["ambiguous"] is False


def test_a_choice_of_a_person_is_certain(graph: KnowledgeGraph) -> None:
    linked: LinkedText = kept.link(TEXT, graph)
    assert not with_choices(linked, {(0, 7): "e2"}).links[0].is_ambiguous
