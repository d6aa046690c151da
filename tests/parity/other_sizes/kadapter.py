"""K-Adapter over three layers of width 32, with three modules an adapter in place of two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept import hosts
from kept.batches import Visibility
from kept.convert import kadapter as keys
from kept.convert.tables import to_original
from kept.encoders.kadapter import KAdapter
from kept.heads.model import KnowledgeForTask
from kept.layers.spans import target_states
from kept.objectives.model import KnowledgeForPreTraining
from tests.parity.kadapter import test_kadapter_model as parity
from tests.parity.other_sizes import tensors

SIZES = {48: 32, 96: 64, 24: 15, 40: 20, 110: 121, 14: 17, 7: 6, 9: 8, 42: 11}
HOST = {
    "vocab_size": 121, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 44,
}  # fmt: skip
ADAPTER = {
    "hidden_size": 15, "intermediate_size": 20, "num_attention_heads": 5, "adapter_size": 15,
    "project_hidden_size": 32, "adapter_list": [1, 0, 3], "num_hidden_layers": 1,
}  # fmt: skip
CLASSES = {"trex": 6, "entity_typing": 8, "tacred": 11}
LISTS = (([1, 0, 3], 2), ([1, 0, 3], 1), ([2, 2, 0], 0), ([3, 1, 0], 3))
LIKE = ("concat.fac1.lin1", "concat.fac0.lin1", "add.fac1.lin0")


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    state = state_of(tensors.load(folder, "state_dict"))
    tensors.store(state, folder, "state_dict")
    change_config(folder, state)
    inputs = tensors.one_more(tensors.load(folder, "inputs"))
    for task, n in CLASSES.items():
        labels = inputs[f"{task}.labels"]
        inputs[f"{task}.labels"] = labels[:, :n] if labels.ndim > 1 else labels % n
    tensors.store(inputs, folder, "inputs")
    results: dict[str, Tensor] = {}
    grads: dict[str, Tensor] = {}
    for name in parity.NAMES:
        outputs, gradients = pretrained(folder, name)
        results |= tensors.with_prefix(outputs, f"{name}.")
        grads |= tensors.with_prefix(gradients, f"{name}.")
    for task in parity.TASKS:
        for fusion in ("concat", "sum"):
            prefix = f"{task}.{'add' if fusion == 'sum' else fusion}."
            outputs, gradients = tuned(folder, task, fusion)
            results |= tensors.with_prefix(outputs, prefix)
            grads |= tensors.with_prefix(gradients, prefix)
    tensors.store(results | variants(folder), folder, "outputs")
    tensors.store(grads, folder, "grads")


def state_of(old: dict[str, Tensor]) -> dict[str, Tensor]:
    host = {name: value for name, value in old.items() if name.startswith("host.")}
    rest = {name: value for name, value in old.items() if name not in host}
    rest |= {
        name.replace(".adapter.0.", ".adapter.2."): value
        for name, value in rest.items()
        if ".adapter.0." in name
    }
    positions = {"position_embeddings": {40: HOST["max_position_embeddings"]}}
    result = tensors.weights(host, SIZES, n_layers=3, named=positions)
    return result | tensors.weights(rest, SIZES, n_layers=ADAPTER["num_hidden_layers"])


def change_config(folder: Path, state: dict[str, Tensor]) -> None:
    config = tensors.read(folder, "config")
    config["host"] |= HOST
    config["adapter"] |= ADAPTER
    config |= {"max_seq_length": 17, "n_rel": 6, "et_num_labels": 8, "tacred_num_labels": 11}
    config["skip_variants"] = [variant_of(layers, skip) for layers, skip in LISTS]
    config["like_roberta"] = [{"tensor": f"like_roberta.{name}"} for name in LIKE]
    n_host = sum(name.startswith("host.") for name in state)
    n_adapter = sum(name.startswith("fac.adapter.") for name in state)
    for name, facts in config["frozen"].items():
        _, *parts = name.split("_")
        if name.startswith("pretrain"):
            host_state = tensors.part(state, f"{parts[0]}.")
            facts |= {"host_params": n_host, "adapter_model_trainable": list(host_state)}
        elif "flags" in parts:
            facts["host_trainable"] = n_host if facts["host_trainable"] else 0
            facts["adapter_trainable"] = 2 * n_adapter if facts["adapter_trainable"] else 0
        else:
            facts["host_trainable"] = n_host
    tensors.write(config, folder, "config")
    config["initialisation_of_fac_adapter_model"] = start_of(folder)
    tensors.write(config, folder, "config")


def variant_of(layers: list[int], skip: int) -> dict[str, Any]:
    results = {"adapter_list": layers, "adapter_skip_layers": skip}
    if skip == 1:
        return results | {"error": "IndexError"}
    name = "-".join(map(str, layers))
    return results | {"tensor": f"variant.{name}.skip{skip}.hidden_states_last"}


def start_of(folder: Path) -> dict[str, Any]:
    torch.manual_seed(7)
    encoder = KAdapter(parity.config_of(folder, ["fac"]))
    model = KnowledgeForPreTraining.of(encoder, {"relation_pairs": {}})
    trained_state = {
        k: v for k, v in model.state_dict().items() if not k.startswith("encoder.host.")
    }
    rules = keys.pretraining_rules("factual", parity.n_blocks(folder))
    return {
        name: {
            "shape": list(value.shape),
            "mean_abs": float(value.abs().mean()),
            "std": float(value.std()),
        }
        for name, value in to_original(trained_state, rules).items()
    }


def pretrained(folder: Path, name: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Outputs and gradients of one adapter's pre-training."""
    model = parity.pretraining(folder, name, "eager")
    batch, encoder = parity.batch_of(folder, parity.BATCHES[name]), model.encoder
    objective = model.objectives[keys.OBJECTIVES_OF[parity.NAMES[name]]]
    output = model(batch)
    (loss,) = output.losses.values()
    loss.backward()
    states = output.hidden_states[:-1]
    adapter = encoder.adapters[parity.NAMES[name]]
    results = {f"host.hidden_states.{i}": value for i, value in enumerate(states)}
    for i, step in enumerate(adapter.blockwise(states, Visibility.everyone(*batch.node_ids.shape))):
        steps = {"input": step.input, "down": step.down, "encoder_output": step.inner}
        results |= tensors.with_prefix(steps | {"output": step.output}, f"adapter.{i}.")
    features = objective.features(output)
    results |= {
        "host.last_hidden_state": states[-1],
        "host.pooled": hosts.pooled(encoder.host, states[-1]),
        "com_features": features,
        "loss": loss,
    }
    if name == "fac":
        results["logits"] = objective.logits(features, batch.target_spans)
    else:
        names = ("context_layer", "attention_probs", "logits")
        results |= zip(names, objective.scores(features, batch.node_mask), strict=True)
    grads = {k: v.grad for k, v in model.named_parameters() if v.grad is not None}
    rules = keys.pretraining_rules(parity.NAMES[name], parity.n_blocks(folder))
    return results, to_original(grads, rules)


