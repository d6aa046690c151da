"""Dense rows: the real nodes of several samples side by side, so that layers compute no padding.

Axis legend: batch, node (padded), row, place (of a dense row), width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from kept.batches import Visibility
from kept.batches.host_copies import moved, on_host
from kept.batches.visibility import derived

WORTH = 0.9
"""Pack when dense rows have at most this share of the padded batch's places."""


class DenseRows:
    """Where each real node of a padded batch goes in fewer rows as long as its longest sample.

    Samples go longest first into the first row with room and never see one another. What stays
    empty repeats node 0 of the batch, sees only itself and is dropped by `unpack`.
    """

    def __init__(self, node_mask: Bool[Tensor, "batch node"], placed: Sequence[tuple[int, int]]):
        """`placed`: row and first place of every sample (see `dense_rows`)."""
        known, device = on_host(node_mask), node_mask.device
        lengths = known.sum(dim=1).tolist()
        self.shape, self._lengths, self._placed = tuple(node_mask.shape), lengths, tuple(placed)
        self.n_rows, self.n_places = 1 + max(row for row, _ in placed), max(lengths)
        nodes = known.flatten().nonzero()[:, 0]
        firsts = [row * self.n_places + column for row, column in placed]
        places = torch.cat(
            [
                torch.arange(first, first + length)
                for first, length in zip(firsts, lengths, strict=True)
            ]
        )
        sources = torch.zeros(self.n_rows * self.n_places, dtype=torch.int64)
        sources[places] = nodes
        self._nodes, self._places = moved(nodes, device), moved(places, device)
        self._sources: Int[Tensor, " place"] = moved(sources, device)

    def __repr__(self) -> str:
        return f"DenseRows({self.shape} in {self.n_rows} rows of {self.n_places})"

    def pack(self, values: Shaped[Tensor, "batch node *rest"]) -> Shaped[Tensor, "row place *rest"]:
        """Values of nodes in dense rows."""
        flat = values.flatten(0, 1).index_select(0, self._sources)
        return flat.unflatten(0, (self.n_rows, self.n_places))

    def unpack(
        self, values: Shaped[Tensor, "row place *rest"]
    ) -> Shaped[Tensor, "batch node *rest"]:
        """The inverse of `pack`; padded nodes get zeros."""
        n_batch, n_node = self.shape
        whole = values.new_zeros(n_batch * n_node, *values.shape[2:])
        whole = whole.index_copy(0, self._nodes, values.flatten(0, 1).index_select(0, self._places))
        return whole.unflatten(0, (n_batch, n_node))

    def pack_visibility(
        self, visibility: Visibility, node_mask: Bool[Tensor, "batch node"]
    ) -> Visibility:
        """Who sees whom in dense rows: block diagonal."""
        if node_mask.device.type != "cpu":
            return self._packed_at_once(visibility)
        blocks = []
        at_front = self._at_front(node_mask)
        for sample, ((row, start), length) in enumerate(
            zip(self._placed, self._lengths, strict=True)
        ):
            block = visibility.mask[sample]
            if not at_front[sample]:
                nodes = node_mask[sample].nonzero()[:, 0]
                block = block[nodes][:, nodes]
            blocks.append((row, start, block[:length, :length]))
        shape = (self.n_rows, self.n_places)
        return Visibility.in_blocks(blocks, shape, device=node_mask.device)

    def _packed_at_once(self, visibility: Visibility) -> Visibility:
        """`pack_visibility` in a few operations, however many samples there are."""
        n_node, form = self.shape[1], (self.n_rows, self.n_places)
        known = on_host(self._sources).view(form)
        is_filled = torch.zeros(self.n_rows * self.n_places, dtype=torch.bool)
        is_filled[on_host(self._places)] = True
        samples = (known // n_node).where(is_filled.view(form), -1)
        device = visibility.mask.device
        same = moved(samples[:, :, None] == samples[:, None], device)
        itself = torch.eye(self.n_places, dtype=torch.bool, device=device)
        seen = visibility.mask.flatten(0, 1).index_select(0, self._sources).unflatten(0, form)
        keys = moved(known % n_node, device)
        seen = seen.gather(2, keys[:, None].expand(-1, self.n_places, -1))
        is_real = moved(is_filled.view(form), device)
        return derived(
            Visibility, {"mask": (seen & same & is_real[:, :, None]) | (itself & ~is_real[:, None])}
        )

    def _at_front(self, node_mask: Tensor) -> list[bool]:
        """Which samples have all their padding at the end."""
        lengths = torch.tensor(self._lengths, device=node_mask.device)
        positions = torch.arange(node_mask.shape[1], device=node_mask.device)
        return (node_mask == (positions < lengths[:, None])).all(dim=1).tolist()


def dense_rows(node_mask: Bool[Tensor, "batch node"]) -> DenseRows | None:
    """Dense rows for a batch, or None where they would hardly be fewer (`WORTH`).

    None also while a graph is compiled: how many rows there are depends on the data.
    """
    if torch.compiler.is_compiling():
        return None
    lengths = on_host(node_mask).sum(dim=1).tolist()
    widest = max(lengths)
    n_padded = node_mask.numel()
    if min(lengths) == 0 or sum(lengths) > WORTH * n_padded:
        return None
    placed = _first_fit(lengths, widest)
    n_rows = 1 + max(row for row, _ in placed)
    return None if n_rows * widest > WORTH * n_padded else DenseRows(node_mask, placed)


def _first_fit(lengths: Sequence[int], n_places: int) -> list[tuple[int, int]]:
    """Row and first place of each sample, longest samples first, ties in order."""
    filled: list[int] = []
    placed = [(0, 0)] * len(lengths)
    for sample in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        length = lengths[sample]
        row = next((r for r, used in enumerate(filled) if used + length <= n_places), len(filled))
        if row == len(filled):
            filled.append(0)
        placed[sample] = (row, filled[row])
        filled[row] += length
    return placed
