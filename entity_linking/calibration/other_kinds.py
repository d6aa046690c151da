"""How sure a re-ranker is of text that is of no kind it was trained on.

A curve that is fitted on text of the training's own kind promises too much of news when it was made
from an encyclopedia. Here every kind of annotated text is left out in turn, a re-ranker is trained
on the others, and how sure and how right that is on the kind left out, as many answers of each,
tells what to expect of one more kind (leaving groups out: Hastie et al. 2009, "The elements of
statistical learning", 7.10, where folds are what is to be carried over).

Kinds differ most in how many of their names the graph does not have, and the share of the found
names that a re-ranker links, rather than call them NIL, shows that without any annotation. Where
few are linked, more of the links are wrong. `for_texts` moves a curve by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from entity_linking.calibration.answers import Answer, Floats
from entity_linking.calibration.fitting import fit_curve
from entity_linking.decision import Decision
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scorer, Scores
from entity_linking.randomness import generator
from entity_linking.scorers.rerank_logits import relative_logits
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.rerank_table import RerankTable, tabulate, targets, together
from entity_linking.scorers.reranker import fit_tables

NIL_FROM = 0.7
"""Share from which NIL is said. Of .5, .6, … .9 the one with the best required F1 in mean on
RSS-500, Reuters-128 and Wiki-Fair; from .5 on, NIL was right in .28 to .44, so in .39 to .51."""
N_POINTS = 12
SUREST = 0.01
"""How near to 0 and 1 a curve may be before it is moved: certainty could not be."""
LEAST_EXPECTED = 0.05
N_STEPS, LEAST_IN_STEP = 3, 25
"""Confidences of links of a kind of text, and links that each must have: a confidence that few
links share is as far from their share right as chance is (decision 0125)."""


class Kind(NamedTuple):
    """Texts of one kind that bear candidates and their gold entity (`with_gold`)."""

    train: Sequence[LinkedText]
    held_out: Sequence[LinkedText]


class _Tables(NamedTuple):
    train: RerankTable
    held_out: RerankTable


class KindAnswers(NamedTuple):
    """What a re-ranker says of a kind of text that it was not trained on.

    `links` are its links of mentions that gold marks, `linked` is the share of the mentions with
    candidates that it links.
    """

    links: Sequence[Answer]
    linked: float

    @property
    def right(self) -> float:
        """Share of the links that are right."""
        return float(np.mean([each.best_is_right for each in self.links]))


Kinds = Mapping[str, KindAnswers]


def answers_on_other_kinds(
    scorers: Mapping[str, Scorer], kinds: Mapping[str, Kind], settings: RerankSettings
) -> dict[str, KindAnswers]:
    """What re-rankers say of each kind of text when trained on the others alone, by kind.

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
        judged = [answer for part in left for answer in _judged(weights, part, settings.absent)]
        links = [answer for answer in judged if answer.scores.max() > 0]
        if not links:
            raise LinkingError(f"nothing of {name} is linked by what the other kinds teach")
        seen[name] = KindAnswers(links, len(links) / len(judged))
    return seen


def balanced(kinds: Kinds, seed: int = 0) -> list[Answer]:
    """As many links of each kind as the smallest has."""
    n_each = min(len(each.links) for each in kinds.values())
    draws = generator(seed, "answers on other kinds")
    return [
        each.links[i]
        for each in kinds.values()
        for i in np.sort(draws.permutation(len(each.links))[:n_each])
    ]


def decision_for_other_kinds(kinds: Kinds, seed: int = 0) -> Decision:
    """The likeliest answer of a re-ranker, as sure as it was right on kinds that were left out.

    NIL that is less sure than `NIL_FROM` is not said.
    """
    return fit_curve(balanced(kinds, seed), Decision(nil_score=0.0, nil_from=NIL_FROM))


def above_linked(kinds: Kinds) -> float:
    """How much greater the share of right links is than the share of linked mentions, in mean."""
    return float(np.mean([each.right - each.linked for each in kinds.values()]))


