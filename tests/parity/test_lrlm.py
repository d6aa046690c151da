"""LRLM against numbers of its released program: data, three variants, marginals and gradients."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from kept.decoders.generators.lrlm import (
    LRLM,
    AliasScorer,
    FactVectors,
    LRLMOutput,
    LSTMReader,
    TransformerXLReader,
    TwoLayers,
    segment_loss,
    span_posteriors,
)
from kept.decoders.generators.lrlm_articles import (
    Article,
    Fact,
    Segment,
    Span,
    Unknowns,
    Vocabulary,
    batches,
    segments,
)
from kept.decoders.generators.transformer_xl import TransformerXLConfig

METHOD = "lrlm"
ATOL = 1e-4
FIXED = " (fixed)"
RENAMED = (
    (r"^word_embed\.", "reader.embed."),
    (r"^rnn\.lstm\.", "reader.lstm."),
    (r"^rnn\.layers\.(\d+)\.dec_attn\.", r"reader.layers.attention.\1."),
    (r"^rnn\.layers\.(\d+)\.pos_ff\.core_net\.0\.", r"reader.layers.feed_forward.\1.inner."),
    (r"^rnn\.layers\.(\d+)\.pos_ff\.core_net\.3\.", r"reader.layers.feed_forward.\1.outer."),
    (r"^rnn\.layers\.(\d+)\.pos_ff\.layer_norm", r"reader.layers.feed_forward.\1.layer_norm"),
    (r"^rnn\.proj_input\.", "reader.layers.proj_input."),
    (r"^rnn\.r_w_bias$", "reader.layers.content_bias"),
    (r"^rnn\.r_r_bias$", "reader.layers.place_bias"),
    (r"^word_predictor\.", "words."),
    (r"^hid_to_fact\.", "fact_query."),
    (r"^hid_to_alias\.", "aliases.query."),
    (r"^alias_vec$", "aliases.vectors.weight"),
    (r"^entity_vec$", "facts.objects.weight"),
    (r"^relation_vec$", "facts.relations.weight"),
    (r"^relation_embed\.", "facts.relations."),
    (r"^unk_entity_vec$", "facts.unknown_object"),
)


def variants_of(folder: Path) -> Iterator[str]:
    record = json.loads((folder / "batches.json").read_text("utf-8"))
    yield from record["variants"]


PARAMETERS = {"variant": variants_of}


@pytest.fixture(scope="module")
def variant(request: pytest.FixtureRequest) -> str:
    result: str = request.param
    return result


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    def load(self, name: str, variant: str) -> dict[str, Tensor]:
        stored = load_file(self.folder / f"{name}.safetensors")
        return {key.removeprefix(f"{variant}."): value for key, value in stored.items()
                if key.startswith(f"{variant}.")}  # fmt: skip

    @cached_property
    def record(self) -> dict[str, Any]:
        result: dict[str, Any] = self.read("batches")
        return result

    @cached_property
    def config(self) -> dict[str, Any]:
        outcome: dict[str, Any] = self.read("config")
        return outcome

    def articles(self, variant: str) -> list[list[Article]]:
        results = [
            Article(
                tuple(example["sentence"]),
                tuple(Fact(r, o, tuple(names)) for r, o, names in example["relations"]),
                tuple(Span(s, e, f, a) for s, e, _, f, a in example["spans"]),
            )
            for example in self.record["examples"]
        ]
        if not self.record["variants"][variant]["use_anchor"]:
            results = [article.without_anchors() for article in results]
        return list(batches(results, self.config["batch_size"]))

    def segments(self, variant: str, *, with_unknown: bool) -> list[list[Segment]]:
        record = self.record["variants"][variant]
        vocabulary = Vocabulary(tuple(record["vocab"]))
        rows = None
        if "alias_list" in record:
            rows = {name: i for i, name in enumerate(record["alias_list"])}
        unknowns = Unknowns(by_word=self.record["unk_log_probs"]) if with_unknown else None
        return [
            list(segments(batch, vocabulary, self.config["bptt_size"],
                          unknowns=unknowns, alias_rows=rows, as_released=True))
            for batch in self.articles(variant)
        ]  # fmt: skip

    def model(self, variant: str) -> LRLM:
        config, state = self.config, self.load("state_dict", variant)
        state = {name.removesuffix(FIXED): value for name, value in state.items()}
        n_words = len(state["word_embed.weight"])
        width = state["selector.weight"].shape[1]
        relation = state.get("relation_vec", state.get("relation_embed.weight"))
        assert relation is not None
        n_special = sum(name.startswith("special_rel_vecs.") for name in state)
        facts = FactVectors(
            nn.Embedding(*relation.shape), nn.Embedding(*state["entity_vec"].shape), n_special - 2
        )
        query: nn.Module = nn.Linear(width, facts.width)
        if "hid_to_fact.layer1.weight" in state:
            query = TwoLayers(width, config["fact_key_mlp_hidden_dim"], facts.width)
        model = LRLM(
            reader=self.reader(variant, n_words), facts=facts,
            words=TwoLayers(width, config["vocab_mlp_hidden_dim"], n_words), fact_query=query,
            aliases=AliasScorer(state["alias_vec"], width) if "alias_vec" in state else None,
            knows=width > config["hidden_size"], mean_of_batch=True,
        )  # fmt: skip
        model.load_state_dict(renamed(state))
        return model.eval()

    def reader(self, variant: str, n_words: int) -> Any:
        config = self.config
        if variant.startswith("lstm"):
            return LSTMReader(
                n_words, config["embed_size"], config["hidden_size"], config["num_layers"]
            )
        entry = config["transformer"]
        return TransformerXLReader(
            n_words,
            TransformerXLConfig(
                input_width=config["embed_size"], width=config["hidden_size"],
                n_heads=entry["num_heads"], head_width=entry["head_dim"],
                inner_width=entry["ffn_inner_dim"], n_layers=config["num_layers"],
                n_memory=entry["memory_size"], is_pre_norm=entry["pre_lnorm"], lags=True,
            ),
        )  # fmt: skip

    def run(
        self, variant: str, *, with_unknown: bool = False
    ) -> Iterator[tuple[str, Segment, LRLMOutput, Any]]:
        """Every segment with its output, the name of its numbers, and what is told of it."""
        model, report = self.model(variant), self.record["variants"][variant]["batches"]
        for b, parts in enumerate(self.segments(variant, with_unknown=with_unknown)):
            memory = None
            for s, segment in enumerate(parts):
                output = model(segment, memory)
                memory = output.memory
                yield f"b{b}.s{s}", segment, output, report[b]["segments"][s]


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Values under our names; the special relations become one table."""
    result, special = {}, {}
    for name, value in state.items():
        if name.startswith("special_rel_vecs."):
            special[int(name.rpartition(".")[2])] = value
            continue
        if name.endswith("inv_freq"):  # of the distances, which we compute
            continue
        for old, new in RENAMED:
            name = re.sub(old, new, name)
        result[name] = value
    if special:
        result["facts.special"] = torch.stack([special[i] for i in sorted(special)])
    return result


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder)