def tuned(folder: Path, task: str, fusion: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Outputs and gradients of one task; with the host's where the committed file has them."""
    model = parity.task_model(folder, task, fusion, "eager")
    batch = parity.batch_of(folder, parity.BATCHES.get(task, task))
    output = model(batch)
    output.losses["class"].backward()
    pooled = target_states(output.node_states, batch.target_spans).flatten(1)
    results = {
        "pooled_input_of_dense": pooled,
        "dense": model.head.dense(pooled),
        "logits": output.class_logits,
        "loss": output.losses["class"],
    }
    if fusion == "concat":
        host = output.hidden_states[-2]
        each = model.encoder.fusion.each_with_host(host, output.adapter_states)
        results |= {"host.last_hidden_state": host, "task_dense": output.node_states}
        for short, name in parity.NAMES.items():
            results[f"{short}_adapter_output"] = output.adapter_states[name]
            results[f"task_dense_{short}"] = each[name]
    return results, task_gradients(model, with_host=(task, fusion) == ("et", "concat"))


def task_gradients(model: KnowledgeForTask, *, with_host: bool) -> dict[str, Tensor]:
    grads = {k: v.grad for k, v in model.named_parameters() if v.grad is not None}
    host = {k: v for k, v in grads.items() if k.startswith("encoder.host.")}
    selected = {k: v for k, v in grads.items() if k.startswith(("encoder.fusion.", "head."))}
    theirs = to_original(selected, keys.TYPING_OR_RELATION)
    if with_host:
        theirs |= tensors.with_prefix(to_original(host, keys.HOST), "host.")
    return theirs


@torch.no_grad()
def variants(folder: Path) -> dict[str, Tensor]:
    config, result = tensors.read(folder, "config"), {}
    for case in config["skip_variants"]:
        if "tensor" in case:
            layers, skip = case["adapter_list"], case["adapter_skip_layers"]
            options = {"layers": layers, "skip": skip, "fusion": "none"}
            encoder = parity.encoder_of(folder, ["fac"], attention="eager", **options)
            batch = parity.batch_of(folder, "trex")
            result[case["tensor"]] = encoder(batch).adapter_states["factual"]
    for name in LIKE:
        kind, *chosen = name.split(".")
        names = [part[:-1] for part in chosen if part.endswith("1")]
        fusion = {"add": "sum"}.get(kind, kind)
        encoder = parity.encoder_of(folder, names, fusion=fusion, attention="eager")
        batch = parity.batch_of(folder, "entity_typing")
        result[f"like_roberta.{name}"] = encoder(batch).node_states
    return result
