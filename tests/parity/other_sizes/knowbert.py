"""KnowBERT with three layers of width 40 and five heads, models of other names, shorter lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kept import hosts
from kept.batches import IGNORE
from kept.convert import knowbert as keys
from kept.convert.tables import to_original
from kept.layers.entity_linker import start_as_inverse
from kept.objectives.entity_linking import margin_loss, softmax_loss
from tests.parity.knowbert import test_knowbert_metrics as metrics
from tests.parity.knowbert import test_knowbert_model as parity
from tests.parity.other_sizes import tensors

SIZES = {48: 40, 96: 56, 120: 130}
BERT = {
    "vocab_size": 130, "hidden_size": 40, "num_hidden_layers": 3, "num_attention_heads": 5,
    "intermediate_size": 56, "max_position_embeddings": 44,
}  # fmt: skip
ON_TOKENS = ("projected_bert", "span_attention_output", "projected_back", "output")


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    candidates = tensors.read(folder, "candidates")
    candidates["pairs"]["pairs"] = candidates["pairs"]["pairs"][:-2]
    candidates["wordnet"]["runs"] = candidates["wordnet"]["runs"][3:]
    tensors.write(candidates, folder, "candidates")
    scores = tensors.read(folder, "metrics")
    tensors.write(scores | {"decode": scores["decode"][:-1]}, folder, "metrics")
    forth, back = nn.Linear(12, 19), nn.Linear(19, 12)
    start_as_inverse(back, forth, original=True)
    pairs = (("bert_to_kg_projector", forth), ("kg_to_bert_projection", back))
    state = {f"{n}.{k}": v for n, layer in pairs for k, v in layer.state_dict().items()}
    tensors.store(state, folder, "projection_init")
    for number, path in enumerate(sorted(folder.glob("*/config.json"))):
        make_model(path.parent.rename(folder / f"model{number}"))


def make_model(folder: Path) -> None:
    config = tensors.read(folder, "config")
    config["bert"] |= BERT
    tensors.write(config, folder, "config")
    old = tensors.load(folder, "state_dict")
    positions = {"position_embeddings": {40: BERT["max_position_embeddings"]}}
    state = tensors.weights(old, SIZES, n_layers=3, named=positions, tied=keys.TIED)
    for name in state:
        if name.endswith(".null_embedding"):
            kg = name.partition("_soldered_kg")[0]
            null = parity.names_of(config)[kg].index("@@NULL@@") + 1
            start = name.removesuffix("dot_attention_with_prior.null_embedding")
            state[name] = state[f"{start}entity_embeddings.weight"][null].clone()
    tensors.store(state, folder, "state_dict")
    tensors.store(tensors.one_more(tensors.load(folder, "inputs")), folder, "inputs")
    case = parity.Case(folder, "eager")
    case.outputs = outputs_of(case)
    tensors.store(case.outputs, folder, "outputs")
    change_gradients(case)
    change_metrics(case)


@torch.no_grad()
def outputs_of(case: parity.Case) -> dict[str, Tensor]:
    model, batch, before = case.model, case.batch, list[Tensor]()
    hooks = [
        layer.register_forward_hook(lambda _m, _i, out: before.append(out))
        for layer in hosts.layers(model.encoder.host)
    ]
    output = model(batch)
    for hook in hooks:
        hook.remove()
    words = hosts.word_table(model.encoder.host).weight
    losses = output.losses
    results = {
        "bert.embeddings.output": output.hidden_states[0],
        **{f"bert.layer.{i}.output": states for i, states in enumerate(before)},
        "contextual_embeddings": output.node_states,
        "mlm_logits": model.objectives["mlm"].logits(output.node_states, words),
        "nsp_logits": model.objectives["nsp"].logits(output, model.encoder),
        "pooled_output": hosts.pooled(model.encoder.host, output.node_states),
        **{f"loss_{name}": losses[name][None] for name in ("mlm", "nsp")},
        "loss_total": torch.stack(list(losses.values())).sum()[None],
    }
    for number, spec in enumerate(case.specs):
        states = before[case.settings["soldered_layers"][spec.name]]
        steps = steps_of(case, number, states) | {"input": states}
        results |= tensors.with_prefix(steps, f"kar.{spec.name}.")
    return results


def steps_of(case: parity.Case, number: int, states: Tensor) -> dict[str, Tensor]:
    """Ours, for the original's number of spans; its padded spans share what is left evenly."""
    spans = case.inputs[f"candidates.{case.specs[number].name}.candidate_spans"]
    real, n_spans = spans[:, None, None, :, 0] >= 0, spans.shape[1]
    result = parity.steps_of(case, number, states)
    shares = result.pop("span_attention_probs")[..., :n_spans] * real
    left = (1 - shares.sum(-1, keepdim=True)) / (~real).sum(-1, keepdim=True).clamp(min=1)
    steps = {k: v if k in ON_TOKENS else v[:, :n_spans] for k, v in result.items()}
    return steps | {"span_attention_probs": shares + left * ~real}