# ---- data ----------------------------------------------------------------------------------------
def test_segments(golden: Golden, variant: str, compared: Any) -> None:
    inputs, record = golden.load("inputs", variant), golden.record["variants"][variant]
    result = golden.segments(variant, with_unknown=True)
    compared.equal("lrlm batches", len(result), len(record["batches"]))
    for b, parts in enumerate(result):
        compared.equal("lrlm segments", len(parts), len(record["batches"][b]["segments"]))
        for s, segment in enumerate(parts):
            for key, value in (("sequence", segment.ids), ("target", segment.targets),
                               ("lengths", segment.lengths)):  # fmt: skip
                expected = inputs[f"b{b}.s{s}.{key}"]
                compared.equal(f"lrlm {key}", value.tolist(), expected.tolist())
            compared.close("lrlm unknown", segment.unknown, inputs[f"b{b}.s{s}.unk_probs"],
                           atol=1e-6)  # fmt: skip
            expected = record["batches"][b]["segments"][s]
            compared.equal("lrlm tokens", segment.n_targets, expected["ntokens"])
            compared.equal("lrlm spans", spans_of(segment),
                           [sorted(row) for row in expected["spans"]])  # fmt: skip


def spans_of(segment: Segment) -> list[list[list[int]]]:
    """Spans as told: start, end, relation, fact, alias."""
    results: list[list[list[int]]] = [[] for _ in segment.ids]
    for b, end, k in segment.span_mask.nonzero().tolist():
        fact = int(segment.span_facts[b, end, k])
        results[b].append([
            int(segment.span_starts[b, end, k]), end, int(segment.relations[b, fact]), fact,
            int(segment.span_aliases[b, end, k]),
        ])  # fmt: skip
    return [sorted(row) for row in results]


def test_vocabulary(golden: Golden, variant: str, compared: Any) -> None:
    report = golden.record["variants"][variant]["vocab"]
    result = Vocabulary.count([a for batch in golden.articles(variant) for a in batch], len(report))
    compared.equal("lrlm vocabulary", list(result.words), report)


