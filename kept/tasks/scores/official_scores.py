"""The score that the owners of a task report, by file format: one line of `OFFICIAL` each.

Every score is a function of sums over items, so that a bootstrap only has to sum again.

Axis legend: item (an example), group, draw, part (of a score).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kept.errors import EvaluationError
from kept.evaluation.exact_match import exact_match, token_f1
from kept.evaluation.paired import by_cluster, score_interval
from kept.tasks.datasets.example import Document, TaskExample, clusters
from kept.tasks.datasets.questions.squad import NO_ANSWER
from kept.tasks.scores.counts import Answers, Floats

NO_RELATION = "no_relation"
"""TACRED's class for a pair without a relation."""
ACCEPTABLE = "1"
"""CoLA's positive class."""
WITHOUT_CUT_OFF = "without questions cut off with the text"


@dataclass(frozen=True)
class Official:
    """`parts(predicted, examples, train) -> [item part]`; `values([draw part])` by name, `[draw]`.

    The first of the values is the score, the others stand beside it. An answer without a label, to
    a question that was not read, is wrong in every score.
    """

    parts: Callable[[Answers, Sequence[TaskExample], Sequence[TaskExample]], Floats]
    values: Callable[[Floats], dict[str, Floats]]


def official_score(
    format: str,
    predicted: Answers,
    examples: Sequence[TaskExample],
    train: Sequence[TaskExample],
    generator: np.random.Generator,
    *,
    cut_off: Sequence[tuple[TaskExample, tuple[str, ...]]] = (),
) -> dict[str, Any] | None:
    """Name, estimate and 95 % bootstrap interval over groups, with further values.

    None for a format without a score of its own. `n` counts groups (`task_example.clusters`); there
    are not bounds where there are fewer than two. Questions that are `cut_off` count, each with the
    answer given with it: none is wrong. Where there are some, `n_cut_off` says how many, and the
    score without them stands beside.
    """
    kind = OFFICIAL.get(format)
    if kind is None:
        return None
    everything = [*examples, *(example for example, _ in cut_off)]
    answers = [*predicted, *(answer for _, answer in cut_off)]
    sums = by_cluster(kind.parts(answers, everything, train), clusters(everything))
    n = len(sums)
    values = {name: float(value[0]) for name, value in kind.values(sums.sum(0)[None]).items()}
    if cut_off:
        parts = kind.parts(predicted, examples, train).sum(0)[None]
        values[WITHOUT_CUT_OFF] = float(next(iter(kind.values(parts).values()))[0])
    name, low, high = next(iter(values)), None, None
    if n > 1:
        interval = score_interval(
            sums, lambda sums_drawn: kind.values(sums_drawn)[name], generator=generator
        )
        low, high = interval.low, interval.high
    estimate = values.pop(name)
    return {
        "name": name,
        "estimate": estimate,
        "low": low,
        "high": high,
        "n": n,
        "n_cut_off": len(cut_off),
        "beside": values,
    }


def _ratio(above: Floats, below: Floats) -> Floats:
    shape = np.broadcast_shapes(above.shape, below.shape)
    return np.divide(above, below, out=np.zeros(shape), where=below != 0)


def _f1(precision: Floats, recall: Floats) -> Floats:
    return _ratio(2 * precision * recall, precision + recall)


def _prf(right: Floats, n_answered: Floats, n_gold: Floats, of: str) -> dict[str, Floats]:
    precision, recall = _ratio(right, n_answered), _ratio(right, n_gold)
    return {of: _f1(precision, recall), "precision": precision, "recall": recall}


