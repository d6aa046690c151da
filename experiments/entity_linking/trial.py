"""`python -m experiments entity_linking CONFIG -o RUN`: link the benchmarks, write the tables.

Needs KEPT_DATA. RUN receives results.json, results.md and two diagrams; the same command goes on
where it was stopped.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from entity_linking.calibration.answers import Answer, answers, confidences
from entity_linking.calibration.fitting import cross_validated, fit
from entity_linking.calibration.reliability import calibration_score, draw_reliability, reliability
from entity_linking.decision import Decision
from entity_linking.mentions import LinkedText
from entity_linking.scoring import (
    Measure,
    binned,
    compare,
    measures,
    outcomes,
    popularity_bins,
    report,
)
from entity_linking.scoring.elevant import Mode
from entity_linking.scoring.spans import SpanScore
from experiments.command import announce, data_root, run_study
from experiments.entity_linking.causes import link_causes, span_causes
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.inputs.benchmarks import FILES, WITH_NIL, coarse
from experiments.entity_linking.linkers import decided, forced, with_links, without_refused
from experiments.entity_linking.scores import Results, elevant_f1
from experiments.entity_linking.spans import WIKIGOLD, gate_table
from experiments.entity_linking.stages import (
    BASELINE,
    CASED,
    DETECTS,
    HELD_OUT,
    ROWS,
    SUPPLIED,
    SUPPLIED_TRAINED,
    TRAINED,
    LinkingStages,
    benchmark_names,
    start,
)
from experiments.entity_linking.tables import COUNTS, printed, to_markdown

SPAN_SCORES = ("accuracy, all", "recall@1, all", "recall@5, all", "recall@30, all")
LINK_SCORES = ("strong micro F1", "strong micro precision", "strong micro recall", "weak micro F1")
NIL_SCORES = ("NIL precision", "NIL recall", "NIL F1")
NOT_CALIBRATED = (BASELINE, SUPPLIED, SUPPLIED_TRAINED)
"""The supplied sets know nothing of the held-out text, so nothing is fitted on them."""


def score_all(stages: LinkingStages, folder: Path) -> Results:
    """Run every row that has not been run yet and score all of them."""
    decisions = {row: decision_of(stages, row) for row in ROWS if row not in NOT_CALIBRATED}
    spans = {row: {b: _spans(stages, row, b) for b in FILES} for row in ROWS}
    free = {row: free_decision_of(stages, row) for row in DETECTS}
    links = {
        row: {b: _links(stages, row, b, free[row]) for b in benchmark_names(row, free=True)}
        for row in DETECTS
    }
    nils = {
        row: {b: _nils(stages, row, b, decision) for b in WITH_NIL}
        for row, decision in decisions.items()
    }
    elevant = {
        row: {b: elevant_f1s(stages, row, b, free[row]) for b in links[row]} for row in DETECTS
    }
    return {
        "world": stages.world.counts,
        "graph hash": stages.world.graph.content_hash,
        "decisions": {row: msgspec.to_builtins(d) for row, d in decisions.items()},
        "decisions end to end": {row: msgspec.to_builtins(d) for row, d in free.items()},
        "gates": stages.gate_scores(),
        "gold spans": spans,
        "end to end": links,
        "as ELEVANT counts": elevant,
        "NIL": nils,
        "calibration": {
            row: _calibration(stages, row, decision, folder if row == TRAINED else None)
            for row, decision in decisions.items()
        },
        "bins": _bins(stages),
        "causes": _causes(stages, free[TRAINED]),
        "reranker": msgspec.to_builtins(stages.reranker.record),
    }


# ---- decisions -------------------------------------------------------------
def decision_of(stages: LinkingStages, row: str) -> Decision:
    """Temperature, NIL, curve and threshold of a row, fitted on the held-out text."""
    return fit(_held_out(stages, row), start(row))


def _held_out(stages: LinkingStages, row: str) -> list[Answer]:
    """Every second held-out text; the others told the re-ranker when to stop."""
    seen = stages.row(row, HELD_OUT)
    together = stages.answered(HELD_OUT, seen)[1::2]
    return answers(together, together, unmarked="skip")


def free_decision_of(stages: LinkingStages, row: str) -> Decision:
    """The decision for mentions that the row found itself.

    What links cost is seen on two kinds of text: held-out documents say whether the entity is right
    where they mark a mention (unmarked ones are no errors, they are not marked in full), Wikigold
    where a link can only be wrong, as no name has that span. There are about as many names in one
    as marked mentions in the other. Mentions that no span was found for count as missed.
    """
    gold = stages.gold(CASED)
    free_row = stages.free_row(row, CASED)
    seen = answers(gold, free_row, unmarked="skip")
    n_entities = sum(link.entity is not None for text in gold for link in text.links)
    n_missed = max(n_entities - sum(each.has_entity for each in seen), 0)
    unmarked = without_marked(stages.gold(WIKIGOLD), stages.free_row(row, WIKIGOLD))
    nothing = [with_links(text, ()) for text in unmarked]
    spare = answers(nothing, unmarked, unmarked="nil")
    return fit([*seen, *spare], start(row), n_missed=n_missed)


def without_marked(gold: Sequence[LinkedText], linked: Sequence[LinkedText]) -> list[LinkedText]:
    """The links whose span is not marked."""
    left = []
    for expected, answered in zip(gold, linked, strict=True):
        marked = {link.mention for link in expected.links}
        stay = (link for link in answered.links if link.mention not in marked)
        left.append(with_links(answered, stay))
    return left


def _calibration(
    stages: LinkingStages, row: str, decision: Decision, folder: Path | None
) -> Results:
    """Before and after, on held-out text (crosswise) and on all benchmarks together."""
    seen = _held_out(stages, row)
    crossed = cross_validated(seen, start(row), seed=stages.study.seed)
    ours: list[Answer] = []
    for name in FILES:
        texts = stages.row(row, name)
        ours += answers(stages.gold(name), texts, unmarked="skip")
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
def _spans(stages: LinkingStages, row: str, name: str) -> Results:
    gold, ours = stages.gold(name), forced(stages.row(row, name))
    scores = _scores(stages, gold, ours, SPAN_SCORES, gold_spans_only=True)
    if row != BASELINE:
        theirs = forced(stages.row(BASELINE, name))
        study = stages.study
        between = compare(
            _accuracy(gold, ours), _accuracy(gold, theirs),
            seed=study.seed, n_resamples=study.n_resamples,
        )  # fmt: skip
        scores["minus baseline"] = msgspec.to_builtins(between[SPAN_SCORES[0]])
    return scores


def _links(stages: LinkingStages, row: str, name: str, decision: Decision) -> Results:
    gold = stages.gold(name)
    ours = decided(stages.free_row(row, name), decision)
    return _scores(stages, gold, ours, LINK_SCORES, gold_spans_only=False)


def elevant_f1s(stages: LinkingStages, row: str, name: str, decision: Decision) -> Results:
    """Return end-to-end F1 by each of ELEVANT's counts (`COUNTS`)."""
    gold = stages.labelled(name)
    ours = decided(stages.free_row(row, name), decision)
    linked = without_refused(ours)
    sides: tuple[tuple[Sequence[LinkedText], Mode], ...]
    sides = (ours, "required"), (linked, "required"), (ours, "ignored")
    f1s = [elevant_f1(stages.study, gold, texts, mode) for texts, mode in sides]
    return dict(zip(COUNTS, f1s, strict=True))


