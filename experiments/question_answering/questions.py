"""The questions, what is shown with each under a condition, and what counts as an answer.

The world is that of `experiments.kblam.world`: only the graph knows the values. Mentions are linked
by the graph's names. The answer's beginning is given ("The sport of Amber Falcon is"), so that a
host which never saw this form can be asked, too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from entity_linking import DictionaryLinker
from entity_linking.mentions import LinkedText
from experiments.kblam.world import VALUES
from kept.controls.shuffles import shuffle_objects
from kept.decoders.kblam.knowledge_base import facts_of_graph
from kept.decoders.kblam.wording import CHATML, Fact
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

TRUE, OFF, ANOTHER, SHUFFLED, EDITED = "true", "off", "another", "shuffled", "edited"
CONDITIONS = (TRUE, OFF, ANOTHER, SHUFFLED, EDITED)
"""As the graph is; without links; another bearer's facts; objects shuffled; every value changed."""
ARTICLE = re.compile(r"^(a|an|the)\s+")


@dataclass(frozen=True)
class Question:
    """A text up to its answer, with its links, and the fact that answers it."""

    linked: LinkedText
    fact: Fact


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions about the first `n` bearers of a graph, under conditions of a seed."""

    graph: KnowledgeGraph
    n_bearers: int
    seed: int

    @cached_property
    def facts(self) -> list[Fact]:
        """Those that are asked for, a bearer's together."""
        return facts_of_graph(self.graph)[: self.n_bearers * len(VALUES)]

    @cached_property
    def questions(self) -> list[Question]:
        """One a fact, all links right."""
        texts = [f"{CHATML.prompt(f.question())}{f.answer.removesuffix(f' {f.value}.')}"
                 for f in self.facts]  # fmt: skip
        linked = DictionaryLinker(self.graph).link(texts)
        found = []
        for text, fact in zip(linked, self.facts, strict=True):
            links = tuple(link for link in text.links if self._is_named(link.entity, fact))
            found.append(Question(dataclasses.replace(text, links=links[:1]), fact))
        return found

    def _is_named(self, entity: str | None, fact: Fact) -> bool:
        return entity is not None and self.graph.label(self.graph.entities.id(entity)) == fact.name

    def under(self, condition: str) -> tuple[KnowledgeGraph, list[LinkedText], list[str]]:
        """The graph, the linked texts and the right answers under a condition.

        Right is what the unchanged graph says, but under "edited" what the edited one says.
        """
        texts, right = [q.linked for q in self.questions], [q.fact.value for q in self.questions]
        if condition == OFF:
            return self.graph, [dataclasses.replace(text, links=()) for text in texts], right
        if condition == ANOTHER:
            return self.graph, self._moved(texts), right
        draws = generator(self.seed, "question answering", condition)
        if condition == SHUFFLED:
            return shuffle_objects(self.graph, draws), texts, right
        if condition == EDITED:
            edited = edited_graph(self.graph, draws)
            values = {(fact.name, fact.relation): fact.value for fact in facts_of_graph(edited)}
            return edited, texts, [values[q.fact.name, q.fact.relation] for q in self.questions]
        return self.graph, texts, right

    def _moved(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """Every link leads to another bearer."""
        draws = generator(self.seed, "question answering", ANOTHER)
        bearers = np.unique(self.graph.triples[:, 0])
        moved = []
        for text in texts:
            (link,) = text.links
            others = bearers[bearers != self.graph.entities.id(link.entity)]
            entity = self.graph.entities.name(int(draws.choice(others)))
            moved.append(
                dataclasses.replace(text, links=(dataclasses.replace(link, entity=entity),))
            )
        return moved


def edited_graph(graph: KnowledgeGraph, draws: np.random.Generator) -> KnowledgeGraph:
    """Every fact's value becomes another of its relation's."""
    triples = np.array(graph.triples)
    for relation in np.unique(triples[:, 1]):
        rows = np.flatnonzero(triples[:, 1] == relation)
        values = np.unique(triples[rows, 2])
        places = np.searchsorted(values, triples[rows, 2])
        steps = draws.integers(1, len(values), size=len(rows))
        triples[rows, 2] = values[(places + steps) % len(values)]
    return graph.with_triples(triples, note="every value changed")


def value_of(written: str) -> str:
    """The value that was written: up to the first stop, without an article, in lower case.

    >>> value_of(" a Baker. He")
    'baker'
    """
    first = re.split(r"[.,;\n]|<\|", written.strip(), maxsplit=1)[0]
    return ARTICLE.sub("", first.strip().lower())


def is_right(written: str, value: str) -> bool:
    """Whether exactly the value was written."""
    return value_of(written) == value.lower()
