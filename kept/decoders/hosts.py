"""Decoder hosts: Hugging Face language models that read left to right, GPT-2 and Llama-shaped.

The protocol of `kept.hosts` with what decoders add: positions reach every layer (rotary), a cache
of keys and values may stand before the nodes, and `finish` normalises after the last layer. A host
is the model with its head (AutoModelForCausalLM), so that its own `generate` is at hand.

Axis legend: batch, node, width, word (of the vocabulary).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, Cache, PreTrainedModel

from kept.batches import IGNORE, Visibility
from kept.errors import BatchError, ConfigError, HostError
from kept.host_facts import require_bare
from kept.hosts import open_pretrained
from kept.layers.means import mean_of
from kept.model_files import require_finite, require_whole

FAMILIES = (
    "gpt2", "llama", "mistral", "phi", "phi3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text",
    "olmo", "olmo2", "granite",
)  # fmt: skip
SOFT_CAPPED = ("gemma2",)
"""Families whose attention scores are capped, which SDPA cannot do: they take eager attention."""
Pooling = Literal["last", "mean"]


def load_decoder(name_or_path: str | Path, *, for_training: bool = False) -> PreTrainedModel:
    """Return the decoder called `smollm2`, of a folder or of a hub name, in evaluation mode.

    Its weights stay in the precision in which they are stored, unless it is opened `for_training`:
    then they are loaded in float32. The log says where that differs. The folder of a peft adapter
    is merged into its base model. `smollm2` is SmolLM2-135M-Instruct, whose packaged weights are
    rounded to 4 bits: float32 here, but not the numbers that were published. Raises `HostError` for
    what cannot be opened or is of no family in `FAMILIES`, `MissingExtraError` when its package or
    gguf is not installed, and `CheckpointError` when weights are missing, left over, not finite, or
    not those of the package.
    """
    dtype = torch.float32 if for_training else "auto"
    host, info = open_pretrained(
        AutoModelForCausalLM, name_or_path, output_loading_info=True, dtype=dtype
    )
    check_decoder(host)
    require_whole(host.base_model, info, name_or_path)
    require_finite(host, name_or_path)
    return host.eval()


def _plain(host: PreTrainedModel) -> PreTrainedModel:
    """The same without the mark of having been rounded, with which it could not be saved."""
    fields = {k: v for k, v in host.config.to_dict().items() if k != "quantization_config"}
    config = type(host.config).from_dict(fields)
    implementation = host.config._attn_implementation
    plain = type(host)._from_config(config, attn_implementation=implementation, dtype=host.dtype)
    plain.load_state_dict(host.state_dict())
    plain.generation_config = host.generation_config
    return plain


def check_decoder(host: PreTrainedModel) -> None:
    """Raise `HostError` unless `host` is a decoder of a known family that can take our masks.

    A decoder with modules that peft injected is refused too.
    """
    require_bare(host)
    family, attention = host.config.model_type, host.config._attn_implementation
    if family not in FAMILIES or host.base_model is host or host.get_output_embeddings() is None:
        raise HostError(
            f"{type(host).__name__} (model type {family!r}) is not a decoder host; families that "
            f"work: {', '.join(FAMILIES)}, each with its head (AutoModelForCausalLM)"
        )
    implementations = ("eager",) if family in SOFT_CAPPED else ("sdpa", "eager")
    if attention not in implementations:
        raise HostError(
            f"attention {attention!r} cannot take a visibility mask; load the host with "
            f"attn_implementation={' or '.join(map(repr, implementations))}"
        )


def running_positions(node_mask: Bool[Tensor, "batch node"]) -> Int[Tensor, "batch node"]:
    """How many real nodes stand before each node, wherever the padding is; 0 on leading padding.

    >>> running_positions(torch.tensor([[False, True, True], [True, True, False]])).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return (node_mask.long().cumsum(dim=1) - 1).clamp(min=0)


def embed(
    host: PreTrainedModel,
    vectors: Float[Tensor, "batch node width"],
    positions: Int[Tensor, "batch node"],
) -> Float[Tensor, "batch node width"]:
    """Return what enters the first layer: GPT-2 adds its positions, Granite multiplies.

    Raises `BatchError` for a position beyond those that the host was made for, or beyond its
    sliding window, which a visibility mask would not keep.
    """
    config = host.config
    window = getattr(config, "sliding_window", None)
    n_positions = min(config.max_position_embeddings, window or config.max_position_embeddings)
    if not torch.compiler.is_compiling() and int(positions.max()) >= n_positions:
        raise BatchError(
            f"position {int(positions.max())} is beyond the host's {n_positions} positions; "
            "cut the text or keep fewer neighbours"
        )
    base = host.base_model
    if config.model_type == "gpt2":
        return base.drop(vectors + base.wpe(positions))
    if config.model_type == "phi":
        return base.embed_dropout(vectors)
    return vectors * getattr(config, "embedding_multiplier", 1)  # Granite's


def layers(host: PreTrainedModel) -> nn.ModuleList:
    """The host's layers, first to last; `stepper` calls them."""
    base = host.base_model
    decoder_layers: nn.ModuleList = base.h if host.config.model_type == "gpt2" else base.layers
    return decoder_layers


