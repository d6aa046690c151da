"""ERNIE's released checkpoints (thunlp/ERNIE, ACL 2019) into ours and back.

The layout: `ernie_config.json` and `pytorch_model.bin`; beside them, for the entities, lines `Q-id
TAB index` in `entity2id.txt` (after a count) and one vector per line in `entity2vec.vec`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS
from kept.convert.tables import Rules, read_state, to_ours
from kept.encoders.base import graph_fields
from kept.encoders.ernie import LAYER_TYPES, SIM, ERNIEConfig
from kept.encoders.loading import load_strictly
from kept.errors import CheckpointError
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from kg_loaders.reading.digits import whole_number

VECTORS = "encoder.entity_vectors.weight"
WEIGHTS, CONFIG = "pytorch_model.bin", "ernie_config.json"
NAMES, NUMBERS = "entity2id.txt", "entity2vec.vec"


def _fusion(layer: int) -> Rules:
    """One layer; narrower names of ours first, so that the inverse matches them."""
    theirs, ours = f"bert.encoder.layer.{layer}.", f"encoder.fusions.{layer}."
    return (
        (f"{theirs}attention.output_ent.dense.", f"{ours}attention.dense."),
        (f"{theirs}attention.output_ent.LayerNorm.", f"{ours}attention.layer_norm."),
        (f"{theirs}attention.self_ent.", f"{ours}attention."),
        (f"{theirs}intermediate.dense_ent.", f"{ours}inner."),
        (f"{theirs}output.dense_ent.", f"{ours}output.dense."),
        (f"{theirs}output.LayerNorm_ent.", f"{ours}output.layer_norm."),
    )


def encoder_rules(layer_types: Sequence[str]) -> Rules:
    """The body: entity halves first, everything else is the host's."""
    fused = [i for i, name in enumerate(layer_types) if name != SIM]
    return (*(rule for i in fused for rule in _fusion(i)), ("bert.", "encoder.host."))


def pretraining_rules(layer_types: Sequence[str]) -> Rules:
    """The whole pre-training model."""
    return (
        *encoder_rules(layer_types),
        ("cls.predictions.transform.dense.", "objectives.mlm.transform.dense."),
        ("cls.predictions.transform.LayerNorm.", "objectives.mlm.transform.layer_norm."),
        ("cls.predictions.bias", "objectives.mlm.bias"),
        ("cls.predictions_ent.transform.dense.", "objectives.dea.transform.dense."),
        ("cls.predictions_ent.transform.LayerNorm.", "objectives.dea.transform.layer_norm."),
        ("cls.seq_relationship.", "objectives.nsp.classes."),
    )


