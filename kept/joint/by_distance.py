"""One table of words and entities whose distances are likelihoods: Wang 2014, Zhong 2015.

Axis legend: item (word or entity), triple, pair, negative, relation, width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.joint.corpus import Corpus, Ints, tokenise
from kept.joint.likelihood import BIAS, Negatives, RowAdagrad
from kept.joint.skip_gram import noise_table
from kept.joint.training import chunks, permutation
from kept.joint.wang2014 import fact_losses, link_losses, name_triples, word_losses
from kept.joint.wikipedia2vec import Keep, link_pairs, word_pairs
from kept.joint.zhong2015 import description_losses
from kept.randomness import generator, torch_generator
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class DistanceSettings:
    """Hyper-parameters; `links` and `names` are Wang's alignments, `descriptions` Zhong's.

    A step takes `pages_per_step` texts, and as large a share of the triples and descriptions.
    """

    window: int = 5
    negatives: int = 5
    epochs: int = 10
    learning_rate: float = 0.1
    sample: float = 1e-4
    word_power: float = 0.75
    bias: float = BIAS
    pages_per_step: int = 64
    links: bool = True
    names: bool = True
    descriptions: bool = False


class DistanceSpace:
    """The tables, and steps on texts, triples and descriptions together.

    `vectors [item width]`, `relations [relation width]`.
    """

    def __init__(
        self,
        corpus: Corpus,
        graph: KnowledgeGraph,
        triples: NDArray[np.integer],
        settings: DistanceSettings,
        *,
        width: int,
        seed: int,
    ) -> None:
        self.corpus, self.settings, self.seed = corpus, settings, seed
        draws = torch_generator(seed, "joint", "first vectors")
        self.vectors = torch.randn(corpus.n_items, width, generator=draws) / width**0.5
        self.relations = torch.randn(graph.n_relations, width, generator=draws) / width**0.5
        self._rows, self._relation_rows = RowAdagrad(self.vectors), RowAdagrad(self.relations)
        self.triples = item_triples(corpus, triples)
        self.names = torch.from_numpy(name_items(corpus, graph))
        self.described = description_pairs(corpus, graph) if settings.descriptions else None
        self._keep = Keep(corpus, settings.sample)
        size = max(100_000, 200 * len(corpus.words))
        self._noise = noise_table(corpus.word_counts, settings.word_power, size)
        self.n_pages = len(corpus.pages)
        self.n_steps = len(chunks(self.n_pages, settings.pages_per_step))

    def step(self, epoch: int, number: int, done: float) -> tuple[float, int]:
        """See `kept.joint.training.Space`."""
        draws = generator(self.seed, "joint", epoch, number)
        terms = self._terms(epoch, number, draws)
        if not terms:
            return 0.0, 0
        rate = self.settings.learning_rate * (1 - done)
        with torch.enable_grad():
            items = Leaf(self.vectors, [ids for term in terms for ids in term.items])
            relations = Leaf(self.relations, [ids for term in terms for ids in term.relations])
            losses = torch.cat([term.losses(items, relations) for term in terms])
            losses.sum().backward()  # type: ignore[no-untyped-call]
        for leaf, rows in ((items, self._rows), (relations, self._relation_rows)):
            if leaf.states.grad is not None:
                rows.step(leaf.ids, leaf.states.grad, rate)
        return float(losses.detach().sum()), len(losses)

    def state(self) -> dict[str, Tensor]:
        """See `kept.joint.training.Space`."""
        return {
            "vectors": self.vectors,
            "squares": self._rows.squares,
            "relations": self.relations,
            "relation_squares": self._relation_rows.squares,
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """See `kept.joint.training.Space`."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    # ---- what a step reads ----------------------------------------------------------------------
    def _terms(self, epoch: int, number: int, draws: np.random.Generator) -> list[Term]:
        settings, corpus = self.settings, self.corpus
        texts = self._share(epoch, number, self.n_pages, "texts")
        window = settings.window
        words = word_pairs(corpus, texts, window=window, keep=self._keep, draws=draws)
        terms = [self._pairs(words.inputs, words.outputs, word_losses, draws)]
        if settings.links:
            pairs = link_pairs(corpus, texts, window=window, keep=self._keep, draws=draws)
            ways = slice(0, None, 2)  # of each pair, the entity's prediction of the word
            terms.append(self._pairs(pairs.inputs[ways], pairs.outputs[ways], link_losses, draws))
        if self.described is not None:
            rows = self._share(epoch, number, len(self.described), "descriptions")
            terms.append(self._descriptions(self.described[rows], draws))
        rows = self._share(epoch, number, len(self.triples), "triples")
        head, relation, tail = torch.from_numpy(self.triples[rows]).unbind(1)
        terms.append(self._facts(head, relation, tail, draws))
        if settings.names:
            names = self.names[head], self.names[tail]
            for heads, tails, has in name_triples(head, tail, *names):
                terms.append(self._facts(heads[has], relation[has], tails[has], draws))
        return [term for term in terms if term.n]

    def _pairs(
        self, first: Ints, second: Ints, losses: PairLosses, draws: np.random.Generator
    ) -> Term:
        contexts, right = torch.from_numpy(first), torch.from_numpy(second)
        sampled, bias = self._sample_items(right, draws), self.settings.bias

        def pair_losses(items: Leaf, _: Leaf) -> Tensor:
            return losses(
                items(contexts), items(right), items.sample_negatives(sampled, right), bias
            )

        return Term(len(contexts), (contexts, right, sampled), (), pair_losses)

    def _descriptions(self, pairs: Ints, draws: np.random.Generator) -> Term:
        entity, word = torch.from_numpy(pairs).unbind(1)
        words, entities = self._sample_items(word, draws), self._sample_items(entity, draws)
        bias = self.settings.bias

        def pair_losses(items: Leaf, _: Leaf) -> Tensor:
            sampled = items.sample_negatives(words, word), items.sample_negatives(entities, entity)
            return description_losses(items(entity), items(word), *sampled, bias)

        return Term(len(pairs), (entity, word, words, entities), (), pair_losses)

    def _facts(
        self, head: Tensor, relation: Tensor, tail: Tensor, draws: np.random.Generator
    ) -> Term:
        heads, tails = self._sample_items(head, draws), self._sample_items(tail, draws)
        shape = (len(relation), self.settings.negatives)
        others = torch.from_numpy(draws.integers(0, len(self.relations), shape))
        bias = self.settings.bias

        def pair_losses(items: Leaf, relations: Leaf) -> Tensor:
            sampled = {
                "head": items.sample_negatives(heads, head),
                "relation": relations.sample_negatives(others, relation),
                "tail": items.sample_negatives(tails, tail),
            }
            return fact_losses(items(head), relations(relation), items(tail), sampled, bias)

        return Term(len(head), (head, tail, heads, tails), (relation, others), pair_losses)

    def _share(self, epoch: int, number: int, n: int, what: str) -> Ints:
        """The rows of this step, of a permutation for each pass."""
        begin, end = (n * i // self.n_steps for i in (number, number + 1))
        return permutation(self.seed, what, epoch, n)[begin:end]

    def _sample_items(self, right: Tensor, draws: np.random.Generator) -> Tensor:
        """Items of the kind of each right one: words by their noise, entities evenly."""
        n_words, shape = len(self.corpus.words), (len(right), self.settings.negatives)
        words = self._noise[draws.integers(0, len(self._noise), shape)]
        entities = draws.integers(n_words, self.corpus.n_items, shape)
        return torch.from_numpy(np.where((right.numpy() < n_words)[:, None], words, entities))


PairLosses = Callable[[Tensor, Tensor, Negatives, float], Tensor]


class Leaf:
    """The distinct rows of a table that a step reads, as one tensor with a gradient."""

    def __init__(self, table: Tensor, ids: list[Tensor]) -> None:
        flat = torch.cat([part.reshape(-1) for part in ids]) if ids else torch.empty(0).long()
        self.ids = torch.unique(flat)
        self.states = table[self.ids].requires_grad_()

    def __call__(self, ids: Tensor) -> Tensor:
        positions = torch.searchsorted(self.ids, ids.contiguous())
        return torch.nn.functional.embedding(positions, self.states)

    def sample_negatives(self, ids: Tensor, right: Tensor) -> Negatives:
        """Negatives; one that is the right answer does not count."""
        return Negatives(self(ids), ids != right[:, None])


@dataclass(frozen=True, eq=False)
class Term:
    """`n` losses of a step, the ids that they read, and how they follow from their vectors."""

    n: int
    items: tuple[Tensor, ...]
    relations: tuple[Tensor, ...]
    losses: Callable[[Leaf, Leaf], Tensor]


def item_triples(corpus: Corpus, triples: NDArray[np.integer]) -> Ints:
    """Triples `[triple 3]` with items in place of entities."""
    item_positions = len(corpus.words) + np.searchsorted(corpus.entities, triples[:, [0, 2]])
    return np.stack([item_positions[:, 0], triples[:, 1], item_positions[:, 1]], 1).astype(np.int64)


def name_items(corpus: Corpus, graph: KnowledgeGraph) -> Ints:
    """The word that is an item's name `[item]`: an entity's label of one word, else -1."""
    rows = {word: row for row, word in enumerate(corpus.words)}
    names = np.full(corpus.n_items, -1, np.int64)
    for i, entity in enumerate(corpus.entities):
        tokens = tokenise(graph.label(int(entity)))
        if len(tokens) == 1:
            names[len(corpus.words) + i] = rows.get(tokens[0][0].lower(), -1)
    return names


def description_pairs(corpus: Corpus, graph: KnowledgeGraph) -> Ints:
    """Each entity (item) with each word of its description that the vocabulary has `[pair 2]`."""
    rows = {word: row for row, word in enumerate(corpus.words)}
    pairs = [
        (len(corpus.words) + i, rows[token[0].lower()])
        for i, entity in enumerate(corpus.entities)
        for token in tokenise(graph.description(int(entity)) or "")
        if token[0].lower() in rows
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)
