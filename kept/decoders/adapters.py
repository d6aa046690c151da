"""What is trained beside or inside a frozen decoder: LoRA, and adapters in K-Adapter's way.

Axis legend: batch, node, width (of the host).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from kept.adapters.adapter import Adapter, AdapterOptions
from kept.adapters.lora import NAME_PART, LoraOptions, insert_lora_around
from kept.batches import Visibility
from kept.decoders import hosts
from kept.decoders.trees import Continuation
from kept.errors import ConfigError

APART = {
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
}
FUSED = {
    "gpt2": dict.fromkeys(("query", "key", "value"), "attn.c_attn") | {"output": "attn.c_proj"},
    "phi3": {**dict.fromkeys(("query", "key", "value"), "self_attn.qkv_proj"),
             "output": "self_attn.o_proj"},
}  # fmt: skip
"""Families with one map for queries, keys and values: one of the three changes all."""


def insert_decoder_lora(host: PreTrainedModel, options: LoraOptions) -> None:
    """Freeze `host` and insert LoRA (Hu et al. 2022, ICLR, section 4), at first without effect.

    peft's own layers, around the projections of every layer. GPT-2 and Phi-3 have one map for
    queries, keys and values, which is changed as a whole. Raises `MissingExtraError` without peft.
    """
    hosts.check_decoder(host)
    module_names = FUSED.get(host.config.model_type, APART)
    numbered = range(len(hosts.layers(host)))
    stem = "transformer.h" if host.config.model_type == "gpt2" else "model.layers"
    modules = dict.fromkeys(module_names[name] for name in options.targets)
    host.requires_grad_(False)
    insert_lora_around(
        host, options, [f"{stem}.{i}.{module}" for i in numbered for module in modules]
    )
    host.to(host.dtype)


def lora_state(host: PreTrainedModel) -> dict[str, Tensor]:
    """What `insert_decoder_lora` inserted, by name."""
    return {name: value for name, value in host.state_dict().items() if NAME_PART in name}


def load_lora_state(host: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Set what `lora_state` returns; raises `ConfigError` for a name too many or too few."""
    wrong = sorted(lora_state(host).keys() ^ state.keys())
    if wrong:
        raise ConfigError(f"LoRA of another host or other targets; in one alone: {wrong[:3]}")
    host.load_state_dict(dict(state), strict=False)


class DecoderAdapter(nn.Module):
    """An adapter beside a frozen decoder: its change is added to the host's last states.

    Wang et al. 2020, "K-Adapter" (Findings of ACL 2021), section 3.1: blocks that read some of the
    host's states, nothing flows back. Where we differ: words see no later word; and what is added
    is the last block's change alone, not its state, so that a new adapter leaves the host's scores
    as they are and no fusion needs training. `options` are fields of `AdapterOptions`.
    """

    def __init__(self, host: PreTrainedModel, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        hosts.check_decoder(host)
        self.adapter = Adapter.of_host(host, AdapterOptions.read(options or {}, host.config))

    def forward(
        self, hidden_states: tuple[Float[Tensor, "batch node width"], ...], visibility: Visibility
    ) -> Float[Tensor, "batch node width"]:
        """Finished states; `hidden_states` and `visibility` as of `hosts.run`."""
        block = self.adapter.blockwise(hidden_states, visibility)[-1]
        return hidden_states[-1] + block.output - block.input

    @torch.no_grad()
    def write(
        self,
        host: PreTrainedModel,
        input_ids: Int[Tensor, "batch node"],
        node_mask: Tensor,
        *,
        n_new: int,
    ) -> Continuation:
        """The `n_new` most probable next words one by one, without a cache; padding on the left."""
        ids, mask = input_ids, node_mask
        scores: list[Tensor] = []
        for _ in range(n_new):
            positions, visibility = hosts.running_positions(mask), Visibility.causal(mask)
            hidden = hosts.embed(host, host.get_input_embeddings()(ids), positions)
            states = self(hosts.run(host, hidden, visibility, positions), visibility)[:, -1]
            scores.append(hosts.logits(host, states))
            ids = torch.cat([ids, scores[-1].argmax(dim=-1, keepdim=True)], dim=1)
            mask = nn.functional.pad(mask, (0, 1), value=True)
        return Continuation(ids[:, input_ids.shape[1] :], scores[0])