def stepper(
    host: PreTrainedModel,
    visibility: Visibility,
    positions: Int[Tensor, "batch node"],
    cache: Cache | None = None,
) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return a function from a layer and states `[batch node width]` to the states after it.

    `positions` may repeat. With a `cache` the layers write their keys and values to it, and
    `visibility` is over the nodes it holds already, then those of `positions`.
    Raises `BatchError` where these numbers of nodes differ.
    """
    n_cached = 0 if cache is None else cache.get_seq_length()
    n_nodes = positions.shape[1]
    if visibility.mask.shape[1] != n_cached + n_nodes:
        raise BatchError(
            f"visibility is over {visibility.mask.shape[1]} nodes, but {n_cached} are in the cache "
            f"and {n_nodes} are new"
        )
    mask = visibility.attention(host.config._attn_implementation, host.dtype)[:, :, -n_nodes:]
    return masked_stepper(host, mask, positions, cache)


def with_cache(module: nn.Module, cache: Cache | None) -> dict[str, Any]:
    """Return a cache by the name that the layer or model takes it with.

    transformers calls it `past_key_values`, and from some version of 5 on `cache`, with a warning
    for the old name.
    """
    kind: Any = type(module)
    names = _argument_names(kind)
    return {"cache" if "cache" in names else "past_key_values": cache}


@lru_cache
def _argument_names(kind: Any) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)


def masked_stepper(
    host: PreTrainedModel,
    mask: Tensor,
    positions: Int[Tensor, "batch node"],
    cache: Cache | None = None,
) -> Callable[[nn.Module, Tensor], Tensor]:
    """As `stepper`, by a mask `[batch 1 node node_and_cached]` that the host's attention reads.

    Numbers, which are added to the scores, are read alike by SDPA and by eager attention.
    """
    if host.config.model_type == "gpt2":
        return lambda layer, hidden: layer(hidden, cache, mask, use_cache=cache is not None)
    rotary = host.base_model.rotary_emb
    types = host.config.layer_types if host.config.model_type == "gemma3_text" else None

    def step(layer: nn.Module, hidden: Tensor) -> Tensor:
        kind = () if types is None else (types[layer.layer_idx],)  # a rotation for each
        after: Tensor = layer(
            hidden,
            attention_mask=mask,
            position_ids=positions,
            **with_cache(layer, cache),
            use_cache=cache is not None,
            position_embeddings=rotary(hidden, positions, *kind),
        )
        return after

    return step


def finish(
    host: PreTrainedModel, hidden: Float[Tensor, "batch node width"]
) -> Float[Tensor, "batch node width"]:
    """The host's last normalisation, over the states after the last layer."""
    name = {"gpt2": "ln_f", "phi": "final_layernorm"}.get(host.config.model_type, "norm")
    return host.base_model.get_submodule(name)(hidden)


def run(
    host: PreTrainedModel,
    hidden: Float[Tensor, "batch node width"],
    visibility: Visibility,
    positions: Int[Tensor, "batch node"],
    cache: Cache | None = None,
) -> tuple[Float[Tensor, "batch node width"], ...]:
    """`hidden` itself, then the states after every layer, the last of them finished.

    These are the `hidden_states` of the host's own forward; `cache` as in `stepper`.
    """
    step, states = stepper(host, visibility, positions, cache), [hidden]
    for layer in layers(host):
        states.append(step(layer, states[-1]))
    return (*states[:-1], finish(host, states[-1]))


def logits(
    host: PreTrainedModel, states: Float[Tensor, "batch node width"]
) -> Float[Tensor, "batch node word"]:
    """The host's head over finished states, scaled (Granite) or capped (Gemma) as the host does."""
    scores: Tensor = host.get_output_embeddings()(states)
    scale = getattr(host.config, "logits_scaling", None)
    if scale is not None:
        scores = scores / scale
    cap = getattr(host.config, "final_logit_softcapping", None)
    return scores if cap is None else torch.tanh(scores / cap) * cap


def causal_loss(
    logits: Float[Tensor, "batch node word"], labels: Int[Tensor, "batch node"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats of each node's label given the nodes before it; `IGNORE` is left
    out.

    Raises `BatchError` where nothing is left to predict, whose mean would be NaN.
    """
    expected = labels[:, 1:]
    if not torch.compiler.is_compiling() and not bool((expected != IGNORE).any()):
        raise BatchError("no label after the first node is kept, so there is nothing to predict")
    predicted = logits[:, :-1].flatten(0, 1).float()
    total = functional.cross_entropy(
        predicted, expected.flatten(), ignore_index=IGNORE, reduction="sum"
    )
    return mean_of(total, (expected != IGNORE).sum())


def sentence_vectors(
    states: Float[Tensor, "batch node width"],
    node_mask: Bool[Tensor, "batch node"],
    pooling: Pooling = "last",
) -> Float[Tensor, "batch width"]:
    """The state of the last real node, or the mean of all real nodes; padding on either side.

    Raises `ConfigError` for another pooling, `BatchError` for a text without a node.
    """
    if pooling not in get_args(Pooling):
        raise ConfigError(f"pooling is {pooling!r}; choose one of {', '.join(get_args(Pooling))}")
    if not bool(node_mask.any(dim=1).all()):
        raise BatchError("a text without a real node has no vector; leave it out")
    if pooling == "mean":
        kept = node_mask[..., None]
        return states.masked_fill(~kept, 0).sum(dim=1) / kept.sum(dim=1)
    positions = torch.arange(node_mask.shape[1], device=node_mask.device)
    last = (node_mask * positions).argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]
