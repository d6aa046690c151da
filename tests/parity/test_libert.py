"""LIBERT's constraints, neighbours, inputs, both tasks and gradients against the original's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.lexical.libert import LIBERT
from kept.objectives.base import PreparationContext
from kept.objectives.described_triples import text_batch
from kept.objectives.lexical.relations import (
    RELATED,
    UNRELATED,
    VOCABULARY,
    LexicalOptions,
    LexicalPreparation,
)
from kept.objectives.lexical.terms import (
    Lexicon,
    of_terms,
    read_pairs,
    terms_of,
    with_neighbours,
)
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import graph_from_records
from tests.reference import original_libert as original

METHOD = "libert"
ATOL = RTOL = 1e-5
LAYER = {
    "attention/self/query": "attention.self.query", "attention/self/key": "attention.self.key",
    "attention/self/value": "attention.self.value",
    "attention/output/dense": "attention.output.dense",
    "attention/output/LayerNorm": "attention.output.LayerNorm",
    "intermediate/dense": "intermediate.dense", "output/dense": "output.dense",
    "output/LayerNorm": "output.LayerNorm",
}  # fmt: skip
"""What a layer's parts are called there and in a BERT of Hugging Face."""
HEADS = {
    "cls/predictions/transform/dense": "objectives.mlm.transform.dense",
    "cls/predictions/transform/LayerNorm": "objectives.mlm.transform.layer_norm",
    "cls/predictions/output_bias": "objectives.mlm.bias",
    "cls/seq_relationship/output_weights": "objectives.nsp.classes.weight",
    "cls/seq_relationship/output_bias": "objectives.nsp.classes.bias",
    "wordnet/output_weights": "objectives.lexical.classes.weight",
    "wordnet/output_bias": "objectives.lexical.classes.bias",
}  # fmt: skip
ENDS = {"kernel": "weight", "gamma": "weight", "beta": "bias"}


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def ours(name: str) -> str:
    """Our parameter of the variable `name` of the original's graph."""
    if name in HEADS:
        return HEADS[name]
    stem, _, end = name.rpartition("/")
    if stem in HEADS:
        return f"{HEADS[stem]}.{ENDS.get(end, end)}"
    path = name.removeprefix("shared/bert/")
    first, _, rest = path.partition("/")
    if first == "embeddings":
        is_table = rest.endswith("embeddings")
        last = f"{rest}.weight" if is_table else f"LayerNorm.{ENDS[end]}"
        return f"encoder.host.embeddings.{last}"
    if first == "pooler":
        return f"encoder.host.pooler.dense.{ENDS.get(end, end)}"
    layer, _, part = rest.partition("/")
    part, _, end = part.rpartition("/")
    number = layer.removeprefix("layer_")
    return f"encoder.host.encoder.layer.{number}.{LAYER[part]}.{ENDS.get(end, end)}"


def turned(name: str, value: Tensor) -> Tensor:
    """Kernels are stored `[in out]` there."""
    return value.T if name.endswith("kernel") else value


def word_pieces(folder: Path) -> PreTrainedTokenizerFast:
    names = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    inner = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, names.index(name)) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def new_model(folder: Path) -> KnowledgeForPreTraining:
    """Their weights under all three objectives, every one of them."""
    config = read(folder, "config")
    known = AutoConfig.for_model("bert").to_dict()
    host = AutoModel.from_config(
        AutoConfig.for_model("bert", **{k: v for k, v in config.items() if k in known})
    )
    encoder = LIBERT.from_host(host, graph_from_records([]))
    model = KnowledgeForPreTraining.of(encoder, {"mlm": {}, "nsp": {}, "lexical": {}})
    state = {ours(k): turned(k, v) for k, v in load(folder, "state_dict").items()}
    assert set(state) == set(model.state_dict())
    model.load_state_dict(state)
    return model.eval()


@pytest.fixture(scope="module")
def model(folder: Path) -> KnowledgeForPreTraining:
    return new_model(folder)


def batch_of(inputs: dict[str, Tensor], task: str) -> KnowledgeBatch:
    """A task's inputs; the pieces alone are given to `text_batch`, which pads as they do."""
    ids, mask = inputs[f"{task}.input_ids"].long(), inputs[f"{task}.input_mask"].bool()
    rows = [row[seen].tolist() for row, seen in zip(ids, mask, strict=True)]
    batch = text_batch(rows, pad_id=0).pad_to(ids.shape[1])
    assert torch.equal(batch.node_ids, ids)
    return dataclasses.replace(batch, segment_ids=inputs[f"{task}.segment_ids"].long())


