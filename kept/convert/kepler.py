"""KEPLER's released checkpoints (THU-KEG/KEPLER, a fork of fairseq 0.8) into ours and back.

fairseq packs query, key and value into one matrix, has no segment table and no pooler, stores the
word table twice, and keeps each knowledge-embedding head's gamma and range as tensors.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.convert import tables
from kept.convert.tables import Packed, Rules, as_state, n_numbered, read_pickle
from kept.encoders.base import graph_fields
from kept.encoders.kepler import KEPLERConfig
from kept.encoders.loading import load_strictly
from kept.errors import CheckpointError
from kept.objectives.knowledge_embedding import KnowledgeEmbedding
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

SOURCE = "decoder.sentence_encoder."
LAYERS = f"{SOURCE}layers."
TIED: Rules = ((f"{SOURCE}embed_tokens.weight", "decoder.lm_head.weight"),)
PACKED: Packed = tuple(
    (f"self_attn.in_proj_{kind}", tuple(f"self_attn.{p}_proj.{kind}" for p in "qkv"))
    for kind in ("weight", "bias")
)
LAYER: Rules = (
    ("self_attn.q_proj.", "attention.self.query."),
    ("self_attn.k_proj.", "attention.self.key."),
    ("self_attn.v_proj.", "attention.self.value."),
    ("self_attn.out_proj.", "attention.output.dense."),
    ("self_attn_layer_norm.", "attention.output.LayerNorm."),
    ("fc1.", "intermediate.dense."),
    ("fc2.", "output.dense."),
    ("final_layer_norm.", "output.LayerNorm."),
)
HEAD = "decoder.lm_head."
AROUND: Rules = (
    (f"{SOURCE}embed_tokens.weight", "encoder.host.embeddings.word_embeddings.weight"),
    (f"{SOURCE}embed_positions.weight", "encoder.host.embeddings.position_embeddings.weight"),
    (f"{SOURCE}emb_layer_norm.", "encoder.host.embeddings.LayerNorm."),
    (f"{HEAD}dense.", "objectives.mlm.transform.dense."),
    (f"{HEAD}layer_norm.", "objectives.mlm.transform.layer_norm."),
    (f"{HEAD}bias", "objectives.mlm.bias"),
)
SEGMENTS = "encoder.host.embeddings.token_type_embeddings.weight"
OURS_ALONE = (SEGMENTS, "encoder.host.pooler.dense.weight", "encoder.host.pooler.dense.bias")
"""What fairseq's RoBERTa lacks: a segment table (zero here) and a pooler (fresh here)."""
TASKS = ("ke", "ke2")
CONSTANTS = {"gamma": "gamma", "emb_range": "relation_range"}
"""Tensors of a head that are settings to us, by option."""


def rules(n_layers: int, heads: tuple[str, ...]) -> Rules:
    """The table for a model of so many layers whose knowledge-embedding heads have these names."""
    layers = tuple(
        (f"{LAYERS}{i}.{theirs}", f"encoder.host.encoder.layer.{i}.{ours}")
        for i in range(n_layers)
        for theirs, ours in LAYER
    )
    relations = tuple(
        (f"ke_heads.{name}.relation_emb.weight", f"objectives.{task}.relations")
        for name, task in zip(heads, TASKS, strict=False)
    )
    return (*AROUND, *layers, *relations)


def head_names(state: Mapping[str, Tensor], first: str | None = None) -> tuple[str, ...]:
    """Names of the knowledge-embedding heads, at most two; `first` is that of the first task."""
    names = dict.fromkeys(k.split(".")[1] for k in state if k.startswith("ke_heads."))
    ordered = tuple(sorted(names, key=lambda name: (name != first, name)))
    if len(ordered) > len(TASKS):
        raise CheckpointError(f"a checkpoint with the heads {list(ordered)}: at most two are known")
    return ordered


def original_config(state: Mapping[str, Tensor], args: Mapping[str, Any]) -> KEPLERConfig:
    """The configuration under which our model computes what the original does.

    Sizes come from the weights, the rest from fairseq's `args`. Raises `CheckpointError` naming an
    argument that is missing, or a setting that the original has and we do not.
    """
    if "encoder_attention_heads" not in args:
        raise CheckpointError("the checkpoint's args lack encoder_attention_heads; give n_heads")
    if args.get("activation_fn", "gelu") != "gelu":
        raise CheckpointError(f"activation {args['activation_fn']!r}: only gelu is known")
    names = head_names(state, args.get("ke_head_name"))
    objectives: dict[str, dict[str, Any]] = {"mlm": {}}
    for name, task in zip(names, TASKS, strict=False):
        objectives[task] = _options(state, args, name, second=task != TASKS[0])
    return KEPLERConfig(host=_host(state, args), objectives=objectives, zero_padding=True)


def _host(state: Mapping[str, Tensor], args: Mapping[str, Any]) -> dict[str, Any]:
    words, positions, inner = (
        _shape(state, f"{SOURCE}{name}")
        for name in ("embed_tokens.weight", "embed_positions.weight", "layers.0.fc1.weight")
    )
    return {
        "model_type": "roberta",
        "vocab_size": words[0],
        "hidden_size": words[1],
        "num_hidden_layers": n_numbered(state, LAYERS),
        "num_attention_heads": int(args["encoder_attention_heads"]),
        "intermediate_size": inner[0],
        "max_position_embeddings": positions[0],
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "hidden_dropout_prob": float(args.get("dropout", 0.1)),
        "attention_probs_dropout_prob": float(args.get("attention_dropout", 0.1)),
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }


