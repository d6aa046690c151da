"""QA-GNN's released checkpoints (michiyasunaga/qagnn, NAACL 2021) into ours and back.

A file holds the state dict of language model (`encoder.module.`) and graph network (`decoder.`),
the table of concepts included, and the arguments of its training.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, PAD_ROW
from kept.convert.tables import (
    Rules,
    as_state,
    n_numbered,
    read_pickle,
    to_original,
    to_ours,
)
from kept.encoders.base import graph_fields
from kept.encoders.loading import load_strictly
from kept.encoders.subgraph.qagnn import QAGNNConfig
from kept.errors import CheckpointError
from kept.heads.model import KnowledgeForTask
from kept.layers.typed_graph import CONTEXT_RELATIONS, N_NODE_TYPES
from kept.tasks.kinds import CHOICE, SCORE
from kg_loaders import KnowledgeGraph

LM, GRAPH = "encoder.module.", "decoder."
TABLE = "concept_emb.emb.weight"
VECTORS = "encoder.entity_vectors.weight"
OURS_ALONE = ("encoder.text_output.", "encoder.node_output.")
"""Weights that no original has: linear maps for other heads than its own. They start at 0."""


def layer_rules(theirs: str, ours: str, n_layers: int) -> Rules:
    """The graph layers, and the edge encoder, which the original names again under every layer."""
    rules: list[tuple[str, str]] = []
    for i in range(n_layers):
        old, new = f"{theirs}gnn_layers.{i}.", f"{ours}layers.{i}."
        rules += [
            (f"{old}linear_key.", f"{new}keys."),
            (f"{old}linear_msg.", f"{new}values."),
            (f"{old}linear_query.", f"{new}queries."),
            (f"{old}mlp.0.", f"{new}inner."),
            (f"{old}mlp.1.", f"{new}rest.norm.norm."),
            (f"{old}mlp.3.", f"{new}rest.output."),
        ]
    return (
        *rules,
        (f"{theirs}edge_encoder.0.", f"{ours}edge_encoder.types."),
        (f"{theirs}edge_encoder.1.", f"{ours}edge_encoder.rest.norm.norm."),
        (f"{theirs}edge_encoder.3.", f"{ours}edge_encoder.rest.output."),
    )


def mlp_rules(theirs: str, ours: str, n_hidden: int, *, with_norm: bool) -> Rules:
    """An MLP of so many hidden layers, which the original names by kind and number."""
    rules: list[tuple[str, str]] = []
    n_steps = 4 if with_norm else 3
    for i in range(n_hidden + 1):
        rules.append((f"{theirs}layers.{i}-Linear.", f"{ours}steps.{i * n_steps}."))
        if with_norm and i < n_hidden:
            rules.append((f"{theirs}layers.{i}-LayerNorm.", f"{ours}steps.{i * n_steps + 2}."))
    return tuple(rules)


def pooling_rules(theirs: str = "") -> Rules:
    """The pooling over nodes and the map of the concepts' vectors."""
    return (
        (f"{theirs}pooler.w_qs.", "encoder.pooling.queries."),
        (f"{theirs}pooler.w_ks.", "encoder.pooling.keys."),
        (f"{theirs}pooler.w_vs.", "encoder.pooling.values."),
        (f"{theirs}concept_emb.cpt_transform.", "encoder.entity_map."),
    )


def decoder_rules(n_layers: int, n_hidden: int) -> Rules:
    """The graph network and the score; the table of concepts is not here."""
    return (
        *layer_rules("gnn.", "encoder.graph.", n_layers),
        ("gnn.Vh.", "encoder.graph.first."),
        ("gnn.Vx.", "encoder.graph.last."),
        ("gnn.emb_node_type.", "encoder.features.types."),
        ("gnn.emb_score.", "encoder.features.scores."),
        ("svec2nvec.", "encoder.context."),
        *pooling_rules(),
        *mlp_rules("fc.", "head.mlp.", n_hidden, with_norm=True),
    )


