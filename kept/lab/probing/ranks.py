"""From scores of candidates to rankings, with the tie rule of cloze probes.

That of triples is in `kept.evaluation.ranking`.

Axis legend: item, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from kept.errors import EvaluationError
from kept.lab.probing.results import Ranking


def rank_answers(
    scores: Float[Tensor, "item candidate"],
    golds: Sequence[int],
    others: Sequence[Sequence[int]],
    names: Sequence[str],
    *,
    n_top: int,
) -> list[Ranking]:
    """Return each item's ranking; `names` are the candidates', in order.

    `golds` are places of the answers, `others` those of further right ones, which do not compete.
    Of equal scores the earlier candidate comes first (`results.TIES`), as `rank_cloze` has it.
    """
    if not all(bool(torch.isfinite(bound)) for bound in torch.aminmax(scores)):
        raise EvaluationError("the model gave scores that are not finite; it cannot be ranked")
    columns = torch.tensor(list(golds), device=scores.device)[:, None]
    gold = scores.gather(1, columns)
    n_before = (scores > gold).sum(1)
    equal = scores == gold
    if bool((equal.sum(1) > 1).any()):
        order = torch.arange(scores.shape[1], device=scores.device)
        n_before += (equal & (order < columns)).sum(1)
    counts, gold_columns = n_before.tolist(), gold[:, 0].tolist()
    chance = scores.softmax(1).amax(1).tolist()  # one pass; logsumexp takes ten times as long
    rankings = []
    for row, top in enumerate(_top(scores, n_top)):
        right = [column for column in others[row] if column != golds[row]]
        rankings.append(
            Ranking(
                rank=1 + counts[row] - _n_ahead(scores[row], golds[row], right),
                n_candidates=scores.shape[1] - len(right),
                score=gold_columns[row],
                top=tuple(names[column] for column in top),
                probability=chance[row],
                correct=top[0] == golds[row] or top[0] in right,
            )
        )
    return rankings


def _n_ahead(scores: Float[Tensor, " candidate"], gold: int, right: Sequence[int]) -> int:
    """How many of the places `right` come before `gold`, by the tie rule."""
    values = scores[[gold, *right]].tolist() if right else [0.0]
    return sum((-v, p) < (-values[0], gold) for v, p in zip(values[1:], right, strict=True))


def _top(scores: Float[Tensor, "item candidate"], n_top: int) -> list[list[int]]:
    """Places of the best candidates, best first, by the tie rule, which `topk` does not keep."""
    values, columns = scores.topk(min(n_top + 1, scores.shape[1]), dim=1)
    best: list[list[int]] = columns[:, :n_top].tolist()
    tied = (values[:, 1:] == values[:, :-1]).any(1).nonzero()[:, 0].tolist()
    for row in tied:
        best[row] = scores[row].argsort(descending=True, stable=True)[:n_top].tolist()
    return best
