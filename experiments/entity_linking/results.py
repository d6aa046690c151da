"""Scores of every row on every benchmark, as plain data; `tables` makes the page of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from entity_linking.calibration.answers import Answer, answers, confidences
from entity_linking.calibration.fitting import cross_validated, fit
from entity_linking.calibration.reliability import calibration_score, draw_reliability, reliability
from entity_linking.decision import Decision
from entity_linking.mentions import LinkedText
from entity_linking.randomness import generator
from entity_linking.scoring import (
    Measure,
    binned,
    compare,
    measures,
    outcomes,
    popularity_bins,
    report,
)
from entity_linking.scoring.elevant import Mode, count_elevant
from entity_linking.scoring.intervals import ratio_interval
from experiments.entity_linking.causes import link_causes, span_causes
from experiments.entity_linking.inputs.benchmarks import FILES, WITH_NIL, coarse
from experiments.entity_linking.linkers import decided, forced
from experiments.entity_linking.spans import WIKIGOLD
from experiments.entity_linking.study import (
    BASELINE,
    CASED,
    DETECTS,
    HELD_OUT,
    ROWS,
    SUPPLIED,
    SUPPLIED_TRAINED,
    TRAINED,
    Laboratory,
    benchmark_names,
    start,
)

SPAN_SCORES = ("accuracy, all", "recall@1, all", "recall@5, all", "recall@30, all")
LINK_SCORES = ("strong micro F1", "strong micro precision", "strong micro recall", "weak micro F1")
COUNTS = ("required", "required, refused mentions left out", "ignored")
"""ELEVANT's two modes, and the first for a linker that keeps to itself what it calls NIL."""
NIL_SCORES = ("NIL precision", "NIL recall", "NIL F1")
NOT_CALIBRATED = (BASELINE, SUPPLIED, SUPPLIED_TRAINED)
"""The supplied sets know nothing of the held-out text, so nothing is fitted on them."""
Results = dict[str, Any]


def score_all(laboratory: Laboratory, folder: Path) -> Results:
    """Run every row that has not been run yet and score all of them."""
    decisions = {row: decision_of(laboratory, row) for row in ROWS if row not in NOT_CALIBRATED}
    spans = {row: {b: _spans(laboratory, row, b) for b in FILES} for row in ROWS}
    free = {row: free_decision_of(laboratory, row) for row in DETECTS}
    links = {
        row: {b: _links(laboratory, row, b, free[row]) for b in benchmark_names(row, free=True)}
        for row in DETECTS
    }
    nils = {
        row: {b: _nils(laboratory, row, b, decision) for b in WITH_NIL}
        for row, decision in decisions.items()
    }
    elevant = {
        row: {b: elevant_scores(laboratory, row, b, free[row]) for b in links[row]}
        for row in DETECTS
    }
    return {
        "world": laboratory.world.counts,
        "graph hash": laboratory.world.graph.content_hash,
        "decisions": {row: msgspec.to_builtins(d) for row, d in decisions.items()},
        "decisions end to end": {row: msgspec.to_builtins(d) for row, d in free.items()},
        "gates": laboratory.gate_scores(),
        "gold spans": spans,
        "end to end": links,
        "as ELEVANT counts": elevant,
        "NIL": nils,
        "calibration": {
            row: _calibration(laboratory, row, decision, folder if row == TRAINED else None)
            for row, decision in decisions.items()
        },
        "bins": _bins(laboratory),
        "causes": _causes(laboratory, free[TRAINED]),
        "reranker": msgspec.to_builtins(laboratory.reranker.record),
    }


# ---- decisions -------------------------------------------------------------
def decision_of(laboratory: Laboratory, row: str) -> Decision:
    """Temperature, NIL, curve and threshold of a row, fitted on the held-out text."""
    return fit(_held_out(laboratory, row), start(row))


