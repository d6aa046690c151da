"""KEPLER against the numbers of the original implementation: model, batches, losses, gradients.

The original lets padded positions look at the text; here they see themselves. A whole forward pass
is compared at real positions, and `hosts.run` with the original's mask at all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from kept import hosts
from kept.batches import IGNORE, N_SPECIAL_ROWS, KnowledgeBatch, TripleBatch, Visibility
from kept.convert import kepler as keys
from kept.convert import tables
from kept.objectives.described_triples import (
    Pieces,
    Questions,
    Sequences,
    text_batch,
    triple_batch,
)
from kept.objectives.model import KnowledgeForPreTraining

METHOD = "kepler"
ATOL = 2e-5
KE = {"plain": "table", "relation_desc": "conditioned", "relemb_from_desc": "described"}
VARIANTS = (*KE, "double_ke")
SLOTS = ("heads", "heads_r", "tails", "tails_r", "nHeads", "nTails", "relation_desc")


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def new_model(folder: Path, attention: str, variant: str) -> KnowledgeForPreTraining:
    state = load(folder, "state_dict")
    args = read(folder, "config") | {variant: True}
    result = keys.from_original(state, keys.original_config(state, args), args["ke_head_name"])
    result.set_attn_implementation(attention)
    assert result.encoder.host.config._attn_implementation == attention
    return result.eval()


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def attention(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(folder: Path, attention: str) -> KnowledgeForPreTraining:
    return new_model(folder, attention, "plain")


@pytest.fixture(scope="module")
def sequences(folder: Path) -> Sequences:
    """As released: cut from the right, whatever is lost."""
    config = read(folder, "config")
    n_tokens = config["tokens_per_sample"]
    return Sequences(
        start=config["bos"],
        end=config["eos"],
        n_separators=2,
        n_tokens=n_tokens,
        n_relation_tokens=n_tokens // 8,
        cut="sequence",
    )


def pad_of(folder: Path) -> int:
    return int(read(folder, "config")["pad"])


def heads_of(folder: Path) -> tuple[str, str]:
    """Names of the knowledge-embedding heads, in the order of our tasks."""
    config = read(folder, "config")
    return config["ke_head_name"], config["ke_head_name2"]


def mlm_batch(folder: Path, **triples: TripleBatch) -> KnowledgeBatch:
    inputs, pad = load(folder, "inputs"), pad_of(folder)
    tokens, target = inputs["mlm.src_tokens"], inputs["mlm.target"]
    batch = text_batch([row[row != pad].tolist() for row in tokens], pad_id=pad)
    assert torch.equal(batch.node_ids, tokens)
    labels = target.where(target != pad, IGNORE)
    return dataclasses.replace(batch, node_labels=labels, **triples)


def descriptions(raw: dict[str, Any]) -> tuple[Questions, list[Pieces], list[Pieces]]:
    """Questions over one batch, whose ids count descriptions in order.

    Relations too: these made-up batches describe one relation in two ways.
    """
    parts = [raw[name] for name in ("head", "tail", "negHead", "negTail")]
    sizes = np.cumsum([0, *map(len, parts)])
    head, tail, negative_heads, negative_tails = (
        np.arange(start, stop) for start, stop in itertools.pairwise(sizes)
    )
    n = raw["K"]
    triples = np.stack([head, np.arange(len(head)), tail], axis=1)
    questions = Questions(triples, negative_heads.reshape(-1, n), negative_tails.reshape(-1, n))
    entities = [pieces[:-1] for part in parts for pieces in part]  # ours end themselves
    return questions, entities, [pieces[:-1] for pieces in raw.get("relation_desc", [])]


def triples_of(folder: Path, name: str, sequences: Sequences) -> TripleBatch:
    raw = read(folder, "raw_descriptions")["ke"][name]
    questions, entities, relations = descriptions(raw)
    batch = triple_batch(
        questions,
        entity=entities.__getitem__,
        relation=relations.__getitem__,
        sequences=sequences,
        relations=KE.get(name, "table"),
        pad_id=pad_of(folder),
    )
    return dataclasses.replace(batch, relations=torch.tensor(raw["relation"]) + N_SPECIAL_ROWS)


def slots_of(triples: TripleBatch) -> dict[str, Tensor]:
    """Rows of texts under the original's names."""
    heads, tails = triples.heads, triples.tails
    results = {
        "heads": heads,
        "tails": tails,
        "heads_r": heads if triples.head_partners is None else triples.head_partners,
        "tails_r": tails if triples.tail_partners is None else triples.tail_partners,
        "nHeads": triples.negative_heads.flatten(),
        "nTails": triples.negative_tails.flatten(),
    }
    if triples.relation_texts is not None:
        results["relation_desc"] = triples.relation_texts
    return results


