"""The world of this experiment: probed facts, a graph with and without them, and text without them.

The graph holds T-REx's facts and CoDEx-S's training triples (`experiments.wk_completion.data`); the
text are T-REx's evidence sentences. A sentence is left out of the text, in both settings, when it
is evidence of a probed fact, when T-REx annotates both ends of one in it, or when it names the
subject of one (linked) and its answer (in the string). So the settings differ in the graph alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.annotations import to_json
from entity_linking.annotations.relations import RelationExample
from entity_linking.mentions import LinkedText
from experiments.pretraining.data import Corpus, link_documents
from experiments.wk_completion.data import read_world as read_examples
from kept.evaluation.leakage import (
    LeakCheck,
    answers_in_subjects,
    inverses_in_graph,
    pairs_in_graph,
    sentences_in_training,
    triples_in_graph,
)
from kept.inputs.controls.conditions import without_pairs
from kept.lab.probing.items.collections import trex_facts
from kept.lab.probing.items.facts import ClozeFact, draw_facts
from kept.lab.study.origins import fingerprint_of
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

Knowledge = Literal["held_out", "given"]
KNOWLEDGE: tuple[Knowledge, ...] = ("held_out", "given")


@dataclass(frozen=True)
class LamaWorld:
    """Probed facts, both graphs (one space of ids), and the documents that every row reads.

    `evidences` are the sentences that state a probed fact; `n_left_out` counts the sentences that
    are not read because of the probed facts.
    """

    facts: tuple[ClozeFact, ...]
    every_fact: tuple[ClozeFact, ...]
    graphs: dict[Knowledge, KnowledgeGraph]
    documents: tuple[tuple[LinkedText, ...], ...]
    evidences: tuple[str, ...]
    n_left_out: int

    def __repr__(self) -> str:
        n_texts = sum(map(len, self.documents))
        return (
            f"World({len(self.facts)} probed facts, {n_texts} sentences, {self.n_left_out} left "
            f"out, {self.graphs['given']}, without them {self.graphs['held_out'].n_triples} "
            "triples)"
        )

    def corpus(self, knowledge: Knowledge) -> Corpus:
        """The text with one of the graphs."""
        return Corpus(self.graphs[knowledge], self.documents)

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that a row is trained with or asked about."""
        return fingerprint_of(
            [dataclasses.astuple(fact) for fact in self.facts],
            [self.graphs[knowledge].content_hash for knowledge in KNOWLEDGE],
            [[to_json(text).decode() for text in document] for document in self.documents],
        )

    @property
    def triples(self) -> NDArray[np.int32]:
        """The probed facts as ids of both graphs `[fact 3]`."""
        return triples_of(self.facts, self.graphs["given"])

    def audit(self, knowledge: Knowledge) -> list[LeakCheck]:
        """Where a probed fact could be read off: graph, text, or its own question."""
        graph, text = self.graphs[knowledge], [t.text for d in self.documents for t in d]
        named = [f"{s} / {a}" for s, a in named_together(self.facts, self.documents)]
        return [
            triples_in_graph(self.triples, graph),
            inverses_in_graph(self.triples, graph),
            pairs_in_graph(self.triples, graph),
            sentences_in_training(self.evidences, text),
            LeakCheck("probed subject and answer in one training sentence", len(self.facts),
                      len(named), tuple(named[:3])),
            answers_in_subjects((fact.subject, fact.answer) for fact in self.facts),
        ]  # fmt: skip


def read_world(root: Path, *, per_relation: int | None, n_texts: int, seed: int) -> LamaWorld:
    """Read everything below `root`.

    `n_texts` sentences are drawn once the evidences went; those that name a probed fact go then.
    """
    examples = read_examples(root, ("s",))
    facts = trex_facts(root / "lama")
    return make_world(
        examples.examples,
        examples.graph,
        facts,
        per_relation=per_relation,
        n_texts=n_texts,
        seed=seed,
    )


