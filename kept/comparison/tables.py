"""A comparison of an experiment's runs as cells, Markdown and JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec

from kept.comparison.compare import Compared, ComparedRow
from kept.comparison.experiment import Experiment
from kept.evaluation.statistics import Interval
from kept.graphs.coverage import COLUMN, cell

SCORES = (
    "method", "knowledge", "score", "95 % interval", "seeds", "mean over seeds", "n", COLUMN,
)  # fmt: skip
SHARES = (
    "method", "knowledge", "accuracy", "micro P", "R", "F1", "macro P", "R", "F1",
    "95 % interval of the score", COLUMN,
)  # fmt: skip
PAIRS = ("method", "against", "difference", "95 % interval", "p", "p (Holm)", "verdict", COLUMN)
VERDICTS = ("method", "score", "against none", "verdict", COLUMN)
COSTS = (
    "method", "knowledge", "parameters added", "trained", "steps", "mentions in the graph",
    "with facts", "ms a sentence", "seconds", COLUMN,
)  # fmt: skip
COVERAGE = (
    "Beside each row: in how many of the asked samples a link leads to an entity of its graph, "
    "such an entity has a fact, both ends of the question have one, and the method reads anything "
    "of the graph at all; a score moves by no more than the last."
)
PUBLISHED = ("system", "metric", "value", "where it stands")


def score_cells(compared: Compared) -> list[list[str]]:
    """The scores; the majority's answer first."""
    base = compared.baseline
    first = [] if base is None else [["majority", "—", f"{base:.3f}", "", "", "", "", ""]]
    return first + [
        [
            compared.experiment.title(row.method),
            f"{row.knowledge}: the same model as none" if _is_copy(row) else row.knowledge,
            f"{row.pooled.estimate:.3f}",
            _interval(row.pooled),
            ", ".join(f"{score:.3f}" for score in row.seeds),
            ""
            if row.over_seeds is None
            else f"{row.over_seeds.estimate:.3f} ({_interval(row.over_seeds)})",
            str(row.n) if row.n == row.n_asked else f"{row.n} of {row.n_asked}",
            cell(compared.coverage(row.method, row.knowledge)),
        ]
        for row in compared.rows
    ]


def share_cells(compared: Compared) -> list[list[str]]:
    """Accuracy, precision, recall and F1, means over seeds, of every model that is not none's."""
    asked, paths = compared.experiment.asked, [("accuracy", "estimate")]
    paths += [(name, part) for name in ("micro", "macro") for part in ("precision", "recall", "f1")]
    return [
        [
            compared.experiment.title(row.method),
            row.knowledge,
            *(
                f"{fmean(r.scores[asked][a][b] for r in row.records):.3f}"
                if a in row.record.scores[asked]  # tagging has no macro scores
                else ""
                for a, b in paths
            ),
            _interval(row.pooled),
            cell(compared.coverage(row.method, row.knowledge)),
        ]
        for row in compared.rows
        if not _is_copy(row)
    ]


def pair_cells(compared: Compared) -> list[list[str]]:
    """Each method with true knowledge minus none and minus its own controls."""
    return [
        [
            pair.title,
            pair.theirs[0] if pair.theirs[0] != pair.method else f"knowledge {pair.theirs[1]}",
            f"{pair.difference.estimate:+.3f}",
            f"{pair.difference.low:+.3f} to {pair.difference.high:+.3f}",
            f"{pair.p:.4f}",
            f"{pair.holm:.4f}",
            pair.in_words,
            cell(compared.coverage(pair.method)),
        ]
        for pair in compared.pairs
    ]


def verdict_cells(compared: Compared) -> list[list[str]]:
    """A line a method: what all its pairs say together."""
    base = {p.method: p.difference for p in compared.pairs if p.theirs[0] != p.method}
    return [
        [
            compared.experiment.title(row.method),
            f"{row.pooled.estimate:.3f}",
            f"{base[row.method].estimate:+.3f}" if row.method in base else "",
            compared.conclusion(row.method),
            cell(compared.coverage(row.method)),
        ]
        for row in compared.rows
        if row.knowledge == "true"
    ]


def cost_cells(compared: Compared) -> list[list[str]]:
    """What a run of each arm took; of its first seed."""
    return [
        [
            compared.experiment.title(row.method),
            row.knowledge,
            f"{costs['added']:,}",
            f"{costs['trained']:,}",
            str(costs["steps"]),
            *_mentions(costs),
            f"{costs['milliseconds_a_sentence']:.1f}",
            f"{costs['seconds']:.0f}",
            cell(compared.coverage(row.method, row.knowledge)),
        ]
        for row in compared.rows
        if not _is_copy(row)
        for costs in (row.record.costs,)
    ]


