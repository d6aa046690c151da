"""Checks of a batch's fields. Shapes and types are free to check; values have to be read.

Axis legend: batch, node, mention, candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from kept.errors import BatchError

NODE_FIELDS = (
    "node_ids", "node_kinds", "positions", "segment_ids", "entity_ids", "node_labels",
    "entity_labels", "node_weights",
)  # fmt: skip
SPAN_FIELDS = ("mention_spans", "target_spans")
_FLOAT_FIELDS = ("node_weights", "mention_weights")


def check(batch: Mapping[str, Any], new: Collection[str]) -> None:
    """Raise `BatchError` for faulty fields: all shapes and types, values of the fields `new`.

    Those whose values are read: `visibility` against `node_mask`, weights and spans.
    """
    for name in NODE_FIELDS:
        _check_node_field(batch, name)
    _check_node_field(batch, "node_mask")
    _check_extras(batch)
    _check_mentions(batch)
    _check_subgraphs(batch)
    for name in (*_FLOAT_FIELDS, *SPAN_FIELDS):
        if name in new and batch[name] is not None:
            (_check_weights if name in _FLOAT_FIELDS else _check_spans)(batch, name)
    if "visibility" in new or "node_mask" in new:
        batch["visibility"].check(batch["node_mask"])


def _check_node_field(batch: Mapping[str, Any], name: str) -> None:
    value, shape = batch[name], batch["node_ids"].shape
    if value is None:
        return
    if value.shape != shape:
        raise BatchError(f"{name} has shape {tuple(value.shape)}, node_ids {tuple(shape)}")
    if name in _FLOAT_FIELDS:
        return
    if (value.dtype == torch.bool) != (name == "node_mask") or value.is_floating_point():
        expected = "bool" if name == "node_mask" else "an integer type"
        raise BatchError(f"{name} must be {expected}, not {value.dtype}")


def _check_extras(batch: Mapping[str, Any]) -> None:
    shape = batch["node_ids"].shape
    for field in ("extra_ids", "extra_labels"):
        for name, ids in (batch[field] or {}).items():
            if ids.ndim != 3 or ids.shape[:2] != shape or ids.is_floating_point():
                raise BatchError(
                    f"{field} of {name!r} are {ids.dtype} {tuple(ids.shape)}; they must be "
                    f"integers {(*shape, 'slot')}"
                )


def _check_mentions(batch: Mapping[str, Any]) -> None:
    n_batch = len(batch["node_ids"])
    for name in SPAN_FIELDS:
        tensor: Tensor | None = batch[name]
        if tensor is not None and (
            tensor.ndim != 3 or tensor.shape[0] != n_batch or tensor.shape[2] != 2
        ):
            raise BatchError(f"{name} need shape [{n_batch} mention 2], not {tensor.shape}")
    spans, ids = batch["mention_spans"], batch["candidate_ids"]
    for name in (
        "mention_graphs",
        "mention_labels",
        "mention_classes",
        "mention_weights",
        "candidate_ids",
    ):
        value = batch[name]
        if value is not None and (spans is None or value.shape[:2] != spans.shape[:2]):
            raise BatchError(f"{name} {tuple(value.shape)} need mention_spans of as many mentions")
    priors, sampled = batch["candidate_priors"], batch["sampled_entities"]
    if priors is not None and (ids is None or priors.shape != ids.shape):
        raise BatchError(f"candidate_priors {tuple(priors.shape)} need candidate_ids of that shape")
    for name in ("pair_labels", "window_ids"):
        if batch[name] is not None and batch[name].shape != (n_batch,):
            raise BatchError(f"{name} need shape [{n_batch}], not {batch[name].shape}")
    if sampled is not None and sampled.ndim != 1:
        raise BatchError(f"sampled_entities need one axis, not {sampled.shape}")
    shares = batch["sampled_shares"]
    if shares is not None and (sampled is None or shares.shape != sampled.shape):
        raise BatchError(f"sampled_shares {tuple(shares.shape)} need as many sampled_entities")


def _check_subgraphs(batch: Mapping[str, Any]) -> None:
    ids, edges = batch["subgraph_ids"], batch["subgraph_edges"]
    parts = {name: batch[f"subgraph_{name}"] for name in ("roles", "scores")}
    if ids is None and edges is None and all(part is None for part in parts.values()):
        return
    n_batch = len(batch["node_ids"])
    if ids is None or ids.ndim != 2 or len(ids) != n_batch:
        shape = None if ids is None else tuple(ids.shape)
        raise BatchError(f"subgraph_ids need shape [{n_batch} entity], not {shape}")
    for name, part in parts.items():
        if part is None or part.shape != ids.shape:
            raise BatchError(f"subgraph_{name} need the shape of subgraph_ids {tuple(ids.shape)}")
    if edges is None or edges.ndim != 3 or len(edges) != n_batch or edges.shape[2] != 3:
        shape = None if edges is None else tuple(edges.shape)
        raise BatchError(f"subgraph_edges need shape [{n_batch} edge 3], not {shape}")


def _check_weights(batch: Mapping[str, Any], name: str) -> None:
    weights = batch[name]
    if not weights.is_floating_point() or not bool(((weights >= 0) & (weights <= 1)).all()):
        raise BatchError(f"{name} must be floating point from 0 to 1, not {weights}")


def _check_spans(batch: Mapping[str, Any], name: str) -> None:
    spans, n_node = batch[name], batch["node_ids"].shape[1]
    wrong = (spans[..., 0] < 0) | (spans[..., 1] < spans[..., 0]) | (spans[..., 1] > n_node)
    if bool(wrong.any()):
        sample, mention = wrong.nonzero()[0].tolist()
        raise BatchError(
            f"sample {sample}: {name} {mention} is {spans[sample, mention].tolist()}, "
            f"outside 0 <= start <= end <= {n_node}"
        )
