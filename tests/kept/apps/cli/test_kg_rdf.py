"""The options of commands that read RDF, and what linkers do with deprecated terms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kept.apps.cli import main
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.records import DEPRECATED, Text, TextKind

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.ttl").write_text('<x> <p> <y> ; <called> "Weir" ; <born> 1950 .\n')
    terms = {"@context": {"knows": {"@id": "http://a.example/p", "@type": "@id"}}}
    (tmp_path / "terms.jsonld").write_text(json.dumps(terms))
    document = {"@context": "https://a.example/c", "@id": "http://a.example/x", "knows": "y"}
    (tmp_path / "d.jsonld").write_text(json.dumps(document))

    def run(*command: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kept", *command])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


OF_RDF = (
    "--base", "http://a.example/", "--names", "http://a.example/called=label",
    "--context", "https://a.example/c=terms.jsonld",
)  # fmt: skip


def entities(folder: str) -> set[str]:
    return set(KnowledgeGraph.open(folder).entities)


def test_build_and_add_take_a_base_names_and_contexts(kept: Command) -> None:
    code, _, err = kept("kg", "build", "t.ttl", "-o", "kg", *OF_RDF)
    assert code == 0, err
    assert "relative IRIs" not in err
    graph = KnowledgeGraph.open("kg")
    assert entities("kg") == {"http://a.example/x", "http://a.example/y"}
    assert graph.label(graph.entities.id("http://a.example/x")) == "Weir"
    code, _, err = kept("kg", "add", "kg", "d.jsonld", "t.ttl", "-o", "kg2", *OF_RDF)
    assert code == 0, err
    assert entities("kg2") == entities("kg")


def test_without_a_base_the_default_is_named(kept: Command) -> None:
    for command in (("build", "t.ttl", "-o", "kg"), ("add", "kg", "t.ttl", "-o", "kg2")):
        code, _, err = kept("kg", *command)
        assert code == 0
        assert "note: relative IRIs of t.ttl are relative to http://kept.invalid/" in err
    assert entities("kg") == {"http://kept.invalid/x", "http://kept.invalid/y"}


def test_literals_take_them_too(kept: Command) -> None:
    code, _, err = kept("kg", "literals", "t.ttl", "-o", "l.tsv", *OF_RDF)
    assert code == 0, err
    assert Path("l.tsv").read_text() == "http://a.example/x\thttp://a.example/born\t1950\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "a.example"), "not an absolute IRI with a path"),
        (("--base", "http://a.example/b/../c"), "segments . or .."),
        (("--names", "called=label"), "not an absolute IRI"),
        (("--names", "http://a.example/called=name"), "'name' is none of label"),
        (("--context", "https://a.example/c=none.jsonld"), "none.jsonld is not a file"),
    ],
)
def test_options_that_cannot_be(options: tuple[str, ...], message: str, kept: Command) -> None:
    code, _, err = kept("kg", "build", "t.ttl", "-o", "kg", *options)
    assert code
    assert message in " ".join(err.split())
    assert not Path("kg").exists()


def test_a_remote_context_is_named_whatever_the_damage_policy(kept: Command) -> None:
    code, _, err = kept("kg", "build", "d.jsonld", "-o", "kg", "--damage", "skip")
    assert code
    assert "--context https://a.example/c=FILE" in " ".join(err.split())


def test_deprecated_terms_are_linked_on_request(kept: Command) -> None:
    records = [
        Triple("Q1", "P1", "Q2"), Text("Q1", TextKind.LABEL, "weir fever"),
        Text("Q2", TextKind.LABEL, "mill cough"), Text("Q2", TextKind.TYPE, DEPRECATED),
    ]  # fmt: skip
    graph_from_records(records).save("kg")

    def linked(*options: str) -> set[str]:
        text = "He had weir fever and mill cough."
        code, out, err = kept("link", text, "--kg", "kg", "--json", *options)
        assert code == 0, err
        links = (link for line in out.splitlines() for link in json.loads(line)["mentions"])
        return {link["entity"] for link in links if link["entity"]}

    assert linked() == {"Q1"}
    assert linked("--deprecated") == {"Q1", "Q2"}
    for name, options in (("plain", ()), ("all", ("--deprecated",))):
        code, _, err = kept("link", "index", "kg", "-o", name, "--fuzzy", *options)
        assert code == 0, err
    assert linked("--index", "plain") == {"Q1"}
    assert linked("--index", "all") == {"Q1", "Q2"}
    code, _, err = kept("link", "mill cough", "--kg", "kg", "--index", "plain", "--deprecated")
    assert code
    assert "made without the names of deprecated terms" in " ".join(err.split())
