"""Analogies by vectors, and whether a linear rule tells a relation's pairs from others.

Axis legend: question, word (a candidate), pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kept.errors import EvaluationError, MissingExtraError
from kept.evaluation.statistics import Interval, bootstrap_interval
from kept.lab.probing.words.questions import Analogy, pairs_of
from kept.lab.probing.words.spaces import Space
from kept.randomness import generator

RULES = ("3CosAdd", "3CosMul", "nearest to c")
AT_ONCE = 1024
N_FOLDS = 5
LEAST_PAIRS = 10


@dataclass(frozen=True)
class AnalogyScores:
    """By rule, the share of questions whose answer is the first candidate, by section too.

    `n`: questions whose four words have vectors; `n_left_out` the others. `candidates` are the
    words of all questions that have a vector; a, b and c are not candidates of theirs.
    """

    shares: dict[str, Interval]
    sections: dict[str, dict[str, float]]
    n: int
    n_left_out: int
    candidates: int


@dataclass(frozen=True)
class InductionScores:
    """Mean over relations of the average precision at telling pairs; `relations` have each.

    `chance`: that of a rule that cannot tell, the share of true pairs.
    """

    mean: Interval
    relations: dict[str, float]
    n_pairs: int
    chance: float


def words_of(questions: Sequence[Analogy]) -> list[str]:
    """All words of the questions, each once, in order."""
    every = (word for q in questions for word in (q.a, q.b, q.c, q.d))
    return list(dict.fromkeys(every))


def answer_analogies(
    space: Space, words: Sequence[str], questions: Sequence[Analogy], *, seed: int = 0
) -> AnalogyScores:
    """Answer every question by each of `RULES`.

    3CosAdd: the word nearest to b - a + c (Mikolov et al. 2013). 3CosMul: the largest cos(d, b)
    cos(d, c) / cos(d, a), cosines moved to [0, 1] (Levy and Goldberg 2014, section 6). *Nearest to
    c* ignores a and b: what of a score is not an analogy at all (Linzen 2016, section 2). Intervals
    resample pairs (a, b), which many questions share. Of equal scores none is first. Raises
    `EvaluationError` without two such pairs.
    """
    row_of_word = {word: i for i, word in enumerate(words)}
    rows = torch.tensor([[row_of_word[w] for w in (q.a, q.b, q.c, q.d)] for q in questions])
    in_space = space.known[rows].all(dim=1)
    rows, with_vectors = (
        rows[in_space],
        [q for q, has_vectors in zip(questions, in_space, strict=True) if has_vectors],
    )
    if len({(q.a, q.b) for q in with_vectors}) < 2:
        raise EvaluationError(
            f"{len(with_vectors)} of {len(questions)} questions have vectors for all four words; "
            "give vectors of their words, or other questions"
        )
    right = {rule: torch.empty(len(rows), dtype=torch.bool) for rule in RULES}
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        for rule, scores in _scores(space, part).items():
            right[rule][start : start + AT_ONCE] = _is_first(scores, part, space.known)
    pairs = [(q.section, q.a, q.b) for q in with_vectors]
    names = list(dict.fromkeys(q.section for q in with_vectors))
    inside = {name: torch.tensor([q.section == name for q in with_vectors]) for name in names}
    return AnalogyScores(
        shares={
            rule: bootstrap_interval(
                hits.double().numpy(), generator=generator(seed, rule), clusters=pairs
            )
            for rule, hits in right.items()
        },
        sections={
            name: {rule: float(hits[mask].double().mean()) for rule, hits in right.items()}
            for name, mask in inside.items()
        },
        n=len(rows),
        n_left_out=len(questions) - len(rows),
        candidates=int(space.known.sum()),
    )


def _scores(space: Space, rows: Tensor) -> dict[str, Float[Tensor, "question word"]]:
    a, b, c = (space.vectors[rows[:, i]] for i in range(3))
    to_a, to_b, to_c = (each @ space.vectors.T for each in (a, b, c))
    mul = (1 + to_b) * (1 + to_c) / (1 + to_a + 2e-3)
    return dict(zip(RULES, (to_b - to_a + to_c, mul, to_c), strict=True))


def _is_first(
    scores: Float[Tensor, "question word"], rows: Tensor, is_known: Bool[Tensor, " word"]
) -> Bool[Tensor, " question"]:
    lowest = torch.finfo(scores.dtype).min
    gold = scores.gather(1, rows[:, 3:])
    others = scores.masked_fill(~is_known, lowest).scatter(1, rows, lowest)
    return (others < gold).all(dim=1)


def induce_relations(
    space: Space, words: Sequence[str], questions: Sequence[Analogy], *, seed: int = 0
) -> InductionScores:
    """For each section, tell its pairs from others by a logistic regression on b - a.

    Vylomova et al. 2016 ("Take and Took, Gaggle and Goose, Book and Read", section 5) and Bouraoui
    et al. 2018, section 4. Beside each true pair stand three false ones: it turned round, its first
    word with another pair's second, and two words of other sections. Such a rule tells kinds of
    words and directions; who belongs to whom it cannot. Sections of fewer than `LEAST_PAIRS` pairs
    are left out; raises `EvaluationError` unless two are left.
    """
    row_of_word = {word: i for i, word in enumerate(words)}
    pairs = {
        name: [pair for pair in word_pairs if space.known[[row_of_word[w] for w in pair]].all()]
        for name, word_pairs in pairs_of(questions).items()
    }
    pairs = {
        name: word_pairs for name, word_pairs in pairs.items() if len(word_pairs) >= LEAST_PAIRS
    }
    if len(pairs) < 2:
        raise EvaluationError(
            f"{len(pairs)} relations have {LEAST_PAIRS} pairs with vectors; two are needed"
        )
    precisions = {
        name: _precision(space, row_of_word, name, pairs, generator(seed, "false pairs", name))
        for name in pairs
    }
    mean = bootstrap_interval([*precisions.values()], generator=generator(seed, "relations"))
    return InductionScores(mean, precisions, sum(map(len, pairs.values())), 0.25)


def learning() -> Any:
    """Return scikit-learn; raises `MissingExtraError` where it is not installed."""
    try:
        import sklearn.linear_model
        import sklearn.metrics
    except ImportError as error:
        raise MissingExtraError(
            "analogies need scikit-learn: pip install 'kept[sklearn]'"
        ) from error
    return sklearn


def _precision(
    space: Space,
    row_of_word: Mapping[str, int],
    name: str,
    pairs: Mapping[str, Sequence[tuple[str, str]]],
    draws: np.random.Generator,
) -> float:
    """Average precision over all pairs, each told by a rule fitted on the other folds.

    Pairs with one second word are of one fold, and false pairs take it from there: a word that was
    met in training, on either side, would tell.
    """
    sklearn = learning()
    others = [pair for other, word_pairs in pairs.items() if other != name for pair in word_pairs]
    elsewhere = [word for pair in others for word in pair]
    seconds = list(dict.fromkeys(b for _, b in pairs[name]))
    order = draws.permutation(len(seconds)).tolist()
    fold_of = {b: order[i] % N_FOLDS for i, b in enumerate(seconds)}
    true, rows, labels, folds = {*pairs[name]}, [], [], []
    for a, b in pairs[name]:
        wrong = [w for w in seconds if fold_of[w] == fold_of[b] and (a, w) not in true and w != a]
        strange = draws.choice(len(elsewhere), size=3, replace=False).tolist()
        second = wrong[int(draws.integers(len(wrong)))] if wrong else elsewhere[strange[2]]
        four = [(a, b), (b, a), (a, second), (elsewhere[strange[0]], elsewhere[strange[1]])]
        rows += [(row_of_word[x], row_of_word[y]) for x, y in four]
        labels += [1, 0, 0, 0]
        folds += [fold_of[b]] * 4
    ends, target, fold = torch.tensor(rows), np.array(labels), np.array(folds)
    features = (space.vectors[ends[:, 1]] - space.vectors[ends[:, 0]]).double().numpy()
    scores = np.empty(len(features))
    for test_fold in range(N_FOLDS):
        inside = fold == test_fold
        rule = sklearn.linear_model.LogisticRegression(max_iter=1000).fit(
            features[~inside], target[~inside]
        )
        scores[inside] = rule.decision_function(features[inside])
    return float(sklearn.metrics.average_precision_score(target, scores))


def as_json(scores: AnalogyScores | InductionScores) -> dict[str, object]:
    """All numbers, for a file."""
    return dataclasses.asdict(scores)