# ---- SemEval-2010 Task 8 -------------------------------------------------------------------------
def _semeval_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    """Right, found, to find: by relation, whatever its direction; right is with the direction."""
    gold = [example.labels[0] for example in examples]
    names = sorted({_undirected(label) for label in gold} - {"Other"})
    parts = np.zeros((len(examples), 3, len(names)))
    numbers = {name: i for i, name in enumerate(names)}
    for item, (ours, theirs) in enumerate(zip(predicted, gold, strict=True)):
        for index, label in ((1, ours[0] if ours else ""), (2, theirs)):
            if _undirected(label) in numbers:
                parts[item, index, numbers[_undirected(label)]] = 1
        if ours == (theirs,) and _undirected(theirs) in numbers:
            parts[item, 0, numbers[_undirected(theirs)]] = 1
    return parts.reshape(len(examples), -1)


def _semeval_values(sums: Floats) -> dict[str, Floats]:
    """As version 1.2 of the task's scorer: means over the relations of the answer key.

    A find in the wrong direction is in the way of its relation's precision and of its recall.
    """
    right, n_answered, n_gold = np.split(sums, 3, axis=1)
    counted = (n_gold > 0).astype(np.float64)
    name = f"macro F1 of {right.shape[1]} relations, directed, without Other"
    each = _prf(right, n_answered, n_gold, name)
    return {name: _ratio((counted * value).sum(1), counted.sum(1)) for name, value in each.items()}


def _undirected(label: str) -> str:
    return label.partition("(")[0].removeprefix("_")


# ---- TACRED --------------------------------------------------------------------------------------
def _tacred_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    nothing = (NO_RELATION,)
    rows = [
        (p == e.labels != nothing, p not in ((), nothing), e.labels != nothing)
        for p, e in zip(predicted, examples, strict=True)
    ]
    return np.array(rows, np.float64).reshape(-1, 3)


def _tacred_values(sums: Floats) -> dict[str, Floats]:
    right, n_answered, n_gold = sums.T
    return _prf(right, n_answered, n_gold, "micro F1 without no_relation")


# ---- DocRED --------------------------------------------------------------------------------------
def _docred_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    """Right, found, right and seen in training, to find; the last once for each document."""
    seen_facts = {
        (head, relation, tail)
        for document in _documents(train).values()
        for h, relation, t in document.facts
        for head in document.names[h]
        for tail in document.names[t]
    }
    counted: set[str] = set()
    rows = []
    for ours, example in zip(predicted, examples, strict=True):
        pair_in_document = example.document_pair
        if pair_in_document is None:
            raise EvaluationError(f"{example.linked.text[:60]!r} is of no document: read it so")
        document, right = pair_in_document.document, set(ours) & set(example.labels)
        n_seen = sum(
            any(
                (head, relation, tail) in seen_facts
                for head in document.names[pair_in_document.head]
                for tail in document.names[pair_in_document.tail]
            )
            for relation in right
        )
        n_gold = 0 if document.title in counted else len(document.facts)
        counted.add(document.title)
        rows.append((len(right), len(ours), n_seen, n_gold))
    return np.array(rows, np.float64).reshape(-1, 4)


def _docred_values(sums: Floats) -> dict[str, Floats]:
    """F1 and Ign F1, whose precision leaves out right answers that were seen in training.

    Recall is over every fact of the documents, and the same in both (Yao et al. 2019, section 4.1,
    as released; the small constant under the fraction is left out).
    """
    right, n_answered, n_seen, n_gold = sums.T
    values = _prf(right, n_answered, n_gold, "F1")
    unseen = _ratio(right - n_seen, n_answered - n_seen)
    return values | {"Ign F1": _f1(unseen, values["recall"])}


def _documents(examples: Sequence[TaskExample]) -> dict[str, Document]:
    return {
        e.document_pair.document.title: e.document_pair.document
        for e in examples
        if e.document_pair
    }


# ---- ultra-fine typing ---------------------------------------------------------------------------
def _ultrafine_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    rows = []
    for ours, example in zip(predicted, examples, strict=True):
        answered, gold = set(ours), set(example.labels)
        n = len(answered & gold)
        rows.append(
            (
                n / len(answered) if answered else 0,
                bool(answered),
                n / len(gold) if gold else 0,
                bool(gold),
                n,
                len(answered),
                len(gold),
                answered == gold,
                1,
            )
        )
    return np.array(rows, np.float64).reshape(-1, 9)


