"""LRLM with words 5 wide, narrower hidden layers and aliases 3 wide, and other weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.decoders.generators.lrlm import segment_loss, span_posteriors
from tests.parity import test_lrlm as parity
from tests.parity.other_sizes import tensors

CONFIG = {
    "embed_size": 5, "vocab_mlp_hidden_dim": 6, "fact_key_mlp_hidden_dim": 7, "alias_vector_dim": 3,
}  # fmt: skip
INNER = 10
SIZES = {
    "word_embed": {6: 5}, "lstm.weight_ih_l0": {6: 5}, "proj_input": {6: 5},
    "word_predictor.layer1": {7: 6}, "word_predictor.layer2.weight": {7: 6},
    "core_net": {12: INNER}, "hid_to_fact.layer1": {9: 7}, "hid_to_fact.layer2.weight": {9: 7},
    "alias_vec": {5: 3}, "hid_to_alias": {5: 3},
}  # fmt: skip
"""By part of a tensor's name, what becomes of its sizes."""
SPAN_PATHS = "span_log_probs (relation path, word path)"
BRUTE = "brute_force_over_segmentations (not from the original)"


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    config = tensors.read(folder, "config") | CONFIG
    config["transformer"]["ffn_inner_dim"] = INNER
    tensors.write(config, folder, "config")
    tensors.store(weights(tensors.load(folder, "state_dict")), folder, "state_dict")
    golden, record = parity.Golden(folder), tensors.read(folder, "batches")
    outputs, grads = tensors.load(folder, "outputs"), tensors.load(folder, "grads")
    for variant in parity.variants_of(folder):
        outputs |= values(golden, variant)
        print_losses(golden, variant, record["variants"][variant]["batches"])
        grads |= gradients(golden, variant, tensors.part(grads, f"{variant}."))
    outputs = {name: value for name, value in outputs.items() if "alias_query" not in name}
    tensors.store(outputs, folder, "outputs")
    tensors.store(grads, folder, "grads")
    tensors.write(record, folder, "batches")


def weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    draws, result = torch.Generator().manual_seed(9), {}
    for name, old in state.items():
        changes: dict[int, int] = {}
        for part, sizes_of_part in SIZES.items():
            changes |= sizes_of_part if part in name else {}
        if name.endswith("inv_freq"):
            result[name] = old
            continue
        shape = [changes.get(size, size) for size in old.shape]
        is_scale = "layer_norm.weight" in name
        result[name] = torch.randn(shape, generator=draws) * 0.3 + float(is_scale)
    return result


@torch.no_grad()
def values(golden: parity.Golden, variant: str) -> dict[str, Tensor]:
    result, model = {}, golden.model(variant)
    for b, parts in enumerate(golden.segments(variant, with_unknown=False)):
        result[f"b{b}.fact_embeds"] = model.facts(parts[0].relations, parts[0].objects)
    for name, segment, output, _ in golden.run(variant):
        results = {
            "rnn_states": output.states, "selector_log_probs": output.selector,
            "word_log_probs": output.words, "word_target_log_probs": output.targets,
            "rel_log_probs": output.relations, "log_marginal_per_position": output.marginal,
            "word_path_log_probs": output.word_path,
            "batch_loss": output.row_losses(segment.lengths, as_released=True),
        }  # fmt: skip
        result |= tensors.with_prefix(results, f"{name}.")
    for name, segment, output, _ in golden.run(variant, with_unknown=True):
        rows = output.row_losses(segment.lengths, as_released=True)
        result[f"{name}.batch_loss_with_unk_probs"] = rows
    return tensors.with_prefix(result, f"{variant}.")


def print_losses(golden: parity.Golden, variant: str, batches: list[Any]) -> None:
    """Losses, paths and posteriors of the same spans."""
    for name, segment, output, _ in golden.run(variant):
        b, s = (int(part[1:]) for part in name.split("."))
        record = batches[b]["segments"][s]
        record["loss"] = float(segment_loss(output, segment, as_released=True).detach())
        shares = span_posteriors(output, segment)
        losses = output.row_losses(segment.lengths).detach()
        spans_of, word_path = output.spans.detach(), output.word_path.detach()
        for row, spans in enumerate(record[SPAN_PATHS]):
            for one in spans:
                start, end = one[0][:2]
                words = float(word_path[row, start : end + 1].sum())
                one[1] = [float(spans_of[row, end][path_of(segment, row, one[0])]), words]
        for row, brute in enumerate(record[BRUTE]):
            if brute is not None:
                brute["log_marginal"] = -float(losses[row])
                for one in brute["span_posteriors"]:
                    one[1] = float(shares[row, one[0][1]][path_of(segment, row, one[0])])


def path_of(segment: Any, row: int, span: list[int]) -> Tensor:
    """Where a span stands among those that end where it does."""
    start, end, _, fact, alias = span
    at = (segment.span_starts[row, end] == start) & (segment.span_facts[row, end] == fact)
    result: Tensor = at & (segment.span_aliases[row, end] == alias) & segment.span_mask[row, end]
    return result


def gradients(golden: parity.Golden, variant: str, old: dict[str, Tensor]) -> dict[str, Tensor]:
    result = {}
    for prefix in sorted({".".join(name.split(".")[:2]) for name in old}):
        b, s = (int(part[1:]) for part in prefix.split("."))
        model, memory = golden.model(variant), None
        for segment in golden.segments(variant, with_unknown=False)[b][: s + 1]:
            output = model(segment, memory)
            memory = output.memory
        segment_loss(output, segment, as_released=True).backward()
        parameters = dict(model.named_parameters())
        for name in tensors.part(old, f"{prefix}."):
            if name.startswith("special_rel_vecs."):
                outcome = parameters["facts.special"].grad[int(name.rpartition(".")[2])]
            else:
                (ours,) = parity.renamed({name: old[f"{prefix}.{name}"]})
                outcome = parameters[ours].grad
            result[f"{variant}.{prefix}.{name}"] = outcome
    return result
