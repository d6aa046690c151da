"""K-BERT with two layers of width 36, three heads, other labels, longer rows and fewer cases."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from kept.batches import IGNORE
from kept.convert import kbert as keys
from kept.heads.model import KnowledgeForTask
from kept.heads.uer import POOLINGS
from tests.parity import test_kbert as parity
from tests.parity.other_sizes import tensors

SIZES = {48: 36, 96: 40, 165: 172, 512: 70}
CONFIG = {
    "emb_size": 36, "hidden_size": 36, "feedforward_size": 40, "heads_num": 3, "layers_num": 2,
    "labels_num": 5, "ner_labels_num": 9, "seq_length": 31, "vocab_size": 172,
    "position_embedding_size": 70,
}  # fmt: skip


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | CONFIG, folder, "config")
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "".join(f"[new{i}]\n" for i in range(7)))
    injection = tensors.read(folder, "injection")
    tensors.write(injection | {"cases": injection["cases"][5:]}, folder, "injection")
    rows = tensors.read(folder, "rows")
    rows["classification_rows"] = [row | {"label": 4} for row in rows["classification_rows"][1:]]
    rows["ner_rows"] += rows["ner_rows"][:1]
    rows["max_length"] = CONFIG["seq_length"]
    rows["ner_labels_map"] |= {"B-ORG": 7, "I-ORG": 8}
    tensors.write(rows, folder, "rows")
    state = tensors.load(folder, "state_dict")
    head = {"output_layer_2": {3: CONFIG["labels_num"]}}
    state = tensors.weights(state, SIZES, n_layers=2, named=head)
    tensors.store(state, folder, "state_dict")
    tagger = tensors.load(folder, "tagger_head")
    tensors.store(tensors.weights(tagger, SIZES | {7: 9}, n_layers=2), folder, "tagger_head")
    tensors.store(inputs_of(folder), folder, "inputs")
    for name, dtype in (("outputs", torch.float32), ("outputs_float64", torch.float64)):
        tensors.store(outputs_of(folder, dtype), folder, name)
    model, batch = parity.model_of(folder), parity.batch_of(folder, "classification")
    model(batch).losses["class"].backward()
    tensors.store(parity.gradients_of(model, keys.CLASSIFIER), folder, "grads")


def inputs_of(folder: Path) -> dict[str, Tensor]:
    results = {}
    for name, prefix in (("classification", ""), ("ner", "ner_")):
        batch = parity.batch_of(folder, name)
        eye = torch.eye(batch.node_ids.shape[1], dtype=torch.bool)
        seen = batch.visibility.mask & ~(eye & ~batch.node_mask[:, None])
        fields = {
            "token_ids": batch.node_ids,
            "mask": batch.segment_ids + batch.node_mask.long(),
            "soft_position": batch.positions,
            "visible_matrix": seen.long(),
        }
        if name == "ner":
            fields["labels"] = batch.node_labels.where(batch.node_labels != IGNORE, 0)
            fields["segment_tag"] = batch.node_kinds
        else:
            fields["labels"] = batch.labels
        results |= tensors.with_prefix(fields, prefix)
    return results


def outputs_of(folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    model, batch = parity.model_of(folder).to(dtype), parity.batch_of(folder, "classification")
    results: dict[str, Tensor] = {}
    layers = model.encoder.host.encoder.layer
    attended: list[Tensor] = []
    hooks = [
        layer.attention.output.dense.register_forward_hook(lambda _m, _i, out: attended.append(out))
        for layer in layers
    ]
    with torch.no_grad():
        states = model.encoder(batch).hidden_states
    for hook in hooks:
        hook.remove()
    results["embedding_output"] = states[0]
    for i, (inner, hidden) in enumerate(zip(attended, states[1:], strict=True)):
        results |= {f"layer.{i}.attn_output": inner, f"layer.{i}.hidden": hidden}
    for pooling in POOLINGS:
        model.head.pooling = pooling
        output = model(batch)
        results[f"logits.{pooling}"] = output.class_logits
        results[f"loss.{pooling}"] = output.losses["class"]
    model.head.pooling = "first"
    for name, running in (("logits.no_vm", False), ("logits.no_vm_hard_pos", True)):
        results[name] = model(parity.without_matrix(batch, running=running)).class_logits
    return results | tagger_outputs(parity.model_of(folder, head="tagger").to(dtype), folder)


def tagger_outputs(model: KnowledgeForTask, folder: Path) -> dict[str, Tensor]:
    batch = parity.batch_of(folder, "ner")
    output = model(batch)
    n_asked = (batch.node_labels != IGNORE).sum()
    loss = output.losses["class"] * n_asked / (n_asked + 1e-6)
    loss.backward()
    chosen = output.class_logits.argmax(2)
    grads = parity.gradients_of(model, keys.TAGGER)
    stored = ("encoder.transformer.0.layer_norm_1.gamma", "output_layer.weight")
    return {
        "ner.logits": output.class_logits,
        "ner.loss": loss,
        "ner.predict": chosen.flatten(),
        "ner.correct": (chosen == batch.node_labels).sum().float(),
        **{f"ner.grad:{name}": grads[name] for name in stored},
    }
