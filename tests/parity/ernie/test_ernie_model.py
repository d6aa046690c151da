"""ERNIE's model half against the numbers of the original implementation.

Padded nodes see all real nodes in the original. `KnowledgeBatch` lets them see themselves, so whole
outputs are compared at real nodes, and at every node through `ERNIE.run` with the original's mask.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from kept import hosts
from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Visibility
from kept.convert import ernie as keys
from kept.convert.tables import to_original, to_ours
from kept.encoders.loading import load_strictly
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import MULTI, SINGLE

METHOD = "ernie"
ATOL = 2e-5


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def settings(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return result


def model_of(folder: Path) -> KnowledgeForPreTraining:
    """The pre-training model; row 0 of the original's table is the zero vector of no entity."""
    table = load(folder, "inputs")["entity_table"]
    assert not table[0].any()
    config = keys.original_config(settings(folder), n_entities=len(table) - 1, width=table.shape[1])
    return keys.from_original(load(folder, "state_dict"), config, table[1:]).eval()


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(folder: Path, request: pytest.FixtureRequest) -> KnowledgeForPreTraining:
    loaded = model_of(folder)
    loaded.set_attn_implementation(request.param)
    assert loaded.encoder.host.config._attn_implementation == request.param
    return loaded


def rows(ids: Tensor) -> Tensor:
    """Our rows for the original's entity ids, where -1 is none."""
    return (ids + N_SPECIAL_ROWS).where(ids >= 0, PAD_ROW)


def labels(values: Tensor) -> Tensor:
    return values.where(values >= 0, IGNORE)


def batch_of(inputs: dict[str, Tensor]) -> KnowledgeBatch:
    """An original batch in our form."""
    real = inputs["attention_mask"].bool()
    n_batch, n_node = real.shape
    eye = torch.eye(n_node, dtype=torch.bool)
    batch = KnowledgeBatch(
        node_ids=inputs["input_ids"],
        node_kinds=torch.zeros_like(inputs["input_ids"]),
        node_mask=real,
        positions=torch.arange(n_node).repeat(n_batch, 1),
        segment_ids=inputs["token_type_ids"],
        visibility=Visibility(real[:, None, :] | eye),
        entity_ids=rows(inputs["ent_ids"] if "ent_ids" in inputs else inputs["ent_ids_corrupted"]),
    )
    if "masked_lm_labels" not in inputs:
        return batch
    original = rows(inputs["ent_ids_original"])
    return dataclasses.replace(
        batch,
        node_labels=labels(inputs["masked_lm_labels"]),
        pair_labels=inputs["next_sentence_label"][:, 0],
        entity_labels=original.where(inputs["ent_labels"] >= 0, IGNORE),
        sampled_entities=torch.cat(
            [torch.tensor([PAD_ROW]), original[original >= N_SPECIAL_ROWS].unique()]
        ),
    )