def convert(path: Path, *, kg: Path, concepts: Path, host: str) -> KnowledgeForTask:
    """The released model for multiple choice: text encoder, graph network and score.

    `path`: the file. `concepts`: the original's `concept.txt`, one name a line, in the order of the
    model's table. `kg`: the graph that the model shall read, whose identifiers or labels are these
    names (blanks or underscores) and whose relations are the original's, in its order; an entity
    that the original lacks has the zero vector. `host`: name or folder of the language model, for
    its configuration. Raises `CheckpointError` naming every missing or unexpected weight, and for a
    graph of other relations.
    """
    state = plain_state(path)
    graph = KnowledgeGraph.open(kg)
    lm = {k.removeprefix(LM): v for k, v in state.items() if k.startswith(LM)}
    decoder = {k.removeprefix(GRAPH): v for k, v in state.items() if k.startswith(GRAPH)}
    if TABLE not in decoder or not lm:
        raise CheckpointError(
            f"{path} is not a checkpoint of QA-GNN: it has no {LM}… or no {GRAPH}{TABLE}"
        )
    config = original_config(decoder, hosts.load_host(host).config, graph_fields(graph))
    require_relations(decoder["gnn.edge_encoder.0.weight"], graph, path)
    vectors = vectors_for(graph, decoder[TABLE], concepts)
    return from_original(decoder, lm, config, vectors, padding=decoder[TABLE][0])


def from_original(
    decoder: Mapping[str, Tensor],
    lm: Mapping[str, Tensor],
    config: QAGNNConfig,
    vectors: Tensor,
    *,
    padding: Tensor,
) -> KnowledgeForTask:
    """The model with an original's weights and a vector for every entity of the graph.

    `padding` is the vector of padded places: the original has that of its first concept there.
    """
    n_hidden = hidden_layers(decoder, "fc.")
    model = choice_model(config, n_hidden, decoder, "fc.")
    rules = decoder_rules(config.n_layers, n_hidden)
    ours = {k: v for k, v in decoder.items() if k != TABLE and not is_repeated(k)}
    load_parts(model, to_ours(ours, rules), lm, with_special_rows(vectors, padding))
    return model


def back_to_original(model: KnowledgeForTask) -> dict[str, Tensor]:
    """The original's state dict; its table of concepts has the rows of our graph, in our order."""
    state = original_parts(model)
    lm = {k: v for k, v in state.items() if k.startswith("encoder.host.")}
    table = state[VECTORS][N_SPECIAL_ROWS:]
    ours = {k: v for k, v in state.items() if k not in lm and k != VECTORS}
    rules = decoder_rules(model.encoder.config.n_layers, model.config.head["layers"])
    decoder = with_repeated(to_original(ours, rules), "gnn.") | {TABLE: table}
    return {
        **{LM + k.removeprefix("encoder.host."): v for k, v in lm.items()},
        **{GRAPH + k: v for k, v in decoder.items()},
    }


def original_config(
    decoder: Mapping[str, Tensor], host: PreTrainedConfig, graph: Mapping[str, Any], **options: Any
) -> QAGNNConfig:
    """The configuration under which our model computes what the original does."""
    return QAGNNConfig(
        host=host, n_layers=n_numbered(decoder, "gnn.gnn_layers."),
        entity_width=decoder[TABLE].shape[1], graph_width=len(decoder["gnn.Vh.weight"]),
        with_padding=True, **graph, **options,
    )  # fmt: skip


# ---- shared with GreaseLM ------------------------------------------------------------------------
def plain_state(path: Path) -> dict[str, Tensor]:
    """The state dict in a file of either system; raises `CheckpointError` for another one."""
    value = read_pickle(path, allowed=[Namespace])
    if isinstance(value, Sequence) and value:
        value = value[0]
    if isinstance(value, Mapping) and isinstance(value.get("model"), Mapping):
        value = value["model"]
    return as_state(value, str(path))


def is_repeated(name: str) -> bool:
    """Whether the original has a tensor under this name that it also has under another."""
    return "gnn_layers." in name and ".edge_encoder." in name


def original_parts(model: KnowledgeForTask) -> dict[str, Tensor]:
    """The weights of a model that the originals have too."""
    return {k: v for k, v in model.state_dict().items() if not k.startswith(OURS_ALONE)}


