"""DKRL as a completer: entities read as bags of words, with a vector per relation of the training.

The encoder and the energy are those of `kept.kge.dkrl` (Xie et al. 2016), CBOW over the words
of a host's table; descriptions alone are ranked, as in its released evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kept.errors import ConfigError, EvaluationError
from kept.evaluation.ranking import Direction, Triple, Triples
from kept.hosts import load_host, load_tokenizer, word_table
from kept.kgc.completers.base import Reason
from kept.kgc.completers.parts import parts_behind
from kept.kgc.completers.relations import RelationRows
from kept.kgc.completers.texts.beside import require_texts, save_host, saved_host_tokenizer
from kept.kgc.training import HOST
from kept.kge.dkrl import DKRL, DKRL_RECIPE, CbowEncoder, train_dkrl
from kept.kge.kinds import Trained, Training
from kept.kge.options import TextOptions
from kept.kge.resuming.epochs import TrainingHistory
from kept.kge.simkgc.texts import Texts
from kept.randomness import torch_generator
from kg_loaders import KnowledgeGraph

N_TOKENS, N_WORDS = 24, 50
RECIPE = replace(DKRL_RECIPE, n_epochs=12)


@dataclass(frozen=True, eq=False)
class DKRLCompleter:
    """A trained DKRL; `relations` are the names of its relation vectors, in order."""

    model: DKRL
    tokenizer: PreTrainedTokenizerBase
    relations: tuple[str, ...]
    reads: ClassVar[Literal["texts"]] = "texts"

    def on(self, graph: KnowledgeGraph, context: Triples) -> DKRLScorer:
        del context
        texts = Texts.of(graph, n_words=N_WORDS)
        vectors = self.encode([texts.entity(i) for i in range(graph.n_entities)])
        return DKRLScorer(self.model, vectors, RelationRows.of("dkrl", self.relations, graph))

    @torch.no_grad()
    def encode(self, texts: list[str]) -> Tensor:
        """Description vectors of texts `[text width]`."""
        return self.model.encode_descriptions(*word_ids(texts, self.tokenizer))

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        """Parts of both descriptions, left out one at a time."""
        del context
        head, relation, tail = triple
        query, answer = (tail, head) if direction == "head" else (head, tail)
        relation_row = self.relations.index(graph.relations.name(relation))
        vector = self.model.relations[relation_row].detach()

        def score(texts: Texts) -> float:
            first, last = self.encode([texts.entity(head), texts.entity(tail)])
            return -float(self.model.distance(first + vector - last))

        return parts_behind(Texts.of(graph, n_words=N_WORDS), query, answer, score)

    def weights(self) -> dict[str, Tensor]:
        return {"relations": self.model.relations, "words": self.model.encoder.words}

    def described(self) -> dict[str, Any]:
        return {
            "scorer": "dkrl",
            "width": self.model.relations.shape[1],
            "relations": list(self.relations),
        }

    def save_extra_files(self, folder: Path) -> list[str]:
        return save_host(folder, self.tokenizer)


@dataclass(frozen=True, eq=False)
class DKRLScorer:
    """Energies of descriptions."""

    model: DKRL
    vectors: Tensor
    relations: RelationRows

    @torch.no_grad()
    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; EvaluationError: a relation that training never saw, or ranked."""
        if direction == "relation":
            raise EvaluationError("DKRL ranks heads and tails; leave the direction relation out")
        ranker = self.model.ranker(self.vectors, None)
        return ranker(direction, self.relations.with_rows(triples))


def word_ids(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> tuple[Tensor, Tensor]:
    """Ids and mask `[text token]`, without special tokens."""
    encoded: Any = tokenizer(
        texts,
        add_special_tokens=False,
        truncation=True,
        max_length=N_TOKENS,
        padding=True,
        return_tensors="pt",
    )
    return encoded["input_ids"], encoded["attention_mask"].bool()


def train(training: Training) -> Trained:
    """Train DKRL for all epochs of the recipe: the last one is kept, whatever validation says.

    ConfigError: no entity has a text.
    """
    options, seed, started = training.options, training.seed, time.perf_counter()
    assert isinstance(options, TextOptions)
    n_epochs, batch_size = options.epochs or RECIPE.n_epochs, options.batch_size
    config = replace(RECIPE, n_epochs=n_epochs, batch_size=batch_size or RECIPE.batch_size)
    graph, host = training.splits.graph, options.host or HOST
    require_texts(graph, "dkrl")
    words = word_table(load_host(host)).weight.detach()
    model, tokenizer = _dkrl(words, graph.n_entities, graph.n_relations, seed), load_tokenizer(host)
    texts = Texts.of(graph, n_words=N_WORDS)
    ids, mask = word_ids([texts.entity(i) for i in range(graph.n_entities)], tokenizer)
    with training.progress(config.n_epochs) as on_epoch:
        losses = train_dkrl(
            model,
            np.asarray(training.splits.train),
            ids,
            mask,
            config=config,
            generator=torch_generator(seed, "dkrl"),
            snapshots=training.snapshots,
            on_epoch=on_epoch,
        )
    completer = DKRLCompleter(model.eval(), tokenizer, tuple(graph.relations))
    value = training.validate(completer.on(graph, training.splits.train))
    seconds, n_done = time.perf_counter() - started, len(losses)
    history = TrainingHistory(losses, ((n_done, value),), n_done, False, seconds, {})
    settings = {"config": asdict(config), "host": host}
    return Trained(scorer=completer, history=history, settings=settings)


def _dkrl(words: Tensor, n_entities: int, n_relations: int, seed: int) -> DKRL:
    draws, width = torch_generator(seed, "initial weights"), words.shape[1]
    encoder = CbowEncoder(words=words, width=width, generator=draws)
    return DKRL(
        n_entities=n_entities,
        n_relations=n_relations,
        width=width,
        encoder=encoder,
        generator=draws,
        norm=2,
    )


def open_dkrl(folder: Path, described: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Any:
    """The completer that a folder holds, without the structure vectors of its training."""
    relations = tuple(described["relations"])
    if len(relations) != len(weights["relations"]):
        raise ConfigError(f"{folder} names {len(relations)} relations for other vectors")
    model = _dkrl(weights["words"], 1, len(relations), 0)
    with torch.no_grad():
        model.relations.copy_(weights["relations"])
    return DKRLCompleter(model.eval(), saved_host_tokenizer(folder), relations)