def test_inputs_mean_what_we_think(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    inputs = load(folder, "inputs")
    batch = batch_of(inputs)
    encoder = model.encoder
    compared.close("input_ent", encoder.slots(batch.entity_ids), inputs["input_ent"], atol=0)
    candidates = encoder.slots(batch.sampled_entities[None])[0]
    compared.close("candidate", candidates, inputs["candidate"], atol=0)
    is_slot = (batch.entity_ids >= N_SPECIAL_ROWS) | (batch.positions == 0)
    compared.equal("ent_mask", is_slot.long().tolist(), inputs["ent_mask"].tolist())


def test_states_logits_and_losses(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    inputs, expected = load(folder, "inputs"), load(folder, "outputs")
    batch, encoder = batch_of(inputs), model.encoder
    with torch.no_grad():
        output = model(batch)
        words, entities = encoder.run(
            expected["embedding_output"],
            inputs["input_ent"],
            Visibility.of_real(batch.node_mask),
            inputs["ent_mask"].bool(),
        )
    real = batch.node_mask
    names = [f"layer.{i}.hidden" for i in range(len(words) - 1)]
    assert {f"{n}{e}" for n in names for e in ("", "_ent")} == {
        n for n in expected if n.startswith("layer.")
    }
    for name, ours, anywhere in zip(
        ["embedding_output", *names], output.hidden_states, words, strict=True
    ):
        compared.close(f"real {name}", ours[real], expected[name][real], atol=ATOL)
        compared.close(name, anywhere, expected[name], atol=ATOL)
    for name, slots in zip(names, entities[1:], strict=True):
        compared.close(f"{name}_ent", slots, expected[f"{name}_ent"], atol=ATOL)
    compared.close(
        "entity_states", output.entity_states[real], expected[f"{names[-1]}_ent"][real], atol=ATOL
    )
    compared.close("sequence_output", words[-1], expected["sequence_output"], atol=ATOL)
    pooled = hosts.pooled(encoder.host, output.node_states)
    compared.close("pooled_output", pooled.detach(), expected["pooled_output"], atol=ATOL)
    with torch.no_grad():
        ours = logits_of(model, words[-1], batch)
    for name, value in ours.items():
        compared.close(name, value, expected[name], atol=5e-5)
    losses = output.losses
    for name, theirs in (("mlm", "loss_mlm"), ("nsp", "loss_nsp"), ("dea", "loss_ent")):
        compared.close(theirs, losses[name], expected[theirs], atol=ATOL)
    compared.close("loss_total", sum(losses.values()), expected["loss_total"], atol=2 * ATOL)
    compared.close(
        "loss_original", losses["mlm"] + losses["nsp"], expected["loss_original"], atol=2 * ATOL
    )


def logits_of(
    model: KnowledgeForPreTraining, states: Tensor, batch: KnowledgeBatch
) -> dict[str, Tensor]:
    """The three heads over all nodes."""
    encoder, objectives = model.encoder, model.objectives
    return {
        "mlm_logits": objectives["mlm"].logits(states, hosts.word_table(encoder.host).weight),
        "nsp_logits": objectives["nsp"].classes(hosts.pooled(encoder.host, states)),
        "ent_logits": objectives["dea"].entity_logits(
            states, encoder.slots(batch.sampled_entities[None])[0]
        ),
    }


def test_gradients(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    """All stored gradients; the entity output of the last layer has none, the vectors neither."""
    info = json.loads((folder / "grads_info.json").read_text())
    model.zero_grad()
    sum(model(batch_of(load(folder, "inputs"))).losses.values()).backward()
    rules = keys.pretraining_rules(model.config.layer_types)
    ours = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    theirs = to_ours(load(folder, "grads"), rules)
    assert theirs.keys() <= ours.keys()  # they may be stored for a part of the parameters
    compared.equal("stored", sorted(load(folder, "grads")), sorted(info["stored"]))
    for name, value in theirs.items():
        compared.close(f"gradient of {name}", ours[name], value, atol=ATOL)
    silent = {n for n, p in model.named_parameters() if p.grad is None} - {keys.VECTORS}
    unused = {name.removeprefix("encoder.") for name in silent}
    assert all(name.startswith(model.encoder.unused) for name in unused)
    back = to_original({n: torch.zeros(1) for n in silent}, rules)
    compared.equal("no gradient", sorted(back), sorted(info["params_without_gradient"]))


def test_key_table_round_trip(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    original = load(folder, "state_dict")
    state = {k: v for k, v in model.state_dict().items() if k != keys.VECTORS}
    back = to_original(state, keys.pretraining_rules(model.config.layer_types), keys.TIED)
    compared.equal("names", sorted(back), sorted(original))
    assert save({k: v.clone() for k, v in back.items()}) == save(original)


@pytest.mark.parametrize("name", ["typing", "relation"])
def test_heads(folder: Path, compared: Any, name: str) -> None:
    """The fine-tuning models: logits, loss and the stored gradients."""
    body, inputs = model_of(folder).encoder, load(folder, "heads_inputs")
    expected, weights = load(folder, "heads_outputs"), load(folder, "heads_state_dict")
    typing = name == "typing"
    targets = inputs[f"{name}_labels"]
    n_classes = targets.shape[1] if typing else len(weights["relation:classifier.bias"])
    assert json.loads((folder / "heads_config.json").read_text())[f"num_labels_{name}"] == n_classes
    model = KnowledgeForTask.of(
        body,
        "pooled",
        [f"c{i}" for i in range(n_classes)],
        problem_type=MULTI if typing else SINGLE,
        bias=not typing,
    ).eval()
    rules = (
        *keys.encoder_rules(body.config.layer_types),
        *(keys.TYPING if typing else keys.RELATION),
    )
    of_part = {
        k.removeprefix(f"{name}:"): v for k, v in weights.items() if k.startswith(f"{name}:")
    }
    load_strictly(model, {**model.state_dict(), **to_ours(of_part, rules)})
    batch = dataclasses.replace(batch_of(inputs), labels=targets)
    compared.close("heads input_ent", body.slots(batch.entity_ids), inputs["input_ent"], atol=0)
    output = model(batch)
    compared.close(
        f"{name}.logits", output.class_logits.detach(), expected[f"{name}.logits"], atol=ATOL
    )
    compared.close(
        f"{name}.loss", output.losses["class"].detach(), expected[f"{name}.loss"], atol=ATOL
    )
    output.losses["class"].backward()
    actual = to_original(
        {n: p.grad for n, p in model.named_parameters() if p.grad is not None}, rules
    )
    grads = {k: v for k, v in expected.items() if k.startswith(f"{name}.grad:")}
    assert grads
    for key, value in grads.items():
        compared.close(key, actual[key.partition(":")[2]], value, atol=ATOL)