def make_world(
    examples: Sequence[RelationExample],
    graph: KnowledgeGraph,
    facts: Sequence[ClozeFact],
    *,
    per_relation: int | None,
    n_texts: int,
    seed: int,
) -> LamaWorld:
    """The world of these examples; facts outside the graph are not probed."""
    inside = [f for f in facts if f.head in graph.entities and f.tail in graph.entities]
    facts_drawn = draw_facts(inside, per_relation, seed=seed)
    pairs = frozenset(_pair(fact.head, fact.tail) for fact in facts_drawn)
    stating = frozenset(e.linked.text for e in examples if _pair(e.head, e.tail) in pairs)
    other = [example for example in examples if example.linked.text not in stating]
    chosen = _draw_texts(other, n_texts, seed)
    documents, n_named = _without_named(link_documents(chosen, graph), facts_drawn)
    ids = triples_of(facts_drawn, graph)
    return LamaWorld(
        tuple(facts_drawn),
        tuple(facts),
        {"held_out": without_pairs(graph, ids[:, [0, 2]]), "given": graph},
        documents,
        tuple(sorted(stating)),
        len(stating) + n_named,
    )


def triples_of(facts: Iterable[ClozeFact], graph: KnowledgeGraph) -> NDArray[np.int32]:
    """Ids of the facts in `graph`, which must know them, `[fact 3]`."""
    chosen = list(facts)
    columns = (
        graph.entities.ids([fact.head for fact in chosen]),
        graph.relations.ids([fact.relation for fact in chosen]),
        graph.entities.ids([fact.tail for fact in chosen]),
    )
    return np.stack(columns, axis=1)


def named_together(
    facts: Iterable[ClozeFact], documents: Iterable[Iterable[LinkedText]]
) -> list[tuple[str, str]]:
    """Subject and answer of facts that a sentence names together, in the order of the sentences."""
    by_head = _by_head(facts)
    met: dict[str, tuple[str, str]] = {}
    for document in documents:
        for text in document:
            for fact in _named(text, by_head):
                met.setdefault(fact.id, (fact.subject, fact.answer))
    return list(met.values())


def _by_head(facts: Iterable[ClozeFact]) -> dict[str, list[ClozeFact]]:
    by_head: dict[str, list[ClozeFact]] = {}
    for fact in facts:
        by_head.setdefault(fact.head, []).append(fact)
    return by_head


def _named(text: LinkedText, by_head: dict[str, list[ClozeFact]]) -> list[ClozeFact]:
    folded = text.text.casefold()
    heads = dict.fromkeys(link.entity for link in text.links if link.entity in by_head)
    return [
        fact
        for head in heads
        if head is not None
        for fact in by_head[head]
        if fact.answer.casefold() in folded or any(k.entity == fact.tail for k in text.links)
    ]


def _without_named(
    documents: Sequence[Sequence[LinkedText]], facts: Sequence[ClozeFact]
) -> tuple[tuple[tuple[LinkedText, ...], ...], int]:
    """The documents without sentences that name a probed pair, and how many did."""
    by_head = _by_head(facts)
    free = [tuple(text for text in d if not _named(text, by_head)) for d in documents]
    n_named = sum(map(len, documents)) - sum(map(len, free))
    return tuple(document for document in free if document), n_named


def _draw_texts(
    examples: Sequence[RelationExample], n_texts: int, seed: int
) -> list[RelationExample]:
    """The examples of `n_texts` distinct sentences."""
    texts = list(dict.fromkeys(example.linked.text for example in examples))
    order = generator(seed, "sentences").permutation(len(texts))[:n_texts]
    chosen = frozenset(texts[i] for i in order.tolist())
    return [example for example in examples if example.linked.text in chosen]


def _pair(head: str, tail: str) -> tuple[str, str]:
    return (head, tail) if head <= tail else (tail, head)
