"""LRLM on sentences of T-REx: its articles, its training, and its perplexity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from experiments.generators.sentences import Sentence
from kept.decoders.generators.lrlm import (
    LRLM,
    FactVectors,
    LSTMReader,
    TwoLayers,
    perplexity,
    segment_loss,
)
from kept.decoders.generators.lrlm_articles import (
    Article,
    Fact,
    Segment,
    Span,
    Unknowns,
    Vocabulary,
    segments,
)
from kept.randomness import generator, torch_draws
from kept.training.config import RunConfig

T = TypeVar("T")


class RecurrentPlan(RunConfig):
    """Sizes of a recurrent writer and how long it learns."""

    width: PositiveInt
    fact_width: PositiveInt
    n_words: PositiveInt
    n_epochs: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat


def train_recurrent(
    model: nn.Module, items: Sequence[T], loss: Callable[[Sequence[T]], Tensor],
    plan: RecurrentPlan, seed: int, draw: str,
) -> None:  # fmt: skip
    """Train on the items for the plan's epochs; `draw` names the draws of their order."""
    optimiser = torch.optim.Adam(model.parameters(), lr=plan.learning_rate)
    for epoch in range(plan.n_epochs):
        model.train()
        order = generator(seed, draw, epoch).permutation(len(items)).tolist()
        for first in range(0, len(order), plan.batch_size):
            optimiser.zero_grad()
            some = [items[i] for i in order[first : first + plan.batch_size]]
            loss(some).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()


def articles(
    sentences: Sequence[Sentence], relations: Sequence[str], objects: dict[str, int]
) -> list[Article]:
    """Return each sentence as an article about its topic; `objects` grows by the tails."""
    all_articles = []
    for sentence in sentences:
        facts, spans = [], []
        for number, fact in enumerate(sentence.facts):
            tail = objects.setdefault(fact.tail, len(objects))
            facts.append(Fact(relations.index(fact.relation), tail, (" ".join(fact.words),)))
            spans += [Span(*span, number, 0) for span in sentence.places(fact.words)]
        all_articles.append(Article(sentence.words, tuple(facts), tuple(spans)))
    return all_articles


def lrlm_perplexity(
    train: Sequence[Sentence], test: Sequence[Sentence], relations: Sequence[str],
    plan: RecurrentPlan, seed: int,
) -> dict[str, float]:  # fmt: skip
    """Train on `train`; the perplexity of a word of `test`, and the share of words in a span.

    A word outside the vocabulary is one of all such words of both.
    """
    objects: dict[str, int] = {}
    training, tested = (articles(each, relations, objects) for each in (train, test))
    vocabulary = Vocabulary.count(training, plan.n_words)
    known = set(vocabulary.words)
    outside = {w for a in [*training, *tested] for w in a.words} - known
    unknowns = Unknowns(n_outside=len(outside))
    with torch_draws(seed, "initial weights"):
        model = _new(plan, len(vocabulary), len(relations), len(objects))

    def cut(some: Sequence[Article]) -> Segment:
        (segment,) = segments(some, vocabulary, 64, unknowns=unknowns)
        return segment

    def loss(some: Sequence[Article]) -> Tensor:
        segment = cut(some)
        value: Tensor = segment_loss(model(segment), segment)
        return value

    train_recurrent(model, training, loss, plan, seed, "lrlm order")
    parts = [tested[i : i + 32] for i in range(0, len(tested), 32)]
    n_words = sum(len(a.words) for a in tested)
    return {
        "perplexity": perplexity(model, ([cut(part)] for part in parts)),
        "words in a span": sum(s.end - s.start for a in tested for s in a.spans) / n_words,
    }


def _new(plan: RecurrentPlan, n_words: int, n_relations: int, n_objects: int) -> LRLM:
    reader = LSTMReader(n_words, plan.width, plan.width, 1)
    facts = FactVectors(
        nn.Embedding(n_relations, plan.fact_width),
        nn.Embedding(max(n_objects, 1), plan.fact_width), 0,
    )  # fmt: skip
    return LRLM(
        reader=reader, facts=facts, words=TwoLayers(plan.width, plan.width, n_words),
        fact_query=TwoLayers(plan.width, plan.width, facts.width),
    )  # fmt: skip