def lexical_batch(folder: Path) -> KnowledgeBatch:
    inputs = load(folder, "inputs")
    batch = batch_of(inputs, "lexical")
    labels = torch.full_like(batch.node_ids, IGNORE)[..., None]
    labels[:, 0, 0] = inputs["lexical.label_ids"][:, 0].long()
    return dataclasses.replace(batch, extra_labels={VOCABULARY: labels})


def standard_batch(folder: Path) -> KnowledgeBatch:
    inputs = load(folder, "inputs")
    batch = batch_of(inputs, "standard")
    labels = torch.full_like(batch.node_ids, IGNORE)
    names = ("positions", "ids", "weights")
    slots = [inputs[f"standard.masked_lm_{name}"] for name in names]
    for row, (places, ids, weights) in enumerate(zip(*slots, strict=True)):
        counted = weights > 0
        labels[row, places[counted].long()] = ids[counted].long()
    pairs = inputs["standard.next_sentence_labels"][:, 0].long()
    return dataclasses.replace(batch, node_labels=labels, pair_labels=pairs)


# ---- data -------------------------------------------------------------------------------------
def test_constraints(folder: Path, tmp_path: Path, compared: Any) -> None:
    data = read(folder, "constraints")
    file = tmp_path / "constraints.txt"
    file.write_text("\n".join([*data["lines"], ""]), encoding="utf-8")
    pairs = read_pairs(file)
    compared.equal("loaded", [[*pair, True] for pair in pairs], data["loaded"])
    lexicon = Lexicon(pairs)
    actual = [[*lexicon[row], True] for row in range(len(lexicon))]
    compared.equal("sorted", actual, data["sorted_unique"])
    cleaned = {term: original.clean_constraint(term) for term in data["clean_constraint"]}
    compared.equal("cleaned", cleaned, data["clean_constraint"])


def test_near_partners(folder: Path, compared: Any) -> None:
    data = read(folder, "constraints")
    lexicon = Lexicon((one, other) for one, other, _ in data["sorted_unique"])
    order = [lexicon[row] for row in data["order_after_shuffle"]]
    words = {word: np.array(vector) for word, vector in data["vectors"].items()}
    actual, size = [], data["negative_sampling_batch"]
    for start in range(0, len(order), size):
        pairs = order[start : start + size]
        vectors = of_terms(terms_of(pairs), words)
        actual += with_neighbours(pairs, lexicon, vectors @ vectors.T)
    compared.equal("examples", [list(example) for example in actual], data["all_examples"])


def test_features(folder: Path, compared: Any) -> None:
    record, tokenizer = read(folder, "constraints"), word_pieces(folder)
    classes = {label: i for i, label in enumerate(record["features"]["label_list"])}
    assert classes == {True: RELATED, False: UNRELATED}
    length = record["features"]["max_seq_length"]
    cases = [(length, row) for row in record["features"]["rows"]]
    cases += [(row["max_seq_length"], row) for row in record["truncated"]]
    for n_pieces, row in cases:
        options = LexicalOptions(n_pieces=n_pieces)
        world = PreparationContext(graph_from_records([]), tokenizer, np.zeros(3))
        result = LexicalPreparation.of(options, world)
        batch = result.read([(row["ent_a"], row["ent_b"], row["label"])]).pad_to(n_pieces)
        compared.equal("input_ids", batch.node_ids[0].tolist(), row["input_ids"])
        compared.equal("input_mask", batch.node_mask[0].int().tolist(), row["input_mask"])
        compared.equal("segment_ids", batch.segment_ids[0].tolist(), row["segment_ids"])
        assert batch.extra_labels is not None
        label = int(batch.extra_labels[VOCABULARY][0, 0, 0])
        compared.equal("label_id", label, row["label_id"])


