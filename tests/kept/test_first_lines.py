"""The first lines of Python that a person would try: each works and shows what it came to."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pandas as pd
import pytest

import kept
from kept.errors import ConfigError
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


def test_a_graph_is_taken_as_rows_a_frame_or_a_networkx_graph() -> None:
    edges = nx.DiGraph()
    for head, relation, tail in ROWS:
        edges.add_edge(head, tail, relation=relation)
    frame = pd.DataFrame(ROWS, columns=["head", "relation", "tail"])
    for source in (ROWS, tuple(ROWS), frame, edges):
        assert sorted(kept.open(source)) == sorted(ROWS)
        assert [each.label for each in kept.link("Ada left.", source).links] == ["Ada"]
    with pytest.raises(SourceError, match=r"read from a dict; give a path, .* a data frame"):
        kept.open({"Ada": 1})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("Ada", "born in", "London"), ("Ada", "London")], r"row 1 is \('Ada', 'London'\)"),
        ([("Ada", "born in", 1815)], r"row 0 .* three strings"),
        (["Ada born London"], "row 0 is 'Ada born London'; a triple is three strings"),
        ([7], "row 0 is 7"),
        ("Ada born in London", r"is text; give rows such as \('Ada'"),
    ],
)
def test_rows_that_are_no_triples_are_named(rows: object, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        kept.KnowledgeGraph.from_triples(rows)  # type: ignore[arg-type]


def test_a_graph_is_not_made_by_its_class_alone() -> None:
    with pytest.raises(TypeError, match=r"made by KnowledgeGraph\.from_triples"):
        kept.KnowledgeGraph(ROWS)  # type: ignore[call-arg]


def test_a_link_and_a_linked_text_print_as_one_line_each(graph: kept.KnowledgeGraph) -> None:
    linked = kept.link("Ada left London.", graph)
    assert str(linked.links[0]) == "Ada[0:3] → Ada (1.00)"
    assert str(linked).splitlines() == [
        "Ada left London.", "  Ada[0:3] → Ada (1.00)", "  London[9:15] → London (1.00)",
    ]  # fmt: skip


def test_what_is_not_a_text_is_not_linked(graph: kept.KnowledgeGraph) -> None:
    for wrong in (3, [3], None):
        with pytest.raises(ConfigError, match="is not a text; give a string"):
            kept.link(wrong, graph)  # type: ignore[call-overload]


def test_a_question_is_asked_with_the_graph_by_its_place(graph: kept.KnowledgeGraph) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    answer = kept.ask("What is Ada's job?", graph)
    assert answer
    assert answer.values == ("mathematician",)
    assert "works as → mathematician" in answer._repr_html_()
    assert kept.ask("Where was Ada born?", ROWS).values == ("London",)
    refused = kept.ask("How old is Ada?", graph)
    assert not refused
    assert "no age of Ada" in str(refused)


def test_several_values_of_one_argument_are_refused(graph: kept.KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match=r"question: give one value, not 2; .*call it for each"):
        kept.ask(["Where was Ada born?", "What is her job?"], kg=graph)
    with pytest.raises(ConfigError, match="path of a file, not a tuple"):
        kept.fit([("Ada left.", "x")], kg=graph)


def test_a_graph_comes_from_rdflib_rows_that_are_generated_and_unnamed_columns() -> None:
    rdflib = pytest.importorskip("rdflib")
    name = rdflib.Namespace("http://example.org/")
    rdf = rdflib.Graph()
    for row in ROWS:
        rdf.add(tuple(name[part.replace(" ", "_")] for part in row))
    for graph in (kept.open(rdf), kept.KnowledgeGraph.from_rdf(rdf)):
        assert len(graph) == 3
        assert [each.text for each in kept.link("Ada left London.", graph)] == ["Ada", "London"]
    assert sorted(kept.open(iter(ROWS))) == sorted(ROWS)
    assert sorted(kept.open(pd.DataFrame(ROWS))) == sorted(ROWS)


def test_a_graph_and_links_become_data_frames(graph: kept.KnowledgeGraph) -> None:
    frame = graph.to_pandas()
    assert frame[["head", "relation", "tail"]].values.tolist() == [list(row) for row in graph]
    frame = kept.link("Ada left London.", graph).to_pandas()
    assert frame.values.tolist() == [
        [0, 3, "Ada", "Ada", "Ada", 1.0], [9, 15, "London", "London", "London", 1.0],
    ]  # fmt: skip
    assert len(kept.link("Nobody left.", graph).to_pandas()) == 0


def test_links_of_a_text_are_counted_gone_through_and_shown(graph: kept.KnowledgeGraph) -> None:
    linked = kept.link("Ada left London.", graph)
    assert [link.label for link in linked] == ["Ada", "London"]
    assert len(linked) == 2
    assert kept.link("Nobody left.", graph)
    assert repr(linked.links[0]) == "Link(Ada[0:3] → Ada (1.00))"
    assert repr(kept.link("Nobody left.", graph)) == "LinkedText('Nobody left.', [])"
    assert graph["Ada"].neighbors == graph["Ada"].neighbours


def test_several_texts_are_built_and_an_entity_is_drawn(graph: kept.KnowledgeGraph) -> None:
    texts = ["Ada left London.", "London calls."]
    assert [repr(each) for each in kept.build(texts, graph)] == [
        repr(kept.build(text, graph)) for text in texts
    ]
    assert "London" in kept.show(graph["Ada"]).html
    with pytest.raises(ConfigError, match=r"kept\.show\(text, graph\); .*kept\.explore\(graph\)"):
        kept.show(graph)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "other"),
    [("load", "open"), ("Graph", "KnowledgeGraph"), ("train", "fit"), ("plot", "show")],
)
def test_names_of_other_libraries_lead_to_those_of_kept(name: str, other: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean {other}"):
        getattr(kept, name)


def test_a_call_that_lacks_something_says_how_it_is_called(graph: kept.KnowledgeGraph) -> None:
    with pytest.raises(TypeError, match=r"'model'; call it as kept\.complete\(head, relation, kg,"):
        kept.complete("Ada", "born in", kg=graph)
    with pytest.raises(TypeError, match=r"call it as kept\.compare\(task=…, option=…\)"):
        kept.compare("data.csv", kg=graph)
    with pytest.raises(ConfigError, match=r"kept.probe: .*max_items.*greater than or equal to 1"):
        kept.probe("minilm", graph, max_items=0)


def test_help_shows_plain_types() -> None:
    import inspect

    for name in ("fit", "finetune", "predict", "ask"):
        assert "typer" not in str(inspect.signature(getattr(kept, name)))
    assert "budget: float = 3.0" in str(inspect.signature(kept.fit))


def test_a_table_of_fit_may_be_a_data_frame_or_rows(
    graph: kept.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "cache"))
    rows = [{"text": "Ada left.", "label": "x"}] * 3
    for table in (rows, tuple(rows), pd.DataFrame(rows)):
        with pytest.raises(ConfigError, match="column 'label' has 1 different label; at least 2"):
            kept.fit(table, kg=graph, output=tmp_path / "run")
    assert len(list((tmp_path / "cache/tables").iterdir())) == 1  # the same rows, the same file
    frame = pd.DataFrame({"text": ["Ada left."], "label": [float("nan")]})
    with pytest.raises(ConfigError, match=r"1 line held no example.*\n.*no label"):
        kept.fit(frame, kg=graph, output=tmp_path / "run")


def test_a_graph_in_the_place_of_a_text_or_a_table_is_said(graph: kept.KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match="question comes first, and the graph is kg"):
        kept.ask(graph, "Where was Ada born?")
    with pytest.raises(ConfigError, match="data comes first, and the graph is kg"):
        kept.fit(graph, "data.csv")
    with pytest.raises(ConfigError, match="the text comes first, and then the graph"):
        kept.link(graph, "Ada left London.")  # type: ignore[call-overload]


def test_a_path_and_bytes_are_no_texts(graph: kept.KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match=r"'notes.txt' is a path, not a text; .*\.read_text"):
        kept.link(Path("notes.txt"), graph)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="b'Ada' is not a text"):
        kept.link(b"Ada", graph)  # type: ignore[call-overload]


def test_arrays_are_rows_and_texts(graph: kept.KnowledgeGraph) -> None:
    import numpy as np

    assert sorted(kept.open(np.array(ROWS))) == sorted(ROWS)
    linked = kept.link(np.array(["Ada left.", "London"]), graph)  # type: ignore[call-overload]
    assert [type(each.text) for each in linked] == [str, str]
    assert linked[0][0].entity == "Ada"


def test_a_frame_and_rows_go_to_the_maker_of_their_kind() -> None:
    frame = pd.DataFrame(ROWS, columns=["head", "relation", "tail"])
    with pytest.raises(SourceError, match="of a data frame give from_pandas"):
        kept.KnowledgeGraph.from_triples(frame)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="takes a data frame, not a list; from_triples takes"):
        kept.KnowledgeGraph.from_pandas(ROWS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ask", r"kept\.ask\(question, graph\)"),
        ("link", r"kept\.link\(text, graph\)"),
        ("neighbours", r"graph\[NAME\]\.neighbours"),
        ("add", "a graph does not change"),
        ("to_networkx", r"kept\.kg_to_networkx\(graph\)"),
        ("colour", "has no attribute 'colour'$"),
    ],
)
def test_what_a_graph_has_under_another_name_is_said(
    graph: kept.KnowledgeGraph, name: str, words: str
) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(graph, name)


def test_graphs_are_copied_pickled_and_found_at_home(
    graph: kept.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import copy
    import pickle

    for other in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert sorted(other) == sorted(graph)
    monkeypatch.setenv("HOME", str(tmp_path))
    graph.save(tmp_path / "kg")
    assert sorted(kept.open("~/kg")) == sorted(graph)


def test_facts_are_those_of_a_name_or_an_entity(graph: kept.KnowledgeGraph) -> None:
    assert graph.facts(graph["Ada"]) == graph.facts("Ada")
    with pytest.raises(UnknownNodeError, match="did you mean Ada"):
        graph.facts("Adda")


def test_a_target_is_words_or_characters() -> None:
    assert kept.question("Ada left.", (0, 3)) == kept.question("Ada left.", "Ada")
    with pytest.raises(ConfigError, match=r"3 is no target; give words of the text, or \(start"):
        kept.question("Ada left.", 3)  # type: ignore[arg-type]


def test_a_misspelt_name_in_a_question_is_answered_with_the_near_one(
    graph: kept.KnowledgeGraph,
) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    assert "did you mean Ada?" in str(kept.ask("Where was Adda born?", graph))