def _held_out(laboratory: Laboratory, row: str) -> list[Answer]:
    """Every second held-out text; the others told the re-ranker when to stop."""
    seen = laboratory.row(row, HELD_OUT)
    together = laboratory.answered(HELD_OUT, seen)[1::2]
    gold = [LinkedText(text.text, text.links, text.id) for text in together]
    return answers(gold, together, unmarked="skip")


def free_decision_of(laboratory: Laboratory, row: str) -> Decision:
    """The decision for mentions that the row found itself.

    What links cost is seen on two kinds of text: held-out documents say whether the entity is right
    where they mark a mention (unmarked ones are no errors, they are not marked in full), Wikigold
    where a link can only be wrong, as no name has that span. There are about as many names in one
    as marked mentions in the other. Mentions that no span was found for count as missed.
    """
    gold = laboratory.gold(CASED)
    free_row = laboratory.free_row(row, CASED)
    seen = answers(gold, free_row, unmarked="skip")
    n_entities = sum(link.entity is not None for text in gold for link in text.links)
    n_missed = max(n_entities - sum(each.has_entity for each in seen), 0)
    unmarked = without_marked(laboratory.gold(WIKIGOLD), laboratory.free_row(row, WIKIGOLD))
    nothing = [LinkedText(text.text, (), text.id) for text in unmarked]
    spare = answers(nothing, unmarked, unmarked="nil")
    return fit([*seen, *spare], start(row), n_missed=n_missed)


def without_marked(gold: Sequence[LinkedText], linked: Sequence[LinkedText]) -> list[LinkedText]:
    """The links whose span is not marked."""
    left = []
    for expected, answered in zip(gold, linked, strict=True):
        marked = {link.mention for link in expected.links}
        stay = tuple(link for link in answered.links if link.mention not in marked)
        left.append(LinkedText(answered.text, stay, answered.id))
    return left


def _calibration(
    laboratory: Laboratory, row: str, decision: Decision, folder: Path | None
) -> Results:
    """Before and after, on held-out text (crosswise) and on all benchmarks together."""
    seen = _held_out(laboratory, row)
    crossed = cross_validated(seen, start(row), seed=laboratory.study.seed)
    ours: list[Answer] = []
    for name in FILES:
        texts = laboratory.row(row, name)
        ours += answers(laboratory.gold(name), texts, unmarked="skip")
    before, right = confidences(ours, start(row))
    after, _ = confidences(ours, decision)
    if folder is not None:
        for title, raw, calibrated, correct in (
            ("held-out text", crossed.raw, crossed.calibrated, crossed.correct),
            ("benchmarks", before, after, right),
        ):
            draw_reliability(
                reliability(raw, correct),
                reliability(calibrated, correct),
                folder / f"reliability-{title.split()[0]}.png",
                title=f"{row} linker, {title}: before and after calibration",
                force=True,  # a run that goes on draws it anew
            )
    return {
        "held-out text": [msgspec.to_builtins(s) for s in (crossed.before, crossed.after)],
        "benchmarks": [
            msgspec.to_builtins(calibration_score(sure, right)) for sure in (before, after)
        ],
    }


# ---- scores ----------------------------------------------------------------
def _spans(laboratory: Laboratory, row: str, name: str) -> Results:
    gold, ours = laboratory.gold(name), forced(laboratory.row(row, name))
    scores = _scores(laboratory, gold, ours, SPAN_SCORES, gold_spans_only=True)
    if row != BASELINE:
        theirs = forced(laboratory.row(BASELINE, name))
        pair = [_named(_measures(gold, texts), SPAN_SCORES[:1]) for texts in (ours, theirs)]
        resamples = laboratory.study.n_resamples
        between = compare(*pair, seed=laboratory.study.seed, n_resamples=resamples)
        scores["minus baseline"] = msgspec.to_builtins(between[SPAN_SCORES[0]])
    return scores


def _links(laboratory: Laboratory, row: str, name: str, decision: Decision) -> Results:
    gold = laboratory.gold(name)
    ours = decided(laboratory.free_row(row, name), decision)
    return _scores(laboratory, gold, ours, LINK_SCORES, gold_spans_only=False)