def with_repeated(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """An original's state dict with its edge encoder under every layer, too."""
    shared = f"{prefix}edge_encoder."
    n_layers = n_numbered(state, f"{prefix}gnn_layers.")
    return {**state, **{
        f"{prefix}gnn_layers.{i}.edge_encoder.{k.removeprefix(shared)}": v
        for i in range(n_layers) for k, v in state.items() if k.startswith(shared)
    }}  # fmt: skip


def hidden_layers(state: Mapping[str, Tensor], prefix: str) -> int:
    """How many hidden layers the MLP at `prefix` has."""
    numbers = (
        k.removeprefix(f"{prefix}layers.").partition("-")[0]
        for k in state if k.startswith(f"{prefix}layers.") and "-Linear." in k
    )  # fmt: skip
    return max(map(int, numbers), default=0)


def choice_model(
    config: Any, n_hidden: int, state: Mapping[str, Tensor], prefix: str
) -> KnowledgeForTask:
    """A new model for multiple choice with the original's MLP."""
    first = state[f"{prefix}layers.0-Linear.weight"]
    config.head = {
        "name": "graph", "layers": n_hidden, "width": len(first) if n_hidden else 200,
        "dropout": config.text_dropout,
    }  # fmt: skip
    config.problem_type, config.num_labels = CHOICE, 1
    config.id2label, config.label2id = {0: SCORE}, {SCORE: 0}
    return KnowledgeForTask(config)


def load_parts(
    model: KnowledgeForTask, ours: dict[str, Tensor], lm: Mapping[str, Tensor], rows: Tensor
) -> None:
    """Load renamed weights, the language model's and the entity rows; the rest must be ours.

    Raises `CheckpointError` naming every missing or unexpected weight.
    """
    ours = ours | {VECTORS: rows}
    ours |= {f"encoder.host.{k}": v for k, v in lm.items() if not k.endswith("position_ids")}
    new = {k: v for k, v in model.state_dict().items() if k.startswith(OURS_ALONE)}
    load_strictly(model, {k: torch.zeros_like(v) for k, v in new.items()} | ours)
    model.eval()


def with_special_rows(vectors: Tensor, padding: Tensor) -> Tensor:
    """The rows of our table: the special ones, of which padding has a vector, then the entities."""
    special = vectors.new_zeros(N_SPECIAL_ROWS, vectors.shape[1])
    special[PAD_ROW] = padding
    return torch.cat([special, vectors])


def require_relations(
    weight: Tensor, graph: KnowledgeGraph, path: Path, n_context: int = len(CONTEXT_RELATIONS)
) -> None:
    """Raise `CheckpointError` where edges have other types than the graph's relations give."""
    n_types = weight.shape[1] - 1 - 2 * N_NODE_TYPES
    n_relations = n_types // 2 - n_context
    if n_relations != graph.n_relations:
        raise CheckpointError(
            f"{path} was trained with {n_relations} relations, {graph} has {graph.n_relations}; "
            "build the graph with the original's relations"
        )


def vectors_for(graph: KnowledgeGraph, table: Tensor, concepts: Path) -> Tensor:
    """The rows of the original's table in the order of `graph`'s entities.

    Raises `CheckpointError` for a list of another length or one that names no entity.
    """
    try:
        names = concepts.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{concepts} cannot be read: {error}") from error
    if len(names) not in (len(table), len(table) - 2):
        raise CheckpointError(
            f"{concepts} has {len(names)} names, the table {len(table)} rows; give the list that "
            "the model was trained with"
        )
    rows = {_key(name): row for row, name in enumerate(names)}
    vectors, n_known = table.new_zeros(graph.n_entities, table.shape[1]), 0
    for entity in range(graph.n_entities):
        keys = (_key(graph.entities.name(entity)), _key(graph.label(entity)))
        row = next((rows[key] for key in keys if key in rows), None)
        if row is not None:
            vectors[entity], n_known = table[row], n_known + 1
    if not n_known:
        raise CheckpointError(f"{concepts} names no entity of {graph}")
    return vectors


def _key(name: str) -> str:
    return name.strip().replace(" ", "_").lower()
