"""The subgraphs of a batch as one graph whose nodes and edges have types, each with a context node.

Yasunaga et al. 2021, "QA-GNN: Reasoning with Language Models and Knowledge Graphs for Question
Answering" (NAACL), section 3.1: the working graph. A node stands for the text; it is joined to the
entities of the question and of the answer, by one relation each.

Axis legend: batch, entity (of a text's subgraph), place (the context node, then the entities),
node (all places of all samples, then one node on which padded edges lie), edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from kept.batches import PAD_ROW, KnowledgeBatch, Role
from kept.batches.host_copies import on_both, on_host, places
from kept.errors import BatchError

N_NODE_TYPES = len(Role) + 1
CONTEXT = len(Role)
"""The type of a context node; the others are the roles of entities."""
CONTEXT_RELATIONS = (int(Role.QUESTION), int(Role.ANSWER))
"""Roles that the context node is joined to, in the order of the types of these edges."""


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """Nodes and edges, self loops included. Where a mask is False, a value changes no statistics.

    `edge_index [0]` are sources, `[1]` targets.
    """

    edge_index: Int[Tensor, "2 edge"]
    edge_types: Int[Tensor, " edge"]
    edge_mask: Bool[Tensor, " edge"]
    node_types: Int[Tensor, " node"]
    node_mask: Bool[Tensor, " node"]

    @classmethod
    def of(
        cls,
        edge_index: Int[Tensor, "2 edge"],
        edge_types: Int[Tensor, " edge"],
        node_types: Int[Tensor, " node"],
        *,
        n_edge_types: int,
        edge_mask: Bool[Tensor, " edge"] | None = None,
        node_mask: Bool[Tensor, " node"] | None = None,
    ) -> TypedGraph:
        """The graph with a self loop at every node, after all edges; its type is `n_edge_types`."""
        nodes = torch.arange(len(node_types), device=node_types.device)
        if edge_mask is None:
            edge_mask = torch.ones_like(edge_types, dtype=torch.bool)
        if node_mask is None:
            node_mask = torch.ones_like(node_types, dtype=torch.bool)
        return cls(
            edge_index=torch.cat([edge_index, nodes.expand(2, -1)], dim=1),
            edge_types=torch.cat([edge_types, torch.full_like(nodes, n_edge_types)]),
            edge_mask=torch.cat([edge_mask, node_mask]),
            node_types=node_types,
            node_mask=node_mask,
        )


def n_edge_types(n_relations: int, *, all_entities: bool) -> int:
    """How many types edges have: those of the context node and the relations, and all inverses."""
    return 2 * (n_relations + len(CONTEXT_RELATIONS) + all_entities)


def place_types(batch: KnowledgeBatch) -> Int[Tensor, "batch place"]:
    """The type of each place; padding has the last of the roles, as in the released code."""
    assert batch.subgraph_roles is not None
    roles = batch.subgraph_roles
    roles = roles.where(roles >= 0, CONTEXT - 1)
    return F.pad(roles, (1, 0), value=CONTEXT)


def typed_graph(
    batch: KnowledgeBatch, *, n_relations: int, all_entities: bool, with_padding: bool
) -> TypedGraph:
    """The subgraphs of a batch, each with its context node and every edge in both directions.

    Types: the context's two, the relations, with `all_entities` the third, then all inverses.
    With `all_entities` that third type of edge joins the context node to every entity but one of a
    question, and a second time to every entity but one of an answer, as GreaseLM's released code
    does. `with_padding`: padded places count in statistics.
    Raises `BatchError` without subgraphs, or for a relation that the model does not know.
    """
    ids, edges = batch.subgraph_ids, batch.subgraph_edges
    if ids is None or edges is None or batch.subgraph_roles is None:
        raise BatchError(
            "this method reads subgraphs, and the batch has none; make it with SubgraphView"
        )
    checks = not torch.compiler.is_compiling() and edges.numel() > 0
    if checks and int(on_host(edges)[..., 1].max()) >= n_relations:
        raise BatchError(
            f"relation {int(edges[..., 1].max())} is beyond the {n_relations} of this model; the "
            "batch was made with another graph"
        )
    types = place_types(batch)
    is_real = F.pad(ids != PAD_ROW, (1, 0), value=True)
    first = len(CONTEXT_RELATIONS)
    third = first + n_relations if all_entities else None
    heads, kinds, tails = _edges_of_context(batch.subgraph_roles, third)
    heads = torch.cat([heads, edges[..., 0] + 1], dim=1)
    tails = torch.cat([tails, edges[..., 2] + 1], dim=1)
    kinds = torch.cat([kinds, edges[..., 1] + first], dim=1)
    is_edge = on_both(
        lambda roles, edges: torch.cat([_are_joined(roles, third), edges[..., 0] >= 0], dim=1),
        batch.subgraph_roles,
        edges,
    )
    n_batch, n_places = types.shape
    starts = torch.arange(n_batch, device=ids.device)[:, None] * n_places
    spare = n_batch * n_places
    sources, targets = ((ends + starts).where(is_edge, spare).flatten() for ends in (heads, tails))
    kinds, mask = kinds.where(is_edge, 0).flatten(), is_edge.flatten()
    if not torch.compiler.is_compiling():  # how many edges there are depends on the data
        real = places(lambda each: each, is_edge)
        sources, targets, kinds, mask = (
            each.index_select(0, real) for each in (sources, targets, kinds, mask)
        )
    n_types = n_edge_types(n_relations, all_entities=all_entities)
    index = torch.stack([torch.cat([sources, targets]), torch.cat([targets, sources])])
    counted = torch.ones_like(is_real) if with_padding else is_real
    return TypedGraph.of(
        index, torch.cat([kinds, kinds + n_types // 2]),
        torch.cat([types.flatten(), types.new_zeros(1)]), n_edge_types=n_types,
        edge_mask=torch.cat([mask, mask]),
        node_mask=torch.cat([counted.flatten(), counted.new_zeros(1)]),
    )  # fmt: skip


def _edges_of_context(
    roles: Int[Tensor, "batch entity"], third: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Heads, types and tails of the edges from the context node, all `[batch edge]`.

    `third` is the type of those to entities of any role, None where there are none. Not all are
    edges: see `_are_joined`.
    """
    numbers = torch.arange(1, roles.shape[1] + 1, device=roles.device).expand_as(roles)
    kinds = [torch.full_like(roles, number) for number in range(len(CONTEXT_RELATIONS))]
    if third is not None:
        kinds += [torch.full_like(roles, third)] * len(CONTEXT_RELATIONS)
    tails = numbers.repeat(1, len(kinds))
    return torch.zeros_like(tails), torch.cat(kinds, 1), tails


def _are_joined(
    roles: Int[Tensor, "batch entity"], third: int | None
) -> Bool[Tensor, "batch edge"]:
    """Which of `_edges_of_context` there are."""
    are_joined = [roles == role for role in CONTEXT_RELATIONS]
    if third is not None:
        are_joined += [(roles >= 0) & (roles != role) for role in CONTEXT_RELATIONS]
    return torch.cat(are_joined, 1)
