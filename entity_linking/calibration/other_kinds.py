"""How sure a re-ranker is of text that is of no kind it was trained on.

A curve that is fitted on text of the training's own kind promises too much of news when it was made
from an encyclopedia. Here every kind of annotated text is left out in turn, a re-ranker is trained
on the others, and how sure and how right that is on the kind left out, as many answers of each,
tells what to expect of one more kind (leaving groups out: Hastie et al. 2009, "The elements of
statistical learning", 7.10, where folds are what is to be carried over).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from entity_linking.calibration.answers import Answer
from entity_linking.calibration.fitting import fit_curve
from entity_linking.decision import LIKELIEST, Decision
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scorer, Scores
from entity_linking.randomness import generator
from entity_linking.scorers.rerank_logits import relative_logits
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.rerank_table import RerankTable, tabulate, targets, together
from entity_linking.scorers.reranker import fit_tables


class Kind(NamedTuple):
    """Texts of one kind that bear candidates and their gold entity (`with_gold`)."""

    train: Sequence[LinkedText]
    held_out: Sequence[LinkedText]


class _Tables(NamedTuple):
    train: RerankTable
    held_out: RerankTable


def answers_on_other_kinds(
    scorers: Mapping[str, Scorer], kinds: Mapping[str, Kind], settings: RerankSettings
) -> list[Answer]:
    """What re-rankers link on a kind of text that they were not trained on; as many of each kind.

    Raises `LinkingError` with fewer than two kinds, or where nothing of a kind is linked.
    """
    if len(kinds) < 2:
        raise LinkingError(
            f"{len(kinds)} kind of text: what to expect of another one shows where one is left "
            "out; give two kinds or more"
        )
    tables = {
        name: _Tables(*(tabulate(scorers, part) for part in kind)) for name, kind in kinds.items()
    }
    seen = {}
    for name, left in tables.items():
        others = [other_table for other, other_table in tables.items() if other != name]
        weights, _ = fit_tables(
            together([other_table.train for other_table in others]),
            together([other_table.held_out for other_table in others]),
            settings,
        )
        linked = [answer for part in left for answer in _linked(weights, part, settings.absent)]
        if not linked:
            raise LinkingError(f"nothing of {name} is linked by what the other kinds teach")
        seen[name] = linked
    n_each = min(map(len, seen.values()))
    draws = generator(settings.seed, "answers on other kinds")
    return [
        other_table[i]
        for other_table in seen.values()
        for i in np.sort(draws.permutation(len(other_table))[:n_each])
    ]


def decision_for_other_kinds(seen: Sequence[Answer]) -> Decision:
    """The likeliest answer of a re-ranker, as sure as it was right on `answers_on_other_kinds`."""
    return fit_curve(seen, Decision(nil_score=0.0, nil_from=LIKELIEST))


def _linked(weights: Mapping[str, Scores], table: RerankTable, absent: str) -> list[Answer]:
    """The answers whose best candidate is likelier than NIL."""
    logits = table.rows.split(relative_logits(weights, table))
    gold = iter(targets(table.rows, absent=absent).tolist())
    return [
        Answer(scores, gold_index if gold_index >= 0 else None, link.entity is not None, i)
        for i, (text, text_logits) in enumerate(zip(table.rows.texts, logits, strict=True))
        for link, scores, gold_index in zip(text.links, text_logits, gold, strict=False)
        if gold_index >= -1 and len(scores) and scores.max() > 0
    ]
