"""Subgraphs against loops and torch-geometric's own k-hop subgraphs; a model of each library."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from kept.apps.integrations.subgraphs import ALL, SubgraphLoader, subgraph_of
from kept.errors import ConfigError, MissingExtraError
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Triple, graph_from_records


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    """61 entities, with loops, inverse pairs and entities without a triple out."""
    rows = np.random.default_rng(5).integers([60, 4, 61], size=(150, 3)).tolist()
    rows += [[1, 0, 1], [2, 1, 3], [3, 1, 2], *([0, 3, tail] for tail in range(61))]
    return graph_from_records(Triple(f"Q{h:02}", f"P{r}", f"Q{t:02}") for h, r, t in rows)


def walked(
    graph: KnowledgeGraph, seeds: list[int], n_hops: int, directions: str
) -> tuple[list[int], list[int]]:
    """Entities and rows of all triples, hop by hop, by loops."""
    triples = graph.triples.tolist()
    entities, rows, reached = [*dict.fromkeys(seeds)], [], [*dict.fromkeys(seeds)]
    for _ in range(n_hops):
        rows_of_entity = [r for e in reached for r, t in enumerate(triples) if t[0] == e]
        if directions == "both":
            rows_of_entity += [
                r for e in reached for r, t in enumerate(triples) if t[2] == e != t[0]
            ]
        new = [row for row in dict.fromkeys(rows_of_entity) if row not in rows]
        ends = [end for row in new for end in (triples[row][0], triples[row][2])]
        rows += new
        reached = [e for e in dict.fromkeys(ends) if e not in entities]
        entities += reached
    return entities, rows


@given(
    seeds=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    n_hops=st.integers(1, 3),
    directions=st.sampled_from(["out", "both"]),
)
@settings(max_examples=30, deadline=None)
def test_all_neighbours_are_those_of_loops_and_of_torch_geometric(
    graph: KnowledgeGraph, seeds: list[int], n_hops: int, directions: Any
) -> None:
    from torch_geometric.utils import k_hop_subgraph, to_undirected

    subgraph = subgraph_of(
        graph, np.array(seeds), [ALL] * n_hops, draws=generator(0), directions=directions
    )
    entities, rows = walked(graph, seeds, n_hops, directions)
    assert set(subgraph.entities.tolist()) == set(entities)
    assert sorted(subgraph.rows.tolist()) == sorted(rows)
    assert subgraph.entities.tolist()[: subgraph.hop_nodes[0]] == [*dict.fromkeys(seeds)]
    assert np.array_equal(subgraph.entities[subgraph.ends], graph.triples[subgraph.rows][:, [0, 2]])
    assert (sum(subgraph.hop_nodes), sum(subgraph.hop_edges)) == (len(entities), len(rows))
    edges = torch.from_numpy(graph.triples[:, [0, 2]].T.astype(np.int64))
    if directions == "both":
        edges = to_undirected(edges, num_nodes=graph.n_entities)
    theirs, *_ = k_hop_subgraph(
        seeds, n_hops, edges, num_nodes=graph.n_entities, flow="target_to_source"
    )
    assert sorted(subgraph.entities.tolist()) == theirs.tolist()


@given(
    seeds=st.lists(st.integers(0, 60), min_size=1, max_size=8),
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_drawn_neighbours_are_few_and_real(
    graph: KnowledgeGraph, seeds: list[int], sizes: list[int], seed: int
) -> None:
    """Each is a triple of an entity that was reached a hop before, at most so many of each."""
    subgraph = subgraph_of(graph, np.array(seeds), sizes, draws=generator(seed), directions="out")
    starts = np.cumsum([0, *subgraph.hop_nodes])
    edge_starts = np.cumsum([0, *subgraph.hop_edges])
    for hop, size in enumerate(sizes):
        heads = subgraph.ends[edge_starts[hop] : edge_starts[hop + 1], 0]
        assert ((starts[hop] <= heads) & (heads < starts[hop + 1])).all()
        degrees = np.diff(graph.out_offsets)[subgraph.entities[starts[hop] : starts[hop + 1]]]
        counts = np.bincount(heads - starts[hop], minlength=len(degrees))
        assert counts.tolist() == np.minimum(degrees, size).tolist()
    assert len(set(subgraph.rows.tolist())) == len(subgraph.rows)
    assert len(set(subgraph.entities.tolist())) == len(subgraph.entities)


def test_batches_are_functions_of_their_number(graph: KnowledgeGraph) -> None:
    def loader(epoch: int) -> SubgraphLoader:
        return SubgraphLoader(
            graph, n_neighbours=[2, 2], batch_size=7, shuffle=True, seed=3, epoch=epoch
        )

    ours = loader(0)
    batches = list(ours)
    assert len(ours) == len(batches) == -(-graph.n_entities // 7)
    assert batches[3].e_id.tolist() == loader(0)[3].e_id.tolist()
    assert batches[3].n_id.tolist() != loader(1)[3].n_id.tolist()
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in batches])
    assert sorted(seeds.tolist()) == list(range(graph.n_entities))
    seeds_read = torch.cat([batch.input_id for batch in batches])
    assert seeds_read.tolist() == seeds.tolist()  # all entities are seeds, in order of their ids
    for ours_of, theirs in zip(batches, DataLoader(loader(0), batch_size=None), strict=True):
        assert ours_of.edge_index.tolist() == theirs.edge_index.tolist()
    with pytest.raises(IndexError, match="batch 9 of 9"):
        ours[9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size 0"),
        ({"n_neighbours": []}, r"n_neighbours \[\]"),
        ({"n_neighbours": [-2]}, r"n_neighbours \[-2\]"),
        ({"form": "csv"}, "form 'csv': one of pyg, pyg_hetero, dgl"),
    ],
)
def test_options_that_make_no_batch(
    options: dict[str, Any], message: str, graph: KnowledgeGraph
) -> None:
    with pytest.raises(ConfigError, match=message):
        SubgraphLoader(graph, **{"n_neighbours": [1], "batch_size": 1} | options)


def test_a_torch_geometric_model_sees_its_seeds_as_in_the_whole_graph(
    graph: KnowledgeGraph,
) -> None:
    """Two layers over all neighbours of two hops compute what they compute on the whole graph."""
    from torch_geometric.nn import RGCNConv

    torch.manual_seed(0)
    layers = [RGCNConv(6, 6, graph.n_relations) for _ in range(2)]
    features = torch.randn(graph.n_entities, 6)

    def run(x: Any, edges: Any, types: Any) -> Any:
        for layer in layers:
            x = layer(x, edges, types).tanh()
        return x

    ends = torch.from_numpy(graph.triples[:, [0, 2]].T.astype(np.int64))
    whole = run(features, ends, torch.from_numpy(graph.triples[:, 1].astype(np.int64)))
    loader = SubgraphLoader(graph, n_neighbours=[ALL, ALL], batch_size=9)
    for batch in loader:
        states = run(features[batch.n_id], batch.edge_index, batch.edge_type)
        seeds = slice(batch.batch_size)
        torch.testing.assert_close(states[seeds], whole[batch.n_id[seeds]], atol=1e-6, rtol=1e-4)


def test_hetero_data_parts_the_same_edges_by_relation(graph: KnowledgeGraph) -> None:
    options: dict[str, Any] = {"n_neighbours": [3], "batch_size": 20, "seeds": range(20)}
    (plain,) = SubgraphLoader(graph, **options)
    (typed,) = SubgraphLoader(graph, form="pyg_hetero", **options)
    assert typed["entity"].n_id.tolist() == plain.n_id.tolist()
    assert typed["entity"].batch_size == 20
    rows = torch.cat([typed[kind].e_id for kind in typed.edge_types])
    assert sorted(rows.tolist()) == sorted(plain.e_id.tolist())
    for kind in typed.edge_types:
        heads, tails = typed["entity"].n_id[typed[kind].edge_index].tolist()
        for row, head, tail in zip(typed[kind].e_id.tolist(), heads, tails, strict=True):
            relation = graph.relations.id(kind[1])
            assert graph.triples[row].tolist() == [head, relation, tail]


@pytest.mark.filterwarnings("ignore")  # dgl's own
def test_dgl_gets_the_same_subgraph(graph: KnowledgeGraph) -> None:
    pytest.importorskip("dgl", reason="the extra `dgl` is not installed")
    options: dict[str, Any] = {"n_neighbours": [3, 2], "batch_size": 5, "seeds": range(5)}
    (plain,) = SubgraphLoader(graph, **options)
    (ours,) = SubgraphLoader(graph, form="dgl", **options)
    assert ours.ndata["entity"].tolist() == plain.n_id.tolist()
    assert int(ours.ndata["is_seed"].sum()) == 5
    assert torch.stack(ours.edges()).tolist() == plain.edge_index.tolist()
    assert ours.edata["relation"].tolist() == plain.edge_type.tolist()
    assert ours.edata["triple"].tolist() == plain.e_id.tolist()


@pytest.mark.parametrize(("form", "extra"), [("pyg", "pyg"), ("pyg_hetero", "pyg"), ("dgl", "dgl")])
def test_a_library_that_is_missing_is_named(
    form: Any, extra: str, graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch_geometric", "torch_geometric.data", "dgl"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'kept\[{extra}\]'"):
        SubgraphLoader(graph, n_neighbours=[1], batch_size=1, form=form)[0]