def _ultrafine_values(sums: Floats) -> dict[str, Floats]:
    """Choi et al. 2018 as released: loose macro scores over mentions with an answer, and others."""
    p, n_p, r, n_r, right, n_answered, n_gold, exact, n = sums.T
    precision, recall = _ratio(p, n_p), _ratio(r, n_r)
    micro = _prf(right, n_answered, n_gold, "f1")
    return {
        "loose macro F1": _f1(precision, recall),
        "precision": precision,
        "recall": recall,
        **{f"micro {name}": value for name, value in micro.items()},
        "strict": _ratio(exact, n),
    }


# ---- CoLA, WiC -----------------------------------------------------------------------------------
def _cola_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    theirs = np.array([e.labels == (ACCEPTABLE,) for e in examples], bool)
    accepted = np.array([p == (ACCEPTABLE,) for p in predicted], bool)
    ours = np.where([not p for p in predicted], ~theirs, accepted)
    cells = (ours & theirs, ~ours & ~theirs, ours & ~theirs, ~ours & theirs)
    return np.stack(cells, axis=1).astype(np.float64)


def _cola_values(sums: Floats) -> dict[str, Floats]:
    """Matthews (1975); 0 where a class is never gold or never predicted."""
    tp, tn, fp, fn = sums.T
    scale = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    accuracy = _ratio(tp + tn, tp + tn + fp + fn)
    return {"Matthews correlation": _ratio(tp * tn - fp * fn, scale), "accuracy": accuracy}


def _right_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    right = [p == e.labels for p, e in zip(predicted, examples, strict=True)]
    return np.stack([np.array(right, np.float64), np.ones(len(right))], axis=1)


def _right_values(sums: Floats) -> dict[str, Floats]:
    return {"accuracy": _ratio(*sums.T)}


# ---- SQuAD ---------------------------------------------------------------------------------------
def _squad_parts(
    predicted: Answers, examples: Sequence[TaskExample], train: Sequence[TaskExample]
) -> Floats:
    """F1, exact match, one; the same of questions with an answer, and of those without."""
    rows = []
    for ours, example in zip(predicted, examples, strict=True):
        answer, golds = "".join(ours), example.labels
        values = [token_f1(answer, golds), exact_match(answer, golds), 1.0] if ours else [0, 0, 1.0]
        zeros, has_none = [0.0] * 3, golds == (NO_ANSWER,)
        rows.append([*values, *(zeros if has_none else values), *(values if has_none else zeros)])
    return np.array(rows, np.float64).reshape(-1, 9)


def _squad_values(sums: Floats) -> dict[str, Floats]:
    """Rajpurkar et al. 2018: the script of version 2.0, which counts 1.1's questions alike."""
    f1, exact, n, f1_has, exact_has, n_has, f1_none, _, n_none = sums.T
    scores = {"F1": _ratio(f1, n), "exact match": _ratio(exact, n)}
    if not n_none.any():
        return scores
    return scores | {
        "F1 with an answer": _ratio(f1_has, n_has),
        "exact match with an answer": _ratio(exact_has, n_has),
        "right without an answer": _ratio(f1_none, n_none),
    }


OFFICIAL: dict[str, Official] = {
    "semeval": Official(_semeval_parts, _semeval_values),
    "tacred": Official(_tacred_parts, _tacred_values),
    "docred": Official(_docred_parts, _docred_values),
    "ultrafine": Official(_ultrafine_parts, _ultrafine_values),
    "cola": Official(_cola_parts, _cola_values),
    "wic": Official(_right_parts, _right_values),
    "copa": Official(_right_parts, _right_values),
    "lettered": Official(_right_parts, _right_values),
    "squad": Official(_squad_parts, _squad_values),
    "squad2": Official(_squad_parts, _squad_values),
}
