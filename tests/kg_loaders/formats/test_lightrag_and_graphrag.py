"""LightRAG's and GraphRAG's graphs: written, read by their programs' ways, and read again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kept import atlas
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records, load
from kg_loaders.errors import DamageError, ExistsError, SourceError
from kg_loaders.export import export
from kg_loaders.formats.round_trip import EdgeNote, NodeNote, node_names, relation_texts

LIGHTRAG = "graph_chunk_entity_relation.graphml"
PATHS = {"lightrag": LIGHTRAG, "graphrag": "output"}
RECORDS = [
    Triple("Q90", "P17", "Q142"), Triple("Q142", "P36", "Q90"), Triple("Q90", "P1,a", "Q142"),
    Triple("Q90", "P17", "Q90"), Triple("Q1", "P17", "Q142"),
    Text("Q90", TextKind.LABEL, "Paris", "en"), Text("Q1", TextKind.LABEL, "Paris", "en"),
    Text("Q90", TextKind.ALIAS, "City of Light", "en", 7), Text("Q90", TextKind.TYPE, "city"),
    Text("Q90", TextKind.TYPE, "capital"), Text("Q142", TextKind.LABEL, "Frankreich", "de"),
    Text("Q90", TextKind.DESCRIPTION, 'a "city" <on>\r\nthe Seine & more', "en"),
    Text("Q90", TextKind.DESCRIPTION, "Stadt", "de"), Text("Q7", TextKind.LABEL, "alone"),
    Text("P17", TextKind.LABEL, "country, or state", "en", 0, True),
    Text("P17", TextKind.ALIAS, "nation", "en", 2, True),
]  # fmt: skip


@pytest.fixture
def graph() -> KnowledgeGraph:
    return graph_from_records(RECORDS)


def written(graph: KnowledgeGraph, to: str, folder: Path) -> Path:
    path = folder / PATHS[to]
    assert export(graph, path, to=to) == graph.n_triples
    return path


# ---- written and read again ----------------------------------------------------------------------
@pytest.mark.parametrize("to", PATHS)
def test_the_same_graph_comes_back(graph: KnowledgeGraph, to: str, tmp_path: Path) -> None:
    for number, one in enumerate((graph, atlas.graph())):
        folder = tmp_path / str(number)
        folder.mkdir()
        again, report = load([written(one, to, folder)])
        assert again.content_hash == one.content_hash
        report.check()
        assert not report.notes
        assert report.n_rejected == report.n_skipped == 0


ANY = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
).filter(str.strip)


@pytest.mark.parametrize("to", PATHS)
@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=6),
    labels=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(TextKind), ANY), max_size=6),
)
def test_any_graph_comes_back(
    to: str,
    rows: list[tuple[str, str, str]],
    labels: list[tuple[int, TextKind, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    texts = [Text(rows[i % len(rows)][0], kind, value) for i, kind, value in labels]
    graph = graph_from_records([*(Triple(*row) for row in rows), *texts])
    again, _ = load([written(graph, to, tmp_path_factory.mktemp("graph"))])
    assert again.content_hash == graph.content_hash


def test_lightrags_own_file_cycle_changes_nothing(graph: KnowledgeGraph, tmp_path: Path) -> None:
    """Its storage reads and writes by networkx, as here."""
    path = written(graph, "lightrag", tmp_path)
    theirs = nx.read_graphml(path)
    assert type(theirs) is nx.Graph
    assert sorted(theirs.nodes) == ["Frankreich", "Paris (Q1)", "Paris (Q90)", "alone"]
    assert theirs.nodes["Paris (Q90)"]["entity_id"] == "Paris (Q90)"
    assert theirs.nodes["Frankreich"]["description"] == "Frankreich"
    edge = theirs.edges["Paris (Q90)", "Frankreich"]
    assert sorted(edge["keywords"].split(",")) == [" or state", "P1", "P36", "a", "country"]
    assert edge["weight"] == 3.0
    nx.write_graphml(theirs, path)
    again, _ = load([path])
    assert again.content_hash == graph.content_hash


def test_what_lightrag_changes_counts(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = written(graph, "lightrag", tmp_path)
    theirs = nx.read_graphml(path)
    theirs.nodes["Paris (Q90)"]["description"] += "<SEP>It is old"
    theirs.nodes["alone"]["entity_type"] = "person"
    theirs.edges["Paris (Q1)", "Frankreich"]["keywords"] += ",visits"
    theirs.add_node("Elsby", entity_id="Elsby", entity_type="city", description="A town")
    theirs.add_edge("Elsby", "Paris (Q90)", keywords="near", description="They are near.")
    nx.write_graphml(theirs, path)
    again, _ = load([path])
    names = [again.entities.name(i) for i in range(again.n_entities)]
    assert sorted(names) == ["Elsby", "Q1", "Q142", "Q7", "Q90"]
    new = {tuple(t) for t in again} - {tuple(t) for t in graph}
    assert {frozenset((h, t)) for h, r, t in new if r == "near"} == {frozenset(("Elsby", "Q90"))}
    assert {frozenset((h, t)) for h, r, t in new if r == "visits"} == {frozenset(("Q1", "Q142"))}
    assert len(new) == 2
    paris = again.entities.id("Q90")
    output = {value for value, _ in again.entity_texts.of(paris, TextKind.DESCRIPTION)}
    assert {"It is old", "Stadt"} <= output
    assert again.types(again.entities.id("Q7")) == ["person"]
    assert again.aliases(paris) == [("City of Light", 7)]


def test_lightrags_storage_itself(graph: KnowledgeGraph, tmp_path: Path) -> None:
    storage = pytest.importorskip(
        "lightrag.kg.networkx_impl", reason="LightRAG (lightrag-hku) is not installed"
    )
    shared = sys.modules["lightrag.kg.shared_storage"]
    path = written(graph, "lightrag", tmp_path)

    async def cycle() -> Any:
        shared.initialize_share_data()
        theirs = storage.NetworkXStorage(
            namespace="chunk_entity_relation", workspace="", embedding_func=None,
            global_config={"working_dir": str(tmp_path)},
        )  # fmt: skip
        await theirs.initialize()
        node = await theirs.get_node("Paris (Q90)")
        await theirs.index_done_callback()
        return node

    node = asyncio.run(cycle())
    assert node["entity_type"] == "capital"
    assert load([path])[0].content_hash == graph.content_hash


# ---- GraphRAG's tables ---------------------------------------------------------------------------
ENTITY_COLUMNS = [
    "id", "human_readable_id", "title", "type", "description", "text_unit_ids", "frequency",
    "degree",
]  # fmt: skip
RELATIONSHIP_COLUMNS = [
    "id", "human_readable_id", "source", "target", "description", "weight", "combined_degree",
    "text_unit_ids",
]  # fmt: skip


def test_the_tables_are_graphrags(graph: KnowledgeGraph, tmp_path: Path) -> None:
    folder = written(graph, "graphrag", tmp_path)
    entities = pq.read_table(folder / "entities.parquet").to_pandas()
    relationships = pq.read_table(folder / "relationships.parquet").to_pandas()
    assert list(entities) == [*ENTITY_COLUMNS, "kept"]
    assert list(relationships) == [*RELATIONSHIP_COLUMNS, "kept"]
    assert set(relationships.source) | set(relationships.target) <= set(entities.title)
    assert entities.title.is_unique
    assert entities.id.is_unique
    assert relationships.id.is_unique
    degree = dict(zip(entities.title, entities.degree, strict=True))
    assert degree == {"Paris (Q1)": 1, "Frankreich": 2, "alone": 0, "Paris (Q90)": 2}
    assert relationships.combined_degree.tolist() == [
        degree[source] + degree[target]
        for source, target in zip(relationships.source, relationships.target, strict=True)
    ]
    again = tmp_path / "again"
    export(graph, again, to="graphrag")
    for name in ("entities.parquet", "relationships.parquet"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_graphrags_reader_itself(graph: KnowledgeGraph, tmp_path: Path) -> None:
    schemas = pytest.importorskip("graphrag.data_model.schemas", reason="GraphRAG is not installed")
    loaders = pytest.importorskip(
        "graphrag.query.input.loaders.dfs", reason="GraphRAG's query part is not installed"
    )
    assert schemas.ENTITIES_FINAL_COLUMNS == ENTITY_COLUMNS
    assert schemas.RELATIONSHIPS_FINAL_COLUMNS == RELATIONSHIP_COLUMNS
    folder = written(graph, "graphrag", tmp_path)
    entities = loaders.read_entities(pq.read_table(folder / "entities.parquet").to_pandas())
    assert {entity.title for entity in entities} == set(node_names(graph))
    tables = pq.read_table(folder / "relationships.parquet").to_pandas()
    assert len(loaders.read_relationships(tables)) == len(tables)


@pytest.mark.parametrize("names", [0, 1])
def test_a_graph_of_graphrag(names: int, tmp_path: Path) -> None:
    """As its pipeline writes it, by the names of now and of 0.x."""
    entities = ("entities.parquet", "create_final_entities.parquet")[names]
    relationships = ("relationships.parquet", "create_final_relationships.parquet")[names]
    pq.write_table(
        pa.table(
            {
                "id": ["1", "2", "3"],
                "title": ["PARIS", "SEINE", None],
                "type": ["GEO", "", None],
                "description": ["A city", None, None],
                "text_unit_ids": [["t"], [], []],
            }
        ),
        tmp_path / entities,
    )
    pq.write_table(
        pa.table(
            {
                "source": ["PARIS", "SEINE", ""],
                "target": ["SEINE", "ROUEN", "PARIS"],
                "description": ["Paris lies on the Seine", "", "?"],
                "weight": [1.0, 2.0, 3.0],
            }
        ),
        tmp_path / relationships,
    )
    with pytest.raises(DamageError, match=rf"{entities}.*an entity without a title"):
        load([tmp_path])
    graph, report = load([tmp_path], policy="skip")
    report.check()
    assert sorted(graph) == [("PARIS", "related", "SEINE"), ("SEINE", "related", "ROUEN")]
    assert graph.types(graph.entities.id("PARIS")) == ["GEO"]
    assert graph.description(graph.entities.id("PARIS")) == "A city"
    assert report.n_rejected == 2
    assert "2 relationships name no relation" in report.notes[0]


@pytest.mark.parametrize(
    ("entities", "relationships", "what"),
    [
        ({"name": ["a"]}, {"source": ["a"], "target": ["b"]}, "no title: it is not GraphRAG's"),
        ({"title": ["a"]}, {"source": ["a"]}, "no target: it is not GraphRAG's"),
        ({"title": [1.5]}, {"source": ["a"], "target": ["b"]}, "'title' holds double, no names"),
        ({"title": ["a"]}, None, "has no relationships.parquet"),
    ],
)
def test_other_folders_are_refused(
    entities: Any, relationships: Any, what: str, tmp_path: Path
) -> None:
    from kg_loaders import Source

    pq.write_table(pa.table(entities), tmp_path / "entities.parquet")
    if relationships is not None:
        pq.write_table(pa.table(relationships), tmp_path / "relationships.parquet")
    with pytest.raises(SourceError, match=what):
        load([Source(tmp_path, "graphrag")])


def test_a_folder_there_stays_unless_it_is_such_a_graph(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = written(graph, "graphrag", tmp_path)
    with pytest.raises(ExistsError):
        export(graph, folder, to="graphrag")
    export(graph, folder, to="graphrag", force=True)
    (folder / "communities.parquet").write_text("mine")
    with pytest.raises(ExistsError):
        export(graph, folder, to="graphrag", force=True)
    assert (folder / "communities.parquet").read_text() == "mine"


# ---- notes that kept did not write ---------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "", "{", "3", "[]", '{"id": ""}', '{"id": "a", "texts": [], "fields": 3}', "[" * 9999,
        '{"id": "a", "texts": [[9, "x", "", 0]], "fields": {}}',
        '{"id": "a", "texts": [[0, "", "", 0]], "fields": {}}',
        '{"id": "a", "texts": [[0, "x", "", -1]], "fields": {}}',
        '{"id": "a", "texts": [[0, "x", "", 3000000000]], "fields": {}}',
        '{"id": "a", "texts": [[true, "x", "", 0]], "fields": {}}',
        '{"triples": [["a", "r"]], "fields": {}}', '{"triples": "abc", "fields": {}}',
        '{"triples": [["a", "", "b"]], "fields": {}}',
    ],
)  # fmt: skip
def test_another_note_is_none(text: str) -> None:
    assert NodeNote.of(text) is None
    assert EdgeNote.of(text) is None
    assert not relation_texts(text)


def test_data_of_other_programs_with_that_name_are_data(tmp_path: Path) -> None:
    theirs = nx.DiGraph()
    theirs.add_node("a", label="A", kept="mine")
    theirs.add_edge("a", "b", relation="r", kept="[]")
    nx.write_graphml(theirs, tmp_path / "x.graphml")
    graph, report = load([tmp_path / "x.graphml"])
    assert list(graph) == [("a", "r", "b")]
    assert graph.label(graph.entities.id("a")) == "A"
    assert report.n_skipped == 2


def test_names_of_entities_that_share_a_label() -> None:
    labels = {"a": "Paris", "b": "Paris", "c": "Paris (a)"}
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")], labels)
    assert node_names(graph) == ["Paris (a) *", "Paris (b)", "Paris (a)"]
