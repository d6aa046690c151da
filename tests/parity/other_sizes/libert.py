"""LIBERT with one layer of width 24, three heads, more words; constraints in batches of four."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from kept import hosts
from kept.objectives.lexical.terms import Lexicon, of_terms, terms_of, with_neighbours
from tests.parity import test_libert as parity
from tests.parity.other_sizes import tensors

SIZES = {32: 24, 48: 40, 29: 31, 40: 36}
MODEL = {
    "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3,
    "intermediate_size": 40, "max_position_embeddings": 36,
}  # fmt: skip


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | MODEL, folder, "config")
    state = tensors.load(folder, "state_dict")
    state = {name: value for name, value in state.items() if "/layer_1/" not in name}
    tensors.store(tensors.weights(state, SIZES, n_layers=1), folder, "state_dict")
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("more\nwords\n")
    constraints(folder)
    inputs = tensors.load(folder, "inputs")
    parts = [tensors.one_more(tensors.part(inputs, f"{t}.")) for t in ("lexical", "standard")]
    inputs = tensors.with_prefix(parts[0], "lexical.") | tensors.with_prefix(parts[1], "standard.")
    tensors.store(inputs, folder, "inputs")
    info = tensors.read(folder, "loss_info")
    info["variables"] = [name for name in info["variables"] if name in state]
    result = outputs_of(folder, info)
    tensors.store(result, folder, "outputs")
    tensors.store(gradients_of(folder), folder, "grads")
    tensors.write(info, folder, "loss_info")


def constraints(folder: Path) -> None:
    """Two constraints fewer, shuffled otherwise, in batches of four; vectors one wider."""
    data = tensors.read(folder, "constraints")
    gone = data["sorted_unique"][-2:]
    kept = [i for i, row in enumerate(data["loaded"]) if row not in gone]
    for name in ("lines", "loaded"):
        data[name] = [data[name][i] for i in kept]
    data["sorted_unique"] = data["sorted_unique"][:-2]
    n = len(data["sorted_unique"])
    data["order_after_shuffle"] = [(5 * i + 2) % n for i in range(n)]
    data["negative_sampling_batch"] = size = 4
    data["vectors"] = {word: [*v, v[0] * v[1]] for word, v in data["vectors"].items()}
    words = {word: np.array(vector) for word, vector in data["vectors"].items()}
    lexicon = Lexicon((one, other) for one, other, _ in data["sorted_unique"])
    order = [lexicon[row] for row in data["order_after_shuffle"]]
    data["all_examples"] = []
    for start in range(0, n, size):
        pairs = order[start : start + size]
        vectors = of_terms(terms_of(pairs), words)
        data["all_examples"] += with_neighbours(pairs, lexicon, vectors @ vectors.T)
    data["features"]["rows"] = data["features"]["rows"][3:]
    tensors.write(data, folder, "constraints")


@torch.no_grad()
def outputs_of(folder: Path, info: dict[str, Any]) -> dict[str, Tensor]:
    model, batch = parity.new_model(folder), parity.lexical_batch(folder)
    encoder, inputs = model.encoder, tensors.load(folder, "inputs")
    output = model(batch)
    logits = model.objectives["lexical"].logits(output, encoder)
    assert batch.extra_labels is not None
    each = F.cross_entropy(logits, batch.extra_labels["lexical"][:, 0, 0], reduction="none")
    results = {
        "lexical.layer.0": output.hidden_states[1], "lexical.logits": logits,
        "lexical.sequence_output": output.node_states, "lexical.per_example_loss": each,
        "lexical.pooled_output": hosts.pooled(encoder.host, output.node_states),
        "lexical.loss": output.losses["lexical"][None],
    }  # fmt: skip
    info["single_row_lexical_batch"] = {
        "loss": each[0].item(),
        "per_example_loss": [each[0].item()],
    }
    batch = parity.standard_batch(folder)
    output = model(batch)
    places = inputs["standard.masked_lm_positions"].long()
    slots = output.node_states[torch.arange(len(places))[:, None], places].flatten(0, 1)
    shares = model.objectives["mlm"].logits(slots, hosts.word_table(encoder.host).weight)
    shares = shares.log_softmax(-1)
    pairs = model.objectives["nsp"].logits(output, encoder).log_softmax(-1)
    assert batch.pair_labels is not None
    gold = inputs["standard.masked_lm_ids"].long().flatten()[:, None]
    loss = parity.standard_loss(folder, output.losses)
    info["multitask_total_loss"] = (loss + each.mean()).item()
    return results | {
        "standard.embedding_output": output.hidden_states[0],
        "standard.sequence_output": output.node_states,
        "standard.pooled_output": hosts.pooled(encoder.host, output.node_states),
        "standard.masked_lm_log_probs": shares,
        "standard.masked_lm_example_loss": -shares.gather(1, gold)[:, 0],
        "standard.next_sentence_log_probs": pairs,
        "standard.next_sentence_example_loss": -pairs.gather(1, batch.pair_labels[:, None])[:, 0],
        "standard.loss": loss[None],
    }  # fmt: skip


def gradients_of(folder: Path) -> dict[str, Tensor]:
    results = {}
    for name in tensors.load(folder, "grads"):
        task, _, variable = name.partition(".")
        model = parity.new_model(folder)
        if task == "lexical":
            model(parity.lexical_batch(folder)).losses["lexical"].backward()
        else:
            losses = model(parity.standard_batch(folder)).losses
            parity.standard_loss(folder, losses).backward()
        gradient = dict(model.named_parameters())[parity.ours(variable)].grad
        assert gradient is not None
        results[name] = parity.turned(variable, gradient)
    return results
