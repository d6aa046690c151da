"""The first lines of Python that a person would try: each works and shows what it came to."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pandas as pd
import pytest

import kept
from kg_loaders.errors import AmbiguousNameError, SourceError, UnknownNodeError

ROWS = [
    ("Ada", "born in", "London"),
    ("Ada", "works as", "mathematician"),
    ("London", "lies in", "England"),
]


@pytest.fixture(scope="module")
def graph() -> kept.KnowledgeGraph:
    return kept.KnowledgeGraph.from_triples(ROWS)


def test_a_graph_is_opened_from_a_folder_and_from_a_file(
    graph: kept.KnowledgeGraph, tmp_path: Path
) -> None:
    graph.save(tmp_path / "kg")
    file = tmp_path / "triples.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in ROWS))
    for opened in (kept.open(tmp_path / "kg"), kept.open(str(file)), kept.open(graph)):
        assert sorted(opened) == sorted(graph)


def test_a_graph_is_made_from_what_people_have(tmp_path: Path) -> None:
    tsv, csv, rdf = tmp_path / "a.tsv", tmp_path / "a.csv", tmp_path / "a.ttl"
    tsv.write_text("".join("\t".join(row) + "\n" for row in ROWS))
    csv.write_text("head,relation,tail\n" + "".join(",".join(row) + "\n" for row in ROWS))
    rdf.write_text("@prefix : <http://example.org/> . :Ada :bornIn :London .")
    edges = nx.MultiDiGraph()
    for head, relation, tail in ROWS:
        edges.add_edge(head, tail, relation=relation)
    frame = pd.DataFrame(ROWS, columns=["head", "relation", "tail"])
    make = kept.KnowledgeGraph
    for graph in (
        make.from_tsv(tsv), make.from_csv(csv), make.from_networkx(edges), make.from_pandas(frame),
    ):  # fmt: skip
        assert sorted(graph) == sorted(ROWS)
    assert len(make.from_rdf(rdf)) == 1


def test_an_undirected_edge_is_a_triple_each_way() -> None:
    edges = nx.Graph()
    edges.add_edge("a", "b", label="near")
    edges.add_edge("c", "c", label="near")
    triples = list(kept.KnowledgeGraph.from_networkx(edges))
    assert triples == [("a", "near", "b"), ("b", "near", "a"), ("c", "near", "c")]


def test_parallel_edges_keep_their_keys() -> None:
    edges = nx.MultiDiGraph()
    edges.add_edge("a", "b", key="knows")
    edges.add_edge("a", "b", key="likes")
    assert [each.relation for each in kept.KnowledgeGraph.from_networkx(edges)] == [
        "knows",
        "likes",
    ]


def test_an_edge_without_a_relation_and_a_frame_without_columns_say_what_to_do() -> None:
    edges = nx.DiGraph()
    edges.add_edge("a", "b", weight=1)
    with pytest.raises(SourceError, match=r"'a' → 'b' names no relation.*relation='knows'"):
        kept.KnowledgeGraph.from_networkx(edges)
    frame = pd.DataFrame({"x": ["a"], "y": ["r"], "z": ["b"]})
    with pytest.raises(SourceError, match="which columns of x, y, z"):
        kept.KnowledgeGraph.from_pandas(frame)
    named = kept.KnowledgeGraph.from_pandas(frame, head="x", relation="y", tail="z")
    assert list(named) == [("a", "r", "b")]
    with pytest.raises(SourceError, match=r"row 0 of the data frame has no 'x'"):
        kept.KnowledgeGraph.from_pandas(frame.assign(x=None), head="x", relation="y", tail="z")


def test_a_graph_has_a_length_members_and_triples(graph: kept.KnowledgeGraph) -> None:
    assert len(graph) == 3
    assert "Ada" in graph
    assert "Bob" not in graph
    assert ("Ada", "born in", "London") in graph
    assert ("Ada", "born in", "England") not in graph
    assert graph["Ada"] in graph
    assert [triple.tail for triple in graph] == ["London", "mathematician", "England"]
    assert bool(kept.KnowledgeGraph.from_triples([])) is True
    assert len(kept.KnowledgeGraph.from_triples([])) == 0


def test_an_entity_has_names_facts_and_neighbours(graph: kept.KnowledgeGraph) -> None:
    ada = graph["Ada"]
    assert (ada.id, ada.label, str(ada), ada.types) == ("Ada", "Ada", "Ada", [])
    assert ada.facts == [("Ada", "born in", "London"), ("Ada", "works as", "mathematician")]
    assert [each.label for each in ada.neighbours] == ["London", "mathematician"]
    assert graph["London"].neighbours[0] == ada
    assert "born in" in ada._repr_html_()


def test_an_unknown_and_an_ambiguous_name_say_which_names_there_are(
    graph: kept.KnowledgeGraph,
) -> None:
    with pytest.raises(UnknownNodeError, match="did you mean London"):
        graph["Londn"]
    with pytest.raises(
        AmbiguousNameError,
        match=r"2 entities are called 'Paris': Q90 .*Q830149.*an identifier, such as 'Q90'",
    ):
        kept.atlas.graph()["Paris"]
    with pytest.raises(UnknownNodeError, match="strings"):
        graph[3]  # type: ignore[index]


def test_facts_keep_homonyms_apart() -> None:
    facts = kept.atlas.graph().facts("Paris")
    assert {"Paris (Q90)", "Paris (Q830149)"} <= {
        end for head, _, tail in facts for end in (head, tail)
    }


def test_one_text_or_several_are_linked(graph: kept.KnowledgeGraph) -> None:
    linked = kept.link("Ada left London.", graph)
    assert [(x.text, x.start, x.end, x.entity, x.label) for x in linked.links] == [
        ("Ada", 0, 3, "Ada", "Ada"), ("London", 9, 15, "London", "London"),
    ]  # fmt: skip
    assert all(0 < each.confidence <= 1 for each in linked.links)
    assert kept.link(["Ada left London."], graph) == [linked]
    assert kept.link(linked, graph) is linked
    assert kept.DictionaryLinker(graph).link("Ada left London.") == linked


def test_a_text_becomes_a_graph_and_a_picture(graph: kept.KnowledgeGraph, tmp_path: Path) -> None:
    built = kept.build("Ada left London.", graph)
    assert {"words", "entities"} <= set(repr(built).replace(",", "").split())
    picture = kept.show("Ada left London.", graph)
    assert picture._repr_html_().startswith("<svg")
    assert "London" in picture.save(tmp_path / "graph.html").read_text()
    picture.save(tmp_path / "graph.html")  # a page that kept drew is replaced
    assert (tmp_path / "graph.html").stat().st_size < 200_000


def test_an_explorer_runs_until_it_is_closed(graph: kept.KnowledgeGraph) -> None:
    from urllib.request import urlopen

    with kept.explore(graph, "Ada left London.") as explored:
        assert b"Ada left London" in urlopen(explored.url, timeout=30).read()


def test_a_command_is_a_function_with_the_same_options(graph: kept.KnowledgeGraph) -> None:
    import inspect

    from kept.apps.twins import COMMANDS
    from kept.errors import ConfigError

    for name in COMMANDS:
        function = getattr(kept, name)
        assert function.__name__ == name
        assert "Arguments:" in (function.__doc__ or "")
        assert "output" in inspect.signature(function).parameters or name in (
            "ask",
            "complete",
            "predict",
        )
    with pytest.raises(ConfigError, match=r"kept.probe: .*max_items.*greater than or equal to 1"):
        kept.probe("minilm", kg=graph, max_items=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        kept.probe("minilm", colour="red")


def test_only_what_is_for_users_is_listed() -> None:
    listed = dir(kept)
    assert set(listed) == {*kept.__all__, "__version__"}
    with pytest.raises(AttributeError, match="did you mean compare"):
        kept.comapre  # noqa: B018


def test_texts_of_nodes_and_edges_of_networkx_are_kept() -> None:
    edges = nx.MultiDiGraph()
    edges.add_node("Q1", label="Ada", type="person", description=None)
    edges.add_node("Q2", label="Q2", description="a city")
    edges.add_node("Q3", label="")
    edges.add_edge("Q1", "Q2", key=0, relation="P1", label="born in")
    edges.add_edge("Q2", "Q3", predicate=None, type="P2")
    graph = kept.KnowledgeGraph.from_networkx(edges)
    assert sorted(graph) == [("Q1", "P1", "Q2"), ("Q2", "P2", "Q3")]
    assert (graph["Q1"].label, graph["Q1"].types) == ("Ada", ["person"])
    assert (graph["Q1"].description, graph["Q2"].description) == (None, "a city")
    assert [graph["Q2"].label, graph["Q3"].label] == ["Q2", "Q3"]
    assert [graph.relation_label(i) for i in range(graph.n_relations)] == ["born in", "P2"]
