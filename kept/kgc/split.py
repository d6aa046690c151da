"""Word-knowledge graph completion: which relation joins two entities that a sentence mentions?

The task of that name in CoLAKE (Sun et al., COLING 2020): a relation node between two mentioned
entities is masked, and every relation of the graph is ranked, given words and neighbours.
*Transductive*: both entities and the relation were seen in training, the triple was not.
*Inductive*: the head was never seen in training, neither in a triple nor in a sentence.

Where we differ from the paper: its own data are not at hand, so any list of `RelationExample` is
split here, and numbers are not comparable with its table. The tested pair's own triples are never
shown as neighbours, in either direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entity_linking.annotations.relations import RelationExample
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph

Examples = tuple[RelationExample, ...]
Fact = tuple[str, str, str]


@dataclass(frozen=True)
class CompletionSplit:
    """Examples and graphs of one word-knowledge completion task.

    `train_graph` holds what training may see. `context_graph` is what a test may show as
    neighbours: the training triples and the other triples of unseen heads. Neither holds a tested
    triple, nor any triple that joins a tested pair in either direction. All share one id space.
    """

    full_graph: KnowledgeGraph
    train_graph: KnowledgeGraph
    context_graph: KnowledgeGraph
    train: Examples
    valid: Examples
    tests: Mapping[str, Examples]
    dropped: Mapping[str, int]

    def __repr__(self) -> str:
        tests = ", ".join(f"{name} {len(rows)}" for name, rows in self.tests.items())
        return f"CompletionSplit(train {len(self.train)}, valid {len(self.valid)}, {tests})"


def split_examples(
    examples: Sequence[RelationExample],
    graph: KnowledgeGraph,
    *,
    n_valid: int,
    n_transductive: int,
    n_inductive: int,
    inductive_heads: Sequence[str],
    generator: np.random.Generator,
    max_sentences_per_fact: int | None = None,
) -> CompletionSplit:
    """Split examples by fact, so that no tested fact is in the graph or in a training sentence.

    `inductive_heads` may be held out; they are drawn in random order until `n_inductive` facts are
    held out, and every sentence and training triple about a drawn one is dropped. Transductive
    facts are then drawn among those whose head and tail keep another training triple. A tested
    fact is evaluated in one sentence, its first.
    Raises `ConfigError` when the examples do not allow as many.
    """
    first: dict[Fact, RelationExample] = {}
    for example in examples:
        first.setdefault((example.head, example.relation, example.tail), example)
    unseen, inductive = _draw_inductive(list(first), inductive_heads, n_inductive, generator)
    transductive = _draw_transductive(
        [t for t in first if t[0] not in unseen and t[2] not in unseen],
        graph,
        unseen,
        n_valid + n_transductive,
        generator,
    )
    tested = [*inductive, *transductive]
    return _assemble_split(
        examples,
        graph,
        unseen=unseen,
        valid=[first[t] for t in transductive[:n_valid]],
        tests={
            "transductive": tuple(first[t] for t in transductive[n_valid:]),
            "inductive": tuple(first[t] for t in inductive),
        },
        tested_pairs=dict.fromkeys(frozenset((t[0], t[2])) for t in tested),
        max_sentences_per_fact=max_sentences_per_fact,
    )


def _draw_inductive(
    facts: list[Fact], heads: Sequence[str], n: int, generator: np.random.Generator
) -> tuple[frozenset[str], list[Fact]]:
    by_head: dict[str, list[Fact]] = {name: [] for name in sorted(heads)}
    for fact in facts:
        if fact[0] in by_head:
            by_head[fact[0]].append(fact)
    names = [name for name, rows in by_head.items() if rows]
    sampled_relations: list[str] = []
    held_out: list[Fact] = []
    for index in generator.permutation(len(names)):
        if len(held_out) >= n:
            break
        sampled_relations.append(names[index])
        held_out.extend(by_head[names[index]])
    if len(held_out) < n:
        raise ConfigError(
            f"n_inductive is {n}, but only {len(held_out)} facts have a head to hold out"
        )
    return frozenset(sampled_relations), held_out[:n]


def _draw_transductive(
    facts: list[Fact],
    graph: KnowledgeGraph,
    unseen: frozenset[str],
    n: int,
    generator: np.random.Generator,
) -> list[Fact]:
    degree: Counter[str] = Counter()
    joined: Counter[frozenset[str]] = Counter()
    for head, _, tail in _names(graph, graph.triples):
        if head not in unseen and tail not in unseen:
            degree.update((head, tail))
            joined[frozenset((head, tail))] += 1
    sampled_facts: list[Fact] = []
    pairs: set[frozenset[str]] = set()
    for index in generator.permutation(len(facts)):
        head, _, tail = facts[index]
        pair = frozenset((head, tail))
        lost = 0 if pair in pairs else joined[pair]
        if len(sampled_facts) < n and min(degree[head], degree[tail]) > lost:
            sampled_facts.append(facts[index])
            pairs.add(pair)
            degree.subtract({head: lost, tail: lost})
    if len(sampled_facts) < n:
        raise ConfigError(
            f"n_valid + n_transductive is {n}, but only {len(sampled_facts)} facts have a head and "
            "a tail that keep another triple"
        )
    return sampled_facts


def _assemble_split(
    examples: Sequence[RelationExample],
    graph: KnowledgeGraph,
    *,
    unseen: frozenset[str],
    valid: list[RelationExample],
    tests: Mapping[str, Examples],
    tested_pairs: Mapping[frozenset[str], None],
    max_sentences_per_fact: int | None,
) -> CompletionSplit:
    rows = list(_names(graph, graph.triples))
    is_tested = np.array([frozenset((h, t)) in tested_pairs for h, _, t in rows], bool)
    is_unseen = np.array([h in unseen or t in unseen for h, _, t in rows], bool)
    context = graph.with_triples(graph.triples[~is_tested], note="without tested pairs")
    train_graph = graph.with_triples(
        graph.triples[~is_tested & ~is_unseen], note="without tested pairs and unseen entities"
    )
    held_texts = {e.linked.text for e in (*valid, *(e for part in tests.values() for e in part))}
    dropped: Counter[str] = Counter()
    per_fact: Counter[Fact] = Counter()
    train = []
    for example in examples:
        reason = _why_dropped(example, unseen, tested_pairs, held_texts)
        fact = (example.head, example.relation, example.tail)
        if reason is None and max_sentences_per_fact and per_fact[fact] >= max_sentences_per_fact:
            reason = "over max_sentences_per_fact"
        if reason is not None:
            dropped[reason] += 1
            continue
        per_fact[fact] += 1
        train.append(example)
    return CompletionSplit(
        full_graph=graph,
        train_graph=train_graph,
        context_graph=context,
        train=tuple(train),
        valid=tuple(valid),
        tests=tests,
        dropped=dict(sorted(dropped.items())),
    )


def _why_dropped(
    example: RelationExample,
    unseen: frozenset[str],
    tested_pairs: Mapping[frozenset[str], None],
    held_texts: set[str],
) -> str | None:
    linked = [link.entity for link in example.linked.links if link.entity is not None]
    if any(entity in unseen for entity in (*linked, example.head, example.tail)):
        return "mentions an unseen entity"
    pairs = {frozenset((a, b)) for i, a in enumerate(linked) for b in linked[i + 1 :]}
    if any(pair in tested_pairs for pair in (*pairs, frozenset((example.head, example.tail)))):
        return "mentions a tested pair"
    if example.linked.text in held_texts:
        return "is a held-out sentence"
    return None


def _names(graph: KnowledgeGraph, triples: NDArray[np.int32]) -> list[Fact]:
    entities, relations = list(graph.entities), list(graph.relations)
    return [(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist()]
