"""What each layer of encoders holds: accuracy of linear probes, with intervals and baselines.

Axis legend: layer (the embedding first), edge, width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entity_linking.mentions import Linker
from entity_linking.scoring.intervals import Interval, paired_ratio_interval, ratio_interval
from kept.auto import AutoEncoder
from kept.errors import EvaluationError
from kept.lab.probing.layers.edges import Edge, edges_of
from kept.lab.probing.layers.linear import fit_on_heldout
from kept.lab.probing.layers.states import edge_states
from kept.randomness import generator
from kept.tasks.datasets.conllu import Sentence
from kg_loaders import KnowledgeGraph

HELDOUT = 0.1
"""Share of the training questions by which a probe's penalty is chosen."""
MAJORITY, OF_FORM = "majority", "majority of the form"

Answers = Sequence[bool]


@dataclass(frozen=True)
class ProbeAnswers:
    """The answers of one probe to the test questions, and its penalty."""

    right: tuple[bool, ...]
    penalty: float


@dataclass(frozen=True)
class ProbedEncoder:
    """An encoder with the graph that it reads and the linker of its texts, if it reads one."""

    encoder: AutoEncoder
    graph: KnowledgeGraph | None = None
    linker: Linker | None = None


@dataclass(frozen=True)
class Size:
    """At most so many training and test questions of a task; `seed` chooses their sentences."""

    train: int = 10_000
    test: int = 5_000
    seed: int = 0


@dataclass(frozen=True)
class LayerRow:
    """One probe's accuracy; `difference` from the same layer of the first encoder."""

    encoder: str
    task: str
    layer: str
    accuracy: Interval
    penalty: float | None = None
    difference: Interval | None = None


def measure(
    encoders: Mapping[str, ProbedEncoder],
    sentences: tuple[Sequence[Sentence], Sequence[Sentence]],
    task: str,
    size: Size,
) -> tuple[list[LayerRow], int]:
    """The rows of a task by training and test `sentences`, and how many questions some encoder
    could not read.

    Every encoder is asked the questions that all can read, so that they compare.
    """
    parts = [*zip(sentences, (size.train, size.test), strict=True)]
    edges = [edges_of(task, part, most, seed=size.seed) for part, most in parts]
    states = {
        name: [
            edge_states(r.encoder, texts, part, r.graph, r.linker)
            for texts, part in zip(sentences, edges, strict=True)
        ]
        for name, r in encoders.items()
    }
    read = [set.intersection(*({*s[i][1]} for s in states.values())) for i in (0, 1)]
    shared = [[edge for edge in part if edge in read[i]] for i, part in enumerate(edges)]
    results = {
        name: ask_layers(*(_only(part, read[i]) for i, part in enumerate(s)), seed=size.seed)
        for name, s in states.items()
    }
    rows = rows_of(task, shared[1], results, baselines(*shared), seed=size.seed)
    return rows, sum(map(len, edges)) - sum(map(len, shared))


def _only(
    part: tuple[Tensor, Sequence[Edge]], kept_edges: Collection[Edge]
) -> tuple[Tensor, list[Edge]]:
    """The states of the questions that are wanted."""
    states, edges = part
    indices = [i for i, edge in enumerate(edges) if edge in kept_edges]
    return states[:, indices], [edges[i] for i in indices]


def ask_layers(
    train: tuple[Tensor, Sequence[Edge]], test: tuple[Tensor, Sequence[Edge]], *, seed: int
) -> list[ProbeAnswers]:
    """Fit a probe on every layer of `train`'s states, ask it `test`'s questions.

    States are `[layer edge width]`. A test label that training does not have counts as wrong.
    Raises `EvaluationError` for fewer than twenty questions on either side.
    """
    (states, edges), (test_states, test_edges) = train, test
    if min(len(edges), len(test_edges)) < 20:
        raise EvaluationError(
            f"{len(edges)} training and {len(test_edges)} test questions: a probe needs 20 of each;"
            " give larger treebanks"
        )
    labels = {label: i for i, label in enumerate(sorted({edge.label for edge in edges}))}
    classes = torch.tensor([labels[edge.label] for edge in edges])
    gold = torch.tensor([labels.get(edge.label, -1) for edge in test_edges])
    order = generator(seed, "questions held out").permutation(len(edges))
    held, rest = np.split(order, [max(1, round(HELDOUT * len(edges)))])
    results = []
    for layer, test_layer in zip(states, test_states, strict=True):
        probe, penalty = fit_on_heldout(layer[rest], classes[rest], (layer[held], classes[held]))
        right = (probe.classes(test_layer) == gold).tolist()
        results.append(ProbeAnswers(tuple(right), penalty))
    return results


def baselines(train: Sequence[Edge], test: Sequence[Edge]) -> dict[str, Answers]:
    """The most frequent label of training, and that of the same form (of all, for a new form)."""
    overall = _most(edge.label for edge in train)
    by_form: dict[str, Counter[str]] = {}
    for edge in train:
        by_form.setdefault(edge.form, Counter())[edge.label] += 1
    of_form = {form: _most(counts.elements()) for form, counts in by_form.items()}
    return {
        MAJORITY: [edge.label == overall for edge in test],
        OF_FORM: [edge.label == of_form.get(edge.form, overall) for edge in test],
    }


def _most(labels: Iterable[str]) -> str:
    """The most frequent label; the first by name of equals."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def rows_of(
    task: str,
    test: Sequence[Edge],
    results: Mapping[str, Sequence[ProbeAnswers]],
    simple: Mapping[str, Answers],
    *,
    seed: int,
) -> list[LayerRow]:
    """A row for each baseline and for each layer of each encoder.

    Intervals are bootstrapped over sentences, whose questions stay together; all encoders must
    have been asked the same questions.
    """
    sentences = [edge.sentence for edge in test]
    n_questions = _by_sentence([True] * len(test), sentences)
    rows = [
        LayerRow("", task, name, _interval(_by_sentence(right, sentences), n_questions, seed))
        for name, right in simple.items()
    ]
    first = next(iter(results.values()))
    for name, layers in results.items():
        for number, probe in enumerate(layers):
            right = _by_sentence(probe.right, sentences)
            difference = None
            if layers is not first and number < len(first):
                theirs = _by_sentence(first[number].right, sentences)
                difference = paired_ratio_interval(
                    (right, n_questions),
                    (theirs, n_questions),
                    generator=generator(seed, "intervals of layers"),
                )
            rows.append(
                LayerRow(
                    name,
                    task,
                    str(number),
                    _interval(right, n_questions, seed),
                    probe.penalty,
                    difference,
                )
            )
    return rows


def _interval(right: list[int], n_questions: list[int], seed: int) -> Interval:
    return ratio_interval(right, n_questions, generator=generator(seed, "intervals of layers"))


def _by_sentence(values: Answers, sentences: Sequence[int]) -> list[int]:
    sums: dict[int, int] = {}
    for value, sentence in zip(values, sentences, strict=True):
        sums[sentence] = sums.get(sentence, 0) + bool(value)
    return list(sums.values())
