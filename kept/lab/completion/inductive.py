"""Inductive completion: methods with and without text, evaluated on entities they never saw.

A run is a method on a split under a seed. Every method learns from `split.train` alone, chooses
its epoch on "valid", and is evaluated on every other part twice: among all entities of the part
(filtered), and among a few sampled ones (GraIL's protocol). The record has both.

Axis legend: entity (of a part), text, question.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.evaluation.ranking import Filter, HasScores, RankingResult, rank
from kept.evaluation.sampled_ranking import rank_among_sampled
from kept.evaluation.statistics import bootstrap_interval
from kept.hosts import load_host, load_tokenizer, word_table
from kept.kgc.completers.texts.kepler import open_kepler_run
from kept.kgc.kepler_entities import encoded_texts
from kept.kgc.rankers import description_tokens
from kept.kge.dkrl import DKRL, DKRL_RECIPE, CbowEncoder, train_dkrl
from kept.kge.gnn.networks import (
    EntityTable,
    GraphModel,
    MessageGraph,
    RelationFeatures,
    SumOfFeatures,
    TextFeatures,
)
from kept.kge.gnn.recipes import make_layers
from kept.kge.gnn.training import train_graph_model
from kept.kge.inductive import DegreeScorer, InductiveSplit, Part
from kept.kge.resuming.epochs import TrainingHistory
from kept.kge.training_config import TrainingConfig
from kept.kge.ultra.networks import load_ultra, make_ultra
from kept.kge.ultra.training import UltraScorer, train_ultra
from kept.lab.completion.inductive_config import (
    DegreeMethod,
    DKRLMethod,
    GraphMethod,
    KeplerMethod,
    Method,
    SampledConfig,
    UltraMethod,
)
from kept.randomness import generator, torch_draws, torch_generator

ScorerOf = Callable[[str], HasScores | None]
"""The scorer of a part's entities by the part's name; None where the method cannot answer."""


@dataclass(frozen=True, eq=False)
class InductiveResult:
    """Answers of one run: scores and conditions by part, and by question what a paired test needs.

    `questions` holds arrays by name: `PART/rr` reciprocal filtered ranks, `PART/hits` the share of
    draws with a hit among the first ten, `PART/triple` the question's triple.
    """

    scores: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    questions: dict[str, NDArray[np.float64]]
    costs: dict[str, Any]


def run_method(
    method: Method,
    split: InductiveSplit,
    *,
    text: NDArray[np.float32],
    sampled: SampledConfig,
    seed: int,
) -> InductiveResult:
    """Train `method` and evaluate every part but validation; `text` is that of the graph."""
    cpu, started = time.process_time(), time.perf_counter()
    scorer_of, costs = _prepare(method, split, torch.from_numpy(text), seed)
    costs |= {"training_cpu_seconds": round(time.process_time() - cpu, 1)}
    scores: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    questions: dict[str, NDArray[np.float64]] = {}
    for name, part in split.parts.items():
        if name.endswith("valid"):
            continue
        scorer = scorer_of(name)
        if scorer is None:
            skipped[name] = "an entity has no trained vector"
            continue
        scores[name], result = _complete(scorer, part, split, sampled)
        questions |= {f"{name}/{field}": values for field, values in result.items()}
    costs |= {
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "seconds": round(time.perf_counter() - started, 1),
    }
    return InductiveResult(scores, skipped, questions, costs)


def _complete(
    scorer: HasScores, part: Part, split: InductiveSplit, sampled: SampledConfig
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Candidates and resamples do not depend on the seed of the training, so that runs pair."""
    filter = part.filter(split.graph.n_relations)
    full = _ranked(scorer, part, filter)
    few = rank_among_sampled(
        scorer,
        part.queries,
        filter=filter,
        ties="realistic",
        directions=("head", "tail"),
        n_candidates=sampled.n_candidates,
        n_draws=sampled.n_draws,
        seed=0,
    )
    triple = np.tile(np.arange(len(part.queries)), 2).astype(np.float64)
    values = {"rr": 1 / full.ranks, "hits": few.hits(10), "triple": triple}
    draws = generator(0, "interval")
    scores = {
        "filtered": full.metrics() | {"conditions": full.conditions()},
        "sampled": few.metrics() | {"conditions": few.conditions()},
        "n_triples": len(part.queries),
        "n_entities": part.n_entities,
        "mrr_interval": _interval(values["rr"], triple, draws),
        "sampled_hits@10_interval": _interval(values["hits"], triple, draws),
    }
    return scores, values


def _interval(
    values: NDArray[np.float64], triple: NDArray[np.float64], draws: np.random.Generator
) -> list[float]:
    interval = bootstrap_interval(values, generator=draws, clusters=triple)
    return [interval.low, interval.high]


def _prepare(
    method: Method, split: InductiveSplit, text: Tensor, seed: int
) -> tuple[ScorerOf, dict[str, Any]]:
    """Train where there is something to learn; return the scorer of a part and the costs."""
    sizes = {"n_relations": split.graph.n_relations}
    if isinstance(method, DegreeMethod):
        return lambda name: DegreeScorer(
            split.parts[name].context, n_entities=split.parts[name].n_entities, **sizes
        ), {"n_parameters": 0}
    if isinstance(method, KeplerMethod):
        return _of_kepler(method, split)
    if isinstance(method, DKRLMethod):
        return _trained_dkrl(method, split, seed)
    if isinstance(method, UltraMethod):
        return _ultra(method, split, seed)
    if method.text_from is not None:
        text = encoded_texts(method.text_from, split.graph)
    return _trained_graph_model(method, split, text, seed)


