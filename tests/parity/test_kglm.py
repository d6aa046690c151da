"""KGLM against numbers of its released program: chunks, losses, gradients, importance sampling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from kept.decoders.generators.kglm import (
    KGLM,
    Chunk,
    KGLMOutput,
    WordModel,
    WordPerplexity,
    importance_perplexity,
)
from kept.decoders.generators.kglm_documents import AliasTable, Mention, label
from kept.decoders.generators.recency import RecentEntities
from tests.parity.stored_digits import half_unit

METHOD = "kglm"
ATOL, ATOL_SUMS = 1e-4, 2e-3
RENAMED = (
    (r"^_token_embedder\.", "tokens."),
    (r"^_entity_embedder\.", "entities."),
    (r"^_relation_embedder\.", "relations."),
    (r"^_fc_mention_type\.", "mention_type."),
    (r"^_fc_new_entity\.", "new_entity."),
    (r"^_fc_condense\.", "words.condense."),
    (r"^_fc_generate\.", "words.generate."),
    (r"^_fc_copy\.", "words.copy."),
    (r"^_alias_encoder\._module\.", "words.alias_encoder."),
    (r"^rnns\.(\d+)\.module\.", r"layers.\1."),
    (r"^rnns\.(\d+)\.weight_hh_l0_raw$", r"layers.\1.weight_hh_l0"),
)


def variants_of(folder: Path) -> Iterator[str]:
    yield from json.loads((folder / "config.json").read_text("utf-8"))["variants"]


def samplings_of(folder: Path) -> Iterator[str]:
    report = json.loads((folder / "losses.json").read_text("utf-8"))
    yield from (name for name in report if name.startswith("importance_sampling"))


PARAMETERS = {"variant": variants_of, "sampling": samplings_of}


@pytest.fixture(scope="module")
def variant(request: pytest.FixtureRequest) -> str:
    result: str = request.param
    return result


@pytest.fixture(scope="module")
def sampling(request: pytest.FixtureRequest) -> str:
    result: str = request.param
    return result


def renamed(name: str) -> str:
    for old, new in RENAMED:
        name = re.sub(old, new, name)
    return name


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    def load(self, name: str, prefix: str) -> dict[str, Tensor]:
        stored = load_file(self.folder / f"{name}.safetensors")
        return {key.removeprefix(f"{prefix}."): value for key, value in stored.items()
                if key.startswith(f"{prefix}.")}  # fmt: skip

    @cached_property
    def config(self) -> dict[str, Any]:
        result: dict[str, Any] = self.read("config")
        return result

    @cached_property
    def edges(self) -> dict[int, list[tuple[int, int]]]:
        ids = {kind: {name: i for i, name in enumerate(names)}
               for kind, names in self.config["vocab"].items()}  # fmt: skip
        graph = self.read("world")["knowledge_graph"]
        return {
            ids["entity_ids"][head]: [
                (ids["relations"].get(r, 1), ids["raw_entity_ids"].get(tail, 1))
                for r, tail in edges
            ]
            for head, edges in graph.items()
            if head in ids["entity_ids"]
        }

    @cached_property
    def aliases(self) -> AliasTable:
        world, vocabulary = self.read("world"), self.config["vocab"]
        tokens = {token: i for i, token in enumerate(vocabulary["tokens"])}
        return AliasTable(
            vocabulary["raw_entity_ids"], tokens, world["aliases"], world["alias_local_ids"]
        )

    def chunks(self, variant: str) -> list[Chunk]:
        mode = "generative" if variant.startswith("kglm") else "discriminative"
        stored = self.load("inputs", mode)
        numbers = sorted({int(name.split(".")[0].removeprefix("chunk")) for name in stored})
        known = {field.name for field in fields(Chunk)}
        return [
            Chunk(**{key.removeprefix(f"chunk{i}."): value for key, value in stored.items()
                     if key.startswith(f"chunk{i}.") and key.split(".")[1] in known})
            for i in numbers
        ]  # fmt: skip

    def model(self, variant: str) -> KGLM:
        config, state = self.config, self.load("state_dict", variant)
        tied = config["variants"][variant]["tie_weights"]
        sizes = [nn.Embedding(*state[f"_{kind}_embedder.weight"].shape, padding_idx=0)
                 for kind in ("token", "entity", "relation")]  # fmt: skip
        words = None
        if variant.startswith("kglm"):
            words = WordModel(sizes[0], config["entity_dim"], config["unk_penalty"], tied=tied)
        model = KGLM(
            tokens=sizes[0], entities=sizes[1], relations=sizes[2], edges=self.edges,
            hidden_width=config["hidden_size"], n_layers=config["num_layers"],
            cutoff=config["cutoff"],
            uses_shortlist=config["variants"][variant]["use_shortlist"], words=words,
        )  # fmt: skip
        model.load_state_dict({renamed(name): value for name, value in state.items()})
        return model.eval()

    def run(self, variant: str) -> Iterator[tuple[int, Chunk, KGLMOutput, KGLM]]:
        model = self.model(variant)
        for i, chunk in enumerate(self.chunks(variant)):
            yield i, chunk, model(chunk), model


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder)


def named(output: KGLMOutput, model: KGLM) -> dict[str, Tensor]:
    """Values under the names of the file."""
    results = {
        key: getattr(output, key)
        for key in (
            "encoded", "candidate_ids", "new_entity_logits", "parent_log_probs",
            "relation_log_probs", "mention_type_loss", "new_entity_loss", "kg_loss", "alpha_reg",
            "beta_reg", "loss", "vocab_loss",
        )
    }  # fmt: skip
    results["candidate_mask"] = output.candidate_mask.to(torch.uint8)
    results |= {"logp": output.log_p, "penalized_logp": output.penalised_log_p,
              "penalized_vocab_loss": output.penalised_vocab_loss}  # fmt: skip
    for layer, (h, c) in enumerate(model.states):
        results |= {f"state.h{layer}": h, f"state.c{layer}": c}
    if output.words is not None:
        results |= {"copy_scores": output.words.copy_scores,
                  "generate_scores": output.words.generate_scores,
                  "vocab_log_probs": output.words.log_probs}  # fmt: skip
    return results


@torch.no_grad()
def test_every_part(golden: Golden, variant: str, compared: Any) -> None:
    outputs = golden.load("outputs", variant)
    seen = set()
    for i, _, output, model in golden.run(variant):
        actual = named(output, model)
        for key, expected in outputs.items():
            if key.startswith(f"chunk{i}."):
                name = key.removeprefix(f"chunk{i}.")
                atol = ATOL_SUMS if "logp" in name else ATOL
                compared.close(f"kglm {name}", actual[name], expected, atol=atol)
                seen.add(key)
    assert seen == outputs.keys()


@torch.no_grad()
def test_losses_and_perplexities(golden: Golden, variant: str, compared: Any) -> None:
    data = golden.read("losses")[variant]
    every, about, plain = WordPerplexity(), WordPerplexity(), WordPerplexity()
    for i, chunk, output, model in golden.run(variant):
        actual = named(output, model)
        for key, expected in data["per_chunk"][i].items():
            compared.close(f"kglm {key}", actual[key], expected,
                           atol=ATOL_SUMS if "logp" in key else ATOL)  # fmt: skip
        if output.words is not None:
            every.add(output, chunk.mask)
            about.add(output, chunk.mask & (chunk.entity_ids > 0))
            plain.add(output, chunk.mask & (chunk.entity_ids == 0))
    if variant.startswith("kglm"):
        metrics = data["metrics_over_all_chunks"]
        found_metrics = {"ppl": every.values[0], "upp": every.values[1],
                         "kg_ppl": about.values[0], "bg_ppl": plain.values[0]}  # fmt: skip
        for key, value in found_metrics.items():
            compared.close(f"kglm {key}", value, metrics[key], atol=half_unit(metrics), rtol=ATOL)


def test_gradients(golden: Golden, variant: str, compared: Any) -> None:
    stored = golden.load("grads", variant)
    number, _, output, model = next(golden.run(variant))
    output.loss.backward()
    parameters = dict(model.named_parameters())
    n = 0
    for key, expected in stored.items():
        assert key.startswith(f"chunk{number}.")
        gradient = parameters[renamed(key.removeprefix(f"chunk{number}."))].grad
        assert gradient is not None, key
        compared.close("kglm gradient", gradient, expected, atol=ATOL)
        n += 1
    assert n == len(stored) > 0


def test_recent_entities(golden: Golden, compared: Any) -> None:
    data = golden.read("losses")
    cases = [key for key in data if key.startswith("recent_entities_cutoff")]
    assert cases
    for key in cases:
        recent = RecentEntities(int(key.removeprefix("recent_entities_cutoff")))
        recent.reset([True] * len(data[key][0]["entity_ids"]))
        for chunk in data[key]:
            ids, mask = recent(torch.tensor(chunk["entity_ids"]))
            compared.equal("kglm candidates", ids.tolist(), chunk["candidate_ids"])
            compared.equal("kglm recent", mask.int().tolist(), chunk["candidate_mask"])


@torch.no_grad()
def test_importance_sampling(golden: Golden, sampling: str, compared: Any) -> None:
    """The generative model on the stored draws, and the marginal perplexity."""
    data = golden.read("losses")[sampling]
    ending = sampling.removeprefix("importance_sampling")
    draws, variant = golden.load("importance_samples", f"is{ending}"), f"kglm{ending}"
    log_p, penalised, proposed = [], [], []
    for s, rows in enumerate(data["per_sample_per_chunk"]):
        model, sums = golden.model(variant), torch.zeros(2)
        for i, (chunk, expected) in enumerate(zip(golden.chunks(variant), rows, strict=True)):
            output = model(with_draws(golden, chunk, draws, f"s{s}.chunk{i}."))
            compared.close("kglm drawn", output.log_p, expected["model_logp"], atol=ATOL_SUMS)
            compared.close("kglm drawn, penalised", output.penalised_log_p, expected["penalized"],
                           atol=ATOL_SUMS)  # fmt: skip
            sums += torch.stack([output.log_p, output.penalised_log_p])
        log_p.append(float(sums[0]))
        penalised.append(float(sums[1]))
        proposed.append(sum(row["sample_logp"] for row in rows))
    n = sum(int(chunk.mask.sum()) for chunk in golden.chunks(variant))
    compared.equal("kglm tokens", n, data["n_tokens"])
    for key, values in (("ppl", log_p), ("upp", penalised)):
        actual = importance_perplexity(values, proposed, n)
        compared.close(f"kglm marginal {key}", actual, data["final"][key], atol=0, rtol=1e-3)


def with_draws(golden: Golden, chunk: Chunk, draws: dict[str, Tensor], prefix: str) -> Chunk:
    """The chunk with a drawn annotation in place of its own."""
    values = {field.name: getattr(chunk, field.name) for field in fields(Chunk)}
    of_chunk = {key.removeprefix(prefix): value for key, value in draws.items()
           if key.startswith(prefix)}  # fmt: skip
    values |= {key: value for key, value in of_chunk.items() if key in values}
    values["alias_tokens"], values["alias_local_ids"] = golden.aliases(values["raw_entity_ids"])
    return Chunk(**values)


# ---- documents -----------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["generative", "discriminative"])
def test_labels_of_documents(golden: Golden, mode: str, compared: Any) -> None:
    world = golden.read("world")
    for document, expected in zip(world["documents"], world["reader"][mode], strict=True):
        mentions = [
            Mention(*one["span"], one["id"], tuple(one["parent_id"]), tuple(one["relation"]))
            for one in document["annotations"]
        ]
        result = label(
            document["tokens"], mentions, is_generative=mode == "generative",
            local_ids=world["alias_local_ids"],
        )  # fmt: skip
        for key, value in vars(result).items():
            if key in expected:
                compared.equal(f"kglm {key}", value, expected[key])
        assert {"source", "mention_type", "shortlist"} <= expected.keys()


def test_aliases(golden: Golden, compared: Any) -> None:
    for chunk in golden.chunks("kglm"):
        tokens, numbers = golden.aliases(chunk.raw_entity_ids)
        assert chunk.alias_tokens is not None
        assert chunk.alias_local_ids is not None
        compared.equal("kglm aliases", tokens.tolist(), chunk.alias_tokens.tolist())
        compared.equal("kglm local ids", numbers.tolist(), chunk.alias_local_ids.tolist())
