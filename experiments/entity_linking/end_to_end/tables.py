"""The page of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.entity_linking.causes import LINK_CAUSES
from experiments.entity_linking.end_to_end.study import BEST, ROWS
from experiments.entity_linking.inputs.benchmarks import FILES

Told = Mapping[str, Any]
COUNTS = ("required", "required, links alone", "ignored")


def to_markdown(results: Told, published: Mapping[str, Mapping[str, float]]) -> str:
    """All tables."""
    parts = [
        "# Linking of running text\n",
        _short(results, published),
        "## Mentions: precision, recall and F1 of spans\n",
        _detection(results["detection"]),
        "## End to end, by ELEVANT's counts: F1 [95 % interval over texts]\n",
        *(_rows(results, published, count) for count in COUNTS),
        "## The decision and the text that it was fitted on\n",
        _tuning(results["tuning"]),
        "## Precision or recall, as the user asks (links alone, ignored mode)\n",
        _favoured(results["favoured"]),
        "## What goes wrong: errors by cause, before → after\n",
        _causes(results["causes"]),
        "## Gold spans: accuracy, nothing refused\n",
        _gold_spans(results["gold spans"]),
        "## Confidence of links on four benchmarks\n",
        _calibration(results["calibration"]),
        "## Entities taken out of the graph\n",
        _open_world(results["open world"]),
    ]
    return "\n".join(parts)


def _short(results: Told, published: Mapping[str, Mapping[str, float]]) -> str:
    """What falls short, first."""
    lines = []
    for bar in ("ELEVANT prior baseline", "REL-2014"):
        below = []
        for name in FILES:
            ours = results["rows"][BEST][name]["required"]
            if ours["estimate"] <= published[bar][name]:
                below.append(f"{name} {ours['estimate']:.3f} against {published[bar][name]:.3f}")
        lines.append(f"- Not above {bar}: {', '.join(below) or 'none of the five'}.")
    ece = results["calibration"][BEST]["ece_width"]
    lines.append(f"- ECE of the best row's links on other text: {ece:.3f} (aim: at most .05).")
    return "\n".join(lines) + "\n"


def _detection(scores: Told) -> str:
    sets = list(scores)
    rows = [
        [detector, *(_three(scores[name][detector]) for name in sets)]
        for detector in scores[sets[0]]
    ]
    return table(["found by", *sets], rows)


def _three(score: Told) -> str:
    return " ".join(f"{score[key]:.3f}" for key in ("precision", "recall", "F1"))


def _rows(results: Told, published: Mapping[str, Mapping[str, float]], count: str) -> str:
    rows = [[name, *(_interval(results["rows"][name][b][count]) for b in FILES)] for name in ROWS]
    if count == "required":
        rows.append(
            ["gold spans, the best row's choice", *(_interval(results["oracle"][b]) for b in FILES)]
        )
        rows += [[name, *(f"{scores[b]:.3f}" for b in FILES)] for name, scores in published.items()]
    return table([count, *FILES], rows)


def _interval(score: Told) -> str:
    return f"{score['estimate']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"


def _tuning(tuned: Told) -> str:
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


def _favoured(scores: Told) -> str:
    rows = [
        [
            favour,
            *(f"{s['precision']:.3f} {s['recall']:.3f} {s['estimate']:.3f}" for s in by.values()),
        ]
        for favour, by in scores.items()
    ]
    return table(["favoured (precision recall F1)", *FILES], rows)


def _causes(counts: Told) -> str:
    before, after = "trained (before)", BEST
    rows = []
    for cause in LINK_CAUSES:
        pairs = [[counts[row][b].get(cause, 0) for row in (before, after)] for b in FILES]
        rows.append([cause, *(f"{a} → {b}" for a, b in pairs)])
    return table(["cause", *FILES], rows)


def _gold_spans(scores: Told) -> str:
    names = list(next(iter(scores.values())))
    rows = [[name, *(f"{scores[b][name]:.3f}" for b in FILES)] for name in names]
    means = [sum(scores[b][name] for b in FILES) / len(FILES) for name in names]
    rows = [[*row, f"{mean:.3f}"] for row, mean in zip(rows, means, strict=True)]
    return table(["row", *FILES, "mean"], rows)


def _calibration(scores: Told) -> str:
    rows = [
        [name, each["links"], f"{each['ece_width']:.3f}", f"{each['brier']:.3f}"]
        for name, each in scores.items()
    ]
    return table(["row", "links", "ECE", "Brier"], rows)


def _open_world(scores: Told) -> str:
    rows = []
    for share, by in scores.items():
        for name in FILES:
            each = by[name]
            rows.append(
                [
                    f"{float(share):.0%}", name, each["removed"],
                    f"{each['required']['estimate']:.3f}", f"{each['links alone']['estimate']:.3f}",
                    f"{each['NIL precision']:.3f}", f"{each['NIL recall']:.3f}",
                    each["NIL of an entity"],
                ]
            )  # fmt: skip
    heads = [
        "taken out", "benchmark", "entities", "F1, required", "F1 of links", "NIL precision",
        "NIL recall", "NIL said of an entity",
    ]  # fmt: skip
    return table(heads, rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Markdown."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines) + "\n"
