"""Values of facts that say their words: a start for KBLaM's value map from which it can write.

Wang et al. 2025, "KBLaM" (ICLR), learn the value map from sentence vectors alone, in thousands of
steps. Here a value's vector may be made of the host's own embeddings of its words (`HostWords`),
and `write_words` sets the map so that a layer that looks at a fact adds these words to what it
hands on: for layer l with output map O_l, the value is gain_l · O_l⁻¹ · vector. What the paper
trains is trained on from there, and holds for words that no training fact had.

Axis legend: word, vector, width (of the host), stacked (all slices of a fact).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept.decoders import hosts
from kept.decoders.kblam.model import KBLaM
from kept.errors import ConfigError

RIDGE = 1e-3
"""What is added to the squares of an output map before it is inverted, in shares of their mean."""


@dataclass(frozen=True, eq=False)
class HostWords:
    """Words as unit vectors of the host's output embeddings, the mean of all pieces taken off.

    Of several pieces each counts half as much as the one before it, so that the first, which is
    written first, stands out. A sentence encoder for `KnowledgeBase.of_facts(…, values=…)`.
    """

    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    @property
    def name(self) -> str:
        """A name for files."""
        return "words of the host"

    @property
    def width(self) -> int:
        """The host's."""
        return int(self._table().shape[1])

    def _table(self) -> Tensor:
        table: Tensor = self.host.get_output_embeddings().weight.detach().cpu().float()
        return table

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors `[word vector]` of length 1; the words are read as they follow a space."""
        table = self._table()
        mean = table.mean(dim=0)
        rows = self.tokenizer([f" {text}" for text in texts], add_special_tokens=False)["input_ids"]
        vectors = []
        for pieces in rows:
            halves = 0.5 ** torch.arange(len(pieces), dtype=table.dtype)
            vectors.append(halves @ (table[torch.tensor(pieces)] - mean))
        normalised = nn.functional.normalize(torch.stack(vectors), dim=-1)
        return normalised.numpy()


@torch.no_grad()
def write_words(
    model: KBLaM, gains: Mapping[int, float], otherwise: Tensor | None = None, share: float = 0.5
) -> None:
    """Set the value map of `model` so that reading layer l adds `gains[l]` times a fact's vector.

    That is what a node gets whose attention goes to the fact alone; vectors are as long as the root
    of their width (`unit_vectors`), of which the map takes the direction. `otherwise` is a vector
    that every fact adds with `share` of that strength: what is written where no fact stands out.
    Raises `ConfigError` unless values are as wide as the host, the map is linear and every reading
    layer has a gain.
    """
    map_of = model.encoder.value_projector
    layers: list[Any] = list(hosts.layers(model.host))
    width = int(layers[0].self_attn.o_proj.out_features)
    if not isinstance(map_of, nn.Linear) or map_of.in_features != width:
        raise ConfigError(
            f"values of {model.config.value_width or model.config.vector_width} numbers and "
            f"{model.config.mlp_depth} hidden layers: words of a host need value_width {width} and "
            "mlp_depth 0"
        )
    if sorted(gains) != list(model.reading_layers):
        raise ConfigError(f"gains of layers {sorted(gains)}, not of {list(model.reading_layers)}")
    parts, biases = [], []
    for number in model.reading_layers:
        inverse = _inverse(layers[number].self_attn.o_proj.weight) * gains[number] / width**0.5
        parts.append(inverse)
        added = torch.zeros(width) if otherwise is None else share * otherwise
        biases.append(inverse @ added.to(inverse))
    missing = map_of.out_features // len(parts[0]) - len(parts)
    parts += [torch.zeros_like(parts[0])] * missing  # a slice that no layer reads
    biases += [torch.zeros_like(biases[0])] * missing
    map_of.weight.copy_(torch.cat(parts))
    map_of.bias.copy_(torch.cat(biases))


def _inverse(weight: Tensor) -> Tensor:
    """A map from what an output map makes to what it is made of, `[n_in n_out]`."""
    squares = weight.float() @ weight.float().mT
    damped = squares + RIDGE * squares.diagonal().mean() * torch.eye(len(squares)).to(squares)
    inverse: Tensor = weight.float().mT @ torch.linalg.inv(damped)
    return inverse
