"""The story writer of Guan et al., 8 wide with one layer of two heads, and a row fewer a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.decoders.generators.guan import confusion, converted, story_losses, top_k, word_loss
from tests.parity import test_guan as parity
from tests.parity.other_sizes import tensors

CONFIG = {"n_embd": 8, "n_head": 2, "n_layer": 1}
SIZES = {12: 8, 36: 24, 48: 32}
N_CACHED = 3
SECOND = "model/h1/"


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | CONFIG, folder, "config")
    data = tensors.read(folder, "preprocessing")
    data["bpe_checks"] = data["bpe_checks"][1:]
    tensors.write(data, folder, "preprocessing")
    tensors.store(weights(tensors.load(folder, "state_dict")), folder, "state_dict")
    tensors.store(inputs(tensors.load(folder, "inputs")), folder, "inputs")
    golden = parity.Golden(folder)
    outputs, losses, grads = {}, tensors.read(folder, "losses"), dict[str, Tensor]()
    old, old_grads = tensors.load(folder, "outputs"), tensors.load(folder, "grads")
    for name in parity.batches_of(folder):
        batch = golden.batch(name)
        with torch.no_grad():
            output = golden.model(batch)
        results = {
            "hidden_state": output.states, "logits": output.logits,
            "class_logits": output.class_logits,
        }  # fmt: skip
        outputs |= {f"{name}.{k}": v for k, v in results.items() if f"{name}.{k}" in old}
        parts = story_losses(output, batch, golden.config["class_weight"])
        numbers = {
            "lm_loss_all_rows": float(word_loss(output.logits, batch)),
            "total": float(parts.total), "lm_loss_true_rows": float(parts.words),
            "class_loss_sum": float(parts.classes),
            "confusion_flat": confusion(output, batch).flatten().tolist(),
        }  # fmt: skip
        losses[name] |= {k: v for k, v in numbers.items() if k in losses[name]}
        for which in ("lm", "total"):
            prefix = f"{name}.{which}."
            stored = tensors.part(old_grads, prefix)
            kept = {k: v for k, v in stored.items() if not k.startswith(SECOND)}
            if kept:
                ours, norms = gradients(golden, name, which, kept)
                grads |= tensors.with_prefix(ours, prefix)
                losses[name] |= norms
    outputs |= rest(golden, old)
    tensors.store(outputs, folder, "outputs")
    tensors.write(losses, folder, "losses")
    tensors.store(grads, folder, "grads")


def weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    draws = torch.Generator().manual_seed(6)
    result = {}
    for name, old in state.items():
        if not name.startswith(SECOND):
            shape = [SIZES.get(size, size) for size in old.shape]
            result[name] = torch.randn(shape, generator=draws) * 0.1 + float(name.endswith("/g"))
    return result


def inputs(old: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every batch without its last row, as long as the longest that is left."""
    result = {name: value[:-1] for name, value in old.items()}
    for name, lengths in old.items():
        if name.endswith(".story_length"):
            batch = name.removesuffix(".story_length")
            longest = int(lengths[:-1].max())
            for part in ("model_input", "story"):
                result[f"{batch}.{part}"] = result[f"{batch}.{part}"][:, :longest]
    return result


def gradients(
    golden: parity.Golden, name: str, which: str, released: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Under the released names and in their shapes, and of the total the norms."""
    model, batch = golden.model, golden.batch(name)
    model.zero_grad()
    slices: list[Tensor] = []
    hook = model.host.transformer.drop.register_full_backward_hook(
        lambda module, into, out: slices.append(into[0])
    )
    output = model(batch)
    hook.remove()
    losses = story_losses(output, batch, golden.config["class_weight"])
    (losses.total if which == "total" else word_loss(output.logits, batch)).backward()
    gradients_ = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    result = {}
    for key, value in released.items():
        (ours,) = converted({key: value})
        shape = [SIZES.get(size, size) for size in value.shape]
        result[key] = (
            gradients_[ours].T if key.endswith("/kernel") else gradients_[ours].reshape(shape)
        )
    if which != "total":
        return result, {}
    norms: dict[str, Any] = {"global_norm_of_dense_gradients": norm_of(gradients_)}
    gradients_["host.transformer.wpe.weight"] = slices[0]
    return result, norms | {"global_norm_used_for_clipping": norm_of(gradients_)}


def norm_of(grads: dict[str, Tensor]) -> float:
    return float(torch.stack([grad.norm() for grad in grads.values()]).norm())


def rest(golden: parity.Golden, old: dict[str, Tensor]) -> dict[str, Tensor]:
    """The cache of a few words, and scores cut to the best."""
    ids = golden.batch("story").inputs[:, :N_CACHED]
    with torch.no_grad():
        cache = golden.model.host(input_ids=ids, use_cache=True).past_key_values
    each = [torch.stack([layer.keys, layer.values], dim=1) for layer in cache.layers]
    result = {"cache.present_first4": torch.stack(each, dim=1)}
    logits = golden.load("inputs")["top_k.logits"]
    for name in old:
        if name.startswith("top_k.k"):
            result[name] = top_k(logits, int(name.removeprefix("top_k.k")))
    return result
