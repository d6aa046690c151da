"""CoLAKE with two layers of width 36, three heads and larger tables; shorter lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.convert import colake as keys
from kept.convert.tables import to_original
from kept.graphs.graph import NodeKind
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.outputs import KnowledgeOutput
from kept.training.row_adam import RowAdam
from tests.parity.colake import test_colake_finetuning as finetuning
from tests.parity.colake import test_colake_model as parity
from tests.parity.other_sizes import tensors
from tests.reference.original_colake_heads import for_classification
from tests.reference.original_colake_samples import collate, entity_vocabulary, label_vocabulary

SIZES = {48: 36, 96: 52, 120: 131, 40: 45, 11: 14, 80: 90}
MODEL = {
    "vocab_size": 131, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 52, "max_position_embeddings": 90,
}  # fmt: skip
TIED = ("lm_head.decoder.weight", "lm_head.decoder.bias", "rel_lm_head.decoder.weight",
        "rel_lm_head.decoder.bias")  # fmt: skip
HEADS = {"word_logits": "word_pred", "ent_logits": "entity_pred", "rel_logits": "relation_pred"}
LOSSES = {"word": "masked_lm", "entity": "ent_masked_lm", "relation": "rel_masked_lm"}


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    config = tensors.read(folder, "config")
    config |= {"model": config["model"] | MODEL, "num_ent": 45, "num_rel": 14}
    config["ent_optimizer"]["lr"] = 0.002
    tensors.write(config, folder, "config")
    tied = [(config["tied"][name], name) for name in TIED]
    state = tensors.weights(tensors.load(folder, "state_dict"), SIZES, n_layers=2, tied=tied)
    tensors.store(state, folder, "state_dict")
    for name, list_name in (("graph", "masking_calls"), ("lama", "rows")):
        whole = tensors.read(folder, name)
        tensors.write(whole | {list_name: whole[list_name][:-3]}, folder, name)
    model = keys.from_original(state, config_of(config)).eval()
    tensors.store(outputs_of(model, folder), folder, "outputs")
    tensors.store(gradients_of(model, tensors.load(folder, "inputs")), folder, "grads")
    tensors.store(updates(config["ent_optimizer"]), folder, "sparse_adam")
    finetune(model, folder)


def config_of(config: dict[str, Any]) -> Any:
    return keys.original_config(
        host=config["model"],
        n_entities=config["num_ent"] - N_SPECIAL_ROWS,
        n_relations=config["num_rel"] - N_SPECIAL_ROWS,
    )


@torch.no_grad()
def outputs_of(model: KnowledgeForPreTraining, folder: Path) -> dict[str, Tensor]:
    inputs, result = tensors.load(folder, "inputs"), {}
    for prefix in ("", "no_relation_batch."):
        loaded = tensors.part(inputs, prefix)
        batch = parity.batch_of(loaded)
        output = model(batch)
        visible = parity.visibility_of(loaded)
        states = hosts.run(model.encoder.host, output.hidden_states[0], visible)
        results = {f"hidden_states.{i}": value for i, value in enumerate(states) if i}
        results["embedding_output"] = output.hidden_states[0]
        for name, value in parity.logits_of(model, states[-1], batch).items():
            results |= {name: value, HEADS[name]: value.argmax(-1)}
        results |= {f"{theirs}_loss": output.losses[ours] for ours, theirs in LOSSES.items()}
        results["loss"] = torch.stack(list(output.losses.values())).sum()
        results["extended_attention_mask"] = (1 - visible.mask[:, None].float()) * -10000
        result |= tensors.with_prefix(results, prefix)
    return result


def gradients_of(model: KnowledgeForPreTraining, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of the entity table also in its two parts, as input and as candidates."""
    batch = parity.batch_of(inputs)
    model.zero_grad()
    torch.stack(list(model(batch).losses.values())).sum().backward()
    ours = {
        name: value.grad.to_dense() if value.grad.is_sparse else value.grad
        for name, value in model.named_parameters()
        if value.grad is not None
    }
    result = to_original(ours, keys.PRETRAINING, keys.PRETRAINING_TIED)
    states = KnowledgeOutput(model.encoder(batch).node_states.detach())
    losses = model.objectives["masked_nodes"](states, batch, model.encoder)
    table = model.encoder.entity_embeddings.weight
    (pull,) = torch.autograd.grad(torch.stack(list(losses.values())).sum(), table)
    result["entity_embeddings.pull1"] = pull.to_dense()
    result["entity_embeddings.pull1_rows"] = pull.coalesce().indices()[0]
    result["entity_embeddings.pull0"] = result["entity_embeddings"] - pull.to_dense()
    entities = batch.node_ids[batch.node_kinds == NodeKind.ENTITY]
    result["entity_embeddings.pull0_rows"] = entities.unique()
    return result


