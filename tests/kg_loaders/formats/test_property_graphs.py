"""Dialects of GraphML, of Neo4j's tables and of Neptune's: one graph, or a refusal by name."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from kg_loaders import SourceError, Text, TextKind, load
from kg_loaders.build import Source

LABEL, ALIAS, DESCRIPTION, TYPE = TextKind
SPACES = ("", "/graphml", "/1.0rc", "/1.1")
NODES = {Text("n1", LABEL, "Mira"), Text("n1", TYPE, "Person")}

# a table of nodes or of relationships, and what it says
NODE_TABLES = [
    ":ID,name,:LABEL\nn1,Mira,Person\n",
    ":id,name,:label\nn1,Mira,Person\n",
    "id:ID,name:string,:LABEL\nn1,Mira,Person\n",
    ":ID{label:Person},name,:LABEL\nn1,Mira,Person\n",
    ":ID,name{x:y},:LABEL\nn1,Mira,Person\n",
    ":LABEL,born:date{timezone:Europe/Berlin},:ID,name\nPerson,,n1,Mira\n",
    ":ID;name;:LABEL\nn1;Mira;Person\n",
    "\ufeff:ID,name,:LABEL\nn1,Mira,Person\n",
    ":ID,name,:LABEL,x:IGNORE\nn1,Mira,Person,what\n",
    ":ID,name,:LABEL\nn1,Mira,Person\n:ID,name,:LABEL\nn1,Mira,Person\n",
    "_id,_labels,name\nn1,:Person,Mira\n",
    "~id,~label,name:String\nn1,Person,Mira\n",
    "~id, ~label, name:String\nn1, Person, Mira\n",
    "~id,name:String(single),~label\nn1,Mira,Person\n",
]
EDGE_TABLES = [
    ":START_ID,:TYPE,:END_ID\nn1,KNOWS,n2\n",
    ":end_id,:type,:start_id\nn2,KNOWS,n1\n",
    ":START_ID,since:int,:END_ID,:TYPE\nn1,,n2,KNOWS\n",
    ":START_ID{label:P},:END_ID{label:P},:TYPE\nn1,n2,KNOWS\n",
    "_start,_end,_type\nn1,n2,KNOWS\n",
    "~id,~from,~to,~label\ne1,n1,n2,KNOWS\n",
    "~from,~to,~label,w:Double\nn1,n2,KNOWS,\n",
    ":START_ID,:END_ID,:TYPE\nn1,n2,KNOWS\n:START_ID,:END_ID,:TYPE\nn1,n2,KNOWS\n",
]


@pytest.mark.parametrize("text", NODE_TABLES)
def test_a_node(text: str, tmp_path: Path) -> None:
    for name, mark in (("x.csv", ","), ("x.tsv", "\t")):
        if mark == "\t" and (";" in text or ", " in text):
            continue
        (tmp_path / name).write_text(text.replace(",", mark))
        graph, report = load([tmp_path / name])
        assert {
            Text("n1", kind, value)
            for kind in TextKind
            for value, _ in graph.entity_texts.of(0, kind)
        } == NODES
        assert list(graph.entities) == ["n1"]
        assert report.n_rejected == 0


@pytest.mark.parametrize("text", EDGE_TABLES)
def test_a_relationship(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    graph, _ = load([tmp_path / "x.csv"])
    assert list(graph.entities) == ["n1", "n2"]
    assert graph.facts("n1") == [("n1", "KNOWS", "n2")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (":START_ID,:END_ID\nn1,n2\n", "not what they are: add a column :TYPE"),
        (":START_ID,w,:END_ID\nn1,1,n2\n", "not what they are: add a column :TYPE"),
        (":ID,name,:ID\nn1,Mira,x\n", "two columns of an identifier"),
        (":ID(A),:ID(B),name\nn1,x,Mira\n", "two columns of an identifier"),
        ("~from,~to,w\nn1,n2,1\n", "no relation"),
    ],
)
def test_half_a_table(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(SourceError, match=words):
        load([tmp_path / "x.csv"])


@pytest.mark.parametrize("space", SPACES)
def test_every_namespace_of_graphml(space: str, tmp_path: Path) -> None:
    network = nx.MultiDiGraph()
    network.add_node("n1", name="Mira", type="Person")
    network.add_edge("n1", "n2", label="knows")
    path = tmp_path / "x.graphml"
    nx.write_graphml(network, path)
    text = path.read_text().replace(
        'xmlns="http://graphml.graphdrawing.org/xmlns"',
        f'xmlns="http://graphml.graphdrawing.org/xmlns{space}"',
    )
    assert space in text
    path.write_text(text)
    graph, _ = load([path])
    assert graph.facts("n1") == [("Mira", "knows", "n2")]
    path.write_text(text.replace("http://graphml.graphdrawing.org/xmlns", "http://a/b"))
    with pytest.raises(SourceError, match="is not GraphML"):
        load([Source(path, "graphml")])
