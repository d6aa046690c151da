"""How sure links are and how often right, on each benchmark and at its worst; rows without vectors.

    KEPT_DATA=… python -m experiments.entity_linking.end_to_end.confidence \
        experiments/entity_linking/end_to_end/end_to_end.yaml -o runs/el

RUN may be that of the study, whose world and re-ranker are taken; alone it takes four minutes of a
processor. Writes confidence.json and confidence.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_linking.calibration.other_kinds import above_linked
from entity_linking.calibration.reliability import calibration_score
from entity_linking.decision import Decision
from entity_linking.mentions import LinkedText
from entity_linking.scoring.elevant import LabelledText
from experiments.command import data_root, run_study
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.end_to_end.parts import TRAINED, EndToEndStudy, world_file
from experiments.entity_linking.end_to_end.rows import EndToEndTrial, link_excerpts
from experiments.entity_linking.end_to_end.tables import table
from experiments.entity_linking.inputs.benchmarks import CHOSEN_ON, FILES
from experiments.entity_linking.scores import Results
from experiments.entity_linking.stages import LinkingStages
from experiments.entity_linking.trial import timed

PRIOR_ROW = "names + prior"
ROWS = (
    PRIOR_ROW,
    f"{TRAINED}, likeliest",
    f"{TRAINED}, likeliest, pronouns",
    f"{TRAINED}, tagger, likeliest",
)
BAR = "ELEVANT prior baseline"
AIM = 0.06
"""Highest ECE at marked mentions that is aimed at, on each benchmark."""


def score_all(trial: EndToEndTrial, names: Sequence[str] = tuple(FILES)) -> Results:
    """Scores by row and benchmark, and what the kinds of text are like."""
    kinds = dict(trial.other_kinds(TRAINED))
    kinds |= {name: trial.answers_on(TRAINED, name) for name in names}
    return {
        "rows": {row: {name: scores_on(trial, row, name) for name in names} for row in ROWS},
        "kinds": {
            kind: {"linked": of_kind.linked, "right": of_kind.right, "links": len(of_kind.links)}
            for kind, of_kind in kinds.items()
        },
        "above": above_linked(
            {kind: kinds[kind] for kind in kinds if kind not in _held_out(names)}
        ),
    }


def scores_on(trial: EndToEndTrial, row: str, name: str) -> Results:
    """F1, recall of spans, NIL and calibration of a row on one benchmark."""
    gold, linked = trial.stages.labelled(name), trial.linked(row, name)
    required = trial.scores(gold, linked, "required")
    n_nil, nil_precision = nil_scores(gold, linked)
    scorer, pronouns = trial.chosen(row)[0].on(name)
    everywhere = trial.linker(scorer, trial.chosen(row)[1], pronouns=pronouns)
    before = link_excerpts(everywhere, trial.stages.articles[name])
    return {
        "required F1": required["estimate"], "low": required["low"], "high": required["high"],
        "precision": required["precision"], "recall": required["recall"],
        "spans found": spans_found(trial, row, name),
        "NIL": n_nil, "NIL precision": nil_precision,
        "confidence": calibration_of(trial.stages.gold(name), linked),
        "one curve": calibration_of(trial.stages.gold(name), before),
        "all links": calibration_of(trial.stages.gold(name), linked, marked=False),
    }  # fmt: skip


def spans_found(trial: EndToEndTrial, row: str, name: str) -> float:
    """Share of the labels that are to be found at which the row finds a span, linked or not."""
    scorer, pronouns = trial.chosen(row)[0].on(name)
    linker = trial.linker(scorer, Decision(nil_score=0.0, nil_from=0.0), pronouns=pronouns)
    linked_texts = link_excerpts(linker, trial.stages.articles[name])
    n_right = n_gold = 0
    for text, ours in zip(trial.stages.labelled(name), linked_texts, strict=True):
        needed = {k.span for k in text.labels if not k.is_optional and k.parent is None}
        n_gold += len(needed)
        n_right += len(needed & {(link.start, link.end) for link in ours.links})
    return n_right / max(n_gold, 1)


def nil_scores(
    gold: Sequence[LabelledText], linked: Sequence[LinkedText]
) -> tuple[int, float | None]:
    """How many names are called NIL, and the share of them that gold marks and calls NIL too."""
    n_nil = n_right = 0
    for text, ours in zip(gold, linked, strict=True):
        nil = {k.span for k in text.labels if not k.is_optional and k.entity is None}
        spans = [(link.start, link.end) for link in ours.links if link.entity is None]
        n_nil += len(spans)
        n_right += sum(span in nil for span in spans)
    return n_nil, n_right / n_nil if n_nil else None


def calibration_of(
    gold: Sequence[LinkedText], linked: Sequence[LinkedText], *, marked: bool = True
) -> Results:
    """Confidence, share right and ECE of links, `marked`: where gold marks the mention."""
    pairs = []
    for expected, ours in zip(gold, linked, strict=True):
        gold_entities = {link.mention: link.entity for link in expected.links}
        pairs += [
            (link.confidence, gold_entities.get(link.mention) == link.entity)
            for link in ours.links
            if link.entity is not None and (link.mention in gold_entities or not marked)
        ]
    if not pairs:
        return {"links": 0}
    sure, right = np.array(pairs, np.float64).T
    score = calibration_score(sure, right)
    return {
        "links": score.n, "sure": score.confidence, "right": score.accuracy,
        "ECE": score.ece_width, "Brier": score.brier,
    }  # fmt: skip


def _held_out(names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in CHOSEN_ON]


def to_markdown(results: Results, published: dict[str, dict[str, float]]) -> str:
    """The page."""
    names = list(next(iter(results["rows"].values())))
    heads = ["row", *(f"{name}, held out" * (name in _held_out(names)) or name for name in names)]
    parts = ["# Confidence of links, on each benchmark\n", _short(results, published[BAR])]
    for what, key in (
        ("Required F1", "required F1"), ("Precision", "precision"), ("Recall", "recall"),
        ("Spans found, linked or not", "spans found"), ("NIL precision", "NIL precision"),
    ):  # fmt: skip
        rows = [
            [row, *(_number(of_row[name][key]) for name in names), _worst(of_row, key, best=False)]
            for row, of_row in results["rows"].items()
        ]
        if key == "required F1":
            rows.append([BAR, *(f"{published[BAR][name]:.3f}" for name in names), ""])
        parts.append(f"## {what}\n\n{table([*heads, 'worst'], rows)}")
    for what, key in (
        ("ECE at marked mentions", "confidence"),
        ("The same with one curve everywhere", "one curve"),
        ("ECE of all links, where gold marks nothing too", "all links"),
    ):  # fmt: skip
        rows = [
            [row, *(_calibration(of_row[name][key]) for name in names), _worst(of_row, key)]
            for row, of_row in results["rows"].items()
        ]
        parts.append(f"## {what} (confidence, share right)\n\n{table([*heads, 'worst'], rows)}")
    rows = [
        [
            kind,
            f"{of_kind['linked']:.3f}",
            f"{of_kind['right']:.3f}",
            f"{of_kind['right'] - of_kind['linked']:+.3f}",
        ]
        for kind, of_kind in results["kinds"].items()
    ]
    kinds = table(["kind of text", "names linked", "links right", "difference"], rows)
    return "\n".join([*parts, f"## Kinds of text, each left out (`{TRAINED}`)\n\n{kinds}"])


def _short(results: Results, bar: dict[str, float]) -> str:
    """What falls short, first."""
    lines = []
    for row, of_row in results["rows"].items():
        below = [name for name, each in of_row.items() if each["required F1"] <= bar[name]]
        above = [name for name, each in of_row.items() if each["confidence"].get("ECE", 0) > AIM]
        f1 = f"not above {BAR} on {', '.join(below)}" if below else f"above {BAR} on all"
        ece = f"above {AIM} on {', '.join(above)}" if above else f"at most {AIM} on all"
        lines.append(f"- `{row}`: F1 is {f1}. ECE is {ece}.")
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _calibration(of_links: Results) -> str:
    if not of_links["links"]:
        return "no links"
    return f"{of_links['ECE']:.3f} ({of_links['sure']:.3f}, {of_links['right']:.3f})"


def _worst(of_row: Results, key: str, *, best: bool = True) -> str:
    """The worst benchmark's value: the highest error, else the lowest score."""
    values = [each[key] for each in of_row.values() if each[key] is not None]
    numbers = [value.get("ECE", 0.0) if best else value for value in values]
    return f"{(max if best else min)(numbers):.3f}" if numbers else ""


def run(plan: EndToEndStudy, arguments: argparse.Namespace) -> tuple[str, Any]:
    """Return the page and its values."""
    study = LinkingStudy.read(world_file(plan, arguments.config))
    stages = LinkingStages(data_root(), study, arguments.out, timed)
    results = score_all(EndToEndTrial(stages, plan))
    return to_markdown(results, study.published), results


if __name__ == "__main__":
    run_study(__doc__, EndToEndStudy, run, name="confidence")
