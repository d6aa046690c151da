"""K-BERT's preparation and model against the numbers of the original implementation.

A padded row of the original sees nothing and so attends to everything alike, through scores that
-10000 has rounded to thousandths: in float32 padded positions, and everything that reads them, are
good to 5e-3 only. Float64 decides: there every position is compared at 1e-9.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn import functional as F

from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.convert import kbert as keys
from kept.convert.tables import to_original
from kept.encoders.base import KnowledgeModel
from kept.heads.model import KnowledgeForTask
from kept.heads.uer import POOLINGS
from kg_loaders.damage import DamageReport
from kg_loaders.formats import spo
from kg_loaders.records import Triple
from tests.reference import original_kbert as original

METHOD = "kbert"
ATOL, AT_PADDING, FLOAT64 = 2e-5, 5e-3, 1e-9


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read_json(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def triples(folder: Path) -> list[Triple]:
    records = spo.read(folder / "kg.spo", DamageReport(), labels=False)
    return [record for record in records if isinstance(record, Triple)]


def vocabulary(folder: Path) -> dict[str, int]:
    lines = (folder / "vocab.txt").read_text().splitlines()
    return {token: i for i, token in enumerate(lines)}


# ---- preparation ---------------------------------------------------------------------------------
def test_lookup(folder: Path, compared: Any) -> None:
    expected, facts = read_json(folder, "injection"), triples(folder)
    compared.equal("triples", [list(fact) for fact in facts], expected["triples"])
    for predicate, name in ((True, "lookup_predicate_true"), (False, "lookup_predicate_false")):
        compared.equal(name, original.lookup(facts, predicate=predicate), expected[name])
    compared.equal("tags", list(original.SPECIAL_TAGS), expected["special_tags"])


def test_injection(folder: Path, compared: Any) -> None:
    golden, facts = read_json(folder, "injection"), triples(folder)
    for case in golden["cases"]:
        tree = original.sentence_tree(
            case["split"],
            original.lookup(facts, predicate=case["predicate"]),
            max_branches=case["max_entities"],
            max_length=case["max_length"],
        )
        name = f"{case['name']}, predicate={case['predicate']}"
        compared.equal(f"{name}: tokens", list(tree.tokens), case["tokens"])
        compared.equal(f"{name}: positions", tree.positions.tolist(), case["soft_position"])
        compared.equal(f"{name}: injected", tree.injected.tolist(), case["segment_tag"])
        compared.equal(f"{name}: visible", tree.visible.tolist(), case["visible_matrix"])


def test_longest_match_gives_the_same_trees(folder: Path) -> None:
    """Without pkuseg, all but the cases where subjects were forced apart come out the same."""
    golden, facts = read_json(folder, "injection"), triples(folder)
    for case in golden["cases"]:
        texts = original.lookup(facts, predicate=case["predicate"])
        words = original.longest_match(case["sentence"], {*texts, *original.SPECIAL_TAGS})
        tree = original.sentence_tree(
            words, texts, max_branches=case["max_entities"], max_length=case["max_length"]
        )
        subjects, forced = ([w for w in split if w in texts] for split in (words, case["split"]))
        assert subjects != forced or list(tree.tokens) == case["tokens"], case["name"]


def batch_of(folder: Path, part: str) -> KnowledgeBatch:
    """The model inputs of `rows.json`, "classification" or "ner", prepared by us."""
    rows, words = read_json(folder, "rows"), vocabulary(folder)
    texts = original.lookup(triples(folder), predicate=rows[f"predicate_{part}"])
    trees = [
        original.sentence_tree(
            row["split"], texts, max_branches=rows["max_entities"], max_length=rows["max_length"]
        )
        for row in rows[f"{part}_rows"]
    ]
    segments = [original.segment_ids(tree.tokens, tagging=part == "ner") for tree in trees]
    if part == "classification":
        batch = original.tree_batch(trees, words, segments)
        labels = torch.tensor([row["label"] for row in rows["classification_rows"]])
        return dataclasses.replace(batch, labels=labels)
    names = [row["line"].split("\t")[1].split() for row in rows["ner_rows"]]
    tags = [
        original.tag_labels(tree, [rows["ner_labels_map"][name] for name in row])
        for tree, row in zip(trees, names, strict=True)
    ]
    return original.tree_batch(trees, words, segments, tags=tags)


def test_inputs(folder: Path, compared: Any) -> None:
    expected = load(folder, "inputs")
    for part, prefix in (("classification", ""), ("ner", "ner_")):
        batch = batch_of(folder, part)
        eye = torch.eye(batch.node_ids.shape[1], dtype=torch.bool)
        ours = {
            "token_ids": batch.node_ids,
            "mask": batch.segment_ids + batch.node_mask.long(),
            "soft_position": batch.positions,
            "visible_matrix": (batch.visibility.mask & ~(eye & ~batch.node_mask[:, None])).long(),
        }
        if part == "ner":
            ours["labels"] = batch.node_labels.where(batch.node_labels != IGNORE, 0)
            ours["segment_tag"] = batch.node_kinds
        else:
            ours["labels"] = batch.labels
        for name, value in ours.items():
            compared.equal(f"{part} {name}", value.tolist(), expected[prefix + name].tolist())


# ---- model ---------------------------------------------------------------------------------------
def model_of(
    folder: Path, *, head: str = "classifier", attention: str = "sdpa", **options: Any
) -> KnowledgeForTask:
    state = load(folder, "state_dict")
    if head == "tagger":
        state = {k: v for k, v in state.items() if not k.startswith("output_layer")}
        state |= load(folder, "tagger_head")
    sizes = read_json(folder, "config")
    config = keys.original_config(state, n_heads=sizes["heads_num"], dropout=sizes["dropout"])
    model = keys.from_original(state, config, **options)
    assert isinstance(model, KnowledgeForTask)
    model.set_attn_implementation(attention)
    assert model.encoder.host.config._attn_implementation == attention
    return model


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(folder: Path, request: pytest.FixtureRequest) -> KnowledgeForTask:
    return model_of(folder, attention=request.param)


def without_matrix(batch: KnowledgeBatch, *, running: bool) -> KnowledgeBatch:
    """Every node sees every real one; with `running`, positions count through the row."""
    n_nodes = batch.node_ids.shape[1]
    seen = batch.node_mask[:, None] | torch.eye(n_nodes, dtype=torch.bool)
    positions = torch.arange(n_nodes).expand_as(batch.positions) if running else batch.positions
    return batch.replace(visibility=Visibility(seen), positions=positions)


@torch.no_grad()
def test_states(folder: Path, model: KnowledgeForTask, compared: Any) -> None:
    expected, batch = load(folder, "outputs"), batch_of(folder, "classification")
    attention: list[Tensor] = []
    hooks = [
        layer.attention.output.dense.register_forward_hook(
            lambda _m, _i, out: attention.append(out)
        )
        for layer in model.encoder.host.encoder.layer
    ]
    states = model.encoder(batch).hidden_states
    for hook in hooks:
        hook.remove()
    ours = {"embedding_output": states[0]}
    for i, (attended, hidden) in enumerate(zip(attention, states[1:], strict=True)):
        ours |= {f"layer.{i}.attn_output": attended, f"layer.{i}.hidden": hidden}
    assert set(ours) == {name for name in expected if name.startswith(("layer", "embedding"))}
    for name, value in ours.items():
        for nodes, atol in ((batch.node_mask, ATOL), (~batch.node_mask, AT_PADDING)):
            compared.close(name, value[nodes], expected[name][nodes], atol=atol)


@torch.no_grad()
def test_logits_and_losses(folder: Path, model: KnowledgeForTask, compared: Any) -> None:
    expected, batch = load(folder, "outputs"), batch_of(folder, "classification")
    for pooling in POOLINGS:
        model.head.pooling = pooling
        output = model(batch)
        atol = ATOL if pooling == "first" else AT_PADDING
        name = f"logits.{pooling}"
        compared.close(name, output.class_logits, expected[name], atol=atol)
        name = f"loss.{pooling}"
        compared.close(name, output.losses["class"], expected[name], atol=atol)
    model.head.pooling = "first"
    for name, running in (("logits.no_vm", False), ("logits.no_vm_hard_pos", True)):
        logits = model(without_matrix(batch, running=running)).class_logits
        compared.close(name, logits, expected[name], atol=ATOL)


@torch.no_grad()
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_in_float64(folder: Path, attention: str, compared: Any) -> None:
    """Padding included, everything agrees to rounding."""
    expected, batch = load(folder, "outputs_float64"), batch_of(folder, "classification")
    for pooling in POOLINGS:
        model = model_of(folder, attention=attention, pooling=pooling).double()
        output = model(batch)
        last = expected[f"layer.{len(output.hidden_states) - 2}.hidden"]
        compared.close("float64 states", output.node_states, last, atol=FLOAT64)
        for name, value in (("logits", output.class_logits), ("loss", output.losses["class"])):
            name = f"{name}.{pooling}"
            compared.close(f"float64 {name}", value, expected[name], atol=FLOAT64)
    model = model_of(folder, attention=attention).double()
    for name, running in (("logits.no_vm", False), ("logits.no_vm_hard_pos", True)):
        logits = model(without_matrix(batch, running=running)).class_logits
        compared.close(f"float64 {name}", logits, expected[name], atol=FLOAT64)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_tagger(folder: Path, precision: str, compared: Any) -> None:
    exact = precision == "float64"
    expected = load(folder, "outputs_float64" if exact else "outputs")
    batch, model = batch_of(folder, "ner"), model_of(folder, head="tagger")
    model = model.double() if exact else model
    output = model(batch)
    atol, at_padding = (FLOAT64, FLOAT64) if exact else (ATOL, AT_PADDING)
    for nodes, tolerance in ((batch.node_mask, atol), (~batch.node_mask, at_padding)):
        logits = output.class_logits[nodes].detach()
        compared.close(
            f"{precision} ner.logits", logits, expected["ner.logits"][nodes], atol=tolerance
        )
    n_asked = (batch.node_labels != IGNORE).sum()
    loss = output.losses["class"] * n_asked / (n_asked + 1e-6)  # the original's divisor
    compared.close(f"{precision} ner.loss", loss.detach(), expected["ner.loss"], atol=atol)
    chosen = output.class_logits.argmax(2)
    real = batch.node_mask.flatten()
    theirs = expected["ner.predict"]
    compared.equal(
        f"{precision} ner.predict", chosen.flatten()[real].tolist(), theirs[real].tolist()
    )
    best, of_theirs = (  # at padding two logits may be as good as equal
        output.class_logits.detach().flatten(0, 1).gather(1, classes.long().view(-1, 1))[~real]
        for classes in (chosen, theirs)
    )
    compared.close(f"{precision} ner.predict at padding", of_theirs, best, atol=2 * at_padding)
    compared.equal(
        f"{precision} ner.correct",
        float((chosen == batch.node_labels).sum()),
        float(expected["ner.correct"]),
    )
    loss.backward()
    gradients = gradients_of(model, keys.TAGGER)
    for name, value in expected.items():
        if name.startswith("ner.grad:"):
            actual = gradients[name.removeprefix("ner.grad:")]
            compared.close(f"{precision} {name}", actual, value, atol=atol)


def gradients_of(model: KnowledgeModel, head: Any) -> dict[str, Tensor]:
    named = {k: v.grad for k, v in model.named_parameters() if v.grad is not None}
    return to_original(named, keys.task_rules(model.config.host.num_hidden_layers, head))


def test_gradients(folder: Path, model: KnowledgeForTask, compared: Any) -> None:
    expected, batch = load(folder, "grads"), batch_of(folder, "classification")
    model.zero_grad()
    model(batch).losses["class"].backward()
    ours = gradients_of(model, keys.CLASSIFIER)
    assert expected
    assert expected.keys() <= ours.keys()  # they may be stored for a part of the parameters
    for name, reference in expected.items():
        value = ours[name]
        assert (value[len(reference) :] == 0).all()
        compared.close(f"gradient of {name}", value[: len(reference)], reference, atol=ATOL)


def test_losses_from_logits(folder: Path, compared: Any) -> None:
    """The stored loss is the mean cross entropy of the stored logits, as ours is."""
    expected, labels = load(folder, "outputs"), load(folder, "inputs")["labels"]
    for pooling in POOLINGS:
        loss = F.cross_entropy(expected[f"logits.{pooling}"], labels)
        compared.close(f"loss.{pooling} again", loss, expected[f"loss.{pooling}"], atol=1e-6)


@pytest.mark.parametrize("head", ["classifier", "tagger"])
def test_key_table_round_trip(folder: Path, head: str, compared: Any) -> None:
    model = model_of(folder, head=head)
    rules = keys.TAGGER if head == "tagger" else keys.CLASSIFIER
    n_layers = read_json(folder, "config")["layers_num"]
    back = to_original(model.state_dict(), keys.task_rules(n_layers, rules))
    theirs = load(folder, "state_dict")
    if head == "tagger":
        theirs = {k: v for k, v in theirs.items() if not k.startswith("output_layer")}
        theirs |= load(folder, "tagger_head")
    compared.equal(f"names of the {head}", sorted(back), sorted(theirs))
    assert save({k: v.clone() for k, v in back.items()}) == save(theirs)
