"""`kept fit`: from labelled texts and a graph to a model, with a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import require_graph

if TYPE_CHECKING:
    from kept.lab.fitting.options import FitOptions
    from kept.results import Result


def fit(options: FitOptions) -> Result:
    """Train a model on your labelled texts with your graph, and report whether the graph helps.

    The columns decide the task: text and label; mention, or start and end; head and tail; tokens
    and tags; question and answer. kept links the texts, splits off development and test examples,
    and chooses a method on the development examples. The test score is compared with the same model
    without the graph, with the most frequent label, and with the facts of other entities. For
    questions nothing is trained: kept chooses how a decoder, or the graph itself, answers.

    Example: kept fit people.csv --kg kg/ -o runs/people
    """
    from kept.tasks.datasets.tables import QUESTION, read_labelled

    # read before torch is loaded, so that a slip in the table is answered at once
    is_of_questions = read_labelled(options.data, options.columns).kind == QUESTION
    require_graph(options.kg)
    from kept.apps.cli.training import fit_run

    return fit_run.run(options, is_of_questions=is_of_questions)


fit_command = Declared("kept.lab.fitting.options:FitOptions", fit, arguments=("data",))
