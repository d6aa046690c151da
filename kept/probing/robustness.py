"""Does a model mean its answer? Consistency over paraphrases, negations and misleading words.

Elazar et al., "Measuring and Improving Consistency in Pretrained Language Models" (TACL 2021),
section 3; Kassner and Schütze, "Negated and Misprimed Probes" (ACL 2020), sections 3 and 4.

Axis legend: item, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import rankdata

from kept.errors import EvaluationError
from kept.evaluation.statistics import Interval, bootstrap_interval
from kept.probing.masked_sentences import AlteredItem
from kept.probing.results import ProbeAnswer, ProbeResult, Ranking, RankingName
from kept.randomness import generator


@dataclass(frozen=True, slots=True)
class Consistency:
    """Of one relation, or of all: `n_facts` that had two ranked paraphrases or more.

    `consistent`: share of pairs of paraphrases with the same first answer, whatever it is.
    `consistent_and_right`: share of facts whose every paraphrase has the right answer first.
    `right`: share of the questions answered rightly.
    """

    relation: str
    n_facts: int
    n_pairs: int
    consistent: float
    consistent_and_right: float
    right: float


@dataclass(frozen=True)
class ConsistencyReport:
    """Every relation, and the means over relations with intervals (facts are drawn together).

    `n_single`: facts left out because fewer than two of their paraphrases were ranked.
    """

    relations: tuple[Consistency, ...]
    n_single: int
    consistent: Interval
    consistent_and_right: Interval


def consistency(result: ProbeResult, ranking: RankingName, *, seed: int) -> ConsistencyReport:
    """Paraphrases are the answers of one group; raises `EvaluationError` where none has two."""
    groups: dict[tuple[str, str], list[Ranking]] = {}
    for answer, found in result.scored(ranking):
        groups.setdefault((answer.relation, answer.group), []).append(found)
    facts = {key: found for key, found in groups.items() if len(found) > 1}
    if len(facts) < 2:
        raise EvaluationError("consistency needs two facts with two ranked paraphrases each")
    by_relation: dict[str, list[list[Ranking]]] = {}
    for (relation, _), paraphrases in facts.items():
        by_relation.setdefault(relation, []).append(paraphrases)
    same = [_agreement(found) for found in facts.values()]
    right = [float(all(one.rank == 1 for one in found)) for found in facts.values()]
    # a fact weighs so that every relation weighs the same
    weight = [len(facts) / len(by_relation) / len(by_relation[r]) for r, _ in facts]
    draws = generator(seed, "consistency")
    return ConsistencyReport(
        tuple(_of_relation(name, found) for name, found in by_relation.items()),
        len(groups) - len(facts),
        bootstrap_interval(np.multiply(same, weight), generator=draws),
        bootstrap_interval(np.multiply(right, weight), generator=draws),
    )


def _of_relation(relation: str, facts: list[list[Ranking]]) -> Consistency:
    return Consistency(
        relation,
        len(facts),
        sum(len(found) * (len(found) - 1) // 2 for found in facts),
        float(np.mean([_agreement(found) for found in facts])),
        float(np.mean([all(one.rank == 1 for one in found) for found in facts])),
        float(np.mean([one.rank == 1 for found in facts for one in found])),
    )


def _agreement(found: Sequence[Ranking]) -> float:
    """Share of pairs with the same first answer."""
    _, counts = np.unique([one.top[0] for one in found], return_counts=True)
    n = len(found)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


# ---- negated and misprimed -------------------------------------------------
@dataclass(frozen=True, slots=True)
class Altered:
    """How answers change. Intervals are over the questions that both forms rank.

    `same_when_negated`: share of questions whose negation has the same first answer; a model that
    understood would seldom give it. `right_when_negated`: share whose negation is answered with
    the true object. `right` and `right_when_misprimed`: P@1 of the question and behind the prime.
    `prime_answered`: share of misprimed questions whose first answer is the prime itself.
    """

    n_negated: int
    n_misprimed: int
    n_not_ranked: int
    same_when_negated: Interval
    right_when_negated: Interval
    right: Interval
    right_when_misprimed: Interval
    prime_answered: Interval


def altered(
    items: Sequence[AlteredItem], result: ProbeResult, ranking: RankingName, *, seed: int
) -> Altered:
    """Compare what `result` holds of the three forms of each question (found by their ids)."""
    answers = {answer.id: answer for answer in result.answers}
    negated: list[tuple[float, float]] = []
    misprimed: list[tuple[float, float, float]] = []
    n_missing = 0
    for item in items:
        first = _found(answers, item.original.id, ranking)
        other = None if item.negated is None else _found(answers, item.negated.id, ranking)
        behind = _found(answers, item.misprimed.id, ranking)
        if first is not None and other is not None:
            negated.append((float(first.top[0] == other.top[0]), other.hit(1)))
        if first is not None and behind is not None:
            said = behind.top[0].casefold() == item.prime.casefold()
            misprimed.append((first.hit(1), behind.hit(1), float(said)))
        n_missing += first is None
    draws = generator(seed, "altered questions")
    intervals = [
        bootstrap_interval(column, generator=draws)
        for table in (negated, misprimed)
        for column in np.reshape(table, (len(table), -1)).T
    ]
    if len(intervals) != 5:
        raise EvaluationError("no negated or no misprimed question was ranked beside its original")
    return Altered(len(negated), len(misprimed), n_missing, *intervals)


def _found(answers: dict[str, ProbeAnswer], id: str, ranking: RankingName) -> Ranking | None:
    answer = answers.get(id)
    return None if answer is None else answer.ranking(ranking)


def rank_correlation(
    scores: Float[NDArray[np.floating], "item candidate"],
    others: Float[NDArray[np.floating], "item candidate"],
) -> Float[NDArray[np.float64], " item"]:
    """Spearman's rho between two scorings of the same candidates, question by question.

    Kassner and Schütze's first measure of negation: near 1, the negation changed nothing. Equal
    scores share their mean rank; a row of equal scores has no correlation and gives NaN.
    """
    ours, theirs = (rankdata(values, axis=1) for values in (scores, others))
    if ours.shape != theirs.shape:
        raise EvaluationError(f"{ours.shape} scores cannot be compared with {theirs.shape}")
    ours, theirs = (ranks - ranks.mean(1, keepdims=True) for ranks in (ours, theirs))
    scale = np.sqrt((ours**2).sum(1) * (theirs**2).sum(1))
    found: NDArray[np.float64] = np.divide(
        (ours * theirs).sum(1), scale, out=np.full(len(ours), np.nan), where=scale > 0
    )
    return found
