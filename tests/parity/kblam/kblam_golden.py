"""KBLaM's golden folder: its cases, and our model with the released weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from kept.batches import IGNORE
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import load_released
from kept.decoders.kblam.model import KBLaM, KBLaMOutput
from kept.decoders.kblam.rectangular import FactTokens

STATES, WEIGHTS, LOSS, TRAINED = 3e-5, 3e-6, 1e-5, 1e-6
GRADIENT = 1e-5
"""Of the largest entry."""


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def names_of(folder: Path, file: str, part: str | None = None) -> Iterator[str]:
    data = read(folder, file)
    for case in data if part is None else data[part]:
        yield case["name"]


def named(cases: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (result,) = (case for case in cases if case["name"] == name)
    return result


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path
    config: dict[str, Any]
    kb_sets: dict[str, Any]

    def load(self, name: str) -> dict[str, Tensor]:
        return load_file(self.folder / f"{name}.safetensors")

    def part(self, name: str, prefix: str) -> dict[str, Tensor]:
        tensors = self.load(name).items()
        return {k.removeprefix(prefix): v for k, v in tensors if k.startswith(prefix)}

    def host(self, family: str) -> PreTrainedModel:
        sizes = self.config["llama"] | {"head_dim": self.config["head_dim"]}
        sizes |= {"pad_token_id": sizes["eos_token_id"]}
        if family == "phi3":
            sizes |= self.config["phi3"]
        result = AutoConfig.for_model(family, **sizes)
        return AutoModelForCausalLM.from_config(result, attn_implementation="eager").eval()

    def state(self, family: str) -> dict[str, Tensor]:
        return self.load("phi3_state_dict" if family == "phi3" else "state_dict")

    def model(self, record: dict[str, Any], family: str = "llama", name: str = "") -> KBLaM:
        """With the released weights; `name` is the encoder where a case has none."""
        sizes = self.config["kb_encoders"][record["encoder"] or name]
        projector = sizes["projector_kwargs"]
        pruned = record.get("dynamic_sparsify") and family == "llama"
        separate = record["sep_query_head"]
        config = KBLaMConfig(
            vector_width=self.config["sentence_embedding_width"],
            every=record["kb_layer_frequency"],
            separate_queries=separate,
            scale=record.get("kb_scale_factor") if separate else None,
            top_k=record["top_k_kb"] if pruned else None,
            mlp_depth=projector.get("mlp_depth", 0),
            mlp_width=projector.get("mlp_hidden_dim", 512),
            misaligned_scores=separate,
            padding_reads=True,
        )
        host, state = self.host(family), self.state(family)
        host.load_state_dict({k: v for k, v in state.items() if k in host.state_dict()})
        model = KBLaM(host, config)
        load_released(model, state, self.part("kb_encoder_state", f"{record['encoder'] or name}."))
        return model

    def facts(self, model: KBLaM, entry: dict[str, Any]) -> FactTokens | None:
        if entry["kb_set"] is None:
            return None
        vectors, rows = self.load("kb_encoder_inputs"), torch.tensor(self.kb_sets[entry["kb_set"]])
        facts = model.encoder(vectors["key_embeddings"], vectors["value_embeddings"])
        if entry.get("kb_rounded_to_bfloat16"):
            facts = FactTokens(facts.keys.bfloat16().float(), facts.values.bfloat16().float())
        return facts[rows]

    def run(self, model: KBLaM, record: dict[str, Any]) -> tuple[KBLaMOutput, dict[str, Tensor]]:
        """Without position ids the original counts from 0 through the padding."""
        inputs = self.part("inputs", f"{record['inputs']}.")
        ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()
        if not record.get("attention_mask_given", True):
            mask = torch.ones_like(mask)
        positions = torch.arange(ids.shape[1]).expand_as(ids)
        if record["position_ids_given"]:
            positions = inputs["position_ids"]
        return model(ids, mask, self.facts(model, record), positions), inputs


def close(compared: Any, name: str, actual: Any, expected: Any, *, atol: float) -> None:
    actual = actual.detach() if isinstance(actual, Tensor) else actual
    compared.close(name, actual, expected, atol=atol)


def small(value: Tensor) -> float:
    """What a gradient may be off by."""
    return GRADIENT * float(value.abs().max())


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORE
    )
