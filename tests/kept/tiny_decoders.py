"""Tiny random decoders and texts for them, padded on either side."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from kept.decoders.hosts import SOFT_CAPPED

N_WORDS, N_POSITIONS = 30, 32


def tiny_decoder(family: str, attention: str = "sdpa", **options: object) -> PreTrainedModel:
    """Three layers, 16 wide; Llama-shaped ones share one key and value head among two queries."""
    torch.manual_seed(0)
    attention = "eager" if family in SOFT_CAPPED else attention
    config = AutoConfig.for_model(
        family,
        **{
            "vocab_size": N_WORDS, "hidden_size": 16, "num_hidden_layers": 3,
            "num_attention_heads": 2, "max_position_embeddings": N_POSITIONS,
            "initializer_range": 0.3, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 2,
            **({} if family == "gpt2" else
               {"num_key_value_heads": 1, "intermediate_size": 32, "head_dim": 8}),
            **options,
        },
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


def texts(side: str = "right") -> tuple[Tensor, Tensor]:
    """Word pieces of texts of 7, 4 and 1 words and their mask, padded on `side`."""
    ids = torch.randint(3, N_WORDS, (3, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([7, 4, 1])[:, None]
    places = torch.arange(7)[None]
    mask = places < lengths if side == "right" else places >= 7 - lengths
    return ids.masked_fill(~mask, 1), mask
