"""SimKGC as a completer: entities and questions read from their texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from transformers import AutoModel, PreTrainedTokenizerBase

from kept.evaluation.ranking import Direction, Triple, Triples
from kept.hosts import load_host, load_tokenizer
from kept.kgc.completers.base import Reason
from kept.kgc.completers.parts import parts_behind
from kept.kgc.completers.texts.beside import (
    require_texts,
    save_host,
    saved_host_config,
    saved_host_tokenizer,
)
from kept.kgc.training import HOST
from kept.kge.kinds import Trained, Training
from kept.kge.options import SimKGCOptions
from kept.kge.simkgc.networks import BiEncoder, PreBatch
from kept.kge.simkgc.ranking import SimKGCScorer, encode_texts
from kept.kge.simkgc.texts import Links, Texts
from kept.kge.simkgc.training import (
    KnownTriples,
    SimKGCConfig,
    Step,
    train_simkgc,
)
from kept.randomness import torch_draws, torch_generator
from kg_loaders import KnowledgeGraph

SIMKGC_RECIPE = SimKGCConfig(
    n_epochs=3, batch_size=64, learning_rate=1e-4, n_tokens=32, n_pre_batch=2
)
"""For processors without an accelerator; the paper has batches of 1,024 and 50 tokens."""
RERANKING = ((0.0, 0), (0.05, 1), (0.05, 2), (0.05, 5))
"""Weights and hops of which validation chooses one; the paper's are .05 with 2 or 5 hops."""


@dataclass(frozen=True, eq=False)
class SimKGCCompleter:
    """Two encoders with their tokenizer, and how texts are read and answers re-ranked."""

    model: BiEncoder
    tokenizer: PreTrainedTokenizerBase
    n_tokens: int
    n_words: int = 50
    neighbours: bool = True
    weight: float = 0.0
    n_hops: int = 0
    reads: ClassVar[Literal["texts"]] = "texts"

    def texts(self, graph: KnowledgeGraph, context: Triples) -> Texts:
        """What is read of a graph."""
        links = Links(context, graph.n_entities) if self.neighbours else None
        return Texts.of(graph, n_words=self.n_words, links=links)

    def on(self, graph: KnowledgeGraph, context: Triples) -> SimKGCScorer:
        return SimKGCScorer(
            self.model,
            self.tokenizer,
            self.texts(graph, context),
            n_tokens=self.n_tokens,
            links=Links(context, graph.n_entities),
            weight=self.weight,
            n_hops=self.n_hops,
        )

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        """Parts of both descriptions, left out one at a time; cosines without re-ranking."""
        head, relation, tail = triple
        query, answer = (tail, head) if direction == "head" else (head, tail)
        relation += len(self.texts(graph, context).relations) if direction == "head" else 0
        plain = self.texts(graph, context)
        encode = partial(encode_texts, self.model, self.tokenizer, n_tokens=self.n_tokens)

        def score(texts: Texts) -> float:
            question = encode([texts.entity(query)], [texts.relation(relation)])
            return float(question[0] @ encode([texts.entity(answer)])[0])

        return parts_behind(plain, query, answer, score)

    def weights(self) -> dict[str, Tensor]:
        return dict(self.model.state_dict())

    def described(self) -> dict[str, Any]:
        return {
            "scorer": "simkgc",
            "width": self.model.questions.config.hidden_size,
            "pooling": self.model.pooling,
            "n_tokens": self.n_tokens,
            "n_words": self.n_words,
            "neighbours": self.neighbours,
            "weight": self.weight,
            "n_hops": self.n_hops,
        }

    def save_extra_files(self, folder: Path) -> list[str]:
        return save_host(folder, self.tokenizer, self.model.questions.config)


def train(training: Training) -> Trained:
    """Train SimKGC's two encoders; validation also chooses the re-ranking.

    ConfigError: entities without any text beside their identifiers, which teach nothing.
    """
    options, seed = training.options, training.seed
    assert isinstance(options, SimKGCOptions)
    recipe, host = SIMKGC_RECIPE, options.host or HOST
    config = replace(
        recipe,
        n_epochs=options.epochs or recipe.n_epochs,
        batch_size=options.batch_size or recipe.batch_size,
        n_steps=options.steps,
        n_tokens=options.tokens or recipe.n_tokens,
    )
    graph, triples = training.splits.graph, training.splits.train
    require_texts(graph, "simkgc")
    with torch_draws(seed, "initial weights"):
        model = BiEncoder(load_host(host))
    tokenizer = load_tokenizer(host)
    completer = SimKGCCompleter(model, tokenizer, config.n_tokens)
    texts = completer.texts(graph, triples)
    known_triples = KnownTriples(
        triples, n_entities=graph.n_entities, n_relations=graph.n_relations
    )
    draws, queue = torch_generator(seed, "simkgc"), None
    if config.n_pre_batch:
        queue = PreBatch(
            n_batches=config.n_pre_batch,
            batch_size=config.batch_size,
            width=model.questions.config.hidden_size,
            generator=draws,
        )
    step = Step(model, tokenizer, texts, known_triples, config, queue)
    with training.progress(config.n_epochs) as on_epoch, torch_draws(seed, "dropout"):
        history = train_simkgc(
            step,
            triples,
            generator=draws,
            snapshots=training.snapshots,
            on_epoch=on_epoch,
            validate=lambda: training.validate(completer.on(graph, triples)),
        )
    scorer, values = completer.on(graph, triples), {}
    for weight, n_hops in RERANKING:
        scorer.weight, scorer.n_hops = weight, n_hops
        values[weight, n_hops] = training.validate(scorer)
    weight, n_hops = max(values, key=lambda pair: values[pair])
    completer = replace(completer, weight=weight, n_hops=n_hops)
    settings = {"config": asdict(config), "host": host}
    return Trained(scorer=completer, history=history, settings=settings)


def open_simkgc(folder: Path, described: Mapping[str, Any], weights: dict[str, Tensor]) -> Any:
    """The completer that `save_extra_files` and `described` kept, with its weights."""
    config = saved_host_config(folder)
    with torch.device("cpu"):
        model = BiEncoder(AutoModel.from_config(config), pooling=described["pooling"])
    model.load_state_dict(weights)
    names = ("n_tokens", "n_words", "neighbours", "weight", "n_hops")
    settings = {name: described[name] for name in names}
    return SimKGCCompleter(model.eval(), saved_host_tokenizer(folder), **settings)
