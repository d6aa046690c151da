"""KEPLER with one layer of width 24, three heads, three triples a batch; other questions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, TripleBatch, Visibility
from kept.convert import kepler as keys
from kept.convert import tables
from kept.evaluation.ranking import Filter, rank
from kept.objectives.model import KnowledgeForPreTraining
from tests.parity.kepler import test_kepler as parity
from tests.parity.kepler import test_kepler_completion as completion
from tests.parity.other_sizes import tensors

SIZES = {32: 24, 96: 72, 48: 40, 60: 71, 7: 9}
MODEL = {
    "vocab_size": 71, "encoder_layers": 1, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 40,
    "encoder_attention_heads": 3, "nrelation": 9,
}  # fmt: skip
MARGIN = 9.0
N_TRIPLES = 3


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | MODEL, folder, "config")
    old = tensors.load(folder, "state_dict")
    state = tensors.weights(old, SIZES, n_layers=1, tied=keys.TIED)
    state |= {name: old[name] for name in old if name.endswith((".gamma", ".emb_range"))}
    tensors.store(state, folder, "state_dict")
    fewer_triples(folder)
    sequences = parity.sequences.__wrapped__(folder)
    batches = {name: parity.triples_of(folder, name, sequences) for name in (*parity.KE, "ke2")}
    inputs = tensors.load(folder, "inputs")
    inputs = {name: value for name, value in inputs.items() if name.startswith("mlm.")}
    for name, triples in batches.items():
        inputs |= tensors.with_prefix(rows_of(triples, parity.pad_of(folder)), f"{name}.")
    tensors.store(inputs, folder, "inputs")
    result = states_of(folder)
    for name, triples in batches.items():
        result |= tensors.with_prefix(scores_of(folder, name, triples), f"{name}.")
    losses, grads = {}, {}
    for variant in parity.VARIANTS:
        model, losses[variant] = losses_of(folder, variant, batches)
        grads |= tensors.with_prefix(gradients_of(model, folder), f"{variant}.")
        result[f"{variant}.loss_total"] = torch.tensor([losses[variant]["total"]])
    tensors.store(result, folder, "outputs")
    tensors.store(grads, folder, "grads")
    tensors.write(losses, folder, "losses")
    complete(folder)


def fewer_triples(folder: Path) -> None:
    raw = tensors.read(folder, "raw_descriptions")
    for facts in raw["ke"].values():
        for name, value in facts.items():
            if isinstance(value, list):
                n = N_TRIPLES * facts["K"] if name.startswith("neg") else N_TRIPLES
                facts[name] = value[:n]
    tensors.write(raw, folder, "raw_descriptions")


def rows_of(triples: TripleBatch, pad: int) -> dict[str, Tensor]:
    texts, result = triples.texts, {}
    for slot, rows in parity.slots_of(triples).items():
        pieces = [texts.node_ids[i][texts.node_mask[i]] for i in rows.tolist()]
        result[slot] = torch.nn.utils.rnn.pad_sequence(pieces, True, pad)
    return result | {"relations": triples.relations - N_SPECIAL_ROWS}


@torch.no_grad()
def states_of(folder: Path) -> dict[str, Tensor]:
    model, batch = parity.new_model(folder, "eager", "plain"), parity.mlm_batch(folder)
    output, host = model(batch), model.encoder.host
    everywhere = Visibility.of_real(batch.node_mask)
    states = hosts.run(host, output.hidden_states[0], everywhere)
    logits = model.objectives["mlm"].logits(states[-1], hosts.word_table(host).weight)
    results = {f"mlm.inner_states.{i}": value for i, value in enumerate(states)}
    return results | {"mlm.features": states[-1], "mlm.logits": logits}


@torch.no_grad()
def scores_of(folder: Path, name: str, triples: TripleBatch) -> dict[str, Tensor]:
    model = parity.new_model(folder, "eager", name)
    vectors = model.encoder.encode_texts(triples.texts)
    positive, negative = model.objectives["ke2" if name == "ke2" else "ke"].scores(vectors, triples)
    results = {f"emb.{slot}": vectors[rows] for slot, rows in parity.slots_of(triples).items()}
    return results | {"pScores": positive[:, None], "nScores": negative}


def losses_of(
    folder: Path, variant: str, batches: dict[str, TripleBatch]
) -> tuple[KnowledgeForPreTraining, dict[str, Any]]:
    """The model after a backward pass, and what the original would log."""
    model = parity.new_model(folder, "eager", variant)
    triples = {"triples": batches["plain" if variant == "double_ke" else variant]}
    if variant == "double_ke":
        triples["second_triples"] = batches["ke2"]
    losses = model(parity.mlm_batch(folder, **triples)).losses
    total = torch.stack(list(losses.values())).sum()
    total.backward()
    numbers = {name: value.item() for name, value in losses.items()}
    tasks = [value for name, value in numbers.items() if name != "mlm"]
    logged = {
        "loss": total.item(), "ke_loss": sum(tasks) / len(tasks), "mlm_loss": numbers["mlm"],
    }  # fmt: skip
    in_bits = {name: value / math.log(2) for name, value in logged.items()}
    more = {"total": total.item(), "logging_output": logged, "aggregated": in_bits}
    return model, numbers | more


def gradients_of(model: KnowledgeForPreTraining, folder: Path) -> dict[str, Tensor]:
    ours = {
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.named_parameters()
        if name not in keys.OURS_ALONE
    }
    table = keys.rules(model.config.host.num_hidden_layers, parity.heads_of(folder))
    return tables.to_original(ours, table, packed=keys.PACKED)


def complete(folder: Path) -> None:
    """Fewer questions, none about an unknown entity, other vectors and another margin."""
    data, vectors = tensors.read(folder, "kg_completion"), tensors.load(folder, "kg_completion")
    data["test"] = [t for t in data["test"] if t[0] in data["entity2id"]][2:]
    draws = torch.Generator().manual_seed(3)
    output = {"score_matrix": vectors["score_matrix"]}
    for name in ("entity_embeddings", "relation_embeddings"):
        output[name] = torch.randn(len(vectors[name]), 6, generator=draws)
    scorer, shape = completion.transe(output), vectors["score_matrix"].shape
    every = torch.cartesian_prod(*(torch.arange(n) for n in (shape[1], shape[0], shape[1])))
    with torch.no_grad():
        scores = scorer.score_triples(every).view(shape[1], shape[0], shape[1]).transpose(0, 1)
    output[f"{completion.SCORES}{MARGIN:.0f}"] = MARGIN + scores
    scorers = {
        "score_matrix": completion.looked_up(output["score_matrix"]),
        "transe_embeddings": scorer,
    }
    for name in data["results"]:
        of, setting, side = name.split("/")
        known = {part: completion.ids(data, part) for part in completion.FILTERS[setting]}
        known = {part: rows[(rows >= 0).all(1)] for part, rows in known.items()}
        sizes = {"n_entities": shape[1], "n_relations": shape[0]}
        result = rank(
            scorers[of], completion.ids(data, "test"), filter=Filter(known, **sizes),
            ties="pessimistic", directions=completion.DIRECTIONS[side], candidates="all",
        )  # fmt: skip
        metrics = {key.upper(): value for key, value in result.metrics().items()}
        data["results"][name] = {"rankings": completion.in_order(result), "metrics": metrics}
    tensors.write(data, folder, "kg_completion")
    tensors.store(output, folder, "kg_completion")
