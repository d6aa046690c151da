"""A comparison of runs as tables, Markdown, LaTeX and JSON values."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import Any

import msgspec

from kept.evaluation.crossed import Effect
from kept.graphs.coverage import COLUMN, cell
from kept.lab.study.design import Plan
from kept.lab.study.tables import MARK, Table, limits_of, number, one_line
from kept.lab.study.verdicts import Compared, ComparedRow, Gain, headline, other_side
from kept.methods import BASELINE

RATES = (
    "method", "knowledge", "rate chosen", "trials", "score", "at the common rate", "difference",
)  # fmt: skip
COVERAGE = (
    "Four shares of the evaluated samples are given for each row. They say where a link leads to "
    "an entity of its graph, where such an entity has a fact, and where both ends of the question"
    " have one. The last says where anything of the graph is shown to the method, used or not; a "
    "score changes by no more than that."
)
SLICES = (
    "Slices are of the evaluation split, the same for every method. A fact can help only where "
    "there is one: a gain without a fact is a placebo. Intervals and p are not corrected."
)


def score_table(compared: Compared) -> Table:
    """Return the scores; the majority's answer first."""
    base = compared.baseline
    rows = [] if base is None else [["majority", "—", f"{base:.3f}", "", "", "", ""]]
    for row in compared.rows:
        kind = f"{row.knowledge}: the same model as none" if is_copy(row) else row.knowledge
        rows.append(
            [
                compared.experiment.title(row.method),
                kind,
                number(row.score.estimate),
                limits_of(row.score),
                ", ".join(map(number, row.seeds)),
                str(row.n) if row.n == row.n_asked else f"{row.n} of {row.n_asked}",
                cell(compared.coverage(row.method, row.knowledge)),
            ]
        )
    columns = "method", "knowledge", "score", "95 % interval", "seeds", "n", COLUMN
    return Table(columns, rows, "Scores", "scores")


def share_table(compared: Compared) -> Table:
    """Return accuracy, precision, recall and F1, means over seeds, of each model but none's."""
    split, paths = compared.experiment.asked, [("accuracy", "estimate")]
    paths += [(name, part) for name in ("micro", "macro") for part in ("precision", "recall", "f1")]
    rows = []
    for row in compared.rows:
        if is_copy(row):
            continue
        shares = [
            number(fmean(r.scores[split][a][b] for r in row.records))
            if a in row.record.scores[split]  # tagging has no macro scores
            else ""
            for a, b in paths
        ]
        coverage = cell(compared.coverage(row.method, row.knowledge))
        title = compared.experiment.title(row.method)
        rows.append([title, row.knowledge, *shares, limits_of(row.score), coverage])
    columns = (
        "method", "knowledge", "accuracy", "micro P", "R", "F1", "macro P", "R", "F1",
        "95 % interval of the score", COLUMN,
    )  # fmt: skip
    return Table(columns, rows, "Shares, means over seeds", "shares")


