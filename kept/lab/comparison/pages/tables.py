"""A comparison of an experiment's runs as cells, Markdown and JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec

from kept.evaluation.crossed import Effect
from kept.evaluation.statistics import Interval
from kept.graphs.coverage import COLUMN, cell
from kept.lab.comparison.compared import Compared, ComparedRow, Gain, other_side
from kept.lab.comparison.experiment import Plan
from kept.lab.comparison.pages.headline import headline
from kept.lab.comparison.tuning import RATES
from kept.methods import BASELINE

SCORES = ("method", "knowledge", "score", "95 % interval", "seeds", "n", COLUMN)
SHARES = (
    "method", "knowledge", "accuracy", "micro P", "R", "F1", "macro P", "R", "F1",
    "95 % interval of the score", COLUMN,
)  # fmt: skip
PAIRS = (
    "method", "against", "difference", "95 % interval", "p", "p (Holm)", "ruled out beyond",
    "not visible below", "verdict", COLUMN,
)  # fmt: skip
PRIMARY = (
    "method", "with a fact", "without", "difference", "95 % interval", "p", "p (Holm)",
    "ruled out beyond", "not visible below", "named", "verdict",
)  # fmt: skip
GAINS = ("method", "against", "slice", "n", "gain", "95 % interval", "p")
VERDICTS = ("method", "score", "against none", "verdict", COLUMN)
COSTS = (
    "method", "knowledge", "parameters added", "trained", "steps", "mentions in the graph",
    "with facts", "ms a sentence", "seconds", COLUMN,
)  # fmt: skip
COVERAGE = (
    "Beside each row: in how many evaluated samples a link leads to an entity of its graph, "
    "such an entity has a fact, both ends of the question have one, and the method reads anything "
    "of the graph at all; a score moves by no more than the last."
)
SLICES = (
    "Slices are of the evaluation split, the same for every method. A fact can help only where "
    "there is one: a gain without a fact is a placebo. Intervals and p are not corrected."
)
PUBLISHED = ("system", "metric", "value", "where it stands")


def score_cells(compared: Compared) -> list[list[str]]:
    """The scores; the majority's answer first."""
    base = compared.baseline
    first = [] if base is None else [["majority", "—", f"{base:.3f}", "", "", "", ""]]
    return first + [
        [
            compared.experiment.title(row.method),
            f"{row.knowledge}: the same model as none" if is_copy(row) else row.knowledge,
            f"{row.score.estimate:.3f}",
            _interval(row.score),
            ", ".join(f"{score:.3f}" for score in row.seeds),
            str(row.n) if row.n == row.n_asked else f"{row.n} of {row.n_asked}",
            cell(compared.coverage(row.method, row.knowledge)),
        ]
        for row in compared.rows
    ]


def share_cells(compared: Compared) -> list[list[str]]:
    """Accuracy, precision, recall and F1, means over seeds, of every model that is not none's."""
    split, paths = compared.experiment.asked, [("accuracy", "estimate")]
    paths += [(name, part) for name in ("micro", "macro") for part in ("precision", "recall", "f1")]
    return [
        [
            compared.experiment.title(row.method),
            row.knowledge,
            *(
                f"{fmean(r.scores[split][a][b] for r in row.records):.3f}"
                if a in row.record.scores[split]  # tagging has no macro scores
                else ""
                for a, b in paths
            ),
            _interval(row.score),
            cell(compared.coverage(row.method, row.knowledge)),
        ]
        for row in compared.rows
        if not is_copy(row)
    ]


def pair_cells(compared: Compared) -> list[list[str]]:
    """Each method with true knowledge minus none and minus its own controls."""
    return [
        [
            pair.title,
            pair.against,
            *_signed(pair.effect),
            f"{pair.effect.p:.4f}",
            f"{pair.holm:.4f}",
            *_bounds(pair.effect),
            pair.in_words,
            cell(compared.coverage(pair.method)),
        ]
        for pair in compared.pairs
    ]