def _options(
    state: Mapping[str, Tensor], args: Mapping[str, Any], name: str, *, second: bool
) -> dict[str, Any]:
    """Options of the objective behind one head; the second is always of the plain kind."""
    gamma, bound = (_constant(state, f"ke_heads.{name}.{tensor}") for tensor in CONSTANTS)
    relations = "table"
    if not second and args.get("relation_desc"):
        relations = "conditioned"
    if not second and args.get("relemb_from_desc"):
        relations = "described"
    n_tokens = int(args.get("tokens_per_sample", 512))
    return {
        "gamma": gamma,
        "relation_range": bound,
        "relations": relations,
        "n_relations": _shape(state, f"ke_heads.{name}.relation_emb.weight")[0],
        "n_negatives": int(args.get("negative_sample_size", 1)),
        "n_tokens": n_tokens,
        "n_relation_tokens": n_tokens // 8,
        "cut": "sequence",
        "read": "description",
    }


def from_original(
    state: Mapping[str, Tensor], config: KEPLERConfig, first_head: str | None = None
) -> KnowledgeForPreTraining:
    """The pre-training model with an original's weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = KnowledgeForPreTraining(config)
    names = head_names(state, first_head)
    constants = {f"ke_heads.{name}.{tensor}" for name in names for tensor in CONSTANTS}
    weights = {k: v for k, v in state.items() if k not in constants}
    ours = tables.to_ours(weights, rules(n_numbered(state, LAYERS), names), TIED, PACKED)
    model_state = model.state_dict()
    model_state[SEGMENTS].zero_()
    load_strictly(model, ours | {name: model_state[name] for name in OURS_ALONE})
    return model


def to_original(model: KnowledgeForPreTraining, heads: tuple[str, ...]) -> dict[str, Tensor]:
    """The inverse of `from_original`; `heads` names the tasks `ke` and `ke2` as the original did.

    Raises `CheckpointError` when the segment table has been trained: fairseq has none.
    """
    state = model.state_dict()
    if bool(state[SEGMENTS].any()):
        raise CheckpointError("the segment table has been trained, and the original has none")
    weights = {k: v for k, v in state.items() if k not in OURS_ALONE}
    table = rules(model.config.host.num_hidden_layers, heads)
    constants = {
        f"ke_heads.{name}.{tensor}": torch.tensor([float(model.config.objectives[task][option])])
        for name, task in zip(heads, TASKS, strict=False)
        for tensor, option in CONSTANTS.items()
    }
    return tables.to_original(weights, table, TIED, PACKED) | constants


def convert(
    path: Path, *, n_heads: int | None = None, kg: Path | None = None, relations: Path | None = None
) -> KnowledgeForPreTraining:
    """A released fairseq checkpoint (`.pt`: `model`, `args` and a trainer's state) as our model.

    `n_heads`: attention heads, where the file holds no `args`. A converted model belongs to no
    graph, unless `kg` names one and `relations` a file with the original's relation identifiers,
    one per line in the order of its rows: then the first table's rows become those of the graph.
    Raises `CheckpointError` naming every missing or unexpected weight, or relation. Only tensors,
    plain containers and `argparse.Namespace` are read; a file that asks for more is refused.
    """
    loaded = read_pickle(path, allowed=(Namespace,))
    if not isinstance(loaded, dict) or "model" not in loaded:
        raise CheckpointError(f"{path} is not a fairseq checkpoint: it has no entry 'model'")
    arguments = loaded.get("args")
    args = dict(vars(arguments)) if isinstance(arguments, Namespace) else dict(arguments or {})
    if n_heads is not None:
        args["encoder_attention_heads"] = n_heads
    state = as_state(loaded["model"], f"'model' in {path}")
    model = from_original(state, original_config(state, args), args.get("ke_head_name"))
    if (kg is None) != (relations is None):
        raise CheckpointError("kg and relations belong together: give both or none")
    if kg is not None and relations is not None:
        _follow(model, KnowledgeGraph.open(kg), relations.read_text(encoding="utf-8").split())
    return model


def _follow(model: KnowledgeForPreTraining, graph: KnowledgeGraph, names: list[str]) -> None:
    """Bring the rows of the first relation table into the order of `graph`."""
    objective = model.objectives["ke"]
    assert isinstance(objective, KnowledgeEmbedding)
    if len(names) != len(objective.relations):
        raise CheckpointError(
            f"{len(names)} relations are named, the table has {len(objective.relations)} rows"
        )
    row = {name: i for i, name in enumerate(names)}
    missing = [name for name in graph.relations if name not in row]
    if missing:
        raise CheckpointError(f"relations of the graph that the checkpoint lacks: {missing}")
    order = [row[name] for name in graph.relations]
    objective.relations = torch.nn.Parameter(objective.relations.detach()[order].clone())
    model.config.update(graph_fields(graph))
    model.config.objectives["ke"]["n_relations"] = graph.n_relations


def _shape(state: Mapping[str, Tensor], name: str) -> tuple[int, ...]:
    if name not in state:
        raise CheckpointError(f"the checkpoint lacks {name}")
    return tuple(state[name].shape)


def _constant(state: Mapping[str, Tensor], name: str) -> float:
    if _shape(state, name) != (1,):
        raise CheckpointError(f"{name} has shape {tuple(state[name].shape)}, expected (1,)")
    return float(state[name])
