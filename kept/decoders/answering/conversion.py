"""MiniLM's weights as CTranslate2 reads them, made from its file without torch.

CTranslate2's own converter builds the model in torch first, which takes seconds and half a
gigabyte. What is written here is the same, byte by byte.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer

QUANTIZATION = "int8"
Floats = NDArray[np.float32]


def convert(source: Path, target: Path) -> None:
    """Write the BERT model in the folder `source` into the empty folder `target`.

    For a process that does nothing else: it hides torch, which CTranslate2 would load to no use.
    """
    sys.modules["torch"] = None  # type: ignore[assignment]
    from ctranslate2.specs import common_spec, transformer_spec

    config = json.loads((source / "config.json").read_text("utf-8"))
    encoder = transformer_spec.TransformerEncoderSpec(
        config["num_hidden_layers"],
        config["num_attention_heads"],
        pre_norm=False,
        activation=common_spec.Activation.GELU,
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    spec = transformer_spec.TransformerEncoderModelSpec(
        encoder, pooling_layer=True, pooling_activation=common_spec.Activation.Tanh
    )
    encoder.scale_embeddings = False
    with safe_open(source / "model.safetensors", "numpy") as weights:
        _set_weights(spec, _Weights(weights))
    vocabulary = Tokenizer.from_file(str(source / "tokenizer.json")).get_vocab()
    spec.register_vocabulary(sorted(vocabulary, key=vocabulary.__getitem__))
    spec.config.unk_token = "[UNK]"
    spec.config.layer_norm_epsilon = config["layer_norm_eps"]
    spec.validate()
    spec.optimize(quantization=QUANTIZATION)
    spec.save(str(target))


class _Weights:
    """Weights by the names of a BERT checkpoint, each read when it is set."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getitem__(self, name: str) -> Floats:
        weights: Floats = self._file.get_tensor(name)
        return weights

    def norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = self[f"{name}.LayerNorm.weight"], self[f"{name}.LayerNorm.bias"]

    def linear(self, spec: Any, *names: str) -> None:
        """Set one product, or several of the same input in one."""
        spec.weight, spec.bias = (
            np.concatenate([self[f"{name}.{part}"] for name in names])
            for part in ("weight", "bias")
        )


def _set_weights(spec: Any, weights: _Weights) -> None:
    encoder = spec.encoder
    for number, kind in enumerate(("word", "token_type")):
        encoder.embeddings[number].weight = weights[f"embeddings.{kind}_embeddings.weight"]
    encoder.position_encodings.encodings = weights["embeddings.position_embeddings.weight"]
    weights.norm(encoder.layernorm_embedding, "embeddings")
    weights.linear(spec.pooler_dense, "pooler.dense")
    for number, layer in enumerate(encoder.layer):
        name = f"encoder.layer.{number}"
        attention = layer.self_attention
        parts = (f"{name}.attention.self.{part}" for part in ("query", "key", "value"))
        weights.linear(attention.linear[0], *parts)
        weights.linear(attention.linear[1], f"{name}.attention.output.dense")
        weights.norm(attention.layer_norm, f"{name}.attention.output")
        weights.linear(layer.ffn.linear_0, f"{name}.intermediate.dense")
        weights.linear(layer.ffn.linear_1, f"{name}.output.dense")
        weights.norm(layer.ffn.layer_norm, f"{name}.output")


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:]))
