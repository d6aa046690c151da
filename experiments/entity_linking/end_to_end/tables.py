"""The page of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from entity_linking.calibration.isotonic import isotonic_knots
from entity_linking.calibration.reliability import calibration_score
from experiments.entity_linking.causes import LINK_CAUSES
from experiments.entity_linking.end_to_end.rows import BEST, ROWS
from experiments.entity_linking.inputs.benchmarks import FILES, PARTLY_MARKED
from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table, with_interval

Results = Mapping[str, Any]
BEFORE = "trained (before)"
COUNTS = ("required", "required, links alone", "ignored")


def to_markdown(results: Results, published: Mapping[str, Mapping[str, float]]) -> str:
    """All tables."""
    parts = [
        _short(results, published),
        "## End to end, by ELEVANT's counts: F1 [95 % interval over texts]\n",
        *(_rows(results, published, count) for count in COUNTS),
        "## Mentions: precision, recall and F1 of spans\n",
        _detection(results),
        "## The decision and the text that it was fitted on\n",
        _tuning(results["tuning"]),
        "## Precision or recall, as the user chooses (links alone, ignored mode)\n",
        _favoured({b: of_best["favoured"] for b, of_best in _best(results).items()}),
        "## What goes wrong: errors by cause, before → after\n",
        _causes({b: results[b]["causes"] for b in _benchmarks(results)}),
        "## Gold spans: accuracy and recall@30, nothing refused\n",
        _gold_spans({b: results[b]["gold spans"] for b in _benchmarks(results)}),
        "## Confidence of links on the four benchmarks that are marked in full\n",
        _calibration(results),
        "## Entities taken out of the graph (the best row)\n",
        _open_world({b: of_best["open world"] for b, of_best in _best(results).items()}),
        "## Other seeds of the re-ranker's networks: required F1, mean ± deviation over three\n",
        _seeds(results.get("seeds", {})),
        "## Speed: sentences of T-REx a processor second, read for the first time\n",
        table(["row", "sentences"], [[k, f"{v:.0f}"] for k, v in results.get("speed", {}).items()]),
        "## Ten times the distractors: F1 → with nine namesakes of every candidate\n",
        _namesakes(results.get("namesakes", {})),
    ]
    return page_of("Linking of running text", "", *parts)


def _benchmarks(results: Results) -> list[str]:
    """The benchmarks that were run."""
    return [b for b in FILES if b in results]


def _best(results: Results) -> dict[str, Results]:
    """What was asked of the best row alone, by benchmark; not all need have been run."""
    return {b: results[f"{b}, best"] for b in FILES if f"{b}, best" in results}


Confidences = list[tuple[float, bool]]


def _sure(results: Results, row: str, benchmark: str, *, marked: bool) -> Confidences:
    """Confidence and outcome of the row's links; `marked`: where gold marks the mention."""
    of_row = results[benchmark]["confidences"][row]
    return [(sure, right) for sure, right, is_marked in of_row if is_marked or not marked]


def _judged(results: Results) -> list[str]:
    return [b for b in _benchmarks(results) if b not in PARTLY_MARKED]


def _pooled(results: Results, row: str, *, marked: bool) -> Results:
    return calibration(
        [pair for b in _judged(results) for pair in _sure(results, row, b, marked=marked)]
    )


def expected_errors(results: Results, row: str) -> dict[str, float]:
    """ECE at marked mentions on each benchmark that has any, the worst last.

    Pooled, errors can cancel: too high a confidence on one and too low on another.
    """
    pairs = {b: _sure(results, row, b, marked=True) for b in _judged(results)}
    errors = {
        b: float(calibration(of_benchmark)["ece_width"])
        for b, of_benchmark in pairs.items()
        if of_benchmark
    }
    return dict(sorted(errors.items(), key=lambda item: item[1]))


def _short(results: Results, published: Mapping[str, Mapping[str, float]]) -> str:
    """What falls short, first."""
    lines = []
    for bar in ("ELEVANT prior baseline", "REL-2014"):
        below = []
        for name in _benchmarks(results):
            ours = results[name]["rows"][BEST]["required"]["estimate"]
            if ours <= published[bar][name]:
                below.append(f"{name} {ours:.3f} against {published[bar][name]:.3f}")
        lines.append(f"- Not above {bar}: {', '.join(below) or 'none of the five'}.")
    ece, carried = _pooled(results, BEST, marked=True), _carried(results, BEST, marked=True)
    by_others = (
        "" if carried is None else f", by a curve of other benchmarks {carried['ece_width']:.3f}"
    )
    name, worst = list(expected_errors(results, BEST).items())[-1]
    lines.append(
        f"- ECE of the best row's links at marked mentions: {worst:.3f} on {name}, the worst; "
        f"{ece['ece_width']:.3f} over all of {', '.join(_judged(results))}{by_others} "
        "(aim: at most .05 on each)."
    )
    return "\n".join(lines) + "\n"


