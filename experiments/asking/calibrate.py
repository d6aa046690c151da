"""The weights of relations and of an answer's confidence, fitted on the dev questions.

`KEPT_DATA=… python -m experiments.asking.calibrate` prints both, and what some thresholds would do.
The questions are those of the sets dev and tune, and of the training part of SimpleQuestions, which
count a quarter each. A relation's weights make the right one of an entity's relations the most
probable (a conditional logit). The confidence is fitted on the answers with the weights in use:
those of the whole graph, right or wrong, and those without the fact or without its relation. Both
are what the program prints when it runs with the weights that it printed.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from entity_linking import DictionaryLinker
from experiments.asking.simple_questions import simple_graph, simple_questions
from experiments.asking.trial import Question, atlas_questions, graphs_without, questions
from experiments.asking.worlds import graph_of, paraphrases
from kept.decoders.answering.answer import WEIGHTS, Answerer, Named, Reading
from kept.decoders.answering.encoder import FastSentenceEncoder
from kept.decoders.answering.relations import WEIGHTS as RELATION_WEIGHTS
from kept.decoders.answering.relations import Match, RelationChoice
from kg_loaders import KnowledgeGraph

SEED, PENALTY = 1, 3.0
N_SIMPLE, OF_SIMPLE, OF_ATLAS = 12, 0.25, 0.5
"""SimpleQuestions for each property; the weight of one, and of one of the atlas."""
WEIGHT_RIGHT = 2.0
"""Of a right answer: there are two graphs without the fact for each."""
FIXED = ("misfit",)
"""Evidence whose weight is a rule and not fitted."""
SIMPLE = "SimpleQuestions"
THRESHOLDS = (0.3, 0.35, 0.4, 0.5, 0.6)
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """The dev questions of one graph, and what one of them counts."""

    name: str
    graph: KnowledgeGraph
    questions: Sequence[Question]
    weight: float = 1.0


def dev_parts() -> Iterator[Part]:
    """The questions whose templates are kept's own."""
    for part in ("dev", "tune"):
        for world, templates in paraphrases(part).items():
            graph = graph_of(world, SEED)
            yield Part(part, graph, questions(graph, templates, len(templates), SEED))
    shipped = graph_of("atlas", SEED)
    yield Part("atlas", shipped, atlas_questions(shipped, "dev", 100, seed=SEED), OF_ATLAS)


# ---- which relation ------------------------------------------------------------------------------
@dataclass(frozen=True)
class Example:
    """The evidence of each relation of a question, `[relation evidence]`, and the right one."""

    evidence: Numbers
    right: int
    weight: float


def evidence_of(match: Match) -> Numbers:
    """Return the evidence of each relation, in the order of the weights."""
    columns = match.evidence
    return np.stack([
        columns[name.removeprefix("backwards:")]
        * (columns["backwards"] if name.startswith("backwards:") else 1.0)
        for name in RELATION_WEIGHTS
    ], axis=1)  # fmt: skip


def examples(parts: Sequence[Part], data: Path) -> Iterator[Example]:
    """The examples of dev, and of SimpleQuestions."""
    encoder = FastSentenceEncoder()
    for part in parts:
        matcher = Answerer(part.graph, DictionaryLinker(part.graph), encoder).matcher
        for question in part.questions:
            head, relation = question.triple
            match = matcher.match(question.text, part.graph.label(head), head)
            if match is not None:
                right = list(match.shares).index(RelationChoice(relation, False))
                yield Example(evidence_of(match), right, part.weight)
    for reading, choice in simple_readings(data):
        match = reading.match
        yield Example(evidence_of(match), list(match.shares).index(choice), OF_SIMPLE)


def simple_readings(data: Path) -> Iterator[tuple[Reading, RelationChoice]]:
    """How SimpleQuestions are read, the entity given, each with the right relation."""
    graph = simple_graph(data)
    answerer = Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())
    for each in simple_questions(graph, data, "train", N_SIMPLE):
        start = each.text.index(each.surface)
        named = Named(each.entity, start, start + len(each.surface))
        reading = answerer.reading(each.text, named)
        if reading is not None and each.choice in reading.match.shares:
            yield reading, each.choice


def fitted_weights(rows: Sequence[Example]) -> Numbers:
    """Return the weights of the evidence, those of `GIVEN` as they are."""
    start = np.array(list(RELATION_WEIGHTS.values()))
    is_free = np.array([name not in FIXED for name in RELATION_WEIGHTS])

    def loss(free: Numbers) -> tuple[float, Numbers]:
        weights = start.copy()
        weights[is_free] = free
        total, gradient = PENALTY * free @ free / 200, PENALTY * free / 100
        for row in rows:
            scores = row.evidence @ weights
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            total -= row.weight * np.log(shares[row.right] + 1e-12)
            slope = row.weight * (shares @ row.evidence - row.evidence[row.right])
            gradient = gradient + slope[is_free]
        return float(total), gradient

    fitted = minimize(loss, np.zeros(is_free.sum()), jac=True, method="L-BFGS-B").x
    start[is_free] = fitted
    return start


