"""DKRL against the numbers of the released C++ program, in float64."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from kept.evaluation.ranking import Filter, rank
from kept.kge.dkrl import DKRL, CnnEncoder
from kept.kge.training import tail_chances

METHOD = "dkrl"
ATOL = 1e-12
ORIGINAL_KEYS = {
    "word_vec": "encoder.words",
    "conv_w1": "encoder.filters",
    "conv_w2": "encoder.output",
    "entity_vec": "entities",
    "relation_vec": "relations",
}
"""Array names of the released C++ program -> ours, same shapes."""


@dataclass
class Golden:
    """One golden folder, read."""

    config: dict[str, Any]
    data: dict[str, Any]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    state: dict[str, Tensor]

    @property
    def descriptions(self) -> list[Tensor]:
        return [self.inputs[f"description_{i}"] for i in range(len(self.data["entities"]))]

    @property
    def triples(self) -> Tensor:
        """Training triples; the file lists head, tail, relation."""
        return self.inputs["train_triples_htr"][:, [0, 2, 1]]

    def split(self, name: str) -> np.ndarray:
        entity = {value: i for i, value in enumerate(self.data["entities"])}
        relation = {value: i for i, value in enumerate(self.data["relations"])}
        rows = [(entity[h], relation[r], entity[t]) for h, t, r in self.data[name]]
        return np.array(rows, np.int64).reshape(-1, 3)

    def padded(self) -> tuple[Tensor, Tensor]:
        ids = torch.nn.utils.rnn.pad_sequence(self.descriptions, batch_first=True)
        lengths = torch.tensor([len(words) for words in self.descriptions])
        return ids, torch.arange(ids.shape[1]) < lengths[:, None]


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    tensors = [load_file(folder / f"{n}.safetensors") for n in ("inputs", "outputs", "state_dict")]
    config, data = (json.loads((folder / f"{n}.json").read_text()) for n in ("config", "data"))
    return Golden(config, data, *tensors)


@pytest.fixture
def model(golden: Golden) -> DKRL:
    config = golden.config
    generator = torch.Generator().manual_seed(0)
    encoder = CnnEncoder(
        words=torch.zeros_like(golden.state["word_vec"]), width=config["n"],
        n_filters=config["n_1"], window=config["window_1"], block=config["pooling_1"],
        generator=generator,
    )  # fmt: skip
    model = DKRL(
        n_entities=len(golden.data["entities"]), n_relations=len(golden.data["relations"]),
        width=config["n"], encoder=encoder, norm=1 if config["L1"] else 2, generator=generator,
    ).double()  # fmt: skip
    model.load_state_dict({ORIGINAL_KEYS[name]: value for name, value in golden.state.items()})
    return model


def test_description_vectors_equal_the_originals(golden: Golden, model: DKRL, compared: Any):
    with torch.no_grad():
        vectors = model.encode_descriptions(*golden.padded())
    compared.close("dkrl cnn_vec", vectors, golden.outputs["cnn_vec"], atol=ATOL)


def test_states_after_the_first_pooling_equal_the_originals(
    golden: Golden, model: DKRL, compared: Any
):
    with torch.no_grad():
        blocks, mask = model.encoder.pooled(*golden.padded())
    for entity in range(len(blocks)):
        expected = golden.outputs[f"mid_{entity}"]
        compared.close("dkrl mid", blocks[entity][mask[entity]], expected, atol=ATOL)


def test_energies_equal_the_originals(golden: Golden, model: DKRL, compared: Any):
    with torch.no_grad():
        vectors = model.encode_descriptions(*golden.padded())
        energies = model.energies(golden.triples, vectors)
    compared.close("dkrl energies", energies, golden.outputs["energies"], atol=ATOL)


def test_bernoulli_chances_equal_the_originals(golden: Golden, compared: Any):
    chances = tail_chances(golden.triples, len(golden.data["relations"]))
    listed = golden.data["bernoulli"]
    expected = [listed[str(i)]["probability_of_replacing_the_tail"] for i in range(len(chances))]
    compared.close("dkrl bernoulli", chances, expected, atol=ATOL)


def test_one_step_equals_the_originals(golden: Golden, model: DKRL, compared: Any):
    step = original_step(golden, model)
    compared.close("dkrl gradient", step["gradient"], golden.outputs["cnn_grad_before_update"],
                   atol=ATOL)  # fmt: skip
    for name in ("entity", "relation", "w1", "w2", "word"):
        expected = golden.outputs[f"after.{name}"]
        compared.close(f"dkrl after.{name}", step[name], expected, atol=ATOL)
    for name, expected in golden.data["batch_losses"].items():
        compared.close(f"dkrl loss {name}", step["losses"][name], expected, atol=1e-11)


def test_evaluation_equals_the_originals(golden: Golden, model: DKRL, compared: Any):
    splits = {"train": golden.triples.numpy(), **{n: golden.split(n) for n in ("valid", "test")}}
    sizes = {"n_entities": model.n_entities, "n_relations": model.n_relations}
    filters = {"raw": Filter({}, **sizes), "filtered": Filter(splits, **sizes)}
    with torch.no_grad():
        scores = model.ranker(model.encode_descriptions(*golden.padded()), None)
    sides = {"left": "head", "right": "tail", "mid": "relation"}
    for side, numbers in golden.data["evaluation_description_energy_only"].items():
        for name, known in filters.items():
            result = rank(scores, splits["test"], filter=known, ties="optimistic",
                          directions=(sides[side],), candidates="all")  # fmt: skip
            hits = result.hits(1 if side == "mid" else 10)
            # the program prints six digits
            compared.close(f"dkrl {side} {name}", [result.mr, hits],
                           [numbers[f"mean_rank_{name}"], numbers[f"hits_{name}"]],
                           atol=0, rtol=5e-6)  # fmt: skip


def original_step(golden: Golden, model: DKRL) -> dict[str, Any]:
    """One mini-batch as the released program does it, single-threaded.

    Energies use the vectors of the batch's beginning; structure and relation vectors change in a
    copy, shortened to length 1 after each pair; then the encoder's gradient runs entity by entity.
    """
    config = golden.config
    start = {name: value.detach().clone() for name, value in model.named_parameters()}
    with torch.no_grad():
        vectors = model.encode_descriptions(*golden.padded())
    entities, relations = start["entities"].clone(), start["relations"].clone()
    step, losses = torch.zeros_like(vectors), dict.fromkeys(("triple", "cnn", "e_c", "c_e"), 0.0)
    before = {"s": start["entities"], "d": vectors}
    after = {"s": entities, "d": step}
    kinds = (
        ("triple", "s", "s", config["margin"], config["rate"]),
        ("cnn", "d", "d", config["margin_cnn"], config["rate_cnn"]),
        ("e_c", "s", "d", config["margin_mixed"], config["rate_mixed"]),
        ("c_e", "d", "s", config["margin_mixed"], config["rate_mixed"]),
    )
    pairs = golden.inputs["pairs_h_t_r_h2_t2_r2"].tolist()
    for h, t, r, h2, t2, r2 in pairs:
        for name, head, tail, margin, rate in kinds:
            both = ((h, r, t, 1.0), (h2, r2, t2, -1.0))
            gaps = [
                before[tail][z] - before[head][x] - start["relations"][y] for x, y, z, _ in both
            ]
            loss = margin + float(model.distance(gaps[0]) - model.distance(gaps[1]))
            if loss <= 0:
                continue
            losses[name] += loss
            for gap, (x, y, z, sign) in zip(gaps, both, strict=True):
                slope = torch.where(gap > 0, 1.0, -1.0).double() if config["L1"] else 2 * gap
                relations[y] += rate * sign * slope
                after[head][x] += rate * sign * slope
                after[tail][z] -= rate * sign * slope
        for table, rows in ((entities, (h, t, h2, t2)), (relations, (r, r2))):
            for row in rows:
                table[row] = shortened(table[row])
    used = sorted({row[i] for row in pairs for i in (0, 1, 3, 4)})
    norms = vectors.norm(dim=1)
    long = [entity for entity in used if norms[entity] > 1]
    losses["norm_excess"] = sum(float(norms[entity]) - 1 for entity in long)
    step[long] -= config["rate_norm"] * 2 * vectors[long]
    encoder = _encoder_step(golden, model, step, used)
    gradient = step * (1 - vectors.square())
    return {"gradient": gradient, "entity": entities, "relation": relations, "losses": losses,
            **encoder}  # fmt: skip


def _encoder_step(golden: Golden, model: DKRL, step: Tensor, used: list[int]) -> dict[str, Tensor]:
    names = ("words", "filters", "output")
    parameters = [getattr(model.encoder, name) for name in names]
    words, filters, output = (parameter.detach().clone() for parameter in parameters)
    for entity in used:
        ids = golden.descriptions[entity]
        vector = model.encoder(ids[None], torch.ones(1, len(ids), dtype=torch.bool))[0]
        gradients = torch.autograd.grad((vector * step[entity]).sum(), parameters)
        for table, gradient in zip((words, filters, output), gradients, strict=True):
            table += gradient
        for word in ids.tolist():
            words[word] = shortened(words[word])
    return {"word": words, "w1": filters, "w2": output}


def shortened(vector: Tensor) -> Tensor:
    """The vector, scaled to length 1 where it is longer."""
    return vector / vector.norm() if vector.norm() > 1 else vector
