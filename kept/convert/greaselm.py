"""GreaseLM's released checkpoints (snap-stanford/GreaseLM, ICLR 2022) into ours and back.

A file holds the state dict under `model`, without the table of concepts: the original draws a new
one whenever it loads a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from kept import hosts
from kept.convert.qagnn import (
    VECTORS,
    choice_model,
    hidden_layers,
    is_repeated,
    layer_rules,
    load_parts,
    mlp_rules,
    original_parts,
    plain_state,
    pooling_rules,
    require_relations,
    vectors_for,
    with_repeated,
    with_special_rows,
)
from kept.convert.tables import Rules, n_numbered, to_original, to_ours
from kept.encoders.base import graph_fields
from kept.encoders.subgraph.greaselm import GreaseLMConfig
from kept.errors import CheckpointError
from kept.heads.model import KnowledgeForTask
from kept.layers.typed_graph import CONTEXT_RELATIONS
from kg_loaders import KnowledgeGraph

MODEL = "lmgnn."
BODY, GRAPH = "lmgnn.mp.", "lmgnn.mp.encoder."
TABLE = "lmgnn.concept_emb.emb.weight"
ONE, MANY = f"{GRAPH}ie_layer.", f"{GRAPH}ie_layers."


def rules(config: GreaseLMConfig, n_hidden: int) -> Rules:
    """All weights but the table of concepts; narrower names first."""
    mixing: list[tuple[str, str]] = []
    if config.separate_mixing:
        for i in range(config.n_fused or 0):
            mixing += mlp_rules(
                f"{MANY}{i}.", f"encoder.mixing.{i}.", config.mixing_layers, with_norm=False
            )
    else:
        mixing += mlp_rules(ONE, "encoder.mixing.0.", config.mixing_layers, with_norm=False)
    return (
        *layer_rules(GRAPH, "encoder.graph.", config.n_fused or 0),
        *mixing,
        (f"{BODY}Vh.", "encoder.graph.first."),
        (f"{BODY}Vx.", "encoder.graph.last."),
        (f"{BODY}emb_node_type.", "encoder.features.types."),
        (f"{BODY}emb_score.", "encoder.features.scores."),
        *pooling_rules(MODEL),
        *mlp_rules(f"{MODEL}fc.", "head.mlp.", n_hidden, with_norm=True),
        (f"{BODY}embeddings.", "encoder.host.embeddings."),
        (f"{GRAPH}layer.", "encoder.host.encoder.layer."),
        (f"{BODY}pooler.", "encoder.host.pooler."),
    )


def convert(
    path: Path,
    *,
    kg: Path,
    host: str,
    concepts: Path | None = None,
    table: Path | None = None,
    all_entities: bool = False,
    mixed: str = "all",
) -> KnowledgeForTask:
    """The released model for multiple choice: text encoder, graph layers, mixing and score.

    `path`: the file. `kg`: the graph that the model shall read; its relations are the original's,
    in its order. `host`: name or folder of the language model, for its configuration. A released
    file has no table of concepts: `table` is a torch file of one (or `path` itself has it), and
    `concepts` the original's `concept.txt`, one name a line in its order; without both every entity
    has the zero vector. `all_entities`: trained with the context node joined to all. `mixed`:
    "all", "every_other" or "none" of the fused layers. Raises `CheckpointError` naming every
    missing or unexpected weight, and for a graph of other relations.
    """
    state = plain_state(path)
    if f"{BODY}Vh.weight" not in state:
        raise CheckpointError(f"{path} is not a checkpoint of GreaseLM: it has no {BODY}Vh.weight")
    graph = KnowledgeGraph.open(kg)
    n_context = len(CONTEXT_RELATIONS) + all_entities
    require_relations(state[f"{GRAPH}edge_encoder.0.weight"], graph, path, n_context)
    config = original_config(
        state, hosts.load_host(host).config, graph_fields(graph), all_entities=all_entities,
        mixed=mixed,
    )  # fmt: skip
    stored = state.get(TABLE) if table is None else read_table(table)
    if stored is None or concepts is None:
        vectors, padding = torch.zeros(graph.n_entities, config.entity_width), torch.tensor(0.0)
    else:
        vectors, padding = vectors_for(graph, stored, concepts), stored[0]
    return from_original(state, config, vectors, padding=padding)


def read_table(path: Path) -> Tensor:
    """The table of concepts in a torch file; raises `CheckpointError` for another file."""
    state = plain_state(path)
    tables = [value for name, value in state.items() if name.endswith("emb.weight")]
    if len(tables) != 1:
        raise CheckpointError(f"{path} holds {len(tables)} tables (…emb.weight); expected one")
    return tables[0]


def from_original(
    state: Mapping[str, Tensor], config: GreaseLMConfig, vectors: Tensor, *, padding: Tensor
) -> KnowledgeForTask:
    """The model with an original's weights and a vector for every entity of the graph.

    `padding` is the vector of padded places: the original has that of its first concept there.
    """
    n_hidden = hidden_layers(state, f"{MODEL}fc.")
    model = choice_model(config, n_hidden, state, f"{MODEL}fc.")
    ours = {k: v for k, v in state.items() if k != TABLE and not is_repeated(k)}
    ours = {k: v for k, v in ours.items() if not k.endswith("position_ids")}
    rows = with_special_rows(vectors, padding)
    load_parts(model, to_ours(ours, rules(config, n_hidden)), {}, rows)
    return model


def back_to_original(model: KnowledgeForTask) -> dict[str, Tensor]:
    """The original's state dict as it is saved: without the table of concepts."""
    ours = {k: v for k, v in original_parts(model).items() if k != VECTORS}
    named = to_original(ours, rules(model.encoder.config, model.config.head["layers"]))
    return with_repeated(named, GRAPH)


def original_config(
    state: Mapping[str, Tensor], host: PreTrainedConfig, graph: Mapping[str, Any], **options: Any
) -> GreaseLMConfig:
    """The configuration under which our model computes what the original does."""
    is_separate = any(name.startswith(MANY) for name in state)
    prefix = f"{MANY}0." if is_separate else ONE
    graph_width = len(state[f"{BODY}Vh.weight"])
    transform = state.get(f"{MODEL}concept_emb.cpt_transform.weight")
    return GreaseLMConfig(
        host=host, n_fused=n_numbered(state, f"{GRAPH}gnn_layers."), graph_width=graph_width,
        entity_width=graph_width if transform is None else transform.shape[1],
        mixing_width=len(state[f"{prefix}layers.0-Linear.weight"]),
        mixing_layers=hidden_layers(state, prefix), separate_mixing=is_separate,
        with_padding=True, **graph, **options,
    )  # fmt: skip
