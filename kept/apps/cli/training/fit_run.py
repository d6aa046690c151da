"""What `kept fit` does: fit, report progress, write the guide of the folder, print the verdict."""

from __future__ import annotations

import time

from kept.apps.cli.terminal import echo
from kept.apps.cli.training.guide import write_environment, write_guide
from kept.lab.fitting import run as texts
from kept.lab.fitting.options import FitOptions
from kept.lab.questions import fitting as questions
from kept.methods import BASELINE
from kept.results import Result

GOES_ON = (
    'kept predict RUN "A text." --kg KG --explain',
    "kept explore --kg KG --model RUN --open",
    "kept serve --kg KG --model RUN",
)
QUESTIONS_GO_ON = (
    'kept predict RUN "A question?" --kg KG',
    'kept ask "A question?" --kg KG --run RUN',
)
SCORES = {
    "chosen": "with the graph ({method})",
    "none": "without the graph",
    "wrong facts": "with another entity's facts",
    "majority": "always the most frequent answer",
}
"""Scores in the order and the words in which they are printed."""


def run(options: FitOptions, *, is_of_questions: bool) -> Result:
    """Fit, and print the scores on test and the verdict; return what `fit.json` holds."""
    start = time.monotonic()

    def announce(line: str) -> None:
        echo(f"{time.monotonic() - start:4.0f} s  {line}", err=True)

    result = (questions.fit if is_of_questions else texts.fit)(options, announce)
    write_environment(options.output, options)
    write_guide(options.output, options.kg, QUESTIONS_GO_ON if is_of_questions else GOES_ON)
    known = [name for name in SCORES if name in result.scores]
    if result.method == BASELINE:
        known.remove("chosen")
    others = [name for name in result.scores if name not in SCORES]
    for name in [*known, *others]:
        label = SCORES.get(name, name).format(method=result.method)
        echo(f"{label:<34} {result.scores[name]:.3f} on test")
    echo(result.verdict)
    echo(f"The model is in {options.output}; its README.md says how to go on.")
    return Result(values=result.as_json(), folder=options.output)
