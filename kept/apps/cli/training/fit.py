"""`kept fit`: from labelled texts and a graph to a model, with a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kept.apps.cli.declared import Declared

if TYPE_CHECKING:
    from kept.lab.fitting.options import FitOptions
    from kept.results import Result


def fit(options: FitOptions) -> Result:
    """Train a model on your labelled texts over your graph, and say whether the graph helps.

    Finds out the task from the columns (text and label; mention, or start and end; head and tail;
    tokens and tags; question and answer), links the texts, splits off dev and test, chooses a
    method and its rates on dev, and evaluates on test beside the host without knowledge, the most
    frequent answer, and another entity's facts. Questions train nothing: what is chosen is how a
    decoder, or the graph itself, answers.

    Example: kept fit people.csv --kg kg/ -o runs/people
    """
    from kept.apps.cli.training import fit_run

    return fit_run.run(options)


fit_command = Declared("kept.lab.fitting.options:FitOptions", fit, arguments=("data",))
