"""The weights that ULTRA's authors released, known by what they hold: which graphs they have seen.

Galkin et al. 2024, "Towards Foundation Models for Knowledge Graph Reasoning" (ICLR); checkpoints of
DeepGraphLearning/ULTRA, commit 427966a. A weight's bytes count, not its file: the pickled original
and a copy in safetensors are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

_OF_GRAIL = (
    "all triples, tested ones too, of GraIL's inductive graphs fb237_v1 to v4 and WN18RR_v1 to v4"
)
_OF_CODEX = "1,643 of the 1,828 test triples of CoDEx-S"


@dataclass(frozen=True)
class ReleasedWeights:
    """A released file: its name, the graphs it was trained on, and what these hold of others."""

    name: str
    graphs: str
    also: tuple[str, ...]

    def __str__(self) -> str:
        also = f"; these hold {' and '.join(self.also)}" if self.also else ""
        return f"these are ULTRA's released weights {self.name}, trained on {self.graphs}{also}"


RELEASED = {
    "d2339a0f607688e850ab81040f51b89813b08583ad3b36d0ad1a64dc7e991933": ReleasedWeights(
        "ultra_3g", "FB15k-237, WN18RR and CoDEx-M", (_OF_GRAIL, _OF_CODEX)
    ),
    "9cfa541a3a8358eacca401920fcd052fa40fd2ff316eb3cb8dddf562462fc5e3": ReleasedWeights(
        "ultra_4g", "FB15k-237, WN18RR, CoDEx-M and NELL-995", (_OF_GRAIL, _OF_CODEX)
    ),
    "717eaca1e1faf9636548f93651f8c3f1114420d0e82009636d532ef671d85d62": ReleasedWeights(
        "ultra_50g",
        "50 graphs, which its repository does not list: of any public graph they may have seen all",
        (),
    ),
}
"""By `weights_hash`."""


def weights_hash(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 over names, types, shapes and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def released(weights: Mapping[str, Tensor]) -> ReleasedWeights | None:
    """Which released weights these are; None for any others, trained further or not."""
    return RELEASED.get(weights_hash(weights))