@pytest.mark.parametrize("name", [*KE, "ke2"])
def test_batches(folder: Path, sequences: Sequences, name: str, compared: Any) -> None:
    """Every row of every tensor, padded to that tensor's own longest."""
    inputs, triples = load(folder, "inputs"), triples_of(folder, name, sequences)
    slots, pad = slots_of(triples), pad_of(folder)
    assert {k.split(".")[1] for k in inputs if k.startswith(f"{name}.")} == {*slots, "relations"}
    texts = triples.texts
    for slot, rows in slots.items():
        ours = [texts.node_ids[i][texts.node_mask[i]].tolist() for i in rows.tolist()]
        width = max(map(len, ours))
        padded = [row + [pad] * (width - len(row)) for row in ours]
        compared.equal(f"{name}.{slot}", padded, inputs[f"{name}.{slot}"].tolist())
    relations = (triples.relations - N_SPECIAL_ROWS).tolist()
    compared.equal(f"{name}.relations", relations, inputs[f"{name}.relations"].tolist())


def test_masked_sentences(folder: Path, sequences: Sequences, compared: Any) -> None:
    raw, inputs = read(folder, "raw_descriptions"), load(folder, "inputs")
    rows = [sequences.entity(s[:-1]) for s in raw["mlm_sentences_before_masking"]]
    pad = pad_of(folder)
    visible_ids = text_batch(rows, pad_id=pad).node_ids
    target = inputs["mlm.target"]
    is_target = target != pad
    compared.equal(
        "mlm shown", visible_ids[~is_target].tolist(), inputs["mlm.src_tokens"][~is_target].tolist()
    )
    compared.equal("mlm asked", visible_ids[is_target].tolist(), target[is_target].tolist())


