"""CoLAKE's golden weights in the layout of its release: converted, they say the golden numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from kept.convert import colake as keys
from kept.convert import convert
from kept.convert.tables import to_original
from kept.objectives.model import KnowledgeForPreTraining
from tests.parity.colake.test_colake_model import ATOL, batch_of

METHOD = "colake"


def test_the_converted_release(folder: Path, tmp_path: Path, compared: Any) -> None:
    original = load_file(folder / "state_dict.safetensors")
    state = dict(original)
    np.save(tmp_path / "entities.npy", state.pop("entity_embeddings").numpy())
    torch.save(state, tmp_path / "model.bin")
    n_heads = json.loads((folder / "config.json").read_text())["model"]["num_attention_heads"]
    convert("colake", tmp_path, tmp_path / "out", {"heads": n_heads})
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "out").eval()
    back = to_original(model.state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED)
    assert back.keys() == original.keys()
    for name, value in original.items():
        assert back[name].numpy().tobytes() == value.numpy().tobytes(), name
    expected = load_file(folder / "outputs.safetensors")
    with torch.no_grad():
        losses = model(batch_of(load_file(folder / "inputs.safetensors"))).losses
    for ours, theirs in (("word", "masked_lm"), ("entity", "ent_masked_lm"),
                         ("relation", "rel_masked_lm")):  # fmt: skip
        compared.close(f"release {theirs}", losses[ours], expected[f"{theirs}_loss"], atol=ATOL)
