"""ERNIE's released checkpoints (thunlp/ERNIE, ACL 2019) into ours and back.

The layout: `ernie_config.json` and `pytorch_model.bin`; beside them, for the entities, lines
`Q-id TAB index` in `entity2id.txt` (after a count) and one vector a line in `entity2vec.vec`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS
from kept.convert.tables import Rules, load_strictly, read_pickle, to_ours
from kept.encoders.ernie import LAYER_TYPES, SIM, ERNIEConfig
from kept.errors import CheckpointError
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

VECTORS = "encoder.entity_vectors.weight"
WEIGHTS, CONFIG = "pytorch_model.bin", "ernie_config.json"
NAMES, NUMBERS = "entity2id.txt", "entity2vec.vec"


def _fusion(layer: int) -> Rules:
    theirs, ours = f"bert.encoder.layer.{layer}.", f"encoder.fusions.{layer}."
    return (
        (f"{theirs}attention.self_ent.", f"{ours}attention."),
        (f"{theirs}attention.output_ent.dense.", f"{ours}attention.dense."),
        (f"{theirs}attention.output_ent.LayerNorm.", f"{ours}attention.layer_norm."),
        (f"{theirs}intermediate.dense_ent.", f"{ours}inner."),
        (f"{theirs}output.dense_ent.", f"{ours}output.dense."),
        (f"{theirs}output.LayerNorm_ent.", f"{ours}output.layer_norm."),
    )


def encoder_rules(layer_types: Sequence[str]) -> Rules:
    """The body: entity halves first, everything else is the host's."""
    fused = [i for i, name in enumerate(layer_types) if name != SIM]
    return (*(rule for i in fused for rule in _fusion(i)), ("bert.", "encoder.host."))