# ---- how sure ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Outcome:
    """The evidence for an answer, its confidence, whether it is right, and which graph it is of.

    Graphs are 0: whole, 1: without the fact, 2: without the relation.
    """

    evidence: tuple[float, ...]
    confidence: float
    is_right: bool
    graph: int
    weight: float


def outcomes(part: Part) -> Iterator[Outcome]:
    """The outcome of each question of a part over each graph, where one can be read at all."""
    encoder = FastSentenceEncoder()
    whole = Answerer(part.graph, DictionaryLinker(part.graph), encoder)
    for question in part.questions:
        graphs = (part.graph, *graphs_without(part.graph, question).values())
        for number, graph in enumerate(graphs):
            answerer = Answerer(graph, whole.linker, encoder)
            answerer.matcher.share_phrases(whole.matcher)
            best = answerer.best_reading(question.text)
            if best is not None:
                values = answerer.answer(question.text, least=0.0).values
                is_right = number == 0 and sorted(values) == sorted(question.values)
                evidence = tuple(best.evidence[name] for name in WEIGHTS)
                yield Outcome(evidence, best.confidence, is_right, number, part.weight)


def simple_outcomes(data: Path) -> Iterator[Outcome]:
    """The same of SimpleQuestions, whose values are right where the relation is."""
    for reading, right in simple_readings(data):
        shares = reading.match.shares
        rest = {choice for choice in shares if choice.relation != right.relation}
        by_graph = [reading, *(without_fact(reading, right, left) for left in (shares, rest))]
        for number, each in enumerate(by_graph):
            if each is not None:
                evidence = tuple(each.evidence[name] for name in WEIGHTS)
                is_right = number == 0 and each.choice == right
                yield Outcome(evidence, each.confidence, is_right, number, OF_SIMPLE)


def without_fact(
    reading: Reading, right: RelationChoice, rest: Collection[RelationChoice]
) -> Reading | None:
    """Return how a question is read where the graph lacks the fact, and has the relations `rest`.

    None where the entity has no other fact.
    """
    match = reading.match
    rows = [i for i, choice in enumerate(match.shares) if choice in rest]
    of_entity = tuple(each for each in reading.of_entity if each in rest and each != right)
    if not of_entity:
        return None
    shares = {choice: share for choice, share in match.shares.items() if choice in rest}
    total = sum(shares.values())
    less = Match(
        {choice: share / total for choice, share in shares.items()},
        {name: column[rows] for name, column in match.evidence.items()},
        match.common.with_relations(rows),
    )
    return Reading(
        reading.entity, max(of_entity, key=lambda each: less.shares[each]), of_entity, less
    )


def print_confidence(parts: Sequence[Part], data: Path) -> None:
    """Print the fitted weights of the confidence, and what thresholds do, by set."""
    by_set: dict[str, list[Outcome]] = {}
    for part in parts:
        by_set.setdefault(part.name, []).extend(outcomes(part))
    sizes = Counter(part.name for part in parts for _ in part.questions)
    by_set[SIMPLE] = list(simple_outcomes(data))
    sizes[SIMPLE] = sum(row.graph == 0 for row in by_set[SIMPLE])
    rows = [row for of_set in by_set.values() for row in of_set]
    weights = [row.weight * (WEIGHT_RIGHT if row.is_right else 1.0) for row in rows]
    fitted = LogisticRegression(C=10.0, max_iter=2000).fit(
        np.array([row.evidence for row in rows]), [int(row.is_right) for row in rows],
        sample_weight=weights,
    )  # fmt: skip
    columns = dict(zip(WEIGHTS, fitted.coef_[0].round(2).tolist(), strict=True))
    print("confidence: bias", round(float(fitted.intercept_[0]), 2), columns)
    for name, of_set in by_set.items():
        n = sizes[name]
        for least in THRESHOLDS:
            confident = [row for row in of_set if row.confidence >= least]
            right = sum(row.is_right for row in confident) / n
            refused = [1 - sum(row.graph == graph for row in confident) / n for graph in (1, 2)]
            print(f"{name}, {least}: right {right:.2f}, refused {refused[0]:.2f}, {refused[1]:.2f}")


def main() -> None:
    """Print the weights, and what thresholds do on dev."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("KEPT_DATA"))
    options = parser.parse_args()
    if options.data is None:
        parser.error("SimpleQuestions are data of others: give --data, or the variable KEPT_DATA")
    parts, data = list(dev_parts()), Path(options.data)
    fitted = fitted_weights(list(examples(parts, data)))
    print("relations:", dict(zip(RELATION_WEIGHTS, fitted.round(1).tolist(), strict=True)))
    print_confidence(parts, data)


if __name__ == "__main__":
    main()