def verdict_cells(compared: Compared) -> list[list[str]]:
    """One line per method: the conclusion from all its pairs."""
    base = {p.method: p.effect for p in compared.pairs if p.theirs[0] == BASELINE}
    return [
        [
            compared.experiment.title(row.method),
            f"{row.score.estimate:.3f}",
            f"{base[row.method].estimate:+.3f}" if row.method in base else "",
            compared.conclusion(row.method),
            cell(compared.coverage(row.method)),
        ]
        for row in compared.rows
        if row.knowledge == "true"
    ]


def primary_cells(compared: Compared) -> list[list[str]]:
    """The contrast that the experiment's file names, one line per method."""
    return [
        [
            result.title,
            _gain_cell(result.on),
            _gain_cell(result.against),
            *_signed(result.effect),
            f"{result.effect.p:.4f}",
            f"{result.holm:.4f}",
            *_bounds(result.effect),
            "before the runs" if result.before else "after runs were made",
            result.word,
        ]
        for result in compared.primary
    ]


def gain_cells(compared: Compared, kind: str) -> list[list[str]]:
    """What true knowledge gains on each slice of a kind."""
    return [
        [
            compared.experiment.title(gain.method),
            other_side(compared.experiment, (gain.method, "true"), gain.theirs),
            gain.name,
            str(gain.n),
            *(("", "", "") if gain.effect is None else _tested(gain.effect)),
        ]
        for gain in compared.gains
        if gain.kind == kind
    ]


def slice_kinds(compared: Compared) -> list[str]:
    """Kinds of slices that there are gains on, what the graph says first."""
    return list(dict.fromkeys(gain.kind for gain in compared.gains))


def cost_cells(compared: Compared) -> list[list[str]]:
    """Costs of each arm's first seed."""
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
        if not is_copy(row)
        for costs in (row.record.costs,)
    ]


def to_markdown(compared: Compared, command: str) -> str:
    """The committed page: conditions, verdicts, scores, pairs, costs, published numbers."""
    experiment = compared.experiment
    parts = [
        f"# {experiment.name}\n\n`{command}`\n",
        conditions(compared) + "\n",
        *([f"**Not finished:** {'; '.join(compared.missing)}.\n"] if compared.missing else []),
        f"## Verdict\n\n**{headline(compared)}**\n\n"
        + markdown(VERDICTS, verdict_cells(compared))
        + _cautions(compared),
        *([_primary(compared)] if compared.primary else []),
        *([_rates(compared)] if compared.rates else []),
        "## Scores\n\n" + markdown(SCORES, score_cells(compared)),
        "## Shares, means over seeds\n\n" + markdown(SHARES, share_cells(compared)),
        "## Differences, true knowledge minus the other\n\n"
        + markdown(PAIRS, pair_cells(compared)),
        "## Where the gain lies\n\n"
        + SLICES
        + "\n\n"
        + "\n".join(
            f"### By {kind}\n\n" + markdown(GAINS, gain_cells(compared, kind))
            for kind in slice_kinds(compared)
        ),
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
        f"Score: {experiment.metric} on {experiment.asked}.{_cut_off(compared)} A score is "
        "the mean over seeds. Intervals and p are over seeds and over groups of items (one text, "
        "or the same two entities), both drawn: they hold for other seeds and other items; of one "
        f"seed, for other items alone. {_regrouped(compared)}{_precisions(compared)}"
        "No graph holds a triple between two entities of an evaluated pair. "
        f"{_continued_pretraining(compared)} {COVERAGE} A verdict is at 5 %, p with Holm's "
        "correction; *ruled out*: two one-sided tests at 5 %; *not visible*: found in fewer than "
        "four of five such comparisons, at 5 % without correction."
    )


def _precisions(compared: Compared) -> str:
    """A sentence where runs of one table were computed in different precisions."""
    costs = [record.costs for row in compared.rows for record in row.records]
    counts = Counter(str(cost["precision"]) for cost in costs if "precision" in cost)
    if len(counts) < 2:
        return ""
    parts = ", ".join(f"{n} in {name}" for name, n in sorted(counts.items()))
    return f"The machines chose different precisions for runs of this table: {parts}. "


def _rates(compared: Compared) -> str:
    return (
        "## Learning rates\n\nChosen by each row on a share of the training set that no table "
        "reports, as many trials for every row, on the mean of all its kinds of knowledge.\n\n"
        + markdown(RATES, compared.rates)
    )


