"""WKLM against the numbers of the original implementation: batches, model, losses, gradients."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.convert import tables
from kept.convert.kepler import PACKED
from kept.heads.model import KnowledgeForTask
from kept.lab.probing.models.truth import truths
from kept.objectives.model import KnowledgeForPreTraining
from kept.outputs import KnowledgeOutput
from kg_loaders import graph_from_records
from tests.reference import original_wklm as original

METHOD = "wklm"
ATOL = RTOL = 1e-5
BITS = math.log(2)


def variants(folder: Path) -> list[str]:
    return list(read(folder, "loss_info"))


PARAMETERS = {"variant": variants}


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def batch_of(
    tokens: Tensor, codes: Tensor, pad: int, *, words: Tensor | None = None, classes: Any = None
) -> KnowledgeBatch:
    """Their rows as ours; mentions by their marks, empty where a row of marks is."""
    mask = tokens != pad
    if (mask.long().diff(dim=1) > 0).any():
        raise AssertionError("a row has padding inside")
    n_nodes = tokens.shape[1]
    visible = (mask[:, :, None] & mask[:, None, :]) | torch.eye(n_nodes, dtype=torch.bool)
    before, after = (codes == -1).long().argmax(2), (codes == -2).long().argmax(2)
    is_mention = (codes == -2).any(2)
    spans = torch.stack([before + 1, after], dim=2) * is_mention[..., None]
    return KnowledgeBatch(
        node_ids=tokens,
        node_kinds=torch.zeros_like(tokens),
        node_mask=mask,
        positions=torch.arange(n_nodes).repeat(len(tokens), 1),
        segment_ids=torch.zeros_like(tokens),
        visibility=Visibility(visible),
        node_labels=None if words is None else words.where(words != pad, IGNORE),
        mention_spans=spans,
        mention_classes=None if classes is None else classes.where(classes >= 0, IGNORE),
    )


@pytest.fixture(scope="module")
def batch(folder: Path) -> KnowledgeBatch:
    inputs, pad = load(folder, "inputs"), read(folder, "config")["padding_idx"]
    assert not inputs["segment"].any()
    return batch_of(
        inputs["sentence"], inputs["entity_masks"], pad,
        words=inputs["lm_target"], classes=inputs["target"],
    )  # fmt: skip


def new_model(folder: Path, variant: str) -> KnowledgeForPreTraining:
    state = load(folder, "state_dict")
    return original.model_of(state, read(folder, "config"), variant, graph_from_records([]))


@pytest.fixture(scope="module")
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(folder: Path, variant: str) -> KnowledgeForPreTraining:
    return new_model(folder, variant)


@pytest.fixture(scope="module")
def output(model: KnowledgeForPreTraining, batch: KnowledgeBatch) -> KnowledgeOutput:
    with torch.no_grad():
        return model(batch)


# ---- data -----------------------------------------------------------------------------------
def test_marks_of_mentions(folder: Path, batch: KnowledgeBatch, compared: Any) -> None:
    wanted = load(folder, "inputs")["entity_masks"]
    assert batch.mention_spans is not None
    for spans, marks in zip(batch.mention_spans, wanted, strict=True):
        actual = original.codes(spans.numpy(), wanted.shape[2])
        compared.equal("entity_masks", actual.tolist(), marks.tolist())


def test_batches(folder: Path, compared: Any) -> None:
    data = read(folder, "batches")
    words = {"n_words": len(data["vocab"]), "n_special": data["nspecial_after_load"]}
    words |= {name: data[name] for name in ("pad", "cls", "sep", "mask")}
    mentions = [list(zip(*pair, strict=True)) for pair in zip(
        data["ent_offsets"], data["ent_lens"], strict=True)]  # fmt: skip
    for each in data["batches"]:
        settings = each if each["use_mlm"] else each | {"masking_ratio": 0}
        rows, targets, draws = original.masked(data["blocks"], mentions, settings, words)
        longest = max(map(len, rows))
        compared.equal("batch", [_padded(r, longest, words["pad"]) for r in rows], each["sentence"])
        compared.equal("n tokens", sum(map(len, rows)), each["ntokens"])
        compared.equal("segments", [[0] * longest for _ in rows], each["segment"])
        labels = [
            [label if length else -1 for label, length in zip(*pair, strict=True)]
            for pair in zip(data["ent_labels"], data["ent_lens"], strict=True)
        ]
        most = max(map(len, labels))
        compared.equal("labels", [_padded(row, most, -1) for row in labels], each["target"])
        if each["use_mlm"]:
            padded = [_padded(row, longest, words["pad"]) for row in targets]
            compared.equal("lm_target", padded, each["lm_target"])
            compared.equal("draws", draws, each["draws"])


def _padded(row: list[int], n: int, fill: int) -> list[int]:
    return row + [fill] * (n - len(row))


def test_chunks(folder: Path, compared: Any) -> None:
    for case in read(folder, "chunking"):
        actual = original.chunks(case["input_files"], case["chunk_size"])
        compared.equal("chunks", actual, case["output_files"])


# ---- model ----------------------------------------------------------------------------------
def test_states(
    folder: Path, variant: str, output: KnowledgeOutput, batch: KnowledgeBatch, compared: Any
) -> None:
    wanted, real = load(folder, "outputs"), batch.node_mask
    layers = [wanted[f"layer.{i}"] for i in range(len(output.hidden_states) - 1)]
    states = [wanted["embedding_output"], *layers]
    for ours, theirs in zip(output.hidden_states, states, strict=True):
        compared.close("states", ours[real], theirs[real], atol=ATOL, rtol=RTOL)


@torch.no_grad()
def test_heads_over_words(
    folder: Path, variant: str, model: Any, output: KnowledgeOutput, batch: Any, compared: Any
) -> None:
    wanted, state = load(folder, "outputs"), load(folder, "state_dict")
    real, words = batch.node_mask, hosts.word_table(model.encoder.host).weight
    mlm, truth = model.objectives["mlm"], model.objectives["mention_truth"]
    n = len(wanted["lm_logits"])
    logits = mlm.logits(output.node_states[:n], words)
    is_real = real[:n]
    compared.close("lm_logits", logits[is_real], wanted["lm_logits"][is_real], atol=ATOL, rtol=RTOL)
    shared = mlm.transform(output.node_states)
    compared.close("transform", shared[real], wanted["task_specific"][real], atol=ATOL, rtol=RTOL)
    pooled = hosts.pooled(model.encoder.host, output.node_states)
    compared.close("pooled", pooled, wanted["pooled_output"], atol=ATOL, rtol=RTOL)
    next_sentence = pooled @ state[original.UNUSED[0]].T
    compared.close("nsp", next_sentence, wanted["sentence_logits"], atol=ATOL, rtol=RTOL)
    if f"{variant}.cls_rep" in wanted:
        compared.close("cls", pooled, wanted[f"{variant}.cls_rep"], atol=ATOL, rtol=RTOL)
    if f"{variant}.only_states" in wanted:
        both = torch.cat([truth.features(output, batch, model.encoder), shared], dim=-1)
        theirs = wanted[f"{variant}.only_states"]
        compared.close("both states", both[real], theirs[real], atol=ATOL, rtol=RTOL)


@torch.no_grad()
def test_mentions(
    folder: Path, variant: str, model: Any, output: KnowledgeOutput, batch: Any, compared: Any
) -> None:
    wanted, truth = load(folder, "outputs"), model.objectives["mention_truth"]
    actual = truth.logits(truth.features(output, batch, model.encoder), batch.mention_spans)
    names = ("start_logits", "end_logits") if len(actual) > 1 else ("entity_logits",)
    is_mention = batch.mention_spans[..., 1] > batch.mention_spans[..., 0]
    for name, ours in zip(names, actual, strict=True):
        theirs = wanted[f"{variant}.{name}"][is_mention]
        compared.close(name, ours[is_mention], theirs, atol=ATOL, rtol=RTOL)
    assert output.losses["mlm"] > 0
    record = {f"{variant}.lm_loss": output.losses["mlm"]}
    for ours, theirs in (
        ("mention_truth", "ent_loss"), ("mention_first", "ent_start_loss"),
        ("mention_last", "ent_end_loss"),
    ):  # fmt: skip
        record[f"{variant}.{theirs}"] = output.losses.get(ours, torch.tensor(0.0))
    record[f"{variant}.loss"] = torch.stack(list(output.losses.values())).sum()
    for name, value in record.items():
        compared.close("losses", value, wanted[name], atol=0, rtol=RTOL)
    info = read(folder, "loss_info")[variant]
    compared.equal("n_entities", int((batch.mention_classes != IGNORE).sum()), info["n_entities"])
    compared.equal("n_tokens", int(batch.node_mask.sum()), info["ntokens"])
    logged = info["aggregated_two_copies"]
    n_copies = logged["sample_size"] / info["sample_size"]
    for name, value in record.items():
        theirs = torch.tensor(logged[name.removeprefix(f"{variant}.")])
        compared.close("logged", value / BITS, theirs, atol=1e-6, rtol=RTOL)
    compared.equal("logged tokens", n_copies * info["ntokens"], logged["ntokens"])
    compared.equal("logged rows", n_copies * len(batch), logged["nsentences"])


def test_gradients(folder: Path, variant: str, batch: KnowledgeBatch, compared: Any) -> None:
    model, config = new_model(folder, variant), read(folder, "config")
    torch.stack(list(model(batch).losses.values())).sum().backward()
    n_own = original.VARIANTS[variant].get("n_layers", 0)
    table = original.rules(variant, config["encoder_layers"], n_own)
    ours = {
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.named_parameters()
    }
    actual = tables.to_original(ours, table, packed=PACKED)
    wanted = {
        name.removeprefix(f"{variant}."): value
        for name, value in load(folder, "grads").items()
        if name.startswith(f"{variant}.")
    }
    assert wanted
    for name, theirs in wanted.items():
        gradient = actual[name].clone()
        if name.endswith("embed_positions.weight"):  # their row of padding is never trained
            gradient[config["padding_idx"]] = 0
        scale = float(theirs.abs().max())
        compared.close(f"gradients {variant}", gradient, theirs, atol=1e-4 * scale, rtol=0)
    silent = {name for name, value in model.named_parameters() if value.grad is None}
    names = tables.to_original({n: torch.zeros(0) for n in silent}, table)
    silent_theirs = {*read(folder, "loss_info")[variant]["parameters_without_gradient"]}
    compared.equal("silent", sorted({*names} | {*original.UNUSED}), sorted(silent_theirs))


# ---- tasks ----------------------------------------------------------------------------------
@torch.no_grad()
def test_typing_and_span_heads(folder: Path, batch: KnowledgeBatch, compared: Any) -> None:
    """Linear layers on the pooled state, and on the transformed states."""
    model = new_model(folder, "boundary")
    state, wanted, output = load(folder, "state_dict"), load(folder, "outputs"), model(batch)
    pooled = KnowledgeForTask.of(
        model.encoder, "pooled", [str(i) for i in range(len(state["typing.typing_outputs.bias"]))],
        problem_type="single_label_classification", dropout=0.0,
    ).eval()  # fmt: skip
    classes = {k.rpartition(".")[2]: v for k, v in state.items() if k.startswith("typing.")}
    pooled.head.classes.load_state_dict(classes)
    compared.close(
        "typing", pooled(batch).class_logits, wanted["typing.logits"], atol=ATOL, rtol=RTOL
    )
    states = model.objectives["mlm"].transform(output.node_states)
    actual = F.linear(states, state["span_qa.qa_outputs.weight"], state["span_qa.qa_outputs.bias"])
    theirs = torch.cat([wanted["span_qa.start_logits"], wanted["span_qa.end_logits"]], dim=-1)
    real = batch.node_mask
    compared.close("span_qa", actual[real], theirs[real], atol=ATOL, rtol=RTOL)


@torch.no_grad()
def test_fact_completion(folder: Path, compared: Any) -> None:
    data = read(folder, "fact_completion")
    words = read(folder, "batches")
    model = new_model(folder, data["model_variant"])
    numbers = {name: i for i, name in enumerate(words["vocab"])}
    names, scores = list(data["candidates"]), {}
    size = data["batch_size"]
    longest = 2 + len(data["pretext"]) + max(map(len, data["candidates"].values()))
    parts = [names[start : start + size] for start in range(0, len(names), size)]
    for part, wanted in zip(parts, data["batches"], strict=True):
        rows = [
            [words["cls"], *(numbers[w] for w in data["pretext"]),
             *(numbers[w] for w in data["candidates"][name]), words["sep"]]
            for name in part
        ]  # fmt: skip
        compared.equal("lens", [len(row) for row in rows], wanted["lens"])
        rows = [_padded(row, longest, words["pad"]) for row in rows]
        compared.equal("completion inputs", rows, wanted["inputs"])
        compared.equal("pretext", 1 + len(data["pretext"]), wanted["pretext_len"])
        compared.equal("right", [int(name in data["answers"]) for name in part], wanted["labels"])
        tokens = torch.tensor(rows)
        codes = torch.tensor(wanted["entity_masks"])
        batch = batch_of(tokens, codes, words["pad"])
        start = wanted["pretext_len"]
        stops = [start + len(data["candidates"][name]) for name in part]
        assert batch.mention_spans is not None
        compared.equal("spans", batch.mention_spans[:, 0].tolist(), [[start, e] for e in stops])
        output = model(batch)
        true = model.objectives["mention_truth"].chance_true(output, batch, model.encoder)[:, 0]
        table = hosts.word_table(model.encoder.host).weight
        word = model.objectives["mlm"].logits(output.node_states[:, start], table).softmax(-1)
        first = word.gather(1, tokens[:, start : start + 1])[:, 0]
        spans = batch.mention_spans[:, 0]
        truths_by_weight = {
            weight: truths(model, batch, spans, first_word=weight) for weight in (0, 10)
        }
        torch.testing.assert_close(truths_by_weight[0], true)
        torch.testing.assert_close(truths_by_weight[10], true + 10 * first)
        for ours, theirs in ((true, "p_true"), (first, "first_token_lm_prob")):
            compared.close(theirs, ours, torch.tensor(wanted[theirs]), atol=ATOL, rtol=RTOL)
        pairs = zip(true.tolist(), first.tolist(), strict=True)
        scores |= dict(zip(part, pairs, strict=True))
    for run in data["hits"]:
        actual = {
            k: original.hits(scores, data["answers"], run["alpha"], int(k)) for k in run["hits"]
        }
        compared.equal("hits", actual, run["hits"])