def calibration(pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return how far confidence is from the share of right links."""
    sure, right = np.array(pairs).T
    score = calibration_score(sure, right.astype(np.bool_))
    return {"links": len(pairs), **msgspec.to_builtins(score)}


def _detection(results: Results) -> str:
    scores = {
        **results.get("detection", {}),
        **{b: results[b]["detection"] for b in _benchmarks(results)},
    }
    rows = [
        [detector, *(_three(of_benchmark[detector]) for of_benchmark in scores.values())]
        for detector in next(iter(scores.values()))
    ]
    return table(["found by", *scores], rows)


def _three(score: Results) -> str:
    return " ".join(f"{score[key]:.3f}" for key in ("precision", "recall", "F1"))


def _rows(results: Results, published: Mapping[str, Mapping[str, float]], count: str) -> str:
    benchmarks = _benchmarks(results)
    rows = [
        [name, *(with_interval(results[b]["rows"][name][count]) for b in benchmarks)]
        for name in ROWS
    ]
    if count == "required":
        inputs = {b: with_interval(of_best["oracle"]) for b, of_best in _best(results).items()}
        rows.append(
            ["gold spans, the best row's choice", *(inputs.get(b, "not run") for b in benchmarks)]
        )
        rows += [
            [name, *(f"{scores[b]:.3f}" for b in benchmarks)] for name, scores in published.items()
        ]
    return table([count, *benchmarks], rows)


def _seeds(scores: Results) -> str:
    rows = [
        [
            row,
            *(
                f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f}"
                for scores in by_benchmark.values()
            ),
        ]
        for row, by_benchmark in scores.items()
    ]
    return table(["row", *FILES], rows)


def _tuning(tuned: Results) -> str:
    rows = [
        [
            name, f"{each['F1']:.3f}", each["answers"], "yes" if each["falls back"] else "no",
            f"{each['NIL below']:.3f}",
            "" if each["NIL from"] is None else f"{each['NIL from']:.3f}",
        ]
        for name, each in tuned.items()
    ]  # fmt: skip
    heads = ["row", "F1, cross-validated", "answers", "falls back", "accepted from", "NIL from"]
    return table(heads, rows)


def _favoured(scores: Results) -> str:
    rows = []
    for favour in next(iter(scores.values())):
        of_favour = [by[favour] for by in scores.values()]
        cells = [f"{s['precision']:.3f} {s['recall']:.3f} {s['estimate']:.3f}" for s in of_favour]
        rows.append([favour, *cells])
    return table(["favoured (precision recall F1)", *scores], rows)


def _causes(counts: Results) -> str:
    rows = []
    for cause in LINK_CAUSES:
        pairs = [[by[row].get(cause, 0) for row in (BEFORE, BEST)] for by in counts.values()]
        rows.append([cause, *(f"{a} → {b}" for a, b in pairs)])
    return table(["cause", *counts], rows)


def _gold_spans(scores: Results) -> str:
    rows = []
    for name in next(iter(scores.values())):
        of_row = [by[name] for by in scores.values()]
        rows.append([name, *(f"{value:.3f}" for value in (*of_row, sum(of_row) / len(of_row)))])
    return table(["row", *scores, "mean"], rows)


def _calibration(results: Results) -> str:
    rows = []
    for name in ROWS:
        cells: list[Any] = [name]
        for marked in (True, False):
            confidences, carried = (
                _pooled(results, name, marked=marked),
                _carried(results, name, marked=marked),
            )
            cells += [
                confidences["links"],
                f"{confidences['confidence']:.3f}",
                f"{confidences['accuracy']:.3f}",
            ]
            cells += [f"{confidences['ece_width']:.3f}", f"{confidences['brier']:.3f}"]
            cells.append("" if carried is None else f"{carried['ece_width']:.3f}")
        rows.append(cells)
    heads = ["links", "confidence", "right", "ECE", "Brier", "ECE, curve of the others"]
    pooled = table(["row", *(f"{h}, marked" for h in heads), *(f"{h}, all" for h in heads)], rows)
    return f"{_calibration_by_benchmark(results)}\nAll of them together:\n\n{pooled}"


def _calibration_by_benchmark(results: Results) -> str:
    rows = []
    for name in ROWS:
        errors = expected_errors(results, name)
        cells = [f"{errors[b]:.3f}" if b in errors else "" for b in _judged(results)]
        rows.append([name, *cells, f"{max(errors.values()):.3f}" if errors else ""])
    heads = ["ECE at marked mentions", *_judged(results), "worst"]
    return table(heads, rows)


def _carried(results: Results, row: str, *, marked: bool) -> Results | None:
    """The confidence of each benchmark corrected by the answers of the others, then pooled."""
    pairs: Confidences = []
    for name in _judged(results):
        rest = [b for b in _judged(results) if b != name]
        others = [pair for b in rest for pair in _sure(results, row, b, marked=marked)]
        outcomes = _sure(results, row, name, marked=marked)
        if not outcomes or not others:
            continue
        points, heights = np.array(isotonic_knots(*zip(*others, strict=True))).T
        sure, right = zip(*outcomes, strict=True)
        pairs += zip(np.interp(sure, points, heights).tolist(), right, strict=True)
    return calibration(pairs) if pairs else None


def _open_world(scores: Results) -> str:
    rows = [
        [
            f"{float(share):.0%}", name, each["removed"],
            f"{each['required']['estimate']:.3f}", f"{each['links alone']['estimate']:.3f}",
            f"{each['NIL precision']:.3f}", f"{each['NIL recall']:.3f}", each["NIL of an entity"],
        ]
        for name, by_share in scores.items()
        for share, each in by_share.items()
    ]  # fmt: skip
    heads = [
        "taken out", "benchmark", "entities", "F1, required", "F1 of links", "NIL precision",
        "NIL recall", "NIL said of an entity",
    ]  # fmt: skip
    return table(heads, rows)


def _namesakes(results: Results) -> str:
    if not results:
        return "Not run.\n"
    rows = [
        [
            row, how,
            *(" → ".join(f"{by[k][how]['estimate']:.3f}" for k in ("as it is", "namesakes"))
              for by in scores.values()),
        ]
        for row, scores in results.items() if row
        for how in ("required", "links alone")
    ]  # fmt: skip
    added = f"{results['']['namesakes']:,} namesakes were added.\n\n"
    return added + table(["row", "counted", *FILES], rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    return Table(heads, rows).compact() + "\n"
