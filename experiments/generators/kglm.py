"""KGLM on sentences of T-REx: their mentions, its training, and its perplexity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.generators.lrlm import RecurrentPlan, train_recurrent
from experiments.generators.sentences import Sentence, Statement
from kept.decoders.generators.kglm import KGLM, Chunk, WordModel, WordPerplexity
from kept.decoders.generators.kglm_documents import (
    N_ALIAS_TOKENS,
    NEW_RELATION,
    PADDING,
    AliasTable,
    Labels,
    Mention,
    label,
)
from kept.randomness import torch_draws

START, UNKNOWN, FIRST = "<start>", "@@UNK", 2
CUTOFF = 64
"""Tokens behind its last mention at which an entity is still a parent: more than a sentence has."""


@dataclass(frozen=True, eq=False)
class Ids:
    """Numbers of words, entities and relations, and the graph's edges by entity."""

    words: dict[str, int]
    entities: list[str]
    relations: list[str]
    edges: dict[int, list[tuple[int, int]]]
    aliases: AliasTable
    local: dict[str, dict[str, int]]
    n_outside: int


def mentions_of(sentence: Sentence) -> list[Mention]:
    """The topic, new, and the tails of its facts behind it, none inside another."""
    topic = next(sentence.places(sentence.name), None)
    if topic is None or not sentence.facts:
        return []
    spans: list[tuple[int, int, Statement | None]] = [(*topic, None)]
    for fact in sentence.facts:
        spans += [(s, e, fact) for s, e in sentence.places(fact.words) if s >= topic[1]]
    taken: list[Mention] = []
    for start, end, statement in sorted(spans, key=lambda each: (each[0], -each[1])):
        if taken and start < taken[-1].end:
            continue
        entity, relation = (
            (sentence.topic, NEW_RELATION)
            if statement is None
            else (statement.tail, statement.relation)
        )
        taken.append(Mention(start + 1, end + 1, entity, (sentence.topic,), (relation,)))
    return taken


def numbered(
    train: Sequence[Sentence], test: Sequence[Sentence], relations: Sequence[str], n_words: int
) -> Ids:
    """The numbers of all that is in the sentences; words by how often they are in `train`."""
    counts = Counter(word for sentence in train for word in sentence.words)
    common = sorted(counts, key=lambda word: (-counts[word], word))[: n_words - 3]
    words = {word: i for i, word in enumerate(["", UNKNOWN, START, *common])}
    names: dict[str, tuple[str, ...]] = {}
    for sentence in [*train, *test]:
        names.setdefault(sentence.topic, sentence.name)
        for fact in sentence.facts:
            names.setdefault(fact.tail, fact.words)
    entities = ["", UNKNOWN, *names]
    position = {name: i for i, name in enumerate(entities)}
    local = {
        entity: {w: i for i, w in enumerate(dict.fromkeys(name[:N_ALIAS_TOKENS]), 1)}
        for entity, name in names.items()
    }
    edges: dict[int, list[tuple[int, int]]] = {}
    for sentence in [*train, *test]:
        edges[position[sentence.topic]] = [
            (relations.index(f.relation) + FIRST, position[f.tail]) for f in sentence.facts
        ]
    tokens = {w: i for w, i in words.items() if w}
    aliases = AliasTable(entities, tokens, {e: [" ".join(n)] for e, n in names.items()}, local)
    outside = {w for s in [*train, *test] for w in s.words} - set(words)
    return Ids(words, entities, list(relations), edges, aliases, local, len(outside))


def chunk_of(sentences: Sequence[Sentence], ids: Ids) -> Chunk:
    """The sentences as one chunk, each a row."""
    position = {name: i for i, name in enumerate(ids.entities)} | {PADDING: 0}
    labels = [
        label((START, *s.words), mentions_of(s), is_generative=True, local_ids=ids.local)
        for s in sentences
    ]
    width = max(len(each.source) for each in labels)

    def rows(values: Sequence[Sequence[int]], n: int = width) -> Tensor:
        return torch.tensor([[*row, *[0] * (n - len(row))] for row in values])

    def words(of: list[list[str]]) -> Tensor:
        return rows([[ids.words.get(w, 1) for w in row] for row in of])

    def entities(each: Labels) -> list[int]:
        return [position[name] for name in each.raw_entity_ids]

    raw = rows([entities(each) for each in labels])
    tokens, numbers = ids.aliases(raw)
    listed = [[position[name] for name in each.shortlist] for each in labels]
    n_listed = max(len(each) for each in listed)
    return Chunk(
        source=words([each.source for each in labels]),
        mention_type=rows([e.mention_type for e in labels]),
        entity_ids=raw, raw_entity_ids=raw,
        parent_ids=rows([[position[p[0]] for p in e.parent_ids] for e in labels])[..., None],
        reset=torch.ones(len(labels), dtype=torch.bool), shortlist=rows(listed, n_listed),
        shortlist_inds=rows([e.shortlist_inds for e in labels]),
        target=words([each.target for each in labels]), alias_tokens=tokens,
        alias_local_ids=numbers, alias_copy_inds=rows([e.alias_copy_inds for e in labels]),
    )  # fmt: skip


def kglm_perplexity(
    train: Sequence[Sentence], test: Sequence[Sentence], relations: Sequence[str],
    plan: RecurrentPlan, seed: int,
) -> dict[str, float]:  # fmt: skip
    """Train on `train`; unknown-penalised perplexity of a word of `test` given its mentions.

    The mentions are given, as the annotation has them: it is no marginal perplexity.
    """
    ids = numbered(train, test, relations, plan.n_words)
    with torch_draws(seed, "initial weights"):
        tokens = nn.Embedding(len(ids.words), plan.width, padding_idx=0)
        model = KGLM(
            tokens=tokens,
            entities=nn.Embedding(len(ids.entities), plan.fact_width, padding_idx=0),
            relations=nn.Embedding(len(relations) + FIRST, plan.fact_width, padding_idx=0),
            edges=ids.edges, hidden_width=plan.width, n_layers=1, cutoff=CUTOFF,
            uses_shortlist=True,
            words=WordModel(tokens, plan.fact_width, math.log(ids.n_outside), tied=True),
        )  # fmt: skip

    def loss(some: Sequence[Sentence]) -> Tensor:
        value: Tensor = model(chunk_of(some, ids)).loss
        return value

    train_recurrent(model, train, loss, plan, seed, "kglm order")
    return _measured(model, test, ids)


@torch.no_grad()
def _measured(model: KGLM, test: Sequence[Sentence], ids: Ids) -> dict[str, float]:
    model.eval()
    words, n_named = WordPerplexity(), 0
    for first in range(0, len(test), 32):
        chunk = chunk_of(test[first : first + 32], ids)
        output = model(chunk)
        words.add(output, chunk.mask)
        n_named += int((chunk.mention_type > 0).sum())
    return {
        "perplexity": words.values[1],
        "words in a mention": n_named / words.n_tokens,
    }
