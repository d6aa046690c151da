"""CoLAKE's model half against the numbers of the original implementation.

Padded nodes see all real nodes in the original and only themselves here, so a whole forward pass is
compared at real nodes; `run` and the heads are compared at all nodes, with the original's mask.
Both attention paths of the host are compared. The tolerance is that of float32 sums in another
order: measured differences stay below 8e-6.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from kept import hosts
from kept.batches import IGNORE, N_SPECIAL_ROWS, KnowledgeBatch, Visibility
from kept.batches.visibility import derived
from kept.convert import colake as keys
from kept.convert.tables import to_original, to_ours
from kept.graphs.graph import NodeKind
from kept.objectives.model import KnowledgeForPreTraining
from kept.outputs import KnowledgeOutput
from kept.training.row_adam import RowAdam

METHOD = "colake"
ATOL = 2e-5
AT_PADDING = 5e-3
"""A padded node sees none: the original adds -10000 to all of its scores, which float32 rounds."""
BLOCKS = {
    "word_logits": (NodeKind.WORD, "word_pred"),
    "ent_logits": (NodeKind.ENTITY, "entity_pred"),
    "rel_logits": (NodeKind.RELATION, "relation_pred"),
}


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(folder: Path, request: pytest.FixtureRequest) -> KnowledgeForPreTraining:
    config = json.loads((folder / "config.json").read_text())
    ours = keys.original_config(
        host=config["model"],
        n_entities=config["num_ent"] - N_SPECIAL_ROWS,
        n_relations=config["num_rel"] - N_SPECIAL_ROWS,
    )
    result = keys.from_original(load(folder, "state_dict"), ours).eval()
    result.set_attn_implementation(request.param)
    assert result.encoder.host.config._attn_implementation == request.param
    return result


def kinds_of(inputs: dict[str, Tensor]) -> Tensor:
    """The blocks of a collated batch: words, entities, relations."""
    kinds = torch.full_like(inputs["input_ids"], int(NodeKind.RELATION))
    n_words, n_entities = int(inputs["n_word_nodes"][0]), int(inputs["n_entity_nodes"][0])
    kinds[:, : n_words + n_entities] = int(NodeKind.ENTITY)
    kinds[:, :n_words] = int(NodeKind.WORD)
    return kinds


def batch_of(inputs: dict[str, Tensor]) -> KnowledgeBatch:
    """An original batch in our form: a node is real where some query sees its column."""
    kinds, visible = kinds_of(inputs), inputs["attention_mask"].bool()
    real = visible.any(dim=1)
    eye = torch.eye(visible.shape[1], dtype=torch.bool)
    labels = sampled = None
    if "masked_lm_labels" in inputs:
        sampled = inputs["ent_index"][0]
        slots = inputs["ent_masked_lm_labels"]
        rows = sampled[slots.clamp(min=0)].where(slots >= 0, IGNORE)
        others = [inputs[f"{name}_labels"] for name in ("masked_lm", "rel_masked_lm")]
        word, relation = (value.where(value >= 0, IGNORE) for value in others)
        labels = torch.cat([word, rows, relation], dim=1)
    return KnowledgeBatch(
        node_ids=inputs["input_ids"],
        node_kinds=kinds,
        node_mask=real,
        positions=inputs["position_ids"],
        segment_ids=torch.zeros_like(kinds),
        visibility=Visibility((visible & real[:, :, None]) | eye),
        node_labels=labels,
        sampled_entities=sampled,
        labels=inputs.get("target"),
    )


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def test_states_logits_and_losses(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    inputs, expected = load(folder, "inputs"), load(folder, "outputs")
    batch = batch_of(inputs)
    with torch.no_grad():
        output = model(batch)
        whole = hosts.run(model.encoder.host, expected["embedding_output"], visibility_of(inputs))
    real = batch.node_mask
    names = ["embedding_output", *(f"hidden_states.{i}" for i in range(1, len(whole)))]
    assert sum(name.startswith("hidden_states.") for name in expected) == len(whole) - 1
    for name, ours, anywhere in zip(names, output.hidden_states, whole, strict=True):
        compared.close(f"real {name}", ours[real], expected[name][real], atol=ATOL)
        compared.close(name, anywhere[real], expected[name][real], atol=ATOL)
        compared.close(name, anywhere[~real], expected[name][~real], atol=AT_PADDING)
    for name, value in logits_of(model, whole[-1], batch).items():
        kind, best = BLOCKS[name]
        is_kind = real[batch.node_kinds == kind].view(len(value), -1)
        actual, theirs = value.detach(), expected[name]
        compared.close(name, actual[is_kind], theirs[is_kind], atol=ATOL)
        compared.close(name, actual[~is_kind], theirs[~is_kind], atol=AT_PADDING)
        predicted = actual.argmax(-1)[is_kind]
        compared.equal(best, predicted.tolist(), expected[best][is_kind].tolist())
    losses = output.losses
    for name, theirs in (("word", "masked_lm"), ("entity", "ent_masked_lm")):
        compared.close(theirs, losses[name], expected[f"{theirs}_loss"], atol=ATOL)
    compared.close("rel_masked_lm", losses["relation"], expected["rel_masked_lm_loss"], atol=ATOL)
    compared.close("loss", sum(losses.values()), expected["loss"], atol=2 * ATOL)


def visibility_of(inputs: dict[str, Tensor]) -> Visibility:
    """The original's mask, whose padded nodes do not see themselves."""
    return derived(Visibility, {"mask": inputs["attention_mask"].bool()})