def change_gradients(case: parity.Case) -> None:
    case.model.zero_grad()
    torch.stack(list(case.model(case.batch).losses.values())).sum().backward()
    ours = {n: p.grad for n, p in case.model.named_parameters() if p.grad is not None}
    result = to_original(ours, keys.rules(case.model.config))
    stored = tensors.load(case.folder, "grads")
    tensors.store({name: result[name] for name in stored if name in result}, case.folder, "grads")


class Recorded:
    """Stands in for the comparisons and keeps what they are given."""

    def __init__(self) -> None:
        self.changed: dict[str, Any] = {}

    def equal(self, name: str, actual: Any, _expected: Any) -> None:
        self.changed[name] = actual

    def close(self, name: str, actual: Any, _expected: Any, *, atol: float) -> None:
        self.changed[name] = actual


def change_metrics(case: parity.Case) -> None:
    facts = tensors.read(case.folder, "losses_and_metrics")
    outputs, inputs, after = case.outputs, case.inputs, facts["metrics_after_one_batch"]
    is_pair = inputs["next_sentence_label"] >= 0
    right = outputs["nsp_logits"].argmax(1) == inputs["next_sentence_label"]
    after["nsp_accuracy"] = float(right[is_pair].float().mean())
    after |= {"lm_loss": float(outputs["loss_mlm"]), "nsp_loss": float(outputs["loss_nsp"])}
    for spec in case.specs:
        both = facts["entity_linking"][spec.name]
        for kind, loss in losses_of(case, spec).items():
            both[kind]["loss"] = loss
            change_decoding(case, spec.name, both["null_entity_id"], both[kind])
        configured = both[both["configured_loss_type"]]["metrics"]
        after |= {f"{spec.name}_{key}": value for key, value in configured.items()}
    modes = facts["trainable_parameters_by_mode"]
    for mode, names in modes.items():
        modes[mode] = [name for name in names if ".encoder.layer.3." not in name]
    tensors.write(facts, case.folder, "losses_and_metrics")


def losses_of(case: parity.Case, spec: Any) -> dict[str, float]:
    spans, ids, _, labels, _ = case._mentions(case.inputs, spec.name, 0)
    scores = case.outputs[f"kar.{spec.name}.linking_scores"]
    is_labelled = (labels != IGNORE) & (spans[..., 1] > spans[..., 0])
    real = case.inputs[f"candidates.{spec.name}.candidate_entities"][is_labelled] > 0
    right = real & (ids[is_labelled] == labels[is_labelled][:, None])
    return {
        "margin": float(margin_loss(scores[is_labelled], real, right, margin=spec.margin)),
        "softmax": float(softmax_loss(scores[is_labelled], real, right, missing_gold="first")),
    }


def change_decoding(case: parity.Case, name: str, null: int, expected: dict[str, Any]) -> None:
    recorded = Recorded()
    keys = (f"candidates.{name}.candidate_spans", f"candidates.{name}.candidate_entities",
             f"gold_entities.{name}")  # fmt: skip
    scores = case.outputs[f"kar.{name}.linking_scores"]
    tensors_given = (case.inputs[key] for key in keys)
    metrics.check_decoding(recorded, scores, *tensors_given, null, expected)
    expected["decoded [batch, [start,end], entity_id]"] = recorded.changed["decoded"]
    for part in ("el", "span"):
        for key, value in zip(("precision", "recall", "f1"), recorded.changed[part], strict=True):
            expected["metrics"][f"{part}_{key}"] = value