def pair_table(compared: Compared) -> Table:
    """Return each method with true knowledge minus none and minus its own controls."""
    rows = [
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
    columns = (
        "method", "against", "difference", "95 % interval", "p", "p (Holm)", "ruled out beyond",
        "not visible below", "verdict", COLUMN,
    )  # fmt: skip
    return Table(columns, rows, "True knowledge minus the other", "pairs")


def verdict_table(compared: Compared) -> Table:
    """Return one line per method: the conclusion from all its pairs."""
    base = {p.method: p.effect for p in compared.pairs if p.theirs[0] == BASELINE}
    rows = [
        [
            compared.experiment.title(row.method),
            number(row.score.estimate),
            number(base[row.method].estimate, "+") if row.method in base else "",
            compared.conclusion(row.method),
            cell(compared.coverage(row.method)),
        ]
        for row in compared.rows
        if row.knowledge == "true"
    ]
    columns = "method", "score", "against none", "verdict", COLUMN
    return Table(columns, rows, "True knowledge", "verdicts")


def primary_table(compared: Compared) -> Table:
    """Return the contrast that the experiment's file names, one line per method."""
    rows = [
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
    columns = (
        "method", "with a fact", "without", "difference", "95 % interval", "p", "p (Holm)",
        "ruled out beyond", "not visible below", "named", "verdict",
    )  # fmt: skip
    return Table(columns, rows, "The contrast that the file names", "primary")


def gain_table(compared: Compared, kind: str) -> Table:
    """Return what true knowledge gains on each slice of a kind."""
    rows = [
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
    columns = "method", "against", "slice", "n", "gain", "95 % interval", "p"
    return Table(columns, rows, f"By {kind}", "gains")


def slice_kinds(compared: Compared) -> list[str]:
    """Return the kinds of slices that there are gains on, what the graph says first."""
    return list(dict.fromkeys(gain.kind for gain in compared.gains))


def cost_table(compared: Compared) -> Table:
    """Return the costs of each arm's first seed."""
    rows = [
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
    columns = (
        "method", "knowledge", "parameters added", "trained", "steps", "mentions in the graph",
        "with facts", "ms a sentence", "seconds", COLUMN,
    )  # fmt: skip
    return Table(columns, rows, "One run of each arm", "costs")


def rate_table(compared: Compared) -> Table:
    """Return the learning rate that each row chose, where rows chose their own."""
    return Table(RATES, compared.rates, "Chosen by each row", "rates")


def published_table(experiment: Plan) -> Table:
    """Return the published numbers."""
    rows = [[p.system, p.metric, f"{p.value:g}", p.where] for p in experiment.published]
    return Table(("system", "metric", "value", "where it stands"), rows, "Published", "published")


def latex_tables(compared: Compared) -> str:
    """Return scores, differences and verdicts with captions and labels, under the conclusion."""
    name = compared.experiment.name
    parts = [f"{MARK}; needs \\usepackage{{booktabs}}\n% {one_line(headline(compared))}\n"]
    for title, table in (
        ("scores", score_table(compared)),
        ("differences", pair_table(compared)),
        ("verdicts", verdict_table(compared)),
    ):
        if table:
            parts.append(table.latex(f"{name}: {title}", f"tab:{name}-{title}"))
    return "\n".join(parts)


def to_markdown(compared: Compared, command: str) -> str:
    """The committed page: conditions, verdicts, scores, pairs, costs, published numbers."""
    experiment = compared.experiment
    parts = [
        f"# {experiment.name}\n\n`{command}`\n",
        conditions(compared) + "\n",
        *([f"**Not finished:** {'; '.join(compared.missing)}.\n"] if compared.missing else []),
        f"## Verdict\n\n**{headline(compared)}**\n\n"
        + verdict_table(compared).markdown()
        + _cautions(compared),
        *(
            ["## Primary contrast\n\n" + primary_table(compared).markdown()]
            if compared.primary
            else []
        ),
        *([_rates(compared)] if compared.rates else []),
        "## Scores\n\n" + score_table(compared).markdown(),
        "## Shares, means over seeds\n\n" + share_table(compared).markdown(),
        "## Differences, true knowledge minus the other\n\n" + pair_table(compared).markdown(),
        "## Where the gain is\n\n"
        + SLICES
        + "\n\n"
        + "\n".join(
            f"### By {kind}\n\n" + gain_table(compared, kind).markdown()
            for kind in slice_kinds(compared)
        ),
        "## Costs\n\n" + cost_table(compared).markdown(),
        "## Published\n\n" + _published(experiment),
    ]
    if compared.left_out:
        lines = "\n".join(f"- {name}: {why}" for name, why in compared.left_out.items())
        parts.insert(-1, f"## Left out\n\n{lines}\n")
    return "\n".join(parts)


def conditions(compared: Compared) -> str:
    """Return what a score here means, in one paragraph."""
    experiment = compared.experiment
    records = [record for row in compared.rows for record in row.records]
    return (
        f"Score: {experiment.metric} on {experiment.asked}.{_cut_off(compared)} A score is "
        "the mean over seeds. Intervals and p are over seeds and over groups of items (one text, "
        "or the same two entities), both treated as samples: they are for other seeds and other "
        "items. With one "
        f"seed, for other items alone. {_regrouped(compared)}{_precisions(compared)}"
        "No graph holds a triple between two entities of an evaluated pair. "
        f"{experiment.setup(records)} {COVERAGE} A verdict is at 5 %, p with Holm's correction. "
        "*Ruled out*: two one-sided tests at 5 %. *Not visible*: found in fewer than four of "
        "five such comparisons, at 5 % without correction."
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
        "reports, the same number of trials for every row, on the mean of all its kinds of "
        "knowledge.\n\n" + rate_table(compared).markdown()
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
        "evaluated twice could be two. They are grouped again here; intervals in their own files"
        " are not. "
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
        "rates": rate_table(compared).dicts(),
        "missing": list(compared.missing),
        "left_out": dict(compared.left_out),
    }


def _published(experiment: Plan) -> str:
    differs = f"What differs: {experiment.differs.strip()}\n" if experiment.differs else ""
    table = published_table(experiment)
    notes = "".join(f"- {note.strip()}\n" for note in experiment.notes)
    parts = (table.markdown() if table else "", differs, notes)
    return "\n".join(part for part in parts if part)


def _mentions(costs: dict[str, Any]) -> tuple[str, str]:
    """Evaluated mentions that brought an entity to the method; none where it reads no graph."""
    if not costs["reads_graph"]:
        return "reads none", "reads none"
    inside = f"{costs['mentions_in_graph']} of {costs['mentions']}"
    return inside, str(costs["mentions_with_facts"])


def _numbers(effect: Effect) -> dict[str, Any]:
    """An effect as JSON values."""
    return {
        "interval": msgspec.to_builtins(effect.interval()),
        "p": effect.p,
        "ruled_out": effect.ruled_out,
        "visible": effect.visible(),
    }


def _signed(effect: Effect) -> tuple[str, str]:
    return number(effect.estimate, "+"), limits_of(effect.interval(), "+")


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