def elevant_scores(laboratory: Laboratory, row: str, name: str, decision: Decision) -> Results:
    """End-to-end F1 by ELEVANT's counts (`COUNTS`), each with its interval over documents."""
    gold = laboratory.labelled(name)
    ours = decided(laboratory.free_row(row, name), decision)
    linked = [_without_nil(text) for text in ours]
    elevant = {}
    sides: tuple[tuple[Sequence[LinkedText], Mode], ...]
    sides = (ours, "required"), (linked, "required"), (ours, "ignored")
    for kind, (texts, mode) in zip(COUNTS, sides, strict=True):
        counts = count_elevant(gold, texts, mode=mode).astype(np.float64)
        between = ratio_interval(
            2 * counts[:, 2], counts[:, 0] + counts[:, 1],
            generator=generator(laboratory.study.seed, "link scores"),
            n_resamples=laboratory.study.n_resamples,
        )  # fmt: skip
        elevant[kind] = msgspec.to_builtins(between)
    return elevant


def _without_nil(text: LinkedText) -> LinkedText:
    links = tuple(link for link in text.links if link.entity is not None)
    return LinkedText(text.text, links, text.id)


def _nils(laboratory: Laboratory, row: str, name: str, decision: Decision) -> Results:
    gold = laboratory.gold(name)
    ours = decided(laboratory.row(row, name), decision)
    names = (*NIL_SCORES, "accuracy, all")
    return _scores(laboratory, gold, ours, names, gold_spans_only=True)


def _scores(
    laboratory: Laboratory,
    gold: Sequence[LinkedText],
    ours: Sequence[LinkedText],
    names: Sequence[str],
    *,
    gold_spans_only: bool,
) -> Results:
    link_report = report(
        gold,
        ours,
        known=None,
        gold_spans_only=gold_spans_only,
        seed=laboratory.study.seed,
        n_resamples=laboratory.study.n_resamples,
    )
    return {name: msgspec.to_builtins(link_report[name]) for name in names}


def _measures(gold: Sequence[LinkedText], ours: Sequence[LinkedText]) -> tuple[Measure, ...]:
    return measures(gold, ours, known=None, gold_spans_only=True)


def _named(measured: Sequence[Measure], names: Sequence[str]) -> list[Measure]:
    return [measure for measure in measured if measure.name in names]


# ---- what lies behind ------------------------------------------------------
def _bins(laboratory: Laboratory) -> Results:
    """Accuracy of the trained row by type and by degree of the gold entity, benchmarks together."""
    graph = laboratory.world.graph
    judged, types = [], []
    for name in FILES:
        judged += outcomes(laboratory.gold(name), forced(laboratory.row(TRAINED, name)))
        types += [(coarse(each),) for t in laboratory.world.benchmarks[name] for each in t.types]

    def degree(entity: str) -> int:
        i = graph.entities.id(entity)
        return len(graph.outgoing(i)) + len(graph.incoming(i))

    bins: Mapping[str, Mapping[str, Any]] = {
        "type": binned(judged, types),
        "triples of the entity": popularity_bins(judged, degree),
    }
    return {
        kind: {
            name: {
                "mentions": score.n_gold,
                "accuracy": score.accuracy,
                "recall@30": score.candidate_recall,
            }
            for name, score in each.items()
        }
        for kind, each in bins.items()
    }


def _causes(laboratory: Laboratory, decision: Decision) -> Results:
    """Errors of the trained row by benchmark."""
    graph = laboratory.world.graph
    spans: dict[str, Counter[str]] = {}
    links: dict[str, Counter[str]] = {}
    for name in FILES:
        gold, ours = laboratory.gold(name), forced(laboratory.row(TRAINED, name))
        spans[name] = span_causes(gold, ours, graph, laboratory.pool(name))
    for name in benchmark_names(TRAINED, free=True):
        ours = decided(laboratory.free_row(TRAINED, name), decision)
        links[name] = link_causes(laboratory.gold(name), ours)
    return {"gold spans": spans, "end to end": links}
