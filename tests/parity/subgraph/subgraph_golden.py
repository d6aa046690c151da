"""What the folders of QA-GNN and GreaseLM have in common: reading them, batches, and comparing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from kept.batches import N_SPECIAL_ROWS, NONE, PAD_ROW, KnowledgeBatch, Visibility
from kept.layers.typed_graph import TypedGraph

DOUBLE = {"atol": 1e-10, "rtol": 0.0}
SHORT = 2e-4
"""In float32, times 1 + |value|. Keys and values are sums of a product per node and one per edge,
the released code's are one product: each rounds by 6e-8 of its largest term, and layers and
softmaxes raise that some thousand times. In float64 both are equal to `DOUBLE`."""
GRADIENT = 1e-9
"""Of a gradient's largest entry."""
ROUNDING = 1e-13
"""What is left of a gradient that is 0, as that of attention over a single edge."""
N_CONTEXT = 2
"""Types of edges before those of the relations."""
NO_GRADIENT = re.compile(r"(linear_key|w_ks|\.self\.key)\.bias$")
"""Parameters whose true gradient is 0 in any mode: what is left of it is rounding."""
NONE_IN_TRAINING = re.compile(r"(edge_encoder\.0|mlp\.0)\.bias$")
"""Those in front of a normalisation by the batch's own statistics."""


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def of_all(value: Tensor) -> Tensor:
    """`[question choice ...]` as one row a choice."""
    return value.flatten(0, 1)


def padded(lengths: Tensor, n_places: int) -> Tensor:
    """Which places are padding, `[batch place]`."""
    return torch.arange(n_places)[None] >= lengths[:, None]


def own_edges(index: Tensor, types: Tensor, n_types: int) -> tuple[Tensor, Tensor]:
    """The direct edges of the original's, `[edge 3]`, and those of the context node, `[edge 2]`.

    An original's edges are those of the context node, then direct ones, then all of them inverted.
    """
    half = len(types) // 2
    assert torch.equal(index[:, :half], index[:, half:].flip(0))
    assert torch.equal(types[:half] + n_types // 2, types[half:])
    return index[:, :half], types[:half]


def subgraphs(
    concept_ids: Tensor,
    roles: Tensor,
    scores: Tensor,
    lengths: Tensor,
    edges: list[tuple[Tensor, Tensor]],
    n_relations: int,
) -> dict[str, Tensor]:
    """Our fields of the original's inputs; `edges` of each row are its direct halves.

    Explicit edges of the context node are ours to make, so they are left out here.
    """
    is_padding = padded(lengths, concept_ids.shape[1])[:, 1:]
    ids = (concept_ids[:, 1:] - 1 + N_SPECIAL_ROWS).masked_fill(is_padding, PAD_ROW)
    rows = []
    for index, types in edges:
        direct = (types >= N_CONTEXT) & (types < N_CONTEXT + n_relations)
        heads, tails = index[:, direct] - 1
        rows.append(torch.stack([heads, types[direct] - N_CONTEXT, tails], dim=1))
    width = max(len(row) for row in rows)
    padded_rows = [nn.functional.pad(row, (0, 0, 0, width - len(row)), value=NONE) for row in rows]
    return {
        "subgraph_ids": ids,
        "subgraph_roles": roles[:, 1:].masked_fill(is_padding, NONE),
        "subgraph_scores": (scores[:, 1:].double() - scores[:, :1].double()),
        "subgraph_edges": torch.stack(padded_rows),
    }


def words(
    ids: Tensor, mask: Tensor, segments: Tensor, *, pad_id: int, family: str = "roberta"
) -> KnowledgeBatch:
    """Texts as the original's language model reads them.

    RoBERTa's positions count what is not `pad_id`; BERT's count every token.
    """
    places = torch.arange(ids.shape[1]).expand_as(ids)
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=positions(ids, pad_id) if family == "roberta" else places,
        segment_ids=segments,
        visibility=seen(mask > 0),
    )


def positions(ids: Tensor, pad_id: int) -> Tensor:
    """Those of RoBERTa, less the offset that our hosts add; a padding word's is -1."""
    real = ids != pad_id
    return (real.cumsum(1) * real) - 1


def seen(mask: Tensor) -> Visibility:
    """Everybody sees the words of `mask`, and padding itself, too, which nobody reads."""
    itself = torch.eye(mask.shape[1], dtype=torch.bool)
    return Visibility(mask[:, None, :] | itself)


def no_words(n_batch: int) -> KnowledgeBatch:
    """A batch of one word each, for cases whose sentence vectors are given."""
    ids = torch.zeros(n_batch, 1, dtype=torch.int64)
    return KnowledgeBatch(
        node_ids=ids, node_kinds=ids, node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=ids, segment_ids=ids, visibility=Visibility.everyone(n_batch, 1),
    )  # fmt: skip


def original_graph(
    index: Tensor, edge_types: Tensor, node_types: Tensor, n_edge_types: int
) -> TypedGraph:
    """The original's edges in their order, and our spare node last."""
    types = torch.cat([node_types, node_types.new_zeros(1)])
    is_real = torch.ones(len(types), dtype=torch.bool)
    is_real[-1] = False
    return TypedGraph.of(index, edge_types, types, n_edge_types=n_edge_types, node_mask=is_real)


def without_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


def close(ours: Tensor, theirs: Tensor, **tolerance: float) -> None:
    tolerance = tolerance or (
        DOUBLE if theirs.dtype == torch.float64 else {"atol": SHORT, "rtol": SHORT}
    )
    torch.testing.assert_close(ours.to(theirs.dtype), theirs, **tolerance)


def close_gradient(name: str, ours: Tensor | None, theirs: Tensor, *, training: bool) -> None:
    if NO_GRADIENT.search(name) or (training and NONE_IN_TRAINING.search(name)):
        return
    assert ours is not None, name
    size = float(theirs.abs().max())
    gap = float((ours - theirs).abs().max())
    assert gap <= GRADIENT * size + ROUNDING, (name, gap, size)


def edges_by_row(graph: TypedGraph, n_places: int, n_rows: int) -> list[list[tuple[int, ...]]]:
    """The edges of every row, sorted: type, source and target; those of padding are left out."""
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(n_rows)]
    n_edges = len(graph.edge_types) - len(graph.node_types)
    columns = zip(
        graph.edge_types[:n_edges].tolist(), *graph.edge_index[:, :n_edges].tolist(),
        graph.edge_mask[:n_edges].tolist(), strict=True,
    )  # fmt: skip
    for kind, source, target, is_edge in columns:
        if is_edge:
            row = source // n_places
            rows[row].append((kind, source % n_places, target % n_places))
    return [sorted(row) for row in rows]


def edges_of_rows(inputs: Mapping[str, Tensor], prefix: str = "") -> list[list[tuple[int, ...]]]:
    """The original's edges of every question and choice, as `edges_by_row` has them."""
    places = sorted(
        tuple(map(int, name.removeprefix(f"{prefix}edge_type.").split(".")))
        for name in inputs
        if name.startswith(f"{prefix}edge_type.")
    )
    rows = []
    for question, choice in places:
        types = inputs[f"{prefix}edge_type.{question}.{choice}"].tolist()
        index = inputs[f"{prefix}edge_index.{question}.{choice}"].tolist()
        rows.append(sorted(zip(types, *index, strict=True)))
    return rows