# ---- model ------------------------------------------------------------------------------------
@torch.no_grad()
def test_lexical_task(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    batch, expected = lexical_batch(folder), load(folder, "outputs")
    output, mask = model(batch), batch.node_mask
    for name, number in layers_of(expected, "lexical"):
        states = output.hidden_states[number + 1][mask]
        compared.close(name, states, expected[name][mask], atol=ATOL, rtol=RTOL)
    theirs = expected["lexical.sequence_output"][mask]
    compared.close("lexical states", output.node_states[mask], theirs, atol=ATOL, rtol=RTOL)
    pooled = hosts.pooled(model.encoder.host, output.node_states)
    theirs = expected["lexical.pooled_output"]
    compared.close("lexical pooled", pooled, theirs, atol=ATOL, rtol=RTOL)
    logits = model.objectives["lexical"].logits(output, model.encoder)
    compared.close("lexical logits", logits, expected["lexical.logits"], atol=ATOL, rtol=RTOL)
    assert batch.extra_labels is not None
    labels = batch.extra_labels[VOCABULARY][:, 0, 0]
    each = F.cross_entropy(logits, labels, reduction="none")
    theirs = expected["lexical.per_example_loss"]
    compared.close("lexical losses", each, theirs, atol=ATOL, rtol=RTOL)
    assert list(output.losses) == ["lexical"]
    loss = output.losses["lexical"]
    compared.close("lexical loss", loss[None], expected["lexical.loss"], atol=0, rtol=RTOL)
    one = model(batch.take(slice(1))).losses["lexical"]
    data = read(folder, "loss_info")["single_row_lexical_batch"]
    compared.close("of one row", one, data["loss"], atol=0, rtol=RTOL)
    compared.close("each of one row", one[None], data["per_example_loss"], atol=0, rtol=RTOL)


def layers_of(expected: dict[str, Tensor], task: str) -> list[tuple[str, int]]:
    start = f"{task}.layer."
    return [(name, int(name.removeprefix(start))) for name in expected if name.startswith(start)]


@torch.no_grad()
def test_standard_task(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    batch, expected = standard_batch(folder), load(folder, "outputs")
    inputs, info = load(folder, "inputs"), read(folder, "loss_info")
    output, mask = model(batch), batch.node_mask
    states = {"embedding_output": output.hidden_states[0], "sequence_output": output.node_states}
    for name, value in states.items():
        theirs = expected[f"standard.{name}"]
        compared.close(name, value[mask], theirs[mask], atol=ATOL, rtol=RTOL)
    pooled = hosts.pooled(model.encoder.host, output.node_states)
    theirs = expected["standard.pooled_output"]
    compared.close("standard pooled", pooled, theirs, atol=ATOL, rtol=RTOL)
    places = inputs["standard.masked_lm_positions"].long()
    slots = output.node_states[torch.arange(len(places))[:, None], places].flatten(0, 1)
    words = hosts.word_table(model.encoder.host).weight
    shares = model.objectives["mlm"].logits(slots, words).log_softmax(-1)
    theirs = expected["standard.masked_lm_log_probs"]
    compared.close("masked words", shares, theirs, atol=ATOL, rtol=RTOL)
    gold = inputs["standard.masked_lm_ids"].long().flatten()
    each = -shares.gather(1, gold[:, None])[:, 0]
    theirs = expected["standard.masked_lm_example_loss"]
    compared.close("masked word losses", each, theirs, atol=ATOL, rtol=RTOL)
    pairs = model.objectives["nsp"].logits(output, model.encoder).log_softmax(-1)
    theirs = expected["standard.next_sentence_log_probs"]
    compared.close("next sentences", pairs, theirs, atol=ATOL, rtol=RTOL)
    assert batch.pair_labels is not None
    each = -pairs.gather(1, batch.pair_labels[:, None])[:, 0]
    theirs = expected["standard.next_sentence_example_loss"]
    compared.close("next sentence losses", each, theirs, atol=ATOL, rtol=RTOL)
    total = standard_loss(folder, output.losses)
    compared.close("standard loss", total[None], expected["standard.loss"], atol=0, rtol=RTOL)
    both = total + model(lexical_batch(folder)).losses["lexical"]
    compared.close("both tasks", both, info["multitask_total_loss"], atol=0, rtol=RTOL)


def standard_loss(folder: Path, losses: dict[str, Tensor]) -> Tensor:
    """The sum, with their 1e-5 in the masked words' denominator."""
    n = load(folder, "inputs")["standard.masked_lm_weights"].sum()
    return losses["mlm"] * n / (n + 1e-5) + losses["nsp"]


def test_gradients_and_what_has_none(folder: Path, compared: Any) -> None:
    stored, info = load(folder, "grads"), read(folder, "loss_info")
    compared.equal("variables", sorted(load(folder, "state_dict")), sorted(info["variables"]))
    for task in ("lexical", "standard"):
        result = new_model(folder)
        batch = lexical_batch(folder) if task == "lexical" else standard_batch(folder)
        losses = result(batch).losses
        loss = losses["lexical"] if task == "lexical" else standard_loss(folder, losses)
        loss.backward()
        actual = dict(result.named_parameters())
        for name, theirs in stored.items():
            of, _, variable = name.partition(".")
            if of == task:
                gradient = actual[ours(variable)].grad
                assert gradient is not None, name
                atol = 1e-4 * float(theirs.abs().max())
                compared.close("gradients", turned(variable, gradient), theirs, atol=atol)
        silent = [v for v in info["variables"] if actual[ours(v)].grad is None]
        compared.equal("without gradient", silent, info["no_gradient"][task])