TIED: Rules = (("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),)
TYPING: Rules = (("typing.", "head.classes."),)
RELATION: Rules = (("classifier.", "head.classes."),)
"""The heads of fine-tuned models; join them with `encoder_rules`."""


def convert(
    path: Path, *, entities: Path | None = None, kg: Path | None = None
) -> KnowledgeForPreTraining:
    """The released pre-training model, with its three objectives.

    `path`: the folder with `ernie_config.json` and `pytorch_model.bin`, or the latter. `entities`:
    the folder with `entity2id.txt` and `entity2vec.vec`, if not `path`'s own. Without `kg` the
    entity rows keep the original's order and the model belongs to no graph; with it they are those
    of the graph in that folder, whose identifiers must be Wikidata's, and an entity that the
    original lacks has the zero vector. Raises `CheckpointError` for files that are missing, damaged
    or do not fit.
    """
    weights = path / WEIGHTS if path.is_dir() else path
    settings = _read_json(weights.parent / CONFIG)
    folder = weights.parent if entities is None else entities
    state = modern_names(read_state(weights))
    graph = None if kg is None else KnowledgeGraph.open(kg)
    if entities is None and graph is None and not (folder / NUMBERS).is_file():
        vectors: NDArray[np.float32] = np.zeros((0, entity_width(state)), np.float32)
    elif graph is None:
        vectors = read_vectors(folder / NUMBERS)
    else:
        vectors = vectors_for(graph, folder)
    config = original_config(settings, n_entities=len(vectors), width=vectors.shape[1])
    if graph is not None:
        config.update(graph_fields(graph))
    return from_original(state, config, torch.from_numpy(vectors))


def from_original(
    state: Mapping[str, Tensor], config: ERNIEConfig, vectors: Tensor
) -> KnowledgeForPreTraining:
    """The pre-training model with an original's weights and entity vectors `[entity width]`."""
    model = KnowledgeForPreTraining(config)
    special = vectors.new_zeros(N_SPECIAL_ROWS, vectors.shape[1])
    renamed = to_ours(state, pretraining_rules(config.layer_types), TIED)
    load_strictly(model, renamed | {VECTORS: torch.cat([special, vectors])})
    return model


def original_config(
    settings: Mapping[str, Any], *, n_entities: int, width: int = 100
) -> ERNIEConfig:
    """The configuration under which our model computes what the original does.

    `settings`: its `ernie_config.json`. As in the original, layers that `layer_types` leaves
    unnamed are "sim" and unknown types are skipped; four entity heads are a constant there.
    """
    host = {name: value for name, value in settings.items() if name != "layer_types"}
    types = [name for name in settings.get("layer_types", ()) if name in LAYER_TYPES]
    n_layers = int(settings["num_hidden_layers"])
    return ERNIEConfig(
        host={"model_type": "bert", "layer_norm_eps": 1e-12, "pad_token_id": None, **host},
        n_entities=n_entities,
        layer_types=(types + [SIM] * n_layers)[:n_layers],
        entity_width=width,
        entity_heads=4,
        objectives={"mlm": {}, "nsp": {}, "dea": {"zero_candidate": True}},
    )


def modern_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """LayerNorm's old names `gamma` and `beta` as `weight` and `bias`, as the original's loader."""
    return {
        name.replace("gamma", "weight").replace("beta", "bias"): value
        for name, value in state.items()
    }


def entity_width(state: Mapping[str, Tensor]) -> int:
    """Width of the entity vectors that a state dict was trained with."""
    for name, value in state.items():
        if name.endswith("intermediate.dense_ent.weight"):
            return int(value.shape[1])
    raise CheckpointError("no weight ends in intermediate.dense_ent.weight: this is not ERNIE")


def vectors_for(graph: KnowledgeGraph, folder: Path) -> NDArray[np.float32]:
    """Vectors in the order of `graph`'s entities; raises `CheckpointError` when it has none."""
    rows = {}
    for name, index in read_names(folder / NAMES).items():
        entity = graph.entities.find(name)
        if entity is not None:
            rows[index] = entity
    if not rows:
        raise CheckpointError(
            f"{folder / NAMES} names no entity of {graph}; the graph needs Wikidata identifiers"
        )
    found_vectors = read_vectors(folder / NUMBERS, only=rows)
    placed = np.zeros((graph.n_entities, found_vectors.shape[1]), np.float32)
    placed[[rows[index] for index in sorted(rows)]] = found_vectors
    return placed


def read_names(path: Path) -> dict[str, int]:
    """`entity2id.txt`: a count, then a name and an index per line."""
    lines = _read_lines(path)
    names: dict[str, int] = {}
    for number, line in enumerate(lines[1:], 2):
        parts = line.split()
        try:
            name, index = parts
            names[name] = whole_number(index)
        except ValueError as error:
            raise CheckpointError(f"{path}, line {number}: not a name and an index") from error
    return names


def read_vectors(path: Path, *, only: Mapping[int, int] | None = None) -> NDArray[np.float32]:
    """`entity2vec.vec`: numbers between tabs; `only` the lines with these indices, if given."""
    vectors: list[NDArray[np.float64]] = []
    n_lines = 0
    try:
        with path.open(encoding="utf-8") as stream:
            for index, line in enumerate(stream):
                n_lines += 1
                if only is None or index in only:
                    vectors.append(_numbers(line, f"{path}, line {index + 1}"))
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not vectors or (only is not None and max(only) >= n_lines):
        raise CheckpointError(f"{path} has {n_lines} vectors, fewer than it should")
    widths = {len(vector) for vector in vectors}
    if len(widths) > 1:
        raise CheckpointError(f"{path} holds vectors of widths {sorted(widths)}")
    return np.stack(vectors).astype(np.float32)


def _numbers(line: str, source: str) -> NDArray[np.float64]:
    try:
        if "_" in line or not line.isascii():  # float() takes 1_0, and digits of every script
            raise ValueError("numbers are written in ASCII digits")
        vector = np.array([float(part) for part in line.split()])
    except ValueError as error:
        raise CheckpointError(f"{source}: {error}") from error
    if not np.isfinite(vector).all():
        raise CheckpointError(f"{source}: a number that is not finite")
    return vector


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not lines or not re.fullmatch("[0-9]+", lines[0].strip()):
        raise CheckpointError(f"{path}, line 1: not a count of entities")
    return lines


def _read_json(path: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    return settings
