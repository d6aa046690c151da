"""WKLM with one layer of width 24, three heads, another vocabulary and one more row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kept import hosts
from kept.convert import tables
from kept.convert.kepler import PACKED
from tests.parity import test_wklm as parity
from tests.parity.other_sizes import tensors
from tests.reference import original_wklm as original

MODEL = {
    "vocab_size": 53, "encoder_embed_dim": 24, "encoder_layers": 1, "encoder_attention_heads": 3,
    "encoder_ffn_embed_dim": 40, "typing_classes": 6,
}  # fmt: skip
SIZES = {32: 24, 64: 48, 96: 72, 48: 40, 37: 53, 4: 6}


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | MODEL, folder, "config")
    tensors.store(
        tensors.weights(tensors.load(folder, "state_dict"), SIZES, n_layers=1), folder, "state_dict"
    )
    tensors.store(tensors.one_more(tensors.load(folder, "inputs")), folder, "inputs")
    batches(folder)
    chunking = tensors.read(folder, "chunking")[:1]
    for case in chunking:
        case["chunk_size"] += 2
        case["output_files"] = original.chunks(case["input_files"], case["chunk_size"])
    tensors.write(chunking, folder, "chunking")
    result, grads, info = {}, {}, {}
    old = tensors.read(folder, "loss_info")
    for variant in parity.variants(folder):
        outcome, gradients, info[variant] = run(folder, variant, old[variant])
        result |= outcome
        grads |= tensors.with_prefix(gradients, f"{variant}.")
    tensors.write(info, folder, "loss_info")
    tensors.store(grads, folder, "grads")
    tensors.store(result, folder, "outputs")
    complete(folder)


def batches(folder: Path) -> None:
    """Their batches over fewer blocks and another vocabulary."""
    data = tensors.read(folder, "batches")
    n = MODEL["vocab_size"] - len(data["vocab"])
    data["vocab"] += [f"more{i}" for i in range(n)]
    for name in ("blocks", "ent_offsets", "ent_lens", "ent_labels"):
        data[name] = data[name][1:]
    words = {"n_words": len(data["vocab"]), "n_special": data["nspecial_after_load"]}
    words |= {name: data[name] for name in ("pad", "cls", "sep", "mask")}
    mentions = [list(zip(*pair, strict=True)) for pair in zip(
        data["ent_offsets"], data["ent_lens"], strict=True)]  # fmt: skip
    for each in data["batches"]:
        settings = each if each["use_mlm"] else each | {"masking_ratio": 0}
        rows, targets, draws = original.masked(data["blocks"], mentions, settings, words)
        longest = max(map(len, rows))
        each["sentence"] = [row + [data["pad"]] * (longest - len(row)) for row in rows]
        each["segment"] = [[0] * longest for _ in rows]
        each["ntokens"] = sum(map(len, rows))
        each["target"] = each["target"][1:]
        if each["use_mlm"]:
            each["lm_target"] = [row + [data["pad"]] * (longest - len(row)) for row in targets]
            each["draws"] = draws
    tensors.write(data, folder, "batches")


def load_inputs(folder: Path) -> Any:
    inputs = tensors.load(folder, "inputs")
    return parity.batch_of(
        inputs["sentence"], inputs["entity_masks"], tensors.read(folder, "config")["padding_idx"],
        words=inputs["lm_target"], classes=inputs["target"],
    )  # fmt: skip


def run(
    folder: Path, variant: str, info: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Outputs, gradients and what is logged of one variant."""
    model, batch = parity.new_model(folder, variant), load_inputs(folder)
    state = tensors.load(folder, "state_dict")
    output = model(batch)
    mlm, truth = model.objectives["mlm"], model.objectives["mention_truth"]
    shared, host = mlm.transform(output.node_states), model.encoder.host
    pooled = hosts.pooled(host, output.node_states)
    total = torch.stack(list(output.losses.values())).sum()
    result = {f"layer.{i}": value for i, value in enumerate(output.hidden_states[1:])}
    result |= {
        "embedding_output": output.hidden_states[0], "task_specific": shared,
        "pooled_output": pooled, "sentence_logits": pooled @ state[original.UNUSED[0]].T,
        "lm_logits": mlm.logits(output.node_states[:1], hosts.word_table(host).weight),
    }  # fmt: skip
    features = truth.features(output, batch, model.encoder)
    if variant == "boundary":
        result["boundary.cls_rep"] = pooled
        typing = (state[f"typing.typing_outputs.{name}"] for name in ("weight", "bias"))
        spans = (state[f"span_qa.qa_outputs.{name}"] for name in ("weight", "bias"))
        result["typing.logits"] = F.linear(pooled, *typing)
        both = F.linear(shared, *spans)
        result["span_qa.start_logits"], result["span_qa.end_logits"] = both[..., :1], both[..., 1:]
    if variant == "boundary_add_layer":
        result[f"{variant}.only_states"] = torch.cat([features, shared], dim=-1)
    outcome = truth.logits(features, batch.mention_spans)
    names = ("start_logits", "end_logits") if len(outcome) > 1 else ("entity_logits",)
    result |= {f"{variant}.{name}": value for name, value in zip(names, outcome, strict=True)}
    zero = torch.tensor(0.0)
    losses = {
        "lm_loss": output.losses["mlm"],
        "ent_loss": output.losses.get("mention_truth", zero),
        "ent_start_loss": output.losses.get("mention_first", zero),
        "ent_end_loss": output.losses.get("mention_last", zero),
        "loss": total,
    }
    result |= tensors.with_prefix(losses, f"{variant}.")
    total.backward()
    n_own = original.VARIANTS[variant].get("n_layers", 0)
    ours = {
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.named_parameters()
    }
    gradients = tables.to_original(ours, original.rules(variant, 1, n_own), packed=PACKED)
    name = f"{original.SENTENCE}embed_positions.weight"
    gradients[name][tensors.read(folder, "config")["padding_idx"]] = 0
    n_copies = 3
    logged = {name: value.item() / math.log(2) for name, value in losses.items()}
    n_tokens = int(batch.node_mask.sum())
    logged |= {
        "ntokens": n_copies * n_tokens, "nsentences": n_copies * len(batch),
        "sample_size": n_copies * info["sample_size"],
    }  # fmt: skip
    n_entities = int((batch.mention_classes >= 0).sum())
    report = {"n_entities": n_entities, "ntokens": n_tokens, "aggregated_two_copies": logged}
    return result, gradients, info | report


