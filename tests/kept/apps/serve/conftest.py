"""A service over the small graph, with untrained models, on a port of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from kept.apps.explorer.readers import Reader, method_readers
from kept.apps.serve.completing import Completion
from kept.apps.serve.limits import Limits
from kept.apps.serve.service import Service
from kept.auto import AutoEncoder
from kept.kge.scorers import make_scorer
from kept.kge.splits import Splits
from kept.lab.probing.models.plain import PlainMaskedLM
from kept.linking.linkers import LinkerSettings, open_linker
from kg_loaders import KnowledgeGraph
from tests.kept.served import Running, running
from tests.kept.tiny_hosts import method_encoder
from tests.kept.tiny_predictors import tiny_predictor

RUNS = {"types": "typing", "classes": "classification", "spans": "span"}
"""Runs by name, and what each was trained for."""


def masked_lm(tokenizer: Any) -> PlainMaskedLM:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert", vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    return PlainMaskedLM(AutoModelForMaskedLM.from_config(config), tokenizer, name="tiny")


@pytest.fixture(scope="session")
def service(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> Service:
    folder = tmp_path_factory.mktemp("serve") / "kg"
    small_graph.save(folder)
    linker = open_linker(LinkerSettings(kg=str(folder)), small_graph)
    splits = Splits(small_graph, small_graph.triples[2:], small_graph.triples[:1],
                    small_graph.triples[1:2])  # fmt: skip
    scorer = make_scorer(
        "distmult", n_entities=small_graph.n_entities, n_relations=small_graph.n_relations,
        width=4, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    readers = {reader.key: reader for reader in method_readers(tokenizer)}
    for name, task in RUNS.items():
        predictor = tiny_predictor(task, small_graph, tokenizer)
        readers[name] = Reader(name, name, predictor.method, tokenizer, predictor)
    return Service(
        small_graph,
        linker,
        readers,
        encoder=AutoEncoder(method_encoder("kbert", small_graph, tokenizer), tokenizer),
        cloze=masked_lm(tokenizer),
        completion=Completion(splits, scorer, splits.seen),
    )


@pytest.fixture(scope="session")
def served(service: Service) -> Iterator[Running]:
    """One service for all that ask in order."""
    limits = Limits(receive_seconds=0.5, body_bytes=20_000, result_bytes=200_000)
    with running(service, limits) as server:
        yield server