def make_graph_model(
    method: GraphMethod,
    *,
    n_entities: int,
    n_relations: int,
    text_width: int,
    draws: torch.Generator,
) -> GraphModel:
    """A fresh model; `n_entities` is read by a table alone."""
    width, n_types = method.width, 2 * n_relations
    starts: dict[str, Callable[[], Any]] = {
        "table": lambda: EntityTable(n_entities=n_entities, width=width, generator=draws),
        "relations": lambda: RelationFeatures(n_types=n_types, width=width, generator=draws),
        "text": lambda: TextFeatures(text_width=text_width, width=width, generator=draws),
    }
    parts = [starts[name]() for name in method.features.split("+")]
    layers = make_layers(
        method.layers,
        width=width,
        n_types=n_types,
        n_layers=method.n_layers,
        n_bases=method.n_bases,
        composition=method.composition,
        dropout=method.dropout,
        generator=draws,
    )
    return GraphModel(
        features=parts[0] if len(parts) == 1 else SumOfFeatures(*parts),
        layers=layers,
        decoder=method.decoder,
        n_relations=n_relations,
        width=width,
        generator=draws,
    )


def _ranked(scorer: HasScores, part: Part, filter: Filter) -> RankingResult:
    return rank(
        scorer, part.queries, filter=filter, ties="realistic", directions=("head", "tail"),
        candidates="all",
    )  # fmt: skip


def _epochs(history: TrainingHistory) -> dict[str, Any]:
    return {
        "epochs": len(history.losses),
        "best_epoch": history.best_epoch,
        "validations": list(history.validations),
    }


def _trained_graph_model(
    method: GraphMethod, split: InductiveSplit, text: Tensor, seed: int
) -> tuple[ScorerOf, dict[str, Any]]:
    draws, n_relations = torch_generator(seed, "graph model"), split.graph.n_relations
    model = make_graph_model(
        method,
        n_entities=split.train.n_entities,
        n_relations=n_relations,
        text_width=text.shape[1],
        draws=draws,
    )

    def scorer(model: GraphModel, part: Part) -> HasScores:
        graph = MessageGraph.of(
            part.context,
            n_entities=part.n_entities,
            n_relations=n_relations,
            text=text[torch.from_numpy(part.entities)],
        )
        return model.scorer(graph)

    is_table = method.features == "table"
    chooses = "transductive valid" if is_table and "transductive valid" in split.parts else "valid"

    def validate(model: GraphModel) -> float:
        part = split.parts[chooses]
        return _ranked(scorer(model, part), part, part.filter(n_relations)).mrr

    history = train_graph_model(
        model,
        split.train.context,
        n_entities=split.train.n_entities,
        text=text[torch.from_numpy(split.train.entities)],
        config=TrainingConfig(**method.training),
        generator=draws,
        validate=validate,
    )
    costs = {"n_parameters": sum(w.numel() for w in model.parameters()), **_epochs(history)}

    def answer(name: str) -> HasScores | None:
        part = split.parts[name]
        if is_table and not np.array_equal(part.entities, split.train.entities):
            return None
        return scorer(model, part)

    return answer, costs


def _ultra(
    method: UltraMethod, split: InductiveSplit, seed: int
) -> tuple[ScorerOf, dict[str, Any]]:
    n_relations, draws = split.graph.n_relations, torch_generator(seed, "ultra")
    with torch_draws(seed, "initial weights"):
        model = make_ultra(width=method.width, n_layers=method.n_layers)
    costs: dict[str, Any] = {"n_parameters": sum(weight.numel() for weight in model.parameters())}

    def scorer(name: str) -> UltraScorer:
        part = split.parts[name]
        return UltraScorer(model, part.context, n_entities=part.n_entities, n_relations=n_relations)

    def validate(_: Any) -> float:
        part = split.parts["valid"]
        return _ranked(scorer("valid"), part, part.filter(n_relations)).mrr

    if method.weights is not None:
        load_ultra(model, method.weights)
        return scorer, costs
    history = train_ultra(
        model,
        split.train.context,
        n_entities=split.train.n_entities,
        n_relations=n_relations,
        config=TrainingConfig(**method.training),
        generator=draws,
        validate=validate,
    )
    return scorer, costs | _epochs(history)


def _trained_dkrl(
    method: DKRLMethod, split: InductiveSplit, seed: int
) -> tuple[ScorerOf, dict[str, Any]]:
    draws = torch_generator(seed, "dkrl")
    tokenizer = load_tokenizer(method.host)
    ids, mask = description_tokens(split.graph, tokenizer, n_tokens=method.n_tokens)
    words = word_table(load_host(method.host)).weight.detach()
    width, trained_entities = words.shape[1], torch.from_numpy(split.train.entities)
    model = DKRL(
        n_entities=split.train.n_entities,
        n_relations=split.graph.n_relations,
        width=width,
        encoder=CbowEncoder(words=words, width=width, generator=draws),
        generator=draws,
        norm=2,
    )
    config = replace(DKRL_RECIPE, **method.training)
    train_dkrl(
        model,
        split.train.context,
        ids[trained_entities],
        mask[trained_entities],
        config=config,
        generator=draws,
    )

    def answer(name: str) -> HasScores:
        rows = torch.from_numpy(split.parts[name].entities)
        with torch.no_grad():
            return _Function(model.ranker(model.encode_descriptions(ids[rows], mask[rows]), None))

    n_parameters = sum(weight.numel() for weight in model.parameters())
    return answer, {"n_parameters": n_parameters, "epochs": config.n_epochs}


def _of_kepler(method: KeplerMethod, split: InductiveSplit) -> tuple[ScorerOf, dict[str, Any]]:
    whole = open_kepler_run(method.folder).on(split.graph, split.train.context)
    return lambda name: whole.of(split.parts[name].entities), {"folder": str(method.folder)}


@dataclass(frozen=True)
class _Function:
    """A function as something with `scores`."""

    scores: Any
