"""The page of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.entity_linking.causes import LINK_CAUSES, SPAN_CAUSES
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.inputs.benchmarks import FILES, WITH_NIL
from experiments.entity_linking.spans import gate_table
from experiments.entity_linking.stages import (
    BASELINE,
    DETECTS,
    ROWS,
    SUPPLIED,
    SUPPLIED_TRAINED,
    TRAINED,
)
from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table, with_interval

RECALL_AIM, ACCURACY_AIM = 0.85, 0.15
COUNTS = ("required", "required, refused mentions left out", "ignored")
"""ELEVANT's two modes, and the first for a linker that keeps to itself what it calls NIL."""
Results = Mapping[str, Any]


def to_markdown(results: Results, study: LinkingStudy) -> str:
    """All tables."""
    sections = (
        f"Seed {study.seed}. Intervals: 95 %, bootstrap over documents, {study.n_resamples} "
        f"resamples. Graph {results['graph hash'][:12]}.\n"
    )
    parts = [
        sections,
        _world(results["world"]),
        "## Aims\n",
        _aims(results),
        *(_benchmark(results, name) for name in FILES),
        _published(results, study.published),
        "## Gates on text whose names are all marked (spans alone)\n",
        gate_table(results["gates"]).compact() + "\n",
        "## NIL on gold spans\n",
        _nils(results["NIL"]),
        "## Calibration\n",
        _calibration(results["calibration"]),
        "## The trained linker by type and popularity (gold spans, benchmarks together)\n",
        *(_bins(kind, bins) for kind, bins in results["bins"].items()),
        "## What still goes wrong (trained)\n",
        _causes("wrong on gold spans", results["causes"]["gold spans"], SPAN_CAUSES),
        _causes("end to end", results["causes"]["end to end"], LINK_CAUSES),
    ]
    return page_of("Entity linking on five benchmarks", "", *parts)


# ---- the world -------------------------------------------------------------
def _world(world: Results) -> str:
    lines = ["## The closed world\n"]
    lines.append(_sentence("Graph", world["graph"]))
    lines.append(_sentence("Surfaces counted in annotated text", world["counted surfaces"]))
    lines.append(_sentence("Annotated texts", world["annotated texts"]))
    left = "texts left out as they share words with a benchmark"
    lines.append(_sentence(left.capitalize(), world[left]))
    for name, documents in world["documents"].items():
        lines.append(_sentence(f"Documents, {name.replace('_', '-')}", documents))
    rows = [
        [
            name,
            documents["documents"],
            documents["mentions of entities"],
            documents["NIL"],
            f"{documents['in graph']:.3f}",
            ", ".join(f"{source} {n}" for source, n in documents["label taken from"].items()),
        ]
        for name, documents in world["gold"].items()
    ]
    heads = ("benchmark", "documents", "mentions", "NIL", "gold in graph", "its label is from")
    return "\n".join(lines) + "\n\n" + _table(heads, rows)


def _sentence(name: str, numbers: Mapping[str, Any]) -> str:
    return f"- {name}: {', '.join(f'{key} {value:,}' for key, value in numbers.items())}."


# ---- scores ----------------------------------------------------------------
def _benchmark(results: Results, name: str) -> str:
    rows = []
    for row in ROWS:
        spans = results["gold spans"][row][name]
        links = results["end to end"].get(row, {}).get(name)
        gain = spans.get("minus baseline")
        rows.append(
            [
                row,
                f"{spans['recall@5, all']['value']:.3f}",
                _with_interval(spans["recall@30, all"]),
                _with_interval(spans["accuracy, all"]),
                f"{gain['low']:+.3f} to {gain['high']:+.3f}" if gain else "",
                _with_interval(links["strong micro F1"]) if links else "",
            ]
        )
    heads = (
        "linker", "recall@5", "recall@30", "accuracy = recall@1", "minus the first row",
        "end-to-end F1",
    )  # fmt: skip
    n = results["gold spans"][BASELINE][name]["accuracy, all"]["n"]
    return f"## {name} ({n} mentions with an entity)\n\n" + _table(heads, rows)


def _aims(results: Results) -> str:
    rows = []
    for name in FILES:
        base = results["gold spans"][BASELINE][name]["accuracy, all"]["value"]
        ours = results["gold spans"][TRAINED][name]
        recall, accuracy = ours["recall@30, all"]["value"], ours["accuracy, all"]["value"]
        rows.append(
            [
                name,
                f"{recall:.3f}",
                "yes" if recall >= RECALL_AIM else "no",
                f"{base:.3f}",
                f"{accuracy:.3f}",
                f"{accuracy - base:+.3f}",
                "yes" if accuracy - base >= ACCURACY_AIM else "no",
            ]
        )
    heads = (
        "benchmark", "recall@30", "≥ .85", "accuracy, first row", "accuracy, trained",
        "difference", "≥ .15",
    )  # fmt: skip
    return _table(heads, rows)