def updates(settings: dict[str, Any]) -> dict[str, Tensor]:
    draws = torch.Generator().manual_seed(1)
    table = torch.nn.Parameter(torch.randn(45, 36, generator=draws))
    results = {"before.table": table.detach().clone()}
    options = {"lr": settings["lr"], "betas": tuple(settings["betas"]), "eps": settings["eps"]}
    optimizer = RowAdam([table], **options, counter="global")
    for push, n_rows in enumerate((7, 12)):
        results[f"push{push}.rows"] = torch.randperm(45, generator=draws)[:n_rows].sort().values
        results[f"push{push}.grad"] = torch.randn(n_rows, 36, generator=draws)
    for update in range(2):
        for push in range(2):
            rows, values = results[f"push{push}.rows"], results[f"push{push}.grad"]
            table.grad = torch.sparse_coo_tensor(
                rows[None], values, table.shape, check_invariants=True
            )
            optimizer.step()
        state = optimizer.state[table]
        after = {"table": table.detach().clone(), "step": torch.full((45,), state["step"].item())}
        after |= {name: state[name].clone() for name in ("exp_avg", "exp_avg_sq")}
        results |= tensors.with_prefix(after, f"after_update{update}.")
    return results


# ---- fine-tuning ---------------------------------------------------------------------------------
def finetune(pretrained: KnowledgeForPreTraining, folder: Path) -> None:
    """Batches of three examples where there were four."""
    tasks = tensors.read(folder, "finetune")
    for task, facts in tasks.items():
        n_new = facts["word_vocab_after_resize"] - 120
        facts["word_vocab_after_resize"] = MODEL["vocab_size"] + n_new
        kept = "taken_unchanged_from_state_dict.safetensors"
        facts[kept] = [name for name in facts[kept] if "layer.2." not in name]
        model = task_model(pretrained, facts, task, n_new)
        names = tensors.load(folder, f"{task}_state_dict")
        encoder_state = {
            k: v for k, v in model.state_dict().items() if "relation_embeddings" not in k
        }
        state = to_original(encoder_state, *finetuning.RULES[task])
        tensors.store({name: state[name] for name in names}, folder, f"{task}_state_dict")
        batch = batch_of(facts, multi_label=task == "typing")
        tensors.store(inputs_of(batch), folder, f"{task}_inputs")
        tensors.store(task_outputs(model, batch, task), folder, f"{task}_outputs")
    tensors.write(tasks, folder, "finetune")


def task_model(
    pretrained: KnowledgeForPreTraining, facts: dict[str, Any], task: str, n_new_words: int
) -> KnowledgeForTask:
    result = for_classification(
        pretrained,
        labels=list(facts["label_vocab"]),
        transform_from="relation" if task == "re" else "entity",
        multi_label=task == "typing",
        relation_rows=facts["rel_rows_for_head"],
        entity_rows=facts["entity_rows"],
        n_new_words=n_new_words,
    )
    return result.eval()


def batch_of(facts: dict[str, Any], *, multi_label: bool) -> KnowledgeBatch:
    sets = finetuning.sets_of(facts)
    return collate(
        sets["train"][:3],
        entities=entity_vocabulary(*sets.values()),
        labels=label_vocabulary(sets["train"]),
        multi_label=multi_label,
    )


def inputs_of(batch: KnowledgeBatch) -> dict[str, Tensor]:
    sizes = {
        name: (batch.node_kinds == kind).sum(1)
        for name, kind in (("word", NodeKind.WORD), ("entity", NodeKind.ENTITY))
    }
    return {
        "input_ids": batch.node_ids,
        "position_ids": batch.positions,
        "token_type_ids": batch.node_kinds,
        "attention_mask": batch.visibility.mask.long(),
        "target": batch.labels,
        **{f"n_{name}_nodes": size for name, size in sizes.items()},
    }


def task_outputs(model: KnowledgeForTask, batch: KnowledgeBatch, task: str) -> dict[str, Tensor]:
    output = model(batch)
    output.losses["class"].backward()
    grads = {
        name: value.grad
        for name, value in model.named_parameters()
        if value.grad is not None and "relation_embeddings" not in name  # the original has none
    }
    logits = output.class_logits
    return {
        "embedding_output": output.hidden_states[0],
        **{f"hidden_states.{i}": value for i, value in enumerate(output.hidden_states) if i},
        "head_input": output.pooled_state,
        "logits": logits,
        "pred": logits.argmax(-1) if task == "re" else logits,
        "loss": output.losses["class"],
        **tensors.with_prefix(to_original(grads, *finetuning.RULES[task]), "grad."),
    }
