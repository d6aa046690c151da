"""SimKGC's golden folder: its benchmarks, and our model with the released weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

from kept.convert.kbert import read_vocabulary
from kept.kge.simkgc.benchmarks import Benchmark, read_benchmark
from kept.kge.simkgc.networks import ORIGINAL, BiEncoder, PreBatch
from kept.kge.simkgc.texts import INVERSE, Links, Texts, wordnet_name
from kept.kge.simkgc.training import (
    KnownTriples,
    SimKGCConfig,
    Step,
)

DTYPES = {"f64": torch.float64, "f32": torch.float32}
ATOL_VECTORS = {"f64": 1e-10, "f32": 1e-6}
ATOL_LOGITS = {"f64": 1e-10, "f32": 2e-5}
RTOL_LOSSES = {"f64": 1e-10, "f32": 1e-5}


def tasks_of(folder: Path) -> Iterator[str]:
    yield from sorted(p.stem.removeprefix("preprocess_") for p in folder.glob("preprocess_*.json"))


def poolings_of(folder: Path) -> Iterator[str]:
    names = load_file(folder / "outputs.safetensors")
    yield from sorted({key.split(".")[1] for key in names if key.endswith(".hr_vector")})


def cases_of(folder: Path) -> Iterator[str]:
    names = load_file(folder / "outputs.safetensors")
    yield from sorted({key.split(".")[1] for key in names if key.endswith("step0.logits")})


@dataclass(frozen=True, eq=False)
class WordGraph:
    """A benchmark with ids: entities in ascending order of their names, as graphs have them."""

    benchmark: Benchmark
    is_wordnet: bool
    is_linked: bool

    @cached_property
    def entities(self) -> list[str]:
        return sorted(self.benchmark.names)

    @cached_property
    def relations(self) -> list[str]:
        return list(self.benchmark.relations.values())

    def rows(self, triples: Any) -> NDArray[np.int64]:
        entity = {name: i for i, name in enumerate(self.entities)}
        n = len(self.relations)
        relation = {name: i for i, name in enumerate(self.relations)}
        relation |= {INVERSE + name: i + n for i, name in enumerate(self.relations)}
        ids = [(entity[h], relation[r], entity[t]) for h, r, t in triples]
        return np.array(ids, np.int64).reshape(-1, 3)

    @property
    def train(self) -> NDArray[np.int64]:
        return self.rows(self.benchmark.splits["train"])

    @property
    def links(self) -> Links:
        return Links(self.train, len(self.entities))

    @property
    def known(self) -> KnownTriples:
        return KnownTriples(self.train, **self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        return {"n_entities": len(self.entities), "n_relations": len(self.relations)}

    @cached_property
    def texts(self) -> Texts:
        names = [self.benchmark.names[name] for name in self.entities]
        return Texts(
            [wordnet_name(name) if self.is_wordnet else name for name in names],
            [self.benchmark.descriptions[name] for name in self.entities],
            self.relations,
            self.links if self.is_linked else None,
        )


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    def load(self, name: str) -> dict[str, Tensor]:
        return load_file(self.folder / f"{name}.safetensors")

    @cached_property
    def training(self) -> dict[str, Any]:
        result: dict[str, Any] = self.read("training")
        return result

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        lower = self.read("config")["do_lower_case"]
        return read_vocabulary(self.folder / "vocab.txt", lower_case=lower)

    def world(self, task: str, *, is_linked: bool) -> WordGraph:
        raw = self.read(f"preprocess_{task}")["raw"]
        return WordGraph(read_benchmark(task, raw), task == "wn18rr", is_linked)

    def model(self, dtype: torch.dtype, pooling: Any = "mean") -> BiEncoder:
        config = BertConfig(**{k: v for k, v in self.read("config").items() if k[:3] != "do_"})
        torch.manual_seed(0)
        model = BiEncoder(
            BertModel(config), pooling=pooling, learn_temperature=True,
            temperature=self.training["temperature"],
        )  # fmt: skip
        state = {renamed(name): value for name, value in self.load("state_dict").items()}
        model.load_state_dict(state)
        return model.to(dtype).eval()

    def step(self, dtype: torch.dtype, **changes: Any) -> Step:
        record = self.training
        world = self.world(record["task"], is_linked=record["use_link_graph"])
        config = {
            "n_epochs": 1, "batch_size": record["batch_size"], "n_tokens": record["max_num_tokens"],
            "margin": float(np.float32(record["additive_margin"])),  # a float32 there, in f64 too
            "pre_batch_weight": record["pre_batch_weight"],
            "n_pre_batch": record["pre_batch"],
        }  # fmt: skip
        output = SimKGCConfig(**config | changes)  # type: ignore[arg-type]
        queue = self.queue(dtype) if output.n_pre_batch else None
        return Step(self.model(dtype), self.tokenizer, world.texts, world.known, output, queue)

    def queue(self, dtype: torch.dtype) -> PreBatch:
        start = self.load("inputs")["pre_batch_vectors_at_start"]
        n = self.training["pre_batch"]
        queue = PreBatch(
            n_batches=n, batch_size=len(start) // n, width=start.shape[1],
            generator=torch.Generator(),
        )  # fmt: skip
        queue.vectors = start.to(dtype).clone()
        return queue

    @cached_property
    def batches(self) -> list[NDArray[np.int64]]:
        world = self.world(self.training["task"], is_linked=False)
        return [
            world.rows((one["head_id"], one["relation"], one["tail_id"]) for one in batch)
            for batch in self.training["batches"]
        ]


CHANGES: dict[str, dict[str, Any]] = {
    "plain": {"margin": 0.0, "n_pre_batch": 0, "self_negative": False},
    "margin": {"n_pre_batch": 0, "self_negative": False},
    "self_negative": {"n_pre_batch": 0},
    "full": {},
}


def renamed(name: str) -> str:
    """Our name of a released parameter."""
    begin = next(begin for begin in ORIGINAL if name.startswith(begin))
    return ORIGINAL[begin] + name.removeprefix(begin)
