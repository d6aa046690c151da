"""Robustness of answers: consistency over paraphrases, negations and misleading words.

Elazar et al., "Measuring and Improving Consistency in Pretrained Language Models" (TACL 2021),
section 3; Kassner and Schütze, "Negated and Misprimed Probes" (ACL 2020), sections 3 and 4.

Axis legend: item, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kept.errors import EvaluationError
from kept.evaluation.statistics import Interval, bootstrap_interval, macro_interval
from kept.lab.probing.items.masked_sentences import AlteredItem
from kept.lab.probing.results import ProbeAnswer, ProbeResult, Ranking, RankingName
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
    """Every relation, and the means over relations with intervals (facts are resampled together).

    `n_single`: facts left out because fewer than two of their paraphrases were ranked.
    """

    relations: tuple[Consistency, ...]
    n_single: int
    consistent: Interval
    consistent_and_right: Interval


def consistency(result: ProbeResult, ranking: RankingName, *, seed: int) -> ConsistencyReport:
    """Paraphrases are the answers of one group; raises `EvaluationError` where none has two."""
    groups: dict[tuple[str, str], list[Ranking]] = {}
    for answer, ranked in result.scored(ranking):
        groups.setdefault((answer.relation, answer.group), []).append(ranked)
    facts = {key: ranked for key, ranked in groups.items() if len(ranked) > 1}
    if len(facts) < 2:
        raise EvaluationError("consistency needs two facts with two ranked paraphrases each")
    by_relation: dict[str, list[list[Ranking]]] = {}
    for (relation, _), paraphrases in facts.items():
        by_relation.setdefault(relation, []).append(paraphrases)
    same = [_agreement(ranked) for ranked in facts.values()]
    right = [float(all(one.rank == 1 for one in ranked)) for ranked in facts.values()]
    relations = [relation for relation, _ in facts]
    draws = generator(seed, "consistency")
    return ConsistencyReport(
        tuple(_of_relation(name, ranked) for name, ranked in by_relation.items()),
        len(groups) - len(facts),
        macro_interval(same, relations, generator=draws),
        macro_interval(right, relations, generator=draws),
    )


def _of_relation(relation: str, facts: list[list[Ranking]]) -> Consistency:
    return Consistency(
        relation,
        len(facts),
        sum(len(ranks) * (len(ranks) - 1) // 2 for ranks in facts),
        float(np.mean([_agreement(ranks) for ranks in facts])),
        float(np.mean([all(one.rank == 1 for one in ranks) for ranks in facts])),
        float(np.mean([one.rank == 1 for ranks in facts for one in ranks])),
    )


def _agreement(rankings: Sequence[Ranking]) -> float:
    """Share of pairs with the same first answer."""
    _, counts = np.unique([one.top[0] for one in rankings], return_counts=True)
    n = len(rankings)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


# ---- negated and misprimed -------------------------------------------------
@dataclass(frozen=True, slots=True)
class Altered:
    """Changes of answers. Intervals are over the questions that both forms rank.

    `same_when_negated`: share of questions whose negation has the same first answer, which is
    seldom right. `rank_correlation`: mean Spearman's rho between the whole orders of candidates of
    a question and its negation; None where the probe kept only the best. `right_when_negated`:
    share whose negation is answered with the true object. `right` and `right_when_misprimed`: P@1
    of the question and behind the prime. `prime_answered`: share of misprimed questions whose first
    answer is the prime itself.
    """

    n_negated: int
    n_misprimed: int
    n_not_ranked: int
    same_when_negated: Interval
    right_when_negated: Interval
    right: Interval
    right_when_misprimed: Interval
    prime_answered: Interval
    rank_correlation: Interval | None


def altered(
    items: Sequence[AlteredItem], result: ProbeResult, ranking: RankingName, *, seed: int
) -> Altered:
    """Compare what `result` holds of the three forms of each question (found by their ids)."""
    answers = {answer.id: answer for answer in result.answers}
    negated: list[tuple[float, float]] = []
    correlations: list[float] = []
    misprimed: list[tuple[float, float, float]] = []
    n_missing = 0
    for item in items:
        first = _ranking_of(answers, item.original.id, ranking)
        other = None if item.negated is None else _ranking_of(answers, item.negated.id, ranking)
        behind = _ranking_of(answers, item.misprimed.id, ranking)
        if first is not None and other is not None:
            negated.append((float(first.top[0] == other.top[0]), other.hit(1)))
            if frozenset(first.top) == frozenset(other.top):
                correlations.append(rank_correlation(first.top, other.top))
        if first is not None and behind is not None:
            primed = behind.top[0].casefold() == item.prime.casefold()
            misprimed.append((first.hit(1), behind.hit(1), float(primed)))
        n_missing += first is None
    if len(negated) < 2 or len(misprimed) < 2:
        raise EvaluationError(
            f"{len(negated)} negated and {len(misprimed)} misprimed questions are compared "
            f"with their originals; two of each are needed"
        )
    draws = generator(seed, "altered questions")
    intervals = [
        bootstrap_interval(column, generator=draws)
        for table in (negated, misprimed)
        for column in np.transpose(table)
    ]
    same, right_negated, right, right_misprimed, prime_first = intervals
    whole = len(correlations) == len(negated)
    rho = bootstrap_interval(correlations, generator=draws) if whole else None
    return Altered(
        len(negated),
        len(misprimed),
        n_missing,
        same,
        right_negated,
        right,
        right_misprimed,
        prime_first,
        rho,
    )


def _ranking_of(answers: dict[str, ProbeAnswer], id: str, ranking: RankingName) -> Ranking | None:
    answer = answers.get(id)
    return None if answer is None else answer.ranking(ranking)


def rank_correlation(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Spearman's rho between two orders of the same names (best first), without ties.

    >>> rank_correlation(["Paris", "Rome", "Bonn"], ["Bonn", "Rome", "Paris"])
    -1.0
    """
    their_ranks = {name: rank for rank, name in enumerate(theirs)}
    if (
        len(ours) < 2
        or len(their_ranks) != len(ours)
        or any(name not in their_ranks for name in ours)
    ):
        raise EvaluationError(
            f"two orders of the same two names or more are compared, not of {len(ours)} and "
            f"{len(theirs)}; probe with n_top large enough to keep every candidate"
        )
    n = len(ours)
    squares = sum((rank - their_ranks[name]) ** 2 for rank, name in enumerate(ours))
    return 1 - 6 * squares / (n * (n * n - 1))
