"""K-Adapter's released checkpoints (microsoft/K-Adapter) into ours and back.

`fac-adapter/pytorch_model.bin` and `lin-adapter/pytorch_model.bin` hold one adapter each with the
head of its pre-training; the host is RoBERTa-large, stored elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from kept import hosts
from kept.convert.tables import Rules, n_numbered, read_state, to_ours
from kept.encoders.kadapter import KAdapter, KAdapterConfig
from kept.encoders.loading import load_strictly
from kept.errors import CheckpointError, ConfigError
from kept.objectives.model import KnowledgeForPreTraining

OBJECTIVES_OF = {"factual": "relation_pairs", "linguistic": "dependency_heads"}
HOST: Rules = (
    ("embeddings.", "encoder.host.embeddings."),
    ("encoder.", "encoder.host.encoder."),
    ("pooler.", "encoder.host.pooler."),
)
"""Of the released code's own copy of RoBERTa, whose names are Hugging Face's."""
HOST_PREFIX = "model."
"""Of the host's weights in a file that holds them too."""
HEAD_SIZE = 64
TYPING_OR_RELATION: Rules = (
    ("task_dense_fac.", "encoder.fusion.each.factual."),
    ("task_dense_lin.", "encoder.fusion.each.linguistic."),
    ("task_dense.", "encoder.fusion.joint."),
    ("dense.", "head.dense."),
    ("out_proj.", "head.classes."),
)
"""The task layers of the released typing and relation models, into `KnowledgeForTask`."""


def adapter_rules(name: str, n_blocks: int) -> Rules:
    """One adapter's weights in a model that holds it as `name`."""
    ours = f"encoder.adapters.{name}.blocks"
    return tuple(
        rule
        for i in range(n_blocks)
        for rule in (
            (f"adapter.{i}.encoder.layer.", f"{ours}.{i}.layers."),
            (f"adapter.{i}.", f"{ours}.{i}."),
        )
    )


def pretraining_rules(name: str, n_blocks: int) -> Rules:
    """A released file: one adapter and the head of its pre-training."""
    head = f"objectives.{OBJECTIVES_OF[name]}."
    rules: Rules = (("self_attention.", f"{head}self_attention."),) if name == "linguistic" else ()
    return (
        *adapter_rules(name, n_blocks),
        ("com_dense.", f"{head}features.com_dense."),
        *rules,
        ("dense.", f"{head}dense."),
        ("out_proj.", f"{head}out_proj."),
    )


def original_config(
    *,
    host: Mapping[str, Any],
    adapters: Mapping[str, Mapping[str, Any]],
    padding: str = "released",
    **options: Any,
) -> KAdapterConfig:
    """The configuration under which our model computes what the original does.

    `host`: sizes of its RoBERTa. `still_word` is `<s>`; frozen adapters keep their dropout.
    """
    return KAdapterConfig(
        host={"model_type": "roberta", **host},
        adapters=adapters,
        padding=padding,
        still=("host",),
        still_word=0,
        **options,
    )


def convert(
    path: Path,
    *,
    adapter: str,
    host: str,
    layers: str = "0,11,23",
    n_heads: int = 0,
    skip: int = 0,
    padding: str = "released",
) -> KnowledgeForPreTraining:
    """A released `pytorch_model.bin` (or its folder) as a model with that adapter and its head.

    `adapter`: "factual" (fac-adapter) or "linguistic" (lin-adapter). `host`: a name or folder of
    the RoBERTa that it was trained beside; weights of the host in the file itself (`model.…`) take
    the place of those. Not stored in the file: `layers` (states of the host that the adapter
    reads), `n_heads` of its attention (0 = one for 64 of its width) and `skip`. `padding`
    "released" computes what the original does, "masked" what does not depend on a batch's length.
    All other sizes come from the file. Raises `CheckpointError` naming every missing or unexpected
    weight.
    """
    if adapter not in OBJECTIVES_OF:
        raise ConfigError(f"adapter is {adapter!r}; use one of {sorted(OBJECTIVES_OF)}")
    file = path / "pytorch_model.bin" if path.is_dir() else path
    state, inside = _split(read_state(file))
    options = _options(state, file, layers=layers, n_heads=n_heads, skip=skip)
    loaded = hosts.load_host(host)
    config = original_config(
        host=loaded.config.to_dict(),
        adapters={adapter: options},
        padding=padding,
        n_relations=len(state["out_proj.weight"]),
    )
    encoder = KAdapter(config, host=loaded)
    objective: dict[str, Any] = {}
    if adapter == "linguistic":
        objective["n_positions"] = len(state["out_proj.weight"])
    model = KnowledgeForPreTraining.of(encoder, {OBJECTIVES_OF[adapter]: objective})
    ours = to_ours(state, pretraining_rules(adapter, len(options["layers"])))
    own_host = loaded.state_dict() if inside is None else inside
    load_strictly(model, ours | to_ours(own_host, HOST))
    model.eval()
    return model


def _split(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
    """The adapter's weights, and the host's where the file holds them."""
    host = {k.removeprefix(HOST_PREFIX): v for k, v in state.items() if k.startswith(HOST_PREFIX)}
    return {k: v for k, v in state.items() if not k.startswith(HOST_PREFIX)}, host or None


def _options(
    state: Mapping[str, Tensor], file: Path, *, layers: str, n_heads: int, skip: int
) -> dict[str, Any]:
    """The adapter's sizes, read from the shapes of its weights."""
    needed = ["out_proj.weight", "adapter.0.down_project.weight"]
    needed.append("adapter.0.encoder.layer.0.intermediate.dense.weight")
    missing = [name for name in needed if name not in state]
    if missing:
        raise CheckpointError(f"{file} is not an adapter of K-Adapter: it has no {missing}")
    try:
        layer_numbers = [int(part) for part in layers.split(",")]
    except ValueError:
        raise ConfigError(f"layers is {layers!r}; write numbers with commas: 0,11,23") from None
    n_blocks = n_numbered(state, "adapter.")
    if len(layer_numbers) != n_blocks:
        raise ConfigError(f"layers is {layers!r}; {file} has {n_blocks} blocks, so name as many")
    width, intermediate = (len(state[name]) for name in needed[1:])
    return {
        "layers": layer_numbers,
        "width": width,
        "n_layers": n_numbered(state, "adapter.0.encoder.layer."),
        "n_heads": n_heads or max(1, width // HEAD_SIZE),
        "intermediate": intermediate,
        "skip": skip,
    }
