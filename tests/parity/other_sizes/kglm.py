"""KGLM with entities 3 wide and states 5 wide, other weights, on the documents of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.decoders.generators.kglm import WordPerplexity, importance_perplexity
from tests.parity import test_kglm as parity
from tests.parity.other_sizes import tensors

CONFIG = {"entity_dim": 3, "hidden_size": 5}
RECURRENT = {7: 5, 28: 20, 14: 12, 56: 48}
"""Of the recurrent layers; the last is as wide as a token and two entities."""
OF_ENTITIES = ("_entity_embedder", "_relation_embedder", "_fc_new_entity.weight")
METRICS = ("ppl", "upp", "kg_ppl", "bg_ppl")


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | CONFIG, folder, "config")
    tensors.store(weights(tensors.load(folder, "state_dict")), folder, "state_dict")
    golden = parity.Golden(folder)
    outputs, grads = tensors.load(folder, "outputs"), tensors.load(folder, "grads")
    losses = tensors.read(folder, "losses")
    for variant in parity.variants_of(folder):
        outputs |= values(golden, variant, outputs, losses[variant])
        grads |= gradients(golden, variant, tensors.part(grads, f"{variant}."))
    for sampling in parity.samplings_of(folder):
        marginal(golden, sampling, losses[sampling])
    tensors.store(outputs, folder, "outputs")
    tensors.store(grads, folder, "grads")
    tensors.write(losses, folder, "losses")


def weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Padding rows of tables stay 0."""
    draws, result = torch.Generator().manual_seed(8), {}
    for name, old in state.items():
        shape = list(old.shape)
        if ".rnns." in name:
            shape = [RECURRENT.get(size, size) for size in shape]
        elif any(part in name for part in OF_ENTITIES) and len(shape) == 2:
            shape[1] = CONFIG["entity_dim"]
        elif name.endswith("_fc_condense.weight"):
            shape[1] -= 1
        result[name] = torch.randn(shape, generator=draws) * 0.3
        if "embedder" in name:
            result[name][0] = 0
    for name in state:
        if name.endswith("_fc_generate.weight") and not bool(
            (state[name] - state[name.replace("_fc_generate", "_token_embedder")]).any()
        ):
            result[name] = result[name.replace("_fc_generate", "_token_embedder")]
    return result


@torch.no_grad()
def values(
    golden: parity.Golden, variant: str, old: dict[str, Tensor], record: dict[str, Any]
) -> dict[str, Tensor]:
    """Every part under the names of the file; losses and perplexities are put into `told`."""
    result: dict[str, Tensor] = {}
    every, about, plain = WordPerplexity(), WordPerplexity(), WordPerplexity()
    for i, chunk, output, model in golden.run(variant):
        outcome = parity.named(output, model)
        prefix = f"{variant}.chunk{i}."
        for key, value in old.items():
            if key.startswith(prefix):
                result[key] = outcome[key.removeprefix(prefix)].to(value.dtype)
        record["per_chunk"][i] = {key: float(outcome[key]) for key in record["per_chunk"][i]}
        if output.words is not None:
            every.add(output, chunk.mask)
            about.add(output, chunk.mask & (chunk.entity_ids > 0))
            plain.add(output, chunk.mask & (chunk.entity_ids == 0))
    if variant.startswith("kglm"):
        numbers = (*every.values[:2], about.values[0], plain.values[0])
        record["metrics_over_all_chunks"] |= dict(zip(METRICS, map(float, numbers), strict=True))
    return result


def gradients(golden: parity.Golden, variant: str, old: dict[str, Tensor]) -> dict[str, Tensor]:
    number, _, output, model = next(golden.run(variant))
    output.loss.backward()
    parameters, result = dict(model.named_parameters()), {}
    for key in old:
        gradient = parameters[parity.renamed(key.removeprefix(f"chunk{number}."))].grad
        assert gradient is not None
        result[f"{variant}.{key}"] = gradient
    return result


@torch.no_grad()
def marginal(golden: parity.Golden, sampling: str, record: dict[str, Any]) -> None:
    """What the model says of the stored draws; how likely they were drawn stays."""
    ending = sampling.removeprefix("importance_sampling")
    draws, variant = golden.load("importance_samples", f"is{ending}"), f"kglm{ending}"
    sums: dict[str, list[float]] = {"model_logp": [], "penalized": [], "sample_logp": []}
    for s, rows in enumerate(record["per_sample_per_chunk"]):
        model = golden.model(variant)
        for i, (chunk, row) in enumerate(zip(golden.chunks(variant), rows, strict=True)):
            output = model(parity.with_draws(golden, chunk, draws, f"s{s}.chunk{i}."))
            row |= {"model_logp": float(output.log_p), "penalized": float(output.penalised_log_p)}
        for key, each in sums.items():
            each.append(sum(row[key] for row in rows))
    n = record["n_tokens"]
    for key, name in (("ppl", "model_logp"), ("upp", "penalized")):
        record["final"][key] = float(importance_perplexity(sums[name], sums["sample_logp"], n))
