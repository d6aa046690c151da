"""ERNIE with three layers of width 36, three heads, entity vectors of 60, and batches of four."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept import hosts
from kept.batches import Visibility
from kept.convert import ernie as keys
from kept.convert.tables import to_original, to_ours
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import MULTI, SINGLE
from tests.parity.ernie import test_ernie_model as parity
from tests.parity.other_sizes import tensors

WIDTH, N_TYPES, N_RELATIONS = 60, 6, 5
SIZES = {48: 36, 96: 52, 120: 131, 64: 70, 100: WIDTH}
MODEL = {
    "vocab_size": 131, "hidden_size": 36, "num_hidden_layers": 3, "num_attention_heads": 3,
    "intermediate_size": 52, "max_position_embeddings": 70, "layer_types": ["sim", "mix", "norm"],
}  # fmt: skip
LOSSES = {"mlm": "loss_mlm", "nsp": "loss_nsp", "dea": "loss_ent"}
TABLES = ("candidate", "entity_table", "input_ent")


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | MODEL, folder, "config")
    cases = tensors.read(folder, "alignment")
    tensors.write(cases | {"cases": cases["cases"][1:]}, folder, "alignment")
    state = tensors.load(folder, "state_dict")
    state = tensors.weights(state, SIZES, n_layers=3, tied=keys.TIED)
    tensors.store(state, folder, "state_dict")
    change_inputs(folder)
    model = parity.model_of(folder)
    tensors.store(outputs_of(model, folder), folder, "outputs")
    change_gradients(model, folder)
    change_heads(folder)


def change_inputs(folder: Path) -> None:
    inputs = tensors.load(folder, "inputs")
    n_rows = len(inputs["entity_table"]) + 3
    table = torch.randn(n_rows, WIDTH, generator=torch.Generator().manual_seed(2)) * 0.2
    table[0] = 0
    for name in ("inputs", "heads_inputs"):
        inputs = tensors.load(folder, name)
        inputs = tensors.one_more({k: v for k, v in inputs.items() if k not in TABLES})
        ids = inputs.get("ent_ids_corrupted", inputs.get("ent_ids"))
        inputs["input_ent"] = table[ids + 1]
        if name == "inputs":
            known = inputs["ent_ids_original"]
            candidates = torch.cat([torch.tensor([-1]), known[known >= 0].unique()])
            inputs |= {"candidate": table[candidates + 1], "entity_table": table}
        else:
            inputs["typing_labels"] = inputs["typing_labels"][:, :N_TYPES]
            inputs["relation_labels"] %= N_RELATIONS
        tensors.store(inputs, folder, name)


@torch.no_grad()
def outputs_of(model: KnowledgeForPreTraining, folder: Path) -> dict[str, Tensor]:
    inputs = tensors.load(folder, "inputs")
    batch, encoder = parity.batch_of(inputs), model.encoder
    seen = Visibility.of_real(batch.node_mask)
    output = model(batch)
    words, entities = encoder.run(
        output.hidden_states[0], inputs["input_ent"], seen, inputs["ent_mask"].bool()
    )
    results = {"embedding_output": output.hidden_states[0], "sequence_output": words[-1]}
    for i, (word, entity) in enumerate(zip(words[1:], entities[1:], strict=True)):
        results |= {f"layer.{i}.hidden": word, f"layer.{i}.hidden_ent": entity}
    results |= parity.logits_of(model, words[-1], batch)
    results["pooled_output"] = hosts.pooled(encoder.host, output.node_states)
    losses = {theirs: output.losses[ours] for ours, theirs in LOSSES.items()}
    return (
        results
        | losses
        | {
            "loss_total": sum(losses.values()),
            "loss_original": losses["loss_mlm"] + losses["loss_nsp"],
        }
    )  # type: ignore[return-value]


def change_gradients(model: KnowledgeForPreTraining, folder: Path) -> None:
    model.zero_grad()
    batch = parity.batch_of(tensors.load(folder, "inputs"))
    torch.stack(list(model(batch).losses.values())).sum().backward()
    rules = keys.pretraining_rules(model.config.layer_types)
    named = {n: p.grad for n, p in model.named_parameters()}
    grads = to_original({n: g for n, g in named.items() if g is not None}, rules)
    silent = {n: torch.zeros(1) for n, g in named.items() if g is None and n != keys.VECTORS}
    tensors.store(grads, folder, "grads")
    info = {"stored": sorted(grads), "params_without_gradient": sorted(to_original(silent, rules))}
    tensors.write(tensors.read(folder, "grads_info") | info, folder, "grads_info")


def change_heads(folder: Path) -> None:
    sizes = {"num_labels_typing": N_TYPES, "num_labels_relation": N_RELATIONS}
    tensors.write(sizes, folder, "heads_config")
    state = tensors.load(folder, "heads_state_dict")
    state = tensors.weights(state, SIZES | {9: N_TYPES, 7: N_RELATIONS}, n_layers=3)
    tensors.store(state, folder, "heads_state_dict")
    stored = [
        name.replace("layer.3.", "layer.2.") for name in tensors.load(folder, "heads_outputs")
    ]
    results: dict[str, Tensor] = {}
    for name, head, kind in (("typing", keys.TYPING, MULTI), ("relation", keys.RELATION, SINGLE)):
        results |= head_outputs(folder, name, head, kind, tensors.part(state, f"{name}:"))
    tensors.store({key: results[key] for key in stored}, folder, "heads_outputs")


def head_outputs(
    folder: Path, name: str, head: Any, kind: str, state: dict[str, Tensor]
) -> dict[str, Tensor]:
    body, inputs = parity.model_of(folder).encoder, tensors.load(folder, "heads_inputs")
    n_classes = {"typing": N_TYPES, "relation": N_RELATIONS}[name]
    classes = [f"c{i}" for i in range(n_classes)]
    model = KnowledgeForTask.of(
        body, "pooled", classes, problem_type=kind, bias=name == "relation"
    ).eval()
    rules = (*keys.encoder_rules(body.config.layer_types), *head)
    model.load_state_dict(model.state_dict() | to_ours(state, rules))
    batch = dataclasses.replace(parity.batch_of(inputs), labels=inputs[f"{name}_labels"])
    output = model(batch)
    output.losses["class"].backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {
        f"{name}.logits": output.class_logits,
        f"{name}.loss": output.losses["class"],
        **tensors.with_prefix(to_original(grads, rules), f"{name}.grad:"),
    }