def test_states_and_logits(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    expected, batch = load(folder, "outputs"), mlm_batch(folder)
    encoder, objective = model.encoder, model.objectives["mlm"]
    with torch.no_grad():
        output = model(batch)
        everywhere = Visibility.of_real(batch.node_mask)
        whole = hosts.run(encoder.host, output.hidden_states[0], everywhere)
        logits = objective.logits(whole[-1], hosts.word_table(encoder.host).weight)
    real = batch.node_mask
    padding = expected["mlm.inner_states.0"][~real]
    compared.close("padding", padding, torch.zeros_like(padding), atol=ATOL)
    for i, (ours, anywhere) in enumerate(zip(output.hidden_states, whole, strict=True)):
        name = f"mlm.inner_states.{i}"
        compared.close(f"real {name}", ours[real], expected[name][real], atol=ATOL)
        compared.close(name, anywhere, expected[name], atol=ATOL)
    assert len(whole) == sum(name.startswith("mlm.inner_states") for name in expected)
    compared.close("mlm.features", whole[-1], expected["mlm.features"], atol=ATOL)
    compared.close("mlm.logits", logits, expected["mlm.logits"], atol=3e-5)
    compared.close("mlm", output.losses["mlm"], read(folder, "losses")["plain"]["mlm"], atol=ATOL)


def test_padding_is_zeroed_only_on_request(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    batch = mlm_batch(folder)
    real = batch.node_mask
    with torch.no_grad():
        zeroed = model.encoder(batch).node_states
        model.encoder.config.zero_padding = False
        try:
            plain = model.encoder(batch).node_states
        finally:
            model.encoder.config.zero_padding = True
    compared.close("real nodes", zeroed[real], plain[real], atol=ATOL)
    assert real.all() or not torch.allclose(zeroed[~real], plain[~real])


@pytest.mark.parametrize("name", [*KE, "ke2"])
def test_entities_and_scores(
    folder: Path, attention: str, sequences: Sequences, name: str, compared: Any
) -> None:
    model = new_model(folder, attention, name)
    expected = load(folder, "outputs")
    triples = triples_of(folder, name, sequences)
    objective = model.objectives["ke2" if name == "ke2" else "ke"]
    with torch.no_grad():
        vectors = model.encoder.encode_texts(triples.texts)
        positive, negative = objective.scores(vectors, triples)
    for slot, rows in slots_of(triples).items():
        emb = expected[f"{name}.emb.{slot}"]
        compared.close(f"{name}.emb.{slot}", vectors[rows], emb, atol=ATOL)
    compared.close(f"{name}.pScores", positive[:, None], expected[f"{name}.pScores"], atol=ATOL)
    compared.close(f"{name}.nScores", negative, expected[f"{name}.nScores"], atol=ATOL)


@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_and_gradients(
    folder: Path, attention: str, sequences: Sequences, variant: str, compared: Any
) -> None:
    model = new_model(folder, attention, variant)
    expected = read(folder, "losses")[variant]
    first = "plain" if variant == "double_ke" else variant
    batch = mlm_batch(folder, triples=triples_of(folder, first, sequences))
    if variant == "double_ke":
        second = triples_of(folder, "ke2", sequences)
        batch = dataclasses.replace(batch, second_triples=second)
    losses = model(batch).losses
    total = torch.stack(list(losses.values())).sum()
    total.backward()

    numbers = {name: value.item() for name, value in losses.items()}
    assert numbers.keys() == {"mlm", "ke", "ke2"} & expected.keys()
    for name, value in numbers.items():
        compared.close(f"{variant} {name}", value, expected[name], atol=ATOL)
    compared.close(f"{variant} total", total.item(), expected["total"], atol=ATOL)
    outputs = load(folder, "outputs")[f"{variant}.loss_total"]
    compared.close(f"{variant} loss_total", total.item(), outputs[0], atol=ATOL)
    tasks = [value for name, value in numbers.items() if name != "mlm"]
    logged = {
        "loss": total.item(),
        "ke_loss": sum(tasks) / len(tasks),  # the original logs the mean and optimises the sum
        "mlm_loss": numbers["mlm"],
    }
    for name, value in logged.items():
        compared.close(f"logged {name}", value, expected["logging_output"][name], atol=ATOL)
        in_bits = value / math.log(2)
        compared.close(f"logged {name} / ln 2", in_bits, expected["aggregated"][name], atol=ATOL)
    compare_gradients(folder, model, variant, compared)


def compare_gradients(
    folder: Path, model: KnowledgeForPreTraining, variant: str, compared: Any
) -> None:
    prefix = f"{variant}."
    theirs = {
        name.removeprefix(prefix): value
        for name, value in load(folder, "grads").items()
        if name.startswith(prefix)
    }
    ours = {
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.named_parameters()
        if name not in keys.OURS_ALONE
    }
    table = keys.rules(model.config.host.num_hidden_layers, heads_of(folder))
    named = tables.to_original(ours, table, packed=keys.PACKED)
    assert theirs
    assert theirs.keys() <= named.keys()  # they may be stored for a part of the parameters
    for name, value in theirs.items():
        compared.close(f"{variant} gradient of {name}", named[name], value, atol=ATOL)


def test_key_table_round_trip(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    original = load(folder, "state_dict")
    heads = heads_of(folder)
    back = keys.to_original(model, heads)
    compared.equal("names", sorted(back), sorted(original))
    assert save({k: v.clone() for k, v in back.items()}) == save(original)
    gammas = read(folder, "config")["gamma_in_state_dict"]
    options = model.config.objectives
    assert [options[task]["gamma"] for task in keys.TASKS] == [gammas[name] for name in heads]
    n_rows = [len(original[f"ke_heads.{name}.relation_emb.weight"]) for name in heads]
    compared.equal("tables", [len(model.objectives[t].relations) for t in keys.TASKS], n_rows)
