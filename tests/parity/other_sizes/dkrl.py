"""DKRL of width 4 with six filters over words of width 3, and fewer questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.evaluation.ranking import Filter, rank
from kept.kge.dkrl import DKRL
from tests.parity import test_dkrl as parity
from tests.parity.other_sizes import tensors

CONFIG = {"n": 4, "n_1": 6, "n_w": 3}
SIDES = {"left": "head", "right": "tail", "mid": "relation"}
SHAPES = {
    "word": {6: 3}, "entity": {5: 4}, "relation": {5: 4}, "w1": {4: 6, 12: 6}, "w2": {5: 4, 4: 6},
}  # fmt: skip


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | CONFIG, folder, "config")
    state = tensors.load(folder, "state_dict")
    state = {
        name: 3 * value
        for part, sizes in SHAPES.items()
        for name, value in tensors.weights(
            {name: value for name, value in state.items() if part in name}, sizes, n_layers=0
        ).items()
    }
    tensors.store(state, folder, "state_dict")
    data = tensors.read(folder, "data")
    data["test"] = data["test"][2:]
    tensors.write(data, folder, "data")
    golden = parity.golden.__wrapped__(folder)
    model = parity.model.__wrapped__(golden)
    tensors.store(outputs_of(golden, model), folder, "outputs")
    step = parity.original_step(golden, model)
    data["batch_losses"] = step["losses"]
    name = "evaluation_description_energy_only"
    data[name] = {side: ranks_of(golden, model, side) for side in SIDES}
    tensors.write(data, folder, "data")


def outputs_of(golden: parity.Golden, model: DKRL) -> dict[str, Tensor]:
    with torch.no_grad():
        vectors = model.encode_descriptions(*golden.padded())
        blocks, mask = model.encoder.pooled(*golden.padded())
        energies = model.energies(golden.triples, vectors)
    step = parity.original_step(golden, model)
    pooled = enumerate(zip(blocks, mask, strict=True))
    results = {f"mid_{i}": states[own_states] for i, (states, own_states) in pooled}
    results |= {f"after.{name}": step[name] for name in ("entity", "relation", "w1", "w2", "word")}
    return results | {
        "cnn_vec": vectors,
        "energies": energies,
        "cnn_grad_before_update": step["gradient"],
    }


def ranks_of(golden: parity.Golden, model: DKRL, side: str) -> dict[str, Any]:
    splits = {"train": golden.triples.numpy(), **{n: golden.split(n) for n in ("valid", "test")}}
    sizes = {"n_entities": model.n_entities, "n_relations": model.n_relations}
    filters = {"raw": Filter({}, **sizes), "filtered": Filter(splits, **sizes)}
    with torch.no_grad():
        scores = model.ranker(model.encode_descriptions(*golden.padded()), None)
    results = {}
    for name, known in filters.items():
        result = rank(scores, splits["test"], filter=known, ties="optimistic",
                      directions=(SIDES[side],), candidates="all")  # fmt: skip
        results[f"mean_rank_{name}"] = result.mr
        results[f"hits_{name}"] = result.hits(1 if side == "mid" else 10)
    return results
