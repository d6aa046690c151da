"""A comparison on questions: both measures with one correction, edits, taken facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from kept.evaluation.statistics import holm
from kept.lab.questions.answering import CHOSEN, EXACT, REFUSED
from kept.lab.questions.plan import ABSENT, EDITED, TEST
from kept.lab.questions.trial import QuestionTrial
from kept.lab.study.effects import summarise
from kept.lab.study.run import RunOutcome, Study
from kept.lab.study.verdicts import Compared

VERDICTS = EXACT, CHOSEN
"""Measures that have verdicts; p is corrected over the pairs of both."""


@dataclass(frozen=True)
class QuestionTables:
    """What pages show. `primary` is the comparison by the file's metric.

    `measures`: by measure, every row under every kind of knowledge on the same questions. `edited`:
    by measure, rows with true knowledge after every value was changed. `refused`: the share of
    refusals on the questions and, as `ABSENT`, where the fact that answers was taken out;
    `guessed`: what is answered rightly there. `chance` is that of choosing.
    """

    primary: Compared
    measures: Mapping[str, Compared]
    edited: Mapping[str, Compared]
    refused: Mapping[str, Compared]
    guessed: Compared | None
    chance: float
    n_new: int


def tables(trial: QuestionTrial, outcome: RunOutcome) -> QuestionTables:
    """The tables of finished runs; raises EvaluationError where runs answered different items."""
    measures = _corrected({m: _compared(trial, outcome, m, TEST) for m in VERDICTS})
    true = {key: record for key, record in outcome.done.items() if key.knowledge == "true"}
    sets = {
        name: {key: record for key, record in true.items() if name in record.scores}
        for name in (EDITED, ABSENT)
    }
    by_set = {name: dataclasses.replace(outcome, done=done) for name, done in sets.items() if done}
    edited = {m: _compared(trial, by_set[EDITED], m, EDITED) for m in VERDICTS if EDITED in by_set}
    refused = {TEST: _compared(trial, outcome, REFUSED, TEST)}
    guessed = None
    if ABSENT in by_set:
        refused[ABSENT] = _compared(trial, by_set[ABSENT], REFUSED, ABSENT)
        guessed = _compared(trial, by_set[ABSENT], CHOSEN, ABSENT)
    return QuestionTables(
        primary=measures[trial.plan.metric],
        measures=measures,
        edited=edited,
        refused=refused,
        guessed=guessed,
        chance=trial.chance,
        n_new=trial.n_new,
    )


def _compared(trial: QuestionTrial, outcome: RunOutcome, metric: str, part: str) -> Compared:
    """Return the comparison by a measure on a set."""
    plan = trial.plan.model_copy(update={"metric": metric, "asked": part})
    return summarise(Study(dataclasses.replace(trial, questions=plan)), outcome)


def _corrected(measures: Mapping[str, Compared]) -> dict[str, Compared]:
    """With Holm's correction of p over the pairs of all measures."""
    ps = iter(holm([pair.effect.p for each in measures.values() for pair in each.pairs]))
    corrected = {}
    for name, each in measures.items():
        pairs = tuple(dataclasses.replace(pair, holm=next(ps)) for pair in each.pairs)
        corrected[name] = dataclasses.replace(each, pairs=pairs)
    return corrected
