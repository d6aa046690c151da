"""Neighbourhoods of entities, a batch at a time, for models of torch-geometric and DGL.

As torch-geometric's `NeighborLoader` (Hamilton et al. 2017, "Inductive Representation Learning on
Large Graphs", NeurIPS, algorithm 2), without its compiled samplers: triples are drawn from the
store as it lies on the disk, which is mapped, not copied. Axis legend: seed, node and edge (of a
batch), hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import ConfigError, MissingExtraError
from kept.graphs.exchange import imported_dgl
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.neighbours import Directions, Policy, neighbours

Ids = NDArray[np.int64]
Form = Literal["pyg", "pyg_hetero", "dgl"]
ALL = -1
"""As a number of neighbours: all of them."""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """What lies around some entities.

    `entities [node]` are graph ids, the seeds first, then each in the order in which it was
    reached; `rows [edge]` are rows of `graph.triples`, each once, and `ends [edge 2]` the nodes of
    head and tail. `hop_nodes [hop+1]` and `hop_edges [hop]` count what each hop brought, the seeds
    first.
    """

    entities: Ids
    rows: Ids
    ends: Ids
    hop_nodes: tuple[int, ...]
    hop_edges: tuple[int, ...]


def subgraph_of(
    graph: KnowledgeGraph,
    seeds: Ids,
    n_neighbours: Sequence[int],
    *,
    draws: np.random.Generator,
    policy: str | Policy = "random",
    directions: Directions = "both",
) -> Subgraph:
    """Return the triples that `neighbours` gives of the seeds, of what they reach, and so on.

    One hop for each of `n_neighbours`, which is how many triples an entity brings (`ALL`: all). An
    entity brings its triples once, at the hop at which it is reached first. Seeds that come twice
    count once.
    """
    entities = np.array([*dict.fromkeys(np.asarray(seeds).tolist())], np.int64)
    rows = np.zeros(0, np.int64)
    hop_nodes, hop_edges, reached = [len(entities)], [], entities
    for n in n_neighbours:
        most, how = (graph.n_triples, "file") if n == ALL else (n, policy)
        facts, _ = neighbours(
            graph, reached.astype(np.int32), most, policy=how, generator=draws,
            directions=directions,
        )  # fmt: skip
        new_rows = _not_in(facts, rows)
        ends = graph.triples[new_rows][:, [0, 2]].astype(np.int64)
        reached = _not_in(ends.ravel(), entities)
        rows, entities = np.concatenate([rows, new_rows]), np.concatenate([entities, reached])
        hop_nodes.append(len(reached))
        hop_edges.append(len(new_rows))
    order = np.argsort(entities)
    whole = graph.triples[rows][:, [0, 2]].astype(np.int64)
    ends = order[np.searchsorted(entities, whole, sorter=order)]
    return Subgraph(entities, rows, ends, tuple(hop_nodes), tuple(hop_edges))


def _not_in(values: Ids, known: Ids) -> Ids:
    """The different ones of `values` that are not in `known`, in order of first appearance."""
    different, first = np.unique(values, return_index=True)
    is_new = ~np.isin(different, known)
    return values[np.sort(first[is_new])]


class SubgraphLoader:
    """Batches of entities with what lies around them.

    `form` "pyg" gives `torch_geometric.data.Data`: `n_id` (entity ids, the batch's own first),
    `edge_index` (head to tail), `edge_type` (relation ids), `e_id` (rows of `graph.triples`),
    `batch_size`, `input_id` (places among `seeds`), `num_sampled_nodes` and `num_sampled_edges`, as
    `NeighborLoader` names them. "pyg_hetero" gives `HeteroData` with node type `entity` and an edge
    type for each relation that occurs; "dgl" a `dgl.DGLGraph` with `ndata["entity"]`,
    `ndata["is_seed"]`, `edata["relation"]` and `edata["triple"]`. Models that send messages both
    ways add the inverse edges themselves.

    Batch n is a function of (graph, `seed`, `epoch`, n). Give the loader to a torch `DataLoader`
    with `batch_size=None` to have workers. Raises `ConfigError` for options that make no batch and
    `MissingExtraError` without the library.

    >>> from kg_loaders import Triple, graph_from_records
    >>> graph = graph_from_records([Triple("A", "r", "B"), Triple("B", "r", "C")])
    >>> loader = SubgraphLoader(graph, n_neighbours=[-1], seeds=[0], batch_size=8)
    >>> [batch.edge_index.tolist() for batch in loader]
    [[[0], [1]]]
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        n_neighbours: Sequence[int],
        batch_size: int,
        seeds: Sequence[int] | NDArray[np.integer] | None = None,
        form: Form = "pyg",
        shuffle: bool = False,
        policy: str | Policy = "random",
        directions: Directions = "both",
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        """`seeds` are entity ids, all by default; with `shuffle` each epoch has its own order."""
        if batch_size < 1 or not n_neighbours or min(n_neighbours) < ALL:
            raise ConfigError(
                f"batch_size {batch_size} and n_neighbours {list(n_neighbours)}: give 1 or more "
                f"entities, and a number for each hop ({ALL}: all neighbours)"
            )
        if form not in _MAKERS:
            raise ConfigError(f"form {form!r}: one of {', '.join(_MAKERS)}")
        self._graph, self._sizes, self._batch_size = graph, tuple(n_neighbours), batch_size
        every = range(graph.n_entities) if seeds is None else seeds
        self._seeds = np.asarray(every, np.int64)
        self._form, self._shuffle = form, shuffle
        self._policy, self._directions = policy, directions
        self._seed, self.epoch = seed, epoch

    def __len__(self) -> int:
        return -(-len(self._seeds) // self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Any:
        """Batch `number`; `IndexError` beyond the last."""
        if not 0 <= number < len(self):
            raise IndexError(f"batch {number} of {len(self)}")
        places = np.arange(len(self._seeds))
        if self._shuffle:
            places = generator(self._seed, "order of seeds", self.epoch).permutation(places)
        chosen = places[number * self._batch_size : (number + 1) * self._batch_size]
        subgraph = subgraph_of(
            self._graph,
            self._seeds[chosen],
            self._sizes,
            draws=generator(self._seed, "subgraph", self.epoch, number),
            policy=self._policy,
            directions=self._directions,
        )
        return _MAKERS[self._form](subgraph, self._graph, torch.from_numpy(chosen))


# ---- what other libraries take -------------------------------------------------------------------
def _relations(subgraph: Subgraph, graph: KnowledgeGraph) -> Tensor:
    return torch.from_numpy(graph.triples[subgraph.rows, 1].astype(np.int64))


def _torch_geometric() -> Any:
    try:
        import torch_geometric.data  # slow to import, and few need it
    except ImportError as error:
        raise MissingExtraError("torch-geometric is missing: pip install 'kept[pyg]'") from error
    return torch_geometric.data


def _as_data(subgraph: Subgraph, graph: KnowledgeGraph, places: Tensor) -> Any:
    return _torch_geometric().Data(
        n_id=torch.from_numpy(subgraph.entities),
        num_nodes=len(subgraph.entities),
        edge_index=torch.from_numpy(np.ascontiguousarray(subgraph.ends.T)),
        edge_type=_relations(subgraph, graph),
        e_id=torch.from_numpy(subgraph.rows),
        batch_size=subgraph.hop_nodes[0],
        input_id=places,
        num_sampled_nodes=list(subgraph.hop_nodes),
        num_sampled_edges=list(subgraph.hop_edges),
    )


def _as_hetero_data(subgraph: Subgraph, graph: KnowledgeGraph, places: Tensor) -> Any:
    data, relations = _torch_geometric().HeteroData(), _relations(subgraph, graph)
    entities = data["entity"]
    entities.n_id, entities.num_nodes = torch.from_numpy(subgraph.entities), len(subgraph.entities)
    entities.batch_size, entities.input_id = subgraph.hop_nodes[0], places
    for relation in np.unique(relations).tolist():
        edges = (relations == relation).numpy()
        store = data["entity", graph.relations.name(relation), "entity"]
        store.edge_index = torch.from_numpy(np.ascontiguousarray(subgraph.ends[edges].T))
        store.e_id = torch.from_numpy(subgraph.rows[edges])
    return data


def _as_dgl(subgraph: Subgraph, graph: KnowledgeGraph, _places: Tensor) -> Any:
    dgl = imported_dgl("form 'dgl'")
    heads, tails = torch.from_numpy(np.ascontiguousarray(subgraph.ends.T))
    result = dgl.graph((heads, tails), num_nodes=len(subgraph.entities))
    result.ndata["entity"] = torch.from_numpy(subgraph.entities)
    result.ndata["is_seed"] = torch.arange(len(subgraph.entities)) < subgraph.hop_nodes[0]
    result.edata["relation"] = _relations(subgraph, graph)
    result.edata["triple"] = torch.from_numpy(subgraph.rows)
    return result


_MAKERS = {"pyg": _as_data, "pyg_hetero": _as_hetero_data, "dgl": _as_dgl}