def share_linked(texts: Sequence[LinkedText]) -> float:
    """Share of the mentions with candidates that are linked; no gold is read.

    `texts` hold all mentions, NIL that is not said too (`EndToEnd.decide`, `disambiguate`).
    """
    linked = [link.entity is not None for text in texts for link in text.links if link.candidates]
    if not linked:
        raise LinkingError("no mention of these texts has a candidate: give other texts")
    return sum(linked) / len(linked)


def for_texts(decision: Decision, raw: Floats, expected: float) -> Decision:
    """The decision with its curve moved until links are as sure as `expected` in mean.

    `raw` `[link]` are confidences of links of the texts without a curve. The logarithm of the odds
    moves by one number everywhere; then links are as sure as their step in mean, each step with as
    many links (`N_STEPS`). So the order of links stays, but for those of one step.
    """
    if not len(raw):
        raise LinkingError("nothing of these texts is linked: give other texts, or more")
    points = decision.curve or tuple((x, x) for x in np.linspace(0, 1, N_POINTS).tolist())
    x, y = np.array(points).T
    odds = logit(np.clip(y, SUREST, 1 - SUREST))
    mean = float(np.clip(expected, LEAST_EXPECTED, 1 - LEAST_EXPECTED))
    move = brentq(lambda by: np.interp(raw, x, expit(odds + by)).mean() - mean, -20, 20)
    return replace(decision, curve=_in_steps(raw, np.interp(raw, x, expit(odds + move))))


def _in_steps(raw: Floats, sure: Floats) -> tuple[tuple[float, float], ...]:
    """The curve by steps: each has about as many of the links and their mean confidence."""
    n = max(1, min(N_STEPS, len(raw) // LEAST_IN_STEP))
    ends = np.unique(np.quantile(raw, np.arange(1, n) / n, method="inverted_cdf"))
    ends = ends[ends < raw.max()]
    step = np.searchsorted(ends, raw)
    means = np.bincount(step, sure) / np.bincount(step)
    lows = np.concatenate([[0.0], np.nextafter(ends, 2.0)])
    highs = np.append(ends, 1.0)
    return tuple(
        (float(point), float(mean))
        for low, high, mean in zip(lows, highs, means, strict=True)
        for point in ((low, high) if low < high else (low,))
    )


def adapted(decision: Decision, above: float, texts: Sequence[LinkedText]) -> Decision:
    """The decision for texts of a kind of their own, of which no annotation is read.

    `texts` are linked by `without_curve(decision)`, with all mentions as `share_linked` reads them;
    `above` is `above_linked`.
    """
    raw = [link.confidence for text in texts for link in text.links if link.entity is not None]
    return for_texts(decision, np.array(raw, np.float64), share_linked(texts) + above)


def raw_links(scorer: Scorer, decision: Decision, texts: Sequence[LinkedText]) -> list[LinkedText]:
    """Texts with candidates linked by `without_curve(decision)`, all mentions kept."""
    uncurved, linked = without_curve(decision), []
    for text, scores in zip(texts, scorer.scores(texts), strict=True):
        links = (
            uncurved.decide(link.mention, link.candidates, link_scores)
            for link, link_scores in zip(text.links, scores, strict=True)
        )
        linked.append(replace(text, links=tuple(links)))
    return linked


def without_curve(decision: Decision) -> Decision:
    """The same choices of links with raw confidences, and every NIL said."""
    return replace(decision, curve=(), nil_below=0.0, nil_from=0.0)


def _judged(weights: Mapping[str, Scores], table: RerankTable, absent: str) -> list[Answer]:
    """The answers on the mentions that have candidates."""
    logits = table.rows.split(relative_logits(weights, table))
    gold = iter(targets(table.rows, absent=absent).tolist())
    return [
        Answer(scores, gold_index if gold_index >= 0 else None, link.entity is not None, i)
        for i, (text, text_logits) in enumerate(zip(table.rows.texts, logits, strict=True))
        for link, scores, gold_index in zip(text.links, text_logits, gold, strict=False)
        if gold_index >= -1 and len(scores)
    ]
