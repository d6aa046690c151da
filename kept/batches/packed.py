"""Several samples side by side in one row of a batch.

Axis legend: row, node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kept.batches.batch import (
    EXTRA_FILLS,
    MENTION_FILLS,
    SUBGRAPH_FILLS,
    TASK_FIELDS,
    WHOLE_FIELDS,
    KnowledgeBatch,
    all_or_none,
    extras_of,
    fill_rows,
    words,
)
from kept.batches.checks import NODE_FIELDS, SPAN_FIELDS
from kept.batches.visibility import Visibility
from kept.errors import BatchError


@dataclass(frozen=True, eq=False)
class Packed:
    """Several samples in a row. Sample i is `batch` row `rows[i]`, nodes `starts[i]:stops[i]`."""

    batch: KnowledgeBatch
    rows: tuple[int, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]

    def unpack(self, values: Tensor) -> list[Tensor]:
        """Split `values [row node ...]` into one tensor `[node ...]` per sample, in order."""
        return [
            values[row, start:stop]
            for row, start, stop in zip(self.rows, self.starts, self.stops, strict=True)
        ]


def pack(batches: Sequence[KnowledgeBatch], n_nodes: int, *, word_pad_id: int = 0) -> Packed:
    """Put samples side by side in rows of `n_nodes`, each into the first row with room.

    Samples do not see one another; positions stay. `batches` are batches of one; task labels
    and subgraphs cannot be packed. A row's mentions are those of its samples, in order.
    """
    rows: list[list[KnowledgeBatch]] = []
    filled: list[int] = []
    places: list[tuple[int, int, int]] = []
    for i, batch in enumerate(batches):
        length = batch.node_ids.shape[1]
        unpacked = (*TASK_FIELDS, *SUBGRAPH_FILLS, *WHOLE_FIELDS)
        if len(batch) != 1 or any(getattr(batch, name) is not None for name in unpacked):
            raise BatchError(f"batch {i} to pack: one sample, none of {', '.join(unpacked)}")
        if length > n_nodes:
            raise BatchError(f"batch {i} has {length} nodes, a packed row {n_nodes}")
        row = next((r for r, used in enumerate(filled) if used + length <= n_nodes), len(rows))
        if row == len(rows):
            rows.append([])
            filled.append(0)
        places.append((row, filled[row], filled[row] + length))
        rows[row].append(batch)
        filled[row] += length
    if not rows:
        raise BatchError("there is nothing to pack")
    joined = [_concatenate(row) for row in rows]
    packed = fill_rows(joined, None, words(n_nodes, joined[0]), word_pad_id)
    return Packed(packed, *(tuple(column) for column in zip(*places, strict=True)))


def _concatenate(samples: Sequence[KnowledgeBatch]) -> KnowledgeBatch:
    """One row that holds `samples` side by side."""
    values: dict[str, Any] = {
        name: torch.cat(all_or_none(samples, name), dim=1)
        for name in (*NODE_FIELDS, "node_mask")
        if getattr(samples[0], name) is not None
    }
    starts = np.cumsum([0, *(sample.node_ids.shape[1] for sample in samples)]).tolist()
    blocks = ((0, at, s.visibility.mask[0]) for at, s in zip(starts, samples, strict=False))
    device = samples[0].node_ids.device
    values["visibility"] = Visibility.in_blocks(blocks, (1, starts[-1]), device=device)
    for name, fill in MENTION_FILLS.items():
        if getattr(samples[0], name) is None:
            continue
        parts = all_or_none(samples, name)
        if name in SPAN_FIELDS:
            parts = [p + start for p, start in zip(parts, starts[:-1], strict=True)]
        if parts[0].ndim == 3:
            width = max(part.shape[2] for part in parts)
            parts = [F.pad(p, (0, width - p.shape[2]), value=fill) for p in parts]
        values[name] = torch.cat(parts, dim=1)
    for name in EXTRA_FILLS:
        if extras := extras_of(samples, name):
            values[name] = {extra: torch.cat(parts, dim=1) for extra, parts in extras.items()}
    return KnowledgeBatch(**values)