def _published(results: Results, published: Mapping[str, Mapping[str, float]]) -> str:
    """Rows of one's own by both countings; published ones are ELEVANT's required mode."""
    of_row: list[list[str]] = []
    counted = results["as ELEVANT counts"]
    for row in DETECTS:
        scores = results["end to end"][row]
        gerbil = {b: each["strong micro F1"]["value"] for b, each in scores.items()}
        of_row.append([row, "as above (in-KB)", *_numbers(gerbil)])
        for kind in COUNTS if row in counted else ():
            values = {b: each[kind]["estimate"] for b, each in counted[row].items()}
            of_row.append([row, f"ELEVANT, {kind}", *_numbers(values)])
    rows = [[name, "ELEVANT, required", *_numbers(scores)] for name, scores in published.items()]
    missing = [row for row in DETECTS if row not in counted]
    note = f"\nNot yet counted as ELEVANT does: {', '.join(missing)}.\n" if missing else ""
    return (
        "## End-to-end F1 compared with other linkers\n\n"
        + _table(("linker", "counted", *FILES), [*of_row, *rows])
        + note
    )


def _numbers(scores: Mapping[str, float]) -> list[str]:
    return [f"{scores[b]:.3f}" if b in scores else "" for b in FILES]


def _nils(scores: Results) -> str:
    rows = [
        [
            row,
            *(
                f"{scores[row][b][f'NIL {kind}']['value']:.3f}"
                for b in WITH_NIL
                for kind in ("precision", "recall", "F1")
            ),
            *(f"{scores[row][b]['accuracy, all']['value']:.3f}" for b in WITH_NIL),
        ]
        for row in scores
    ]
    heads = [f"{b} {kind}" for b in WITH_NIL for kind in ("precision", "recall", "F1")]
    return _table(["linker", *heads, *(f"{b} accuracy, NIL allowed" for b in WITH_NIL)], rows)


def _calibration(calibrated: Results) -> str:
    rows = []
    for row, scores in calibrated.items():
        cells = [
            f"{side[0][kind]:.3f} → {side[1][kind]:.3f}"
            for side in (scores["held-out text"], scores["benchmarks"])
            for kind in ("ece_width", "brier")
        ]
        rows.append([row, *cells])
    heads = (
        "linker", "ECE, held-out text", "Brier, held-out text", "ECE, benchmarks",
        "Brier, benchmarks",
    )  # fmt: skip
    pictures = "".join(
        f"![{name}](reliability-{name}.png)\n" for name in ("held-out", "benchmarks")
    )
    return _table(heads, rows) + "\n" + pictures


def _bins(kind: str, scores: Results) -> str:
    rows = [
        [name, score["mentions"], f"{score['accuracy']:.3f}", f"{score['recall@30']:.3f}"]
        for name, score in scores.items()
    ]
    return _table((kind, "mentions", "accuracy", "recall@30"), rows)


def _causes(title: str, counts: Mapping[str, Mapping[str, int]], causes: Sequence[str]) -> str:
    names = list(counts)
    rows = [
        [cause, *(counts[name].get(cause, 0) for name in names)]
        for cause in causes
        if any(counts[name].get(cause, 0) for name in names)
    ]
    totals = ["all", *(sum(counts[name].values()) for name in names)]
    return _table((title, *names), [*rows, totals])


def printed(results: Results) -> str:
    """A line for each row: what a person wants to see first."""
    lines = []
    for row in ROWS:
        cells = []
        for name in FILES:
            spans = results["gold spans"][row][name]
            numbers = (spans[f"{key}, all"]["value"] for key in ("recall@30", "accuracy"))
            cells.append("/".join(f"{value:.3f}" for value in numbers))
        star = " (saw these texts)" if row in (SUPPLIED, SUPPLIED_TRAINED) else ""
        lines.append(f"{row:28s} {'  '.join(cells)}{star}")
    trained = results["calibration"][TRAINED]
    for side, (before, after) in trained.items():
        lines.append(
            f"ECE {side}: {before['ece_width']:.4f} before, {after['ece_width']:.4f} after"
        )
    return "\n".join(lines)


def _with_interval(score: Results) -> str:
    return with_interval({"estimate": score["value"], **score["interval"]})


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return Table(heads, list(rows)).compact() + "\n"
