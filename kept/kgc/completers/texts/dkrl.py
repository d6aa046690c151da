"""DKRL as a completer: entities read as bags of words, with a vector per relation of the training.

The encoder and the energy are those of `kept.kge.dkrl` (Xie et al. 2016), CBOW over the words
of a host's table; descriptions alone are ranked, as in its released evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kept.errors import ConfigError, EvaluationError
from kept.evaluation.ranking import Direction
from kept.hosts import load_host, load_tokenizer, word_table
from kept.kgc.completers.base import Reason
from kept.kgc.completers.parts import parts_behind
from kept.kgc.completers.relations import RelationRows
from kept.kgc.completers.texts.beside import require_texts, save_host, saved_host_tokenizer
from kept.kge.dkrl import DKRL, DKRL_RECIPE, CbowEncoder, train_dkrl
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.simkgc.texts import Texts
from kept.kge.training_config import TrainingConfig
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

    def on(self, graph: KnowledgeGraph, context: NDArray[np.integer]) -> DKRLScorer:
        del context
        texts = Texts.of(graph, n_words=N_WORDS)
        vectors = self.encode([texts.entity(i) for i in range(graph.n_entities)])
        return DKRLScorer(self.model, vectors, RelationRows.of("dkrl", self.relations, graph))

    @torch.no_grad()
    def encode(self, texts: list[str]) -> Tensor:
        """Description vectors of texts `[text width]`."""
        return self.model.encode_descriptions(*word_ids(texts, self.tokenizer))

    def reasons(
        self,
        graph: KnowledgeGraph,
        context: NDArray[np.integer],
        direction: Direction,
        triple: tuple[int, int, int],
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


def train_dkrl_completer(
    graph: KnowledgeGraph,
    triples: NDArray[np.integer],
    *,
    host: str,
    config: TrainingConfig,
    seed: int,
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> tuple[DKRLCompleter, tuple[float, ...]]:
    """Train on `triples [triple 3]` of `graph`; returns the completer and the losses by epoch.

    ConfigError: no entity has a text.
    """
    require_texts(graph, "dkrl")
    words = word_table(load_host(host)).weight.detach()
    model, tokenizer = _dkrl(words, graph.n_entities, graph.n_relations, seed), load_tokenizer(host)
    texts = Texts.of(graph, n_words=N_WORDS)
    ids, mask = word_ids([texts.entity(i) for i in range(graph.n_entities)], tokenizer)
    losses = train_dkrl(
        model,
        np.asarray(triples),
        ids,
        mask,
        config=config,
        generator=torch_generator(seed, "dkrl"),
        snapshots=snapshots,
        on_epoch=on_epoch,
    )
    return DKRLCompleter(model.eval(), tokenizer, tuple(graph.relations)), losses


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