# ---- network -------------------------------------------------------------------------------------
@torch.no_grad()
def test_every_part(golden: Golden, variant: str, compared: Any) -> None:
    outputs, model = golden.load("outputs", variant), golden.model(variant)
    for b, parts in enumerate(golden.segments(variant, with_unknown=False)):
        facts = model.facts(parts[0].relations, parts[0].objects)
        mask = parts[0].fact_mask[..., None]
        expected = outputs[f"b{b}.fact_embeds"]
        compared.close("lrlm facts", facts * mask, expected * mask, atol=ATOL)
    for name, segment, output, _ in golden.run(variant):
        actual = {
            "rnn_states": output.states, "selector_log_probs": output.selector,
            "word_log_probs": output.words, "word_target_log_probs": output.targets,
            "rel_log_probs": output.relations, "log_marginal_per_position": output.marginal,
            "word_path_log_probs": output.word_path,
            "batch_loss": output.row_losses(segment.lengths, as_released=True),
        }  # fmt: skip
        for key, value in actual.items():
            compared.close(f"lrlm {key}", value, outputs[f"{name}.{key}"], atol=ATOL)
    for name, segment, output, _ in golden.run(variant, with_unknown=True):
        rows = output.row_losses(segment.lengths, as_released=True)
        expected = outputs[f"{name}.batch_loss_with_unk_probs"]
        compared.close("lrlm losses with unknown", rows, expected, atol=ATOL)


@torch.no_grad()
def test_losses_and_paths_of_spans(golden: Golden, variant: str, compared: Any) -> None:
    for _, segment, output, record in golden.run(variant):
        loss = segment_loss(output, segment, as_released=True)
        compared.close("lrlm loss", loss, record["loss"], atol=ATOL)
        for b, rows in enumerate(record["span_log_probs (relation path, word path)"]):
            told_spans = sorted(row[0] for row in rows)
            compared.equal("lrlm told spans", told_spans, spans_of(segment)[b])
            for (start, end, _, fact, alias), (by_relation, by_words) in rows:
                at = (segment.span_starts[b, end] == start) & (segment.span_facts[b, end] == fact)
                at &= (segment.span_aliases[b, end] == alias) & segment.span_mask[b, end]
                path_loss = output.spans[b, end][at]
                compared.close("lrlm relation path", path_loss, [by_relation], atol=ATOL)
                words = output.word_path[b, start : end + 1].sum()
                compared.close("lrlm word path", words, by_words, atol=ATOL)


def test_the_marginal_is_the_sum_over_all_cuts(golden: Golden, variant: str, compared: Any) -> None:
    for _, segment, output, record in golden.run(variant):
        shares = span_posteriors(output, segment)
        losses = output.row_losses(segment.lengths).detach()
        for b, brute in enumerate(record["brute_force_over_segmentations (not from the original)"]):
            if brute is None:
                assert int(segment.lengths[b]) == 0
                continue
            compared.close("lrlm brute force", -losses[b], brute["log_marginal"], atol=ATOL)
            for (start, end, _, fact, alias), share in brute["span_posteriors"]:
                at = (segment.span_starts[b, end] == start) & (segment.span_facts[b, end] == fact)
                at &= (segment.span_aliases[b, end] == alias) & segment.span_mask[b, end]
                compared.close("lrlm posterior", shares[b, end][at], [share], atol=ATOL)


def test_gradients(golden: Golden, variant: str, compared: Any) -> None:
    stored = golden.load("grads", variant)
    prefixes = sorted({".".join(name.split(".")[:2]) for name in stored})
    assert prefixes
    for prefix in prefixes:
        b, s = (int(part[1:]) for part in prefix.split("."))
        model = golden.model(variant)
        memory = None
        for segment in golden.segments(variant, with_unknown=False)[b][: s + 1]:
            output = model(segment, memory)
            memory = output.memory
        segment_loss(output, segment, as_released=True).backward()
        report = {key.removeprefix(f"{prefix}."): value for key, value in stored.items()
                if key.startswith(f"{prefix}.")}  # fmt: skip
        parameters = dict(model.named_parameters())
        special = parameters["facts.special"].grad
        for name, expected in report.items():
            if name.startswith("special_rel_vecs."):
                assert special is not None
                actual = special[int(name.rpartition(".")[2])]
            else:
                (ours,) = renamed({name: expected})
                gradient = parameters[ours].grad
                assert gradient is not None, name
                actual = gradient
            compared.close("lrlm gradient", actual, expected, atol=ATOL)