def to_markdown(compared: Compared, command: str) -> str:
    """The committed page: conditions, verdicts, scores, pairs, costs, published numbers."""
    experiment = compared.experiment
    parts = [
        f"# {experiment.name}\n\n`{command}`\n",
        conditions(compared) + "\n",
        *([f"**Not finished:** {'; '.join(compared.missing)}.\n"] if compared.missing else []),
        "## Verdict\n\n" + markdown(VERDICTS, verdict_cells(compared)) + _cautions(compared),
        "## Scores\n\n" + markdown(SCORES, score_cells(compared)),
        "## Shares, means over seeds\n\n" + markdown(SHARES, share_cells(compared)),
        "## Differences, true knowledge minus the other\n\n"
        + markdown(PAIRS, pair_cells(compared)),
        "## Costs\n\n" + markdown(COSTS, cost_cells(compared)),
        "## Published\n\n" + _published(experiment),
    ]
    if compared.left_out:
        lines = "\n".join(f"- {name}: {why}" for name, why in compared.left_out.items())
        parts.insert(-1, f"## Left out\n\n{lines}\n")
    return "\n".join(parts)


def conditions(compared: Compared) -> str:
    """What a score here means, in one paragraph."""
    experiment = compared.experiment
    return (
        f"Score: {experiment.metric} on {experiment.asked}.{_cut_off(compared)} Intervals: "
        "bootstrap over groups of items (one text, or the same two entities), answers of all seeds "
        "pooled; p: randomisation over groups; both hold for these seeds. The mean over seeds has "
        f"Student's interval. {_regrouped(compared)}"
        "No graph holds a triple between two entities that dev or test ask about. "
        f"{_first_stage(compared)} {COVERAGE} A verdict needs interval and test at 5 %, p with "
        "Holm's correction."
    )


def _cautions(compared: Compared) -> str:
    return "".join(f"\n**Low coverage:** {line}.\n" for line in compared.cautions)


def _cut_off(compared: Compared) -> str:
    n = max((row.n_asked - row.n for row in compared.rows), default=0)
    if not n:
        return ""
    counts = "count as wrong" if compared.experiment.metric == "official" else "are not counted"
    return f" {n} items whose targets were cut off with their texts {counts}."


def _regrouped(compared: Compared) -> str:
    if not compared.n_regrouped:
        return ""
    return (
        f"{compared.n_regrouped} of the runs were stored with other groups, in which one text "
        "asked twice could be two: they are grouped anew here, intervals in their own files are "
        "not. "
    )


def _first_stage(compared: Compared) -> str:
    """What every method read before the task: as many texts as there were, not as were asked."""
    stage = compared.experiment.pretraining
    if stage is None:
        return "No first stage."
    told = [n for row in compared.rows for r in row.records if (n := r.costs.get("n_texts"))]
    n_read = f"{told[0]:,} " if told else ""
    more = "" if told and told[0] == stage.n_texts else f"; {stage.n_texts:,} were asked for"
    return (
        f"Every method first reads the same {n_read}linked sentences ({stage.text}{more}), for "
        "the same steps; seeds of the task share that stage."
    )


def to_json(compared: Compared) -> dict[str, Any]:
    """Everything as JSON values, verdicts written out."""
    return {
        "experiment": compared.experiment.model_dump(mode="json"),
        "rows": msgspec.to_builtins(list(compared.rows)),
        "pairs": [msgspec.to_builtins(p) | {"verdict": p.in_words} for p in compared.pairs],
        "coverage": {
            f"{row.method}, knowledge {row.knowledge}": compared.coverage(row.method, row.knowledge)
            for row in compared.rows
        },
        "verdicts": {
            row.method: compared.conclusion(row.method)
            for row in compared.rows
            if row.knowledge == "true"
        },
        "missing": list(compared.missing),
        "left_out": dict(compared.left_out),
    }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _published(experiment: Experiment) -> str:
    differs = f"What differs: {experiment.differs.strip()}\n" if experiment.differs else ""
    rows = published_cells(experiment)
    notes = "".join(f"- {note.strip()}\n" for note in experiment.notes)
    table = markdown(PUBLISHED, rows) if rows else ""
    return "\n".join(part for part in (table, differs, notes) if part)


def published_cells(experiment: Experiment) -> list[list[str]]:
    """Numbers of the literature."""
    return [[p.system, p.metric, f"{p.value:g}", p.where] for p in experiment.published]


def _mentions(costs: dict[str, Any]) -> tuple[str, str]:
    """Asked mentions that brought an entity to the method; none where it reads no graph then."""
    if not costs["reads_graph"]:
        return "reads none", "reads none"
    inside = f"{costs['mentions_in_graph']} of {costs['mentions']}"
    return inside, str(costs["mentions_with_facts"])


def _is_copy(row: ComparedRow) -> bool:
    return "same_as" in row.record.costs


def _interval(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"