def _nils(stages: LinkingStages, row: str, name: str, decision: Decision) -> Results:
    gold = stages.gold(name)
    ours = decided(stages.row(row, name), decision)
    names = (*NIL_SCORES, "accuracy, all")
    return _scores(stages, gold, ours, names, gold_spans_only=True)


def _scores(
    stages: LinkingStages,
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
        seed=stages.study.seed,
        n_resamples=stages.study.n_resamples,
    )
    return {name: msgspec.to_builtins(link_report[name]) for name in names}


def _accuracy(gold: Sequence[LinkedText], ours: Sequence[LinkedText]) -> list[Measure]:
    every = measures(gold, ours, known=None, gold_spans_only=True)
    return [measure for measure in every if measure.name == SPAN_SCORES[0]]


# ---- what lies behind ------------------------------------------------------
def _bins(stages: LinkingStages) -> Results:
    """Accuracy of the trained row by type and by degree of the gold entity, benchmarks together."""
    graph = stages.world.graph
    judged, types = [], []
    for name in FILES:
        judged += outcomes(stages.gold(name), forced(stages.row(TRAINED, name)))
        types += [(coarse(each),) for t in stages.world.benchmarks[name] for each in t.types]

    def degree(entity: str) -> int:
        i = graph.entities.id(entity)
        return len(graph.outgoing(i)) + len(graph.incoming(i))

    by_type, by_degree = binned(judged, types), popularity_bins(judged, degree)
    return {"type": _shares(by_type), "triples of the entity": _shares(by_degree)}


def _shares(bins: Mapping[str, SpanScore]) -> Results:
    return {
        name: {
            "mentions": score.n_gold,
            "accuracy": score.accuracy,
            "recall@30": score.candidate_recall,
        }
        for name, score in bins.items()
    }


def _causes(stages: LinkingStages, decision: Decision) -> Results:
    """Errors of the trained row by benchmark."""
    graph = stages.world.graph
    spans: dict[str, Counter[str]] = {}
    links: dict[str, Counter[str]] = {}
    for name in FILES:
        gold, ours = stages.gold(name), forced(stages.row(TRAINED, name))
        spans[name] = span_causes(gold, ours, graph, stages.pool(name))
    for name in benchmark_names(TRAINED, free=True):
        ours = decided(stages.free_row(TRAINED, name), decision)
        links[name] = link_causes(stages.gold(name), ours)
    return {"gold spans": spans, "end to end": links}


def timed(text: str) -> None:
    """Print a line after the processor seconds so far."""
    announce(f"{time.process_time():7.0f} s  {text}")


def run(study: LinkingStudy, arguments: argparse.Namespace) -> tuple[str, object] | None:
    """Make what is missing; return the page and every score, None where only gates were wanted."""
    stages = LinkingStages(data_root(), study, arguments.out, timed)
    if arguments.gates:
        print(gate_table(stages.gate_scores()).compact())
        return None
    results = score_all(stages, arguments.out)
    print(printed(results))
    return to_markdown(results, study), results


if __name__ == "__main__":
    gates = {"action": "store_true", "help": "print the table of gates alone"}
    run_study(__doc__, LinkingStudy, run, {"--gates": gates})
