"""SentiLARE with one layer of width 24, three heads, seven ratings, four rows and fewer samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kept import hosts
from kept.tasks.kinds import MULTI, SINGLE, TAGGING
from tests.parity.other_sizes import tensors
from tests.parity.sentilare import sentilare_golden as parity

MODEL = {
    "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 40,
    "max_position_embeddings": 51, "polarity_vocab": 8,
}  # fmt: skip
SIZES = {32: 24, 48: 40}
NAMED = {"position_embeddings": {48: 51}, "polarity_embeddings": {6: 8}, "pola_head": {6: 8}}
OLD, NEW = 5, 7
"""What an unknown rating is, before and after."""
N_ROWS = 4


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | MODEL, folder, "config")
    old = tensors.load(folder, "state_dict")
    state = {name: value for name, value in old.items() if ".layer.1." not in name}
    tensors.store(tensors.weights(state, SIZES, n_layers=1, named=NAMED), folder, "state_dict")
    data(folder)
    inputs_ = {name: value[1:] for name, value in tensors.load(folder, "inputs").items()}
    assert all(len(value) == N_ROWS for value in inputs_.values())
    inputs_["polarity_ids"] = renamed(inputs_["polarity_ids"])
    tensors.store(inputs_, folder, "inputs")
    pretrained(folder)
    fine_tuned(folder)


def renamed(ids: Tensor) -> Tensor:
    return ids.masked_fill(ids == OLD, NEW)


def data(folder: Path) -> None:
    """Fewer samples, ratings renamed, and vectors one wider, of which cosines say nothing."""
    content = tensors.read(folder, "pretrain_examples")
    content["cases"] = content["cases"][2:]
    for case in content["cases"]:
        case["polarity_ids"] = [NEW if i == OLD else i for i in case["polarity_ids"]]
    tensors.write(content, folder, "pretrain_examples")
    content = tensors.read(folder, "finetune_features")
    for case in content["cases"]:
        for row in case["features"]:
            row["polarity_ids"] = [NEW if i == OLD else i for i in row["polarity_ids"]]
    content["cases"] = [case for case in content["cases"] if case["name"] != "single_no_extra"]
    tensors.write(content, folder, "finetune_features")
    content = tensors.read(folder, "prior_polarity")
    content["gloss_embedding"] = [[*row, 0.0] for row in content["gloss_embedding"]]
    sentences = content["sentence_embedding"].items()
    content["sentence_embedding"] = {text: [*row, 0.0] for text, row in sentences}
    tensors.write(content, folder, "prior_polarity")


def pretrained(folder: Path) -> None:
    model, batch = parity.new_model(folder), parity.batch_of(folder)
    output, host = model(batch), model.encoder.host
    states = output.node_states
    results = {f"layer.{i}": state for i, state in enumerate(output.hidden_states[1:])}
    results |= {"embedding_output": output.hidden_states[0], "pooled": hosts.pooled(host, states)}
    words = hosts.word_table(host).weight
    results["lm_logits"] = model.objectives["mlm"].logits(states, words)[:3]
    for name, short in parity.SHORT.items():
        scores = model.objectives["sentiment"].logits(name, states, model.encoder)
        results[f"{short}_logits"] = scores
    for name, theirs in parity.LOSSES.items():
        results[f"loss.{theirs}"] = output.losses[name]
    total = torch.stack(list(output.losses.values())).sum()
    tensors.store(results | {"loss.total": total}, folder, "outputs")
    total.backward()
    grads = dict(model.named_parameters())
    names = [*tensors.load(folder, "grads")]
    tensors.store({n: gradient(grads[parity.ours(n)]) for n in names}, folder, "grads")
    assert batch.extra_labels is not None
    late = (batch.extra_labels[parity.RATING] != -100).any(1)[:, 0]
    meta = tensors.read(folder, "meta")
    meta["batch_rows"] = {"late_supervision": int(late.sum()), "early_fusion": int((~late).sum())}
    losses = model(batch.take((~late).nonzero()[:, 0])).losses
    numbers = [losses[name].item() for name in parity.LOSSES]
    meta["early_fusion_only_losses"] = [*map(str, numbers[:-1]), "nan"]
    tensors.write(meta, folder, "meta")


def gradient(parameter: Any) -> Tensor:
    assert parameter.grad is not None
    result: Tensor = parameter.grad
    return result


@torch.no_grad()
def fine_tuned(folder: Path) -> None:
    old, batch = tensors.load(folder, "finetune_outputs"), parity.task_batch(folder)
    rows = tensors.read(folder, "finetune_features")["cases"][0]["features"]
    gold = torch.tensor([row["label_id"] for row in rows])
    n, result = old["sequence.logits"].shape[1], {k: v for k, v in old.items() if "labels" in k}
    output = parity.task_model(folder, "pooled", "sequence", n, SINGLE)(batch.replace(labels=gold))
    result |= {"sequence.logits": output.class_logits, "sequence.loss": output.losses["class"]}
    labels = batch.replace(labels=old["multilabel.labels"])
    output = parity.task_model(folder, "pooled", "multilabel", n, MULTI)(labels)
    result["multilabel.logits"] = output.class_logits.sigmoid()
    result["multilabel.loss"] = output.losses["class"]
    labels = parity.ignored(old["token.labels"]).masked_fill(~batch.node_mask, -100)
    tagged = batch.replace(node_labels=labels)
    output = parity.task_model(folder, "tagging", "token", n, TAGGING)(tagged)
    result |= {"token.logits": output.class_logits, "token.loss": output.losses["class"]}
    output = parity.task_model(folder, "pooled", "choice", 1, SINGLE)(batch)
    scores = output.class_logits.view(old["choice.logits"].shape)
    loss = F.cross_entropy(scores, old["choice.labels"])
    result |= {"choice.logits": scores, "choice.loss": loss}
    tensors.store(result, folder, "finetune_outputs")