@torch.no_grad()
def complete(folder: Path) -> None:
    """The same candidates in batches of two, by the variant that reads first tokens."""
    record, words = tensors.read(folder, "fact_completion"), tensors.read(folder, "batches")
    record |= {"batch_size": 2, "model_variant": "first_token"}
    rows = [row for each in record["batches"] for row in each["inputs"]]
    lens = [n for each in record["batches"] for n in each["lens"]]
    codes = [mask for each in record["batches"] for mask in each["entity_masks"]]
    model, n = parity.new_model(folder, record["model_variant"]), len(rows)
    record["batches"] = []
    names, scores = list(record["candidates"]), {}
    start = 1 + len(record["pretext"])
    for i in range(0, n, 2):
        longest = max(lens)
        tokens = torch.tensor([
            (row + [words["pad"]] * longest)[:longest] for row in rows[i : i + 2]
        ])  # fmt: skip
        masks = [[(m + [0.0] * longest)[:longest] for m in mask] for mask in codes[i : i + 2]]
        batch = parity.batch_of(tokens, torch.tensor(masks), words["pad"])
        output = model(batch)
        true = model.objectives["mention_truth"].chance_true(output, batch, model.encoder)[:, 0]
        table = hosts.word_table(model.encoder.host).weight
        word = model.objectives["mlm"].logits(output.node_states[:, start], table).softmax(-1)
        first = word.gather(1, tokens[:, start : start + 1])[:, 0]
        record["batches"].append({
            "labels": [int(name in record["answers"]) for name in names[i : i + 2]],
            "inputs": tokens.tolist(), "segments": torch.zeros_like(tokens).tolist(),
            "lens": lens[i : i + 2], "pretext_len": start, "entity_masks": masks,
            "p_true": true.tolist(), "first_token_lm_prob": first.tolist(),
        })  # fmt: skip
        pairs = zip(true.tolist(), first.tolist(), strict=True)
        scores |= dict(zip(names[i : i + 2], pairs, strict=True))
    for each in record["hits"]:
        each["hits"] = {
            k: original.hits(scores, record["answers"], each["alpha"], int(k)) for k in each["hits"]
        }
    tensors.write(record, folder, "fact_completion")
