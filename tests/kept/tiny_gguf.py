"""A tiny Llama as a GGUF file, as llama.cpp reads it."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
"""A layer's modules by their names in GGUF."""


def write_gguf(host: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, path: Path) -> None:
    """Write a Llama-shaped `host` in float32, with the words of `tokenizer`."""
    config, writer = host.config, gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_words(writer, tokenizer)
    values = {name: each.detach().numpy() for name, each in host.state_dict().items()}
    writer.add_tensor("token_embd.weight", values["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", values["model.norm.weight"])
    writer.add_tensor("output.weight", values["lm_head.weight"])
    for number in range(config.num_hidden_layers):
        for ours, theirs in NAMES.items():
            value = values[f"model.layers.{number}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                value = _interleaved(value, config.head_dim)
            writer.add_tensor(f"blk.{number}.{theirs}.weight", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_words(writer: gguf.GGUFWriter, tokenizer: PreTrainedTokenizerBase) -> None:
    """Words by number; llama.cpp is given numbers and only needs the end of a text."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{number}" for number in range(len(tokenizer))])
    marks = set(tokenizer.all_special_ids)
    writer.add_token_types(
        [
            int(gguf.TokenType.CONTROL if number in marks else gguf.TokenType.NORMAL)
            for number in range(len(tokenizer))
        ]
    )
    writer.add_token_merges(["w 0"])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)


def _interleaved(weight: NDArray[np.float32], head_dim: int) -> NDArray[np.float32]:
    """Rows as llama.cpp rotates them: the two halves of each head in turn."""
    heads = weight.reshape(-1, 2, head_dim // 2, weight.shape[1])
    return heads.swapaxes(1, 2).reshape(weight.shape).copy()