def _cautions(compared: Compared) -> str:
    lines = [f"**Low coverage:** {line}" for line in compared.cautions]
    lines += [f"**Below a baseline:** {line}" for line in compared.shortfalls]
    return "".join(f"\n{line}.\n" for line in lines)


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


def _continued_pretraining(compared: Compared) -> str:
    """Continued pre-training in words; the number of texts is that read, not that requested."""
    stage = compared.experiment.pretraining
    if stage is None:
        return "No continued pre-training."
    n_texts = [n for row in compared.rows for r in row.records if (n := r.costs.get("n_texts"))]
    n_read = f"{n_texts[0]:,} " if n_texts else ""
    more = "" if n_texts and n_texts[0] == stage.n_texts else f"; {stage.n_texts:,} were requested"
    return (
        f"Every method first reads the same {n_read}linked sentences ({stage.text}{more}), for "
        "the same steps; seeds of the task share that training."
    )


def to_json(compared: Compared) -> dict[str, Any]:
    """Everything as JSON values, verdicts written out."""
    return {
        "experiment": compared.experiment.model_dump(mode="json"),
        "rows": msgspec.to_builtins(list(compared.rows)),
        "pairs": [
            msgspec.to_builtins(p) | _numbers(p.effect) | {"verdict": p.in_words}
            for p in compared.pairs
        ],
        "primary": [
            msgspec.to_builtins(r) | _numbers(r.effect) | {"verdict": r.in_words}
            for r in compared.primary
        ],
        "gains": msgspec.to_builtins(list(compared.gains)),
        "coverage": {
            f"{row.method}, knowledge {row.knowledge}": compared.coverage(row.method, row.knowledge)
            for row in compared.rows
        },
        "verdicts": {
            row.method: compared.conclusion(row.method)
            for row in compared.rows
            if row.knowledge == "true"
        },
        "rates": [dict(zip(RATES, cells, strict=True)) for cells in compared.rates],
        "missing": list(compared.missing),
        "left_out": dict(compared.left_out),
    }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _published(experiment: Plan) -> str:
    differs = f"What differs: {experiment.differs.strip()}\n" if experiment.differs else ""
    rows = published_cells(experiment)
    notes = "".join(f"- {note.strip()}\n" for note in experiment.notes)
    table = markdown(PUBLISHED, rows) if rows else ""
    return "\n".join(part for part in (table, differs, notes) if part)


def published_cells(experiment: Plan) -> list[list[str]]:
    """Published numbers."""
    return [[p.system, p.metric, f"{p.value:g}", p.where] for p in experiment.published]


def _mentions(costs: dict[str, Any]) -> tuple[str, str]:
    """Evaluated mentions that brought an entity to the method; none where it reads no graph."""
    if not costs["reads_graph"]:
        return "reads none", "reads none"
    inside = f"{costs['mentions_in_graph']} of {costs['mentions']}"
    return inside, str(costs["mentions_with_facts"])


def _primary(compared: Compared) -> str:
    return "## Primary contrast\n\n" + markdown(PRIMARY, primary_cells(compared))


def _numbers(effect: Effect) -> dict[str, Any]:
    """An effect as JSON values."""
    return {
        "interval": msgspec.to_builtins(effect.interval()),
        "p": effect.p,
        "ruled_out": effect.ruled_out,
        "visible": effect.visible(),
    }


def _signed(effect: Effect) -> tuple[str, str]:
    interval = effect.interval()
    return f"{effect.estimate:+.3f}", f"{interval.low:+.3f} to {interval.high:+.3f}"


def _tested(effect: Effect) -> tuple[str, str, str]:
    return *_signed(effect), f"{effect.p:.4f}"


def _bounds(effect: Effect) -> tuple[str, str]:
    if effect.of_seeds is None:
        return "one seed", "one seed"
    return f"±{effect.ruled_out:.3f}", f"{effect.visible():.3f}"


def _gain_cell(gain: Gain) -> str:
    return f"{'' if gain.effect is None else f'{gain.effect.estimate:+.3f} '}({gain.n})"


def is_copy(row: ComparedRow) -> bool:
    """Whether a row is another row's model: a method that reads nothing is none."""
    return "same_as" in row.record.costs


def _interval(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"
