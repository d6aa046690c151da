"""`Visibility`: which nodes of a batch each node sees, its check and its use by attention.

Axis legend: batch, node, key (some of the nodes), block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kept.batches.host_copies import moved
from kept.errors import BatchError

Value = TypeVar("Value")


def derived(kind: type[Value], fields: Mapping[str, Any]) -> Value:
    """Make a frozen dataclass of `fields` that are known to be sound, without its checks.

    Checks read values, and each value that is read makes a GPU and the program wait for each other.
    """
    instance = object.__new__(kind)
    vars(instance).update(fields)
    return instance


@dataclasses.dataclass(frozen=True, eq=False)
class Visibility:
    """Who sees whom: `mask[b, i, j]` is True where node i (the query) may read node j (the key).

    Every node sees itself, since a row without a key is NaN under SDPA; `BatchError` otherwise.
    `attention` alone knows the form of the mask that layers take.

    >>> chain = Visibility(torch.ones(1, 3, 3, dtype=torch.bool).tril())
    >>> chain.seen_by(torch.tensor([[False, True, False]])).tolist()
    [[True, True, False]]
    """

    mask: Bool[Tensor, "batch node node"]

    def __post_init__(self) -> None:
        mask = self.mask
        if mask.ndim != 3 or mask.shape[1] != mask.shape[2] or mask.dtype != torch.bool:
            raise BatchError(
                "a visibility mask must be bool [batch node node], "
                f"not {mask.dtype} {tuple(mask.shape)}"
            )
        if torch.compiler.is_compiling():
            return
        if not bool(mask.diagonal(dim1=1, dim2=2).all()):
            raise BatchError("every node must see itself: a fully masked row is NaN under SDPA")

    def __repr__(self) -> str:
        return f"Visibility(batch={len(self.mask)}, node={self.mask.shape[1]})"

    @classmethod
    def everyone(
        cls, n_batch: int, n_nodes: int, *, device: torch.device | None = None
    ) -> Visibility:
        """All nodes see all."""
        mask = torch.ones(n_batch, n_nodes, n_nodes, dtype=torch.bool, device=device)
        return derived(cls, {"mask": mask})

    @classmethod
    def among(cls, node_mask: Bool[Tensor, "batch node"]) -> Visibility:
        """The nodes of `node_mask` (True = real) see one another, padding sees itself."""
        itself = torch.eye(node_mask.shape[1], dtype=torch.bool, device=node_mask.device)
        return derived(cls, {"mask": (node_mask[:, :, None] & node_mask[:, None, :]) | itself})

    @classmethod
    def causal(cls, node_mask: Bool[Tensor, "batch node"]) -> Visibility:
        """As decoders read: `among`, and no node sees a later one."""
        return derived(cls, {"mask": cls.among(node_mask).mask.tril()})

    @classmethod
    def of_real(cls, node_mask: Bool[Tensor, "batch node"]) -> Visibility:
        """Every node, padding too, sees the nodes of `node_mask` and no padding, as BERT has it."""
        n_batch, n_nodes = node_mask.shape
        return derived(cls, {"mask": node_mask[:, None, :].expand(n_batch, n_nodes, n_nodes)})

    @classmethod
    def in_blocks(
        cls,
        blocks: Iterable[tuple[int, int, Tensor]],
        shape: tuple[int, int],
        *,
        device: torch.device | None = None,
    ) -> Visibility:
        """Block-diagonal: `blocks` (row, first node, mask `[block block]`) in rows of `shape`.

        A block sees no other, and a node in none sees itself.
        """
        mask = torch.eye(shape[1], dtype=torch.bool, device=device).repeat(shape[0], 1, 1)
        for row, start, block in blocks:
            stop = start + len(block)
            mask[row, start:stop, start:stop] = block
        return derived(cls, {"mask": mask})

    def check(self, node_mask: Bool[Tensor, "batch node"]) -> None:
        """Raise `BatchError` unless it is of `node_mask`'s shape and no real node sees padding."""
        if self.mask.shape[:2] != node_mask.shape:
            raise BatchError(
                f"visibility is of shape {tuple(self.mask.shape)}, the batch "
                f"{tuple(node_mask.shape)}"
            )
        if bool(node_mask.all()):
            return
        samples, keys = (~node_mask).nonzero(as_tuple=True)
        faulty = (self.mask[samples, :, keys] & node_mask[samples]).nonzero()
        if len(faulty):
            padded, query = faulty[0].tolist()
            sample, key = int(samples[padded]), int(keys[padded])
            raise BatchError(f"sample {sample}: node {query} sees node {key}, which is padding")

    def to(self, device: torch.device | str) -> Visibility:
        """The same on `device`."""
        return derived(Visibility, {"mask": moved(self.mask, device)})

    def pin_memory(self) -> Visibility:
        """See `KnowledgeBatch.pin_memory`."""
        return derived(Visibility, {"mask": self.mask.pin_memory()})

    def __getitem__(self, rows: Tensor | slice) -> Visibility:
        """That of the samples at `rows`."""
        return derived(Visibility, {"mask": self.mask[rows]})

    def seen_by(self, readers: Bool[Tensor, "batch node"]) -> Bool[Tensor, "batch node"]:
        """Return the nodes that at least one of `readers` sees."""
        return (self.mask & readers[:, :, None]).any(dim=1)

    def of_keys(self, keys: Int[Tensor, "batch key"]) -> Bool[Tensor, "batch node key"]:
        """Which nodes see each of `keys`, given as places of nodes."""
        return self.mask.gather(2, keys[:, None].expand(-1, self.mask.shape[1], -1))

    def attention(
        self,
        implementation: str,
        dtype: torch.dtype,
        *,
        keys: Bool[Tensor, "batch node"] | None = None,
        weights: Float[Tensor, "batch node"] | None = None,
    ) -> Tensor:
        """The mask `[batch 1 node node]` of any Hugging Face layer: "sdpa" or "eager" attention.

        SDPA takes booleans (True = keep). The eager path *adds* the mask to the scores, where a
        boolean would be silently wrong, so it gets 0 and the most negative number of `dtype`.
        `keys` are the nodes that may be read at all; a node that may read none reads itself, to
        stay finite. With `weights` attention to node j is multiplied by j's weight before
        normalisation: log weights are added, 1 changes nothing and 0 masks.
        """
        mask = self.mask if keys is None else _onto(self.mask, keys)
        visible = mask.unsqueeze(1)
        if implementation == "sdpa" and weights is None:
            return visible
        additive = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        least = torch.finfo(dtype).min
        if weights is not None:
            additive = additive + weights.to(dtype).log().clamp(min=least)[:, None, None, :]
        return additive.masked_fill(~visible, least)


def _onto(mask: Tensor, keys: Tensor) -> Tensor:
    seen = mask & keys[:, None, :]
    alone = torch.eye(seen.shape[1], dtype=torch.bool, device=seen.device)
    return seen | (alone & ~seen.any(dim=2, keepdim=True))
