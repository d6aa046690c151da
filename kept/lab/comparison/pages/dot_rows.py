"""A comparison as one picture: scores by method and knowledge, and beneath where the gain lies."""

from __future__ import annotations

from kept.lab.comparison.compared import Compared, ComparedRow, Gain
from kept.lab.comparison.pages.tables import is_copy
from kept.lab.comparison.strata import BARE, FACT, KNOWLEDGE, NOTHING
from kept.lab.report.dots import Dot, dots
from kept.methods import BASELINE

KINDS = "true", "shuffled", "off"
STRATA = FACT, BARE, NOTHING
HOW_TO_READ = (
    "A large mark is the mean over seeds, the line through it its 95 % interval, each small dot "
    "one seed; the dashed line is none."
)


def picture_of(compared: Compared) -> tuple[str, ...]:
    """Return the scores as dots and, where slices were scored, the gains on them, as HTML."""
    plan = compared.experiment
    base = [row.score.estimate for row in compared.rows if row.method == BASELINE]
    above = dots(
        _score_dots(compared),
        f"{plan.metric} on {plan.asked}. {HOW_TO_READ}",
        line=base[0] if base else None,
    )
    gains = [g for g in compared.gains if g.kind == KNOWLEDGE and g.effect is not None]
    if not gains:
        return (above,)
    against = "shuffled" if any(gain.theirs[1] == "shuffled" for gain in gains) else "off"
    theirs = "none" if against == "off" else f"knowledge {against}"
    drawn_gains = [
        gain
        for gain in gains
        if gain.theirs[1] == against or (against == "off" and gain.theirs[0] == BASELINE)
    ]
    beneath = dots(
        [_gain_dot(compared, gain) for gain in drawn_gains],
        f"Gain of true knowledge over {theirs}, by what the graph says of an item. A fact can help "
        "only where there is one: a gain without a fact is a placebo.",
        line=0.0,
        signed=True,
    )
    return above, beneath


def _score_dots(compared: Compared) -> list[Dot]:
    """None first; the rows of one method together, true knowledge before its controls."""
    rows = [row for row in compared.rows if not is_copy(row)]
    methods = list(dict.fromkeys(row.method for row in rows))
    kinds = [*KINDS, *(row.knowledge for row in rows)]
    rows.sort(
        key=lambda r: (r.method != BASELINE, methods.index(r.method), kinds.index(r.knowledge))
    )
    return [_score_dot(compared, row) for row in rows]


def _score_dot(compared: Compared, row: ComparedRow) -> Dot:
    is_base = row.method == BASELINE
    return Dot(
        compared.experiment.title(row.method),
        "no knowledge" if is_base else row.knowledge,
        row.score,
        points=row.seeds,
        mark=KINDS.index(row.knowledge) if row.knowledge in KINDS else len(KINDS),
        remark="" if is_base else compared.conclusion(row.method),
    )


def _gain_dot(compared: Compared, gain: Gain) -> Dot:
    assert gain.effect is not None  # for the type: the others were left out
    return Dot(
        compared.experiment.title(gain.method),
        gain.name,
        gain.effect.interval(),
        mark=STRATA.index(gain.name) if gain.name in STRATA else len(STRATA),
        note=f"{gain.n:,} items",
    )
