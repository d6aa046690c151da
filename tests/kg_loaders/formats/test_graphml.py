"""GraphML of many programs: names, defaults, directions, parallel edges; the rest is counted."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from kg_loaders import DamageReport, KgError, Text, TextKind, Triple, load
from kg_loaders.formats import graphml

LABEL, ALIAS, DESCRIPTION, TYPE = TextKind
XMLNS = "http://graphml.graphdrawing.org/xmlns"


def read(
    body: str, tmp_path: Path, *, keys: str = "", graph: str = "", y: str = ""
) -> tuple[list[object], DamageReport]:
    """The records of `<graph>` with `body`."""
    path = tmp_path / "x.graphml"
    path.write_text(
        f'<graphml xmlns="{XMLNS}" xmlns:y="http://www.yworks.com/xml/graphml">{keys}'
        f"<graph {graph}>{body}</graph></graphml>"
    )
    load([path])  # its counts add up
    report = DamageReport()
    return list(graphml.read(path, report)), report


def key(id: str, owner: str, name: str, default: str = "") -> str:
    value = f"<default>{default}</default>" if default else ""
    return f'<key id="{id}" for="{owner}" attr.name="{name}">{value}</key>'


def triples(rows: list[object]) -> list[Triple]:
    return [row for row in rows if isinstance(row, Triple)]


def test_a_default_is_the_value_of_what_has_none(tmp_path: Path) -> None:
    keys = key("t", "node", "type", "person") + key("r", "edge", "relation", "knows")
    keys += key("a", "all", "description", "of all")
    rows, _ = read(
        '<node id="n0"><data key="t">town</data></node><node id="n1"/>'
        '<edge source="n1" target="n0"/>'
        '<edge source="n0" target="n1"><data key="r">lives in</data></edge>',
        tmp_path, keys=keys,
    )  # fmt: skip
    assert triples(rows) == [Triple("n1", "knows", "n0"), Triple("n0", "lives in", "n1")]
    assert [r.value for r in rows if isinstance(r, Text) and r.kind is TYPE] == ["town", "person"]
    assert Text("n1", DESCRIPTION, "of all") in rows


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph, nx.Graph, nx.MultiGraph])
def test_what_networkx_writes(kind: type, tmp_path: Path) -> None:
    graph = kind()
    graph.add_node("a", name="Mira", kind="Person")
    graph.add_edge("a", "b", predicate="visits", weight=2)
    graph.add_edge("b", "c", predicate="near")
    nx.write_graphml(graph, tmp_path / "x.graphml")
    report = DamageReport()
    rows = list(graphml.read(tmp_path / "x.graphml", report))
    expected = {Triple("a", "visits", "b"), Triple("b", "near", "c")}
    if not graph.is_directed():
        expected |= {Triple(t.tail, t.relation, t.head) for t in expected}
        assert any("2 edges are undirected" in note for note in report.notes)
    assert {*triples(rows)} == expected
    assert {Text("a", LABEL, "Mira"), Text("a", TYPE, "Person")} <= {*rows}
    assert report.skipped == {"weight of an edge": 1}


def test_keys_of_parallel_edges_are_relations(tmp_path: Path) -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", key="knows")
    graph.add_edge("a", "b", key="likes")
    graph.add_edge("a", "c", key="knows")
    graph.add_edge("a", "c")  # numbered
    nx.write_graphml(graph, tmp_path / "x.graphml")
    report = DamageReport()
    actual = triples(list(graphml.read(tmp_path / "x.graphml", report)))
    assert {*actual} == {
        Triple("a", "knows", "b"), Triple("a", "likes", "b"), Triple("a", "knows", "c"),
        Triple("a", "related", "c"),
    }  # fmt: skip
    assert any("1 edges name no relation" in note for note in report.notes)


@pytest.mark.parametrize("ids", [("e0", "e1"), ("0", "1"), ("edge_1", "edge_2"), ("", "")])
def test_ids_that_number_edges_are_no_relations(ids: tuple[str, str], tmp_path: Path) -> None:
    edges = "".join(f'<edge id="{id}" source="a" target="b"/>' for id in ids)
    rows, report = read(edges, tmp_path)
    assert {*triples(rows)} == {Triple("a", "related", "b")}
    assert any("2 edges name no relation" in note for note in report.notes)


@pytest.mark.parametrize(
    ("graph", "edge", "n"),
    [
        ('edgedefault="undirected"', "", 2), ('edgedefault="directed"', "", 1), ("", "", 1),
        ('edgedefault="undirected"', 'directed="true"', 1),
        ('edgedefault="directed"', 'directed="false"', 2),
    ],
)  # fmt: skip
def test_directions(graph: str, edge: str, n: int, tmp_path: Path) -> None:
    data = '<data key="r">near</data>'
    rows, report = read(
        f'<edge source="a" target="b" {edge}>{data}</edge>',
        tmp_path, keys=key("r", "edge", "relation"), graph=graph,
    )  # fmt: skip
    assert triples(rows) == [Triple("a", "near", "b"), Triple("b", "near", "a")][:n]
    assert len(report.notes) == n - 1
    loop, _ = read(f'<edge source="a" target="a" {edge}>{data}</edge>', tmp_path,
                   keys=key("r", "edge", "relation"), graph=graph)  # fmt: skip
    assert triples(loop) == [Triple("a", "near", "a")]


def test_a_graph_in_a_node_has_a_direction_of_its_own(tmp_path: Path) -> None:
    inner = '<graph edgedefault="undirected"><edge source="b" target="c"/></graph>'
    rows, _ = read(
        f'<node id="a">{inner}</node><edge source="a" target="b"/>', tmp_path,
        graph='edgedefault="directed"',
    )  # fmt: skip
    assert len(triples(rows)) == 3


@pytest.mark.parametrize(
    "name",
    ["relation", "predicate", "label", "type", "edge_type", "relationship", "Label", "relationType",
     "interaction", "rel", "property", "verb", "edge", "Edge Label", "metaedge"],
)  # fmt: skip
def test_names_of_a_relation(name: str, tmp_path: Path) -> None:
    rows, report = read(
        '<edge source="a" target="b"><data key="k">near</data></edge>',
        tmp_path, keys=key("k", "edge", name),
    )  # fmt: skip
    assert triples(rows) == [Triple("a", "near", "b")]
    assert report.notes == []


@pytest.mark.parametrize(
    "name", ["label", "name", "title", "Label", "preferredLabel", "entity_id", "display_name"]
)
def test_names_of_a_node(name: str, tmp_path: Path) -> None:
    rows, report = read(
        '<node id="a"><data key="k">Mira</data></node>', tmp_path, keys=key("k", "node", name)
    )
    assert rows == [Text("a", LABEL, "Mira")]
    assert report.notes == []


def test_apoc(tmp_path: Path) -> None:
    keys = key("labels", "node", "labels") + key("title", "node", "title")
    rows, _ = read(
        '<node id="n0" labels=":Movie:Film"><data key="labels">:Movie:Film</data>'
        '<data key="title">The Long Weir</data></node><node id="n1" labels=":Town"/>'
        '<edge id="e0" source="n0" target="n1" label="SHOT_IN"/>',
        tmp_path, keys=keys,
    )  # fmt: skip
    assert rows == [
        Text("n0", LABEL, "The Long Weir"), Text("n0", TYPE, "Movie"), Text("n0", TYPE, "Film"),
        Text("n1", LABEL, "n1"), Text("n1", TYPE, "Town"), Triple("n0", "SHOT_IN", "n1"),
    ]  # fmt: skip


def test_yed(tmp_path: Path) -> None:
    keys = '<key for="node" id="d6" yfiles.type="nodegraphics"/>'
    keys += '<key for="edge" id="d10" yfiles.type="edgegraphics"/>'
    rows, report = read(
        '<node id="n0"><data key="d6"><y:ShapeNode><y:NodeLabel> Mira\n</y:NodeLabel>'
        "</y:ShapeNode></data></node>"
        '<edge id="e0" source="n0" target="n1"><data key="d10"><y:PolyLineEdge>'
        "<y:EdgeLabel>visits<y:LabelModel/></y:EdgeLabel></y:PolyLineEdge></data></edge>",
        tmp_path, keys=keys,
    )  # fmt: skip
    assert rows == [Text("n0", LABEL, "Mira"), Triple("n0", "visits", "n1")]
    assert report.notes == []


def test_hyperedges_are_counted(tmp_path: Path) -> None:
    rows, report = read(
        '<node id="a"/><hyperedge><endpoint node="a"/><endpoint node="b"/></hyperedge>', tmp_path
    )
    assert len(rows) == 1
    assert report.skipped == {"hyperedge (an edge of more than two ends)": 1}


def test_data_that_is_there_twice_is_kept_twice(tmp_path: Path) -> None:
    """The last value had taken the place of the others, and nothing said so."""
    keys = key("n", "node", "name") + key("N", "node", "Name") + key("t", "node", "type")
    keys += key("d", "node", "description") + key("a", "node", "aliases") + key("w", "all", "w")
    keys += key("r", "edge", "relation")
    rows, report = read(
        '<node id="n0"><data key="n">Mira</data><data key="n">Tolo</data><data key="N">Veko</data>'
        '<data key="n">Mira</data><data key="t">town</data><data key="t">port</data>'
        '<data key="d">old</data><data key="d">on a weir</data><data key="w">1</data>'
        '<data key="a">M|Mi</data><data key="a">Mir</data><data key="w">2</data></node>'
        '<node id="n1"><data key="n">Weir</data></node>'
        '<edge source="n0" target="n1"><data key="r">near</data><data key="r">above</data></edge>',
        tmp_path, keys=keys,
    )  # fmt: skip
    texts = {(row.kind, row.value) for row in rows if isinstance(row, Text) and row.node == "n0"}
    assert texts == {
        (LABEL, "Mira"), (ALIAS, "Tolo"), (ALIAS, "Veko"), (TYPE, "town"), (TYPE, "port"),
        (DESCRIPTION, "old"), (DESCRIPTION, "on a weir"), (ALIAS, "M"), (ALIAS, "Mi"),
        (ALIAS, "Mir"),
    }  # fmt: skip
    assert triples(rows) == [Triple("n0", "near", "n1"), Triple("n0", "above", "n1")]
    assert report.skipped == {"w of a node": 2}


def test_labels_of_a_drawing_are_all_names(tmp_path: Path) -> None:
    """But of a group, which yEd draws open and closed, those of the first drawing."""
    keys = '<key id="g" for="node" yfiles.type="nodegraphics"/>'
    label = "<y:NodeLabel>{}</y:NodeLabel>".format
    rows, _ = read(
        f'<node id="a"><data key="g"><y:ShapeNode>{label("Mira")}{label("Tolo")}</y:ShapeNode>'
        f'</data></node><node id="b"><data key="g"><y:Realizers><y:GroupNode>{label("Weir")}'
        f"</y:GroupNode>"
        f"<y:GroupNode>{label('Folder 1')}</y:GroupNode></y:Realizers></data></node>",
        tmp_path, keys=keys,
    )  # fmt: skip
    assert rows == [
        Text("a", LABEL, "Mira"), Text("a", ALIAS, "Tolo"), Text("b", LABEL, "Weir"),
    ]  # fmt: skip


def test_data_that_have_no_place_are_counted(tmp_path: Path) -> None:
    keys = key("c", "node", "colour") + key("w", "edge", "weight") + key("d", "edge", "description")
    _, report = read(
        '<node id="a"><data key="c">red</data></node><edge source="a" target="b">'
        '<data key="w">1</data><data key="d">by boat</data></edge>',
        tmp_path, keys=keys,
    )  # fmt: skip
    assert report.skipped == {
        "colour of a node": 1, "weight of an edge": 1, "description of an edge": 1,
    }  # fmt: skip


def test_an_edge_without_an_end_is_named(tmp_path: Path) -> None:
    with pytest.raises(KgError, match=r"line 1 .*no id, source or target"):
        read('<edge source="a"/>', tmp_path)