def logits_of(
    model: KnowledgeForPreTraining, states: Tensor, batch: KnowledgeBatch
) -> dict[str, Tensor]:
    """The three heads over their whole blocks."""
    encoder, objective = model.encoder, model.objectives["masked_nodes"]
    blocks = {
        kind: states[batch.node_kinds == kind].view(len(states), -1, states.shape[-1])
        for kind in NodeKind
    }
    return {
        "word_logits": objective.word_logits(
            blocks[NodeKind.WORD], hosts.word_table(encoder.host).weight
        ),
        "ent_logits": objective.entity_logits(
            blocks[NodeKind.ENTITY], encoder.entity_embeddings(batch.sampled_entities)
        ),
        "rel_logits": objective.relation_logits(
            blocks[NodeKind.RELATION], encoder.relation_embeddings.weight
        ),
    }


def test_extended_mask(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    """Our mask keeps what the original adds 0 to; it adds -10000 to the rest."""
    visible = visibility_of(load(folder, "inputs"))
    expected = load(folder, "outputs")["extended_attention_mask"]
    assert set(expected.unique().tolist()) == {0.0, -10000.0}
    kept = hosts.attention_mask(model.encoder.host, visible)
    if kept.dtype != torch.bool:  # the eager path adds it
        assert set(kept.unique().tolist()) == {0.0, torch.finfo(torch.float32).min}
        kept = kept == 0
    compared.equal("extended_attention_mask", kept.tolist(), (expected == 0).tolist())


def test_batch_without_relations(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    inputs = part(load(folder, "inputs"), "no_relation_batch.")
    expected = part(load(folder, "outputs"), "no_relation_batch.")
    batch = batch_of(inputs)
    with torch.no_grad():
        output = model(batch)
        compared.close("NaN", sum(output.losses.values()), expected["loss"], atol=ATOL)
        model.objectives["masked_nodes"].empty_loss = "zero"
        try:
            zero = model(batch).losses
        finally:
            model.objectives["masked_nodes"].empty_loss = "nan"
        logits = logits_of(model, output.node_states, batch)
    assert torch.isnan(expected["loss"])
    assert float(zero["relation"]) == 0.0
    assert all(torch.isfinite(loss) for loss in zero.values())
    kinds = {"word_logits": NodeKind.WORD, "ent_logits": NodeKind.ENTITY}
    for name, value in logits.items():
        kind = kinds.get(name, NodeKind.RELATION)
        real = batch.node_mask[batch.node_kinds == kind].view(len(value), -1)
        compared.close(f"no relation {name}", value[real], expected[name][real], atol=ATOL)


def test_gradients(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    expected = load(folder, "grads")
    batch = batch_of(load(folder, "inputs"))
    table = model.encoder.entity_embeddings.weight
    model.zero_grad()
    sum(model(batch).losses.values()).backward()
    ours = {
        name: value.grad.to_dense() if value.grad.is_sparse else value.grad
        for name, value in model.named_parameters()
        if value.grad is not None
    }
    theirs = to_ours(
        {k: v for k, v in expected.items() if ".pull" not in k},
        keys.PRETRAINING,
        keys.PRETRAINING_TIED,
    )
    assert theirs.keys() <= ours.keys()  # they may be stored for a part of the parameters
    for name, value in theirs.items():
        compared.close(f"gradient of {name}", ours[name], value, atol=ATOL)
    assert (ours["encoder.host.embeddings.position_embeddings.weight"][1] == 0).all()

    # The original pulls entity rows twice: as input, then as candidates.
    states = KnowledgeOutput(model.encoder(batch).node_states.detach())
    losses = model.objectives["masked_nodes"](states, batch, model.encoder)
    (pull1,) = torch.autograd.grad(sum(losses.values()), table)
    rows1 = pull1.coalesce().indices()[0]
    pulled = batch.node_ids[batch.node_kinds == NodeKind.ENTITY].unique()
    pull0 = ours["encoder.entity_embeddings.weight"] - pull1.to_dense()
    pulls = {"pull0": pull0, "pull1": pull1.to_dense(), "pull0_rows": pulled, "pull1_rows": rows1}
    for name, value in pulls.items():
        if (theirs_of := expected.get(f"entity_embeddings.{name}")) is None:
            continue
        if name.endswith("rows"):
            compared.equal(name, value.tolist(), theirs_of.tolist())
        else:
            compared.close(name, value, theirs_of, atol=ATOL)


def test_key_table_round_trip(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    original = load(folder, "state_dict")
    back = to_original(model.state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED)
    compared.equal("names", sorted(back), sorted(original))
    assert save({k: v.clone() for k, v in back.items()}) == save(original)


def test_sparse_adam(folder: Path, compared: Any) -> None:
    """The original's server: two pushes a batch, each a step of one global counter."""
    expected = load(folder, "sparse_adam")
    settings = json.loads((folder / "config.json").read_text())["ent_optimizer"]
    table = torch.nn.Parameter(expected["before.table"].clone())
    optimizer = RowAdam(
        [table],
        lr=settings["lr"],
        betas=tuple(settings["betas"]),
        eps=settings["eps"],
        counter="global",
    )
    for update in range(2):
        for push in range(2):
            rows, values = expected[f"push{push}.rows"], expected[f"push{push}.grad"]
            table.grad = torch.sparse_coo_tensor(
                rows[None], values, table.shape, check_invariants=True
            )
            optimizer.step()
        after = part(expected, f"after_update{update}.")
        state = optimizer.state[table]
        compared.close("table", table.detach(), after["table"], atol=2e-7, rtol=2e-7)
        compared.close("exp_avg", state["exp_avg"], after["exp_avg"], atol=1e-9, rtol=1e-6)
        compared.close(
            "exp_avg_sq", state["exp_avg_sq"], after["exp_avg_sq"], atol=1e-10, rtol=1e-6
        )
        compared.equal("step", state["step"].item(), after["step"][0].item())
