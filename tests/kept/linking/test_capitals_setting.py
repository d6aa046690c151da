"""`capitals`: only what is written as a name is linked, by the library and on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from typer.testing import CliRunner

from entity_linking.cache import fingerprint
from kept.apps.cli import app
from kept.linking.linkers import LinkerSettings, linker_key, open_linker
from kg_loaders import Text, TextKind, graph_from_records

LABELS = ("bank", "trade", "New York", "Bonn")
TEXT = "The bank in Bonn and the trade of New York grow."


def test_only_what_is_written_as_a_name(tmp_path: Path) -> None:
    graph = graph_from_records(
        [Text(f"Q{i}", TextKind.LABEL, label) for i, label in enumerate(LABELS)]
    )
    graph.save(tmp_path / "kg")

    def surfaces(*, capitals: bool) -> list[str]:
        settings = LinkerSettings(kg=str(tmp_path / "kg"), capitals=capitals)
        (linked,) = open_linker(settings).link([TEXT])
        return [TEXT[link.start : link.end] for link in linked.links if link.entity is not None]

    assert surfaces(capitals=False) == ["bank", "Bonn", "trade", "New York"]
    assert surfaces(capitals=True) == ["Bonn", "New York"]
    arguments = ["link", TEXT, "--kg", str(tmp_path / "kg"), "--json", "--capitals"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    mentions = json.loads(result.stdout)["mentions"]
    linked = [TEXT[m["start"] : m["end"]] for m in mentions if m["entity"] is not None]
    assert linked == ["Bonn", "New York"]


def test_named_but_unknown_is_nil_and_texts_without_capitals_lose_nothing(tmp_path: Path) -> None:
    labels = [*LABELS, "Ulm", "Ada Moor", *["John North"] * 8]
    graph = graph_from_records(
        [Text(f"Q{i}", TextKind.LABEL, label) for i, label in enumerate(labels)]
    )
    graph.save(tmp_path / "kg")
    linkers = [
        open_linker(LinkerSettings(kg=str(tmp_path / "kg"), capitals=capitals))
        for capitals in (True, False)
    ]
    text = "Knupp of the University of Ulm met Ada Moor in Bonn. Moor met John North."
    (linked,) = linkers[0].link([text])
    assert [(text[link.start : link.end], link.entity) for link in linked.links] == [
        ("Knupp", None), ("University of Ulm", None), ("Ada Moor", "Q5"), ("Bonn", "Q3"),
        ("Moor", "Q5"), ("John North", None),
    ]  # fmt: skip
    lower = ["the bank in Bonn and the trade of New York grow", "ALL OF NEW YORK", "trade"]
    with_it, without = (linker.link(lower) for linker in linkers)
    assert [[k.entity for k in t.links] for t in with_it] == [
        [k.entity for k in t.links] for t in without
    ]


def test_a_key_without_it_is_that_of_before() -> None:
    graph = graph_from_records([Text("Q1", TextKind.LABEL, "Bonn")])
    settings = LinkerSettings(kg="kg")
    before = {
        name: value
        for name, value in asdict(settings).items()
        if name not in ("kg", "labels", "aliases", "capitals")
    }
    assert linker_key(settings, graph) == fingerprint(graph.content_hash, before)
    assert linker_key(LinkerSettings(kg="kg", capitals=True), graph) != linker_key(settings, graph)
