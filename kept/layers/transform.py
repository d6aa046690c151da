"""The transform in front of every output matrix of BERT-like models.

Axis legend: width (in), embedding (out).
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Transform(nn.Module):
    """dense, exact gelu, optional dropout, LayerNorm.

    Dropout stands before the normalisation, as in CoLAKE's fine-tuning heads (Sun et al. 2020,
    released code); zero elsewhere.
    """

    def __init__(
        self, *, width: int, embedding: int, epsilon: float = 1e-5, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, embedding)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(embedding, eps=epsilon)

    def forward(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch embedding"]:
        return self.layer_norm(self.dropout(F.gelu(self.dense(states))))
