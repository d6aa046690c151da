"""SenseBERT's word pieces against the original, inputs, scores and losses against its equations."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept import hosts
from kept.batches import IGNORE, NONE
from kept.encoders.lexical.sensebert import SenseBERT
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views import WORDS_ONLY, SensesView
from kept.graphs.views.senses import SENSES
from kept.graphs.words import encode_words
from kept.layers.vocabularies import allowed_losses
from kept.objectives.described_triples import text_batch
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records

METHOD = "sensebert"
ATOL = RTOL = 1e-5


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"restated_{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def lines(folder: Path, name: str) -> list[str]:
    return (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def word_pieces(folder: Path) -> PreTrainedTokenizerFast:
    """Lower case without accents; control characters and U+FFFD part words, Chinese ones do not."""
    names = lines(folder, "vocab")
    inner = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(r"[\p{Cc}\p{Cf}\x{FFFD}]"), " "),
            normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=True),
        ]
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, names.index(name)) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    result = PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    result.split_special_tokens = True  # "[MASK]" in a text is text
    return result


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return word_pieces(folder)


# ---- the original's word pieces ---------------------------------------------------------------
def test_word_pieces_and_their_places(
    folder: Path, tokenizer: PreTrainedTokenizerFast, compared: Any
) -> None:
    for case in read(folder, "tokenizer")["cases"]:
        (words,) = encode_words([case["text"]], tokenizer, max_words=64)
        ids, spans = words.ids[1:-1].tolist(), words.spans[1:-1].tolist()
        compared.equal("tokens", tokenizer.convert_ids_to_tokens(ids), case["tokens"])
        compared.equal("ids", ids, case["ids"])
        compared.equal("spans", spans, case["spans"])
        compared.equal("texts", [case["text"][a:b] for a, b in spans], case["spans_text"])


def test_batches(folder: Path, tokenizer: PreTrainedTokenizerFast, compared: Any) -> None:
    data = read(folder, "tokenizer")
    known = data["cases"][0]["text"]
    cases = (data["batch"]["texts"], data["batch"]), ([known], data["single_string"])
    for texts, wanted in cases:
        rows = [words.ids.tolist() for words in encode_words(texts, tokenizer, max_words=64)]
        batch = text_batch(rows, pad_id=int(tokenizer.pad_token_id))
        compared.equal("batch ids", batch.node_ids.tolist(), wanted["input_ids"])
        compared.equal("batch mask", batch.node_mask.int().tolist(), wanted["input_mask"])
    (words,) = encode_words([known], tokenizer, max_words=64)
    tokens = tokenizer.convert_ids_to_tokens(words.ids[1:-1].tolist())
    compared.equal("known words", tokens, data["without_unk_wrapping"]["known_text_tokens"])


# ---- allowed senses ---------------------------------------------------------------------------
def graph_of(folder: Path) -> tuple[KnowledgeGraph, dict[str, list[str]]]:
    """An entity for every sense of a lemma, which is its name; and all entities of each lemma."""
    record, records, names = read(folder, "tokenizer"), [], {}
    entries = [json.loads(line) for line in record["lemma_file"]]
    loaded = {e["lemma"]: e["supersense"] for e in entries if e["supersense"]}
    assert loaded == record["loaded"]["supersenses"]
    for lemma, senses in loaded.items():
        names[lemma] = [f"{lemma}.{sense}" for sense in senses]
        for name, sense in zip(names[lemma], senses, strict=True):
            records += [Text(name, TextKind.LABEL, lemma, "en"), Text(name, TextKind.TYPE, sense)]
    everything = lines(folder, "supersense_vocab")
    records += [Text("all", TextKind.TYPE, sense) for sense in everything]
    return graph_from_records(records), names


def linked(word: str, names: Mapping[str, list[str]]) -> LinkedText:
    candidates = tuple(Candidate(name, 0.5, 0.5) for name in names.get(word, ()))
    links = (Link(Mention(0, len(word)), candidates, None, 1.0),) if candidates else ()
    return LinkedText(word, links)


def test_allowed_senses(folder: Path, tokenizer: PreTrainedTokenizerFast, compared: Any) -> None:
    record, (graph, names) = read(folder, "tokenizer"), graph_of(folder)
    view, config = SensesView.of(graph, tokenizer), BuilderConfig(**WORDS_ONLY)
    order = list(view.names)
    compared.equal("sense names", order, lines(folder, "supersense_vocab"))
    for word, ones in zip(record["allowed_query"], record["allowed_mask_ones"], strict=True):
        text = linked(word, names)
        word_graph = build(text, tokenizer, graph, generator=generator(0, "parity"), config=config)
        actual = view(word_graph).extra_ids
        assert actual is not None
        ids = sorted({i for i in actual[SENSES].flatten().tolist() if i != NONE})
        compared.equal("allowed", ids, ones)


# ---- the paper's equations --------------------------------------------------------------------
def new_model(folder: Path) -> KnowledgeForPreTraining:
    """A BERT without layers whose input, words and senses are theirs, in front of LayerNorm."""
    parameters, sizes = load(folder, "parameters"), read(folder, "config")
    host = AutoModel.from_config(
        AutoConfig.for_model(
            "bert", vocab_size=sizes["vocab_size"], hidden_size=sizes["hidden_size"],
            num_hidden_layers=0, num_attention_heads=1, intermediate_size=4,
            max_position_embeddings=len(parameters["P"]),
        )
    )  # fmt: skip
    encoder = SenseBERT.from_host(host, graph_of(folder)[0])
    model = KnowledgeForPreTraining.of(encoder, {"mlm": {}, "senses": {}})
    table = host.embeddings
    table.LayerNorm = torch.nn.Identity()
    with torch.no_grad():
        table.word_embeddings.weight.copy_(parameters["W"])
        table.position_embeddings.weight.copy_(parameters["P"])
        table.token_type_embeddings.weight.zero_()
        encoder.senses.vectors.weight.copy_(parameters["S"])
        model.objectives["senses"].head.bias.copy_(parameters["sense_bias"])
        model.objectives["mlm"].bias.copy_(parameters["word_bias"])
    model.objectives["mlm"].transform = torch.nn.Identity()
    return model.eval()


@pytest.fixture(scope="module")
def model(folder: Path) -> KnowledgeForPreTraining:
    return new_model(folder)


def slots(rows: Tensor, empty: int) -> Tensor:
    """The ones of `rows [node sense]` as `[node slot]`."""
    result = torch.full((len(rows), max(1, int(rows.sum(1).max()))), empty)
    for i, row in enumerate(rows):
        ones = row.nonzero()[:, 0]
        result[i, : len(ones)] = ones
    return result


def test_inputs(folder: Path, model: KnowledgeForPreTraining, compared: Any) -> None:
    parameters, ids = load(folder, "parameters"), load(folder, "inputs")["input_ids"]
    expected = load(folder, "outputs")["embedding_input"]
    batch = text_batch(ids.tolist(), pad_id=0)
    rows = slots(parameters["M"][ids.flatten()], NONE).view(*ids.shape, -1)
    with torch.no_grad():
        batch = dataclasses.replace(batch, extra_ids={SENSES: rows})
        states = model.encoder(batch).hidden_states[0]
    compared.close("inputs", states, expected, atol=ATOL, rtol=RTOL)


def test_scores_losses_and_gradients(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    inputs, parameters = load(folder, "inputs"), load(folder, "parameters")
    expected, grads = load(folder, "outputs"), load(folder, "grads")
    model.zero_grad(set_to_none=True)
    hidden = inputs["hidden"].clone().requires_grad_()
    encoder, senses, words = model.encoder, model.objectives["senses"], model.objectives["mlm"]
    vectors = encoder.senses.vectors.weight
    scores = senses.head(hidden, vectors)
    compared.close("sense scores", scores.detach(), expected["sense_logits"], atol=ATOL, rtol=RTOL)
    without_bias = (scores - senses.head.bias).detach()
    compared.close(
        "without bias", without_bias, expected["sense_logits_no_bias"], atol=ATOL, rtol=RTOL
    )
    logits = words.logits(hidden, hosts.word_table(encoder.host).weight)
    compared.close("word scores", logits.detach(), expected["word_logits"], atol=ATOL, rtol=RTOL)
    labels = inputs["labels"]
    allowed = slots(parameters["M"][labels.clamp(min=0).flatten()], IGNORE)
    allowed[labels.flatten() == IGNORE] = IGNORE
    together, each = allowed_losses(scores.flatten(0, 1), allowed)
    counted = (allowed != IGNORE).any(1)
    compared.equal(
        "allowed", counted.int().tolist(), inputs["allowed_positions"].flatten().tolist()
    )
    for name, item in (("allowed", together), ("regularisation", each)):
        value = item.detach().view(labels.shape)
        compared.close(name, value, expected[f"per_position.{name}"], atol=ATOL, rtol=RTOL)
        mean = item[counted].mean().detach()
        compared.close(f"mean {name}", mean, expected[f"loss.{name}_mean"], atol=0, rtol=RTOL)
    output = type("States", (), {"node_states": hidden})()
    batch = type("Labels", (), {"extra_labels": {SENSES: allowed.view(*labels.shape, -1)}})()
    loss = senses(output, batch, encoder)[SENSES]
    compared.close("sense loss", loss.detach(), expected["loss.sense"], atol=0, rtol=RTOL)
    of_words = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
    wanted = expected["loss.words_mean"]
    compared.close("word loss", of_words.detach(), wanted, atol=0, rtol=RTOL)
    total = (loss + of_words).detach()
    compared.close("total", total, expected["loss.total"], atol=0, rtol=RTOL)
    loss.backward()
    item = {"hidden": hidden.grad, "S_from_sense_loss": vectors.grad}
    item["sense_bias"] = senses.head.bias.grad
    for name, theirs in grads.items():
        gradient = item[name]
        assert gradient is not None
        compared.close("gradients", gradient, theirs, atol=1e-4 * float(theirs.abs().max()))
