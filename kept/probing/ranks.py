"""From scores of candidates to rankings: the tie rule stands here, and nowhere else.

Axis legend: item, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from kept.errors import EvaluationError
from kept.probing.results import Ranking


def rank_answers(
    scores: Float[Tensor, "item candidate"],
    golds: Sequence[int],
    others: Sequence[Sequence[int]],
    names: Sequence[str],
    *,
    n_top: int,
) -> list[Ranking]:
    """Where each item's answer came; `names` are the candidates', in order.

    `golds` are places of the answers, `others` those of further right ones, which do not compete.
    Of equal scores the earlier candidate comes first (`results.TIES`), as `rank_cloze` has it.
    """
    if not bool(torch.isfinite(scores).all()):
        raise EvaluationError("the model gave scores that are not finite; it cannot be ranked")
    places = torch.tensor(list(golds), device=scores.device)[:, None]
    gold = scores.gather(1, places)
    order = torch.arange(scores.shape[1], device=scores.device)
    before = (scores > gold) | ((scores == gold) & (order < places))
    n_before = before.sum(1).tolist()
    best = scores.max(1).values
    chance = (best - scores.logsumexp(1)).exp().tolist()
    found = []
    for row, top in enumerate(_top(scores, n_top)):
        right = [place for place in others[row] if place != golds[row]]
        found.append(
            Ranking(
                rank=1 + n_before[row] - int(before[row, right].sum()),
                n_candidates=scores.shape[1] - len(right),
                score=float(gold[row, 0]),
                top=tuple(names[place] for place in top),
                probability=chance[row],
                correct=top[0] == golds[row] or top[0] in right,
            )
        )
    return found


def _top(scores: Float[Tensor, "item candidate"], n_top: int) -> list[list[int]]:
    """Places of the best candidates, best first, by the tie rule."""
    n_top = min(n_top, scores.shape[1])
    least = scores.topk(n_top, dim=1).values[:, -1:]
    rows, places = (scores >= least).nonzero(as_tuple=True)
    counts = torch.bincount(rows, minlength=len(scores)).tolist()
    parts = zip(places.split(counts), scores[rows, places].split(counts), strict=True)
    return [part[values.argsort(descending=True, stable=True)][:n_top].tolist()
            for part, values in parts]  # fmt: skip
