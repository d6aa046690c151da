"""KBLaM's encoder: from sentence vectors of facts to their keys and values.

Wang et al. 2025, "KBLaM: Knowledge Base augmented Language Model" (ICLR), section 3.

Axis legend: batch, fact, vector (of a sentence).
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from kept.decoders.kblam.rectangular import FactTokens


class FactEncoder(nn.Module):
    """From sentence vectors of facts to their keys and values in every slice.

    Two maps without anything shared, of one shape unless value sentences have another width
    (`value_width`). Keys are normalised without weights, over all slices together.
    """

    def __init__(
        self,
        *,
        vector_width: int,
        stacked_width: int,
        mlp_depth: int = 0,
        mlp_width: int = 512,
        value_width: int | None = None,
    ) -> None:
        super().__init__()
        self.key_projector, self.value_projector = (
            _projector(n_in, stacked_width, mlp_depth, mlp_width)
            for n_in in (vector_width, value_width or vector_width)
        )

    def forward(
        self,
        key_vectors: Float[Tensor, "*batch fact vector"],
        value_vectors: Float[Tensor, "*batch fact vector"],
    ) -> FactTokens:
        """The tokens of facts, given the vectors of their key and value sentences."""
        keys = self.key_projector(key_vectors)
        normed = functional.layer_norm(keys, keys.shape[-1:], eps=1e-5)
        return FactTokens(normed, self.value_projector(value_vectors))


def _projector(n_in: int, n_out: int, depth: int, width: int) -> nn.Module:
    """A linear map, or `depth` hidden layers; the first linear map has no activation."""
    if depth == 0:
        return nn.Linear(n_in, n_out)
    hidden = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(nn.Linear(n_in, width), *hidden, nn.Linear(width, n_out))
