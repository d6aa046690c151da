"""A whole knowledge graph for other libraries: pandas, networkx, torch-geometric and DGL.

Nodes are the graph's entities by id; relations are numbers, whose names are
`graph.relation_label(number)`. Word-knowledge graphs of texts are in `kept.graphs.export`.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch

from kept.errors import MissingExtraError
from kg_loaders import KnowledgeGraph
from kg_loaders.export import triple_table


def kg_to_pandas(graph: KnowledgeGraph) -> Any:
    """Return a `pandas.DataFrame`, a row per triple: identifiers, then labels of its three parts.

    Raises `MissingExtraError` without pandas.

    >>> from kept import KnowledgeGraph
    >>> frame = kg_to_pandas(KnowledgeGraph.from_triples([("a", "likes", "b")], {"a": "Ada"}))
    >>> frame.iloc[0].tolist()
    ['a', 'likes', 'b', 'Ada', 'likes', 'b']
    """
    try:
        return triple_table(graph).to_pandas()
    except ImportError as error:
        raise MissingExtraError("kg_to_pandas needs pandas: pip install pandas") from error


def kg_to_networkx(graph: KnowledgeGraph) -> nx.MultiDiGraph[str]:
    """Return a `MultiDiGraph` of identifiers; nodes have `label`, edges `relation` and `label`."""
    nx_graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    names = [graph.entities.name(i) for i in range(graph.n_entities)]
    relations = [graph.relations.name(i) for i in range(graph.n_relations)]
    for i, name in enumerate(names):
        nx_graph.add_node(name, label=graph.label(i))
    for head, relation, tail in graph.triples.tolist():
        nx_graph.add_edge(
            names[head],
            names[tail],
            key=relations[relation],
            relation=relations[relation],
            label=graph.relation_label(relation),
        )
    return nx_graph


def kg_to_pyg(graph: KnowledgeGraph) -> Any:
    """Return `torch_geometric.data.Data`: `edge_index [2 triple]`, `edge_type [triple]`, int64."""
    try:
        from torch_geometric.data import Data  # slow to import, and few need it
    except ImportError as error:
        raise MissingExtraError("torch-geometric is missing: pip install 'kept[pyg]'") from error

    head, relation, tail = torch.from_numpy(graph.triples.T.astype(np.int64))
    return Data(
        edge_index=torch.stack([head, tail]), edge_type=relation, num_nodes=graph.n_entities
    )


def kg_to_dgl(graph: KnowledgeGraph) -> Any:
    """Return a `dgl.DGLGraph` whose edges have `relation`.

    Raises `MissingExtraError` without DGL.
    """
    dgl = imported_dgl("kg_to_dgl")
    head, relation, tail = torch.from_numpy(graph.triples.T.astype(np.int64))
    dgl_graph = dgl.graph((head, tail), num_nodes=graph.n_entities)
    dgl_graph.edata["relation"] = relation
    return dgl_graph


def imported_dgl(wish: str) -> Any:
    """The module `dgl`; raises `MissingExtraError`, which says that `wish` needs it, without."""
    try:
        import dgl
    except ImportError as error:
        raise MissingExtraError(
            f"{wish} needs DGL: pip install 'kept[dgl]' (Python 3.11: DGL does not work with "
            f"torch in later versions), or use graphs of torch-geometric"
        ) from error
    return dgl
