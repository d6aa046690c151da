"""`kept check`: which methods read a fact within some steps, what layers and words' places hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kept.apps.cli.check.analogies import analogies
from kept.apps.cli.check.layers import layers
from kept.apps.cli.declared import option, required, switch, takes
from kept.apps.cli.options import KeptCommand, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_COUNT, MAX_SEED
from kept.help_texts import HOST_MODEL
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from kept.lab.reading.cell import Cell, Outcome

app = typer.Typer(no_args_is_help=True, help="Check that methods can do what they are compared by.")
app.command(cls=KeptCommand)(layers)
app.command(cls=KeptCommand)(analogies)
RECIPE_HEADS, RECIPE_STEPS = 320, 200
"""Of the check of recipes: what a person who labels by hand may have, and a minute of training."""
SURE = 3.3
"""Standard errors above chance with which a check of many recipes fails: one in two thousand."""
PAGE, VALUES, CURVES = "reading.md", "reading.json", "reading.curves.png"


@app.callback()
def _group() -> None:
    """Check that methods can do what they are compared by."""


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """What the command is given; a field is an option."""

    output: Path = required(
        "Folder for the results. Runs that are stored there are not repeated.", "--output", "-o"
    )
    methods: str = option("Methods or arms to train, separated by commas, or all.", default="all")
    tasks: str = option(
        "Control tasks, separated by commas. own means the first task of each arm.", default="own"
    )
    conditions: str = option(
        "Conditions to compare with true, separated by commas, or all.", default="redrawn"
    )
    seeds: int = option("Number of seeds.", default=1, bounds=(1, MAX_COUNT))
    first_seed: int = option(
        "The first seed. Settings were chosen on other seeds.", default=0, bounds=(0, MAX_SEED)
    )
    steps: int = option("Largest number of optimiser steps.", default=400, bounds=(1, MAX_COUNT))
    form: str = option(
        "fresh: every name occurs in one example. returning: names occur again.", default="fresh"
    )
    distractors: int = option(
        "Number of further facts about each head, which do not matter for the answer.",
        default=1,
        bounds=(0, 2),
    )
    host: str = option(HOST_MODEL, default="minilm", callback=local_or_hub)
    verdicts: Path | None = option(
        "File for the verdicts alone, in the form that comparisons read."
    )
    layers: int = option(
        "Number of layers of the language model to use, from the first. 0 means all.",
        default=3,
        bounds=(0, MAX_COUNT),
    )
    recipes: bool = switch(
        "Test the recipes instead, that is what `--method X` means without further "
        "options: every method that reads facts, the whole language model, 320 training "
        "heads, at most 200 steps. Exit code 1 if one does not read its facts."
    )

    def command(self) -> str:
        """Return the command as the page of its results names it."""
        first_seed = f" --first-seed {self.first_seed}" if self.first_seed else ""
        return (
            f"kept check reading --methods {self.methods} --tasks {self.tasks} --conditions "
            f"{self.conditions} --seeds {self.seeds}{first_seed} --steps {self.steps} --form "
            f"{self.form} --distractors {self.distractors} --host {self.host} --layers "
            f"{self.layers}{' --recipes' if self.recipes else ''} -o {self.output.name}"
        )


@app.command(cls=KeptCommand)
@takes(ReadingOptions)
def reading(options: ReadingOptions) -> None:
    """Test whether methods read facts: train on facts about made-up names, test on new names.

    Printed are the accuracy under each condition, the chance level, steps until .9, the accuracy of
    a linear probe, how far the state moves if facts are hidden, and the verdict. The folder also
    gets learning curves of all stored runs. The same command continues a run that was interrupted.

    Example: kept check reading --methods kbert,ernie --conditions all -o reading/
    """
    from kept.lab.reading.arms import arms_of, recipe_arms
    from kept.lab.reading.cell import Budget
    from kept.lab.reading.conditions import CONDITIONS, TRUE, require_condition
    from kept.lab.reading.study import ReadingDesign, read_outcomes, run_study
    from kept.lab.reading.tables import draw_curves, to_markdown, to_values, verdict_values
    from kept.lab.reading.worlds import Size
    from kept.plotting import require_plotting
    from kg_loaders.disk.writing import whole_file, write_json, write_text

    require_plotting()
    conditions = tuple(filter(None, options.conditions.split(",")))
    if options.conditions == "all":
        conditions = CONDITIONS
    chosen_arms = arms_of(options.methods.split(","))
    size = Size(form=options.form, n_distractors=options.distractors)
    budget = Budget(steps=options.steps, host=options.host, n_layers=options.layers or None)
    if options.recipes:
        chosen_arms = _recipes(options.methods, recipe_arms())
        size = replace(size, n_train=RECIPE_HEADS)
        steps = min(options.steps, RECIPE_STEPS)
        budget = replace(budget, steps=steps, n_layers=None, train_words=True, measures=False)
    study = ReadingDesign(
        arms=chosen_arms,
        tasks=() if options.tasks == "own" else _tasks(options.tasks),
        conditions=(TRUE, *map(require_condition, conditions)),
        seeds=options.seeds,
        first_seed=options.first_seed,
        size=size,
        budget=budget,
    )
    run_study(study, options.output, report=_print_cell)
    outcomes = read_outcomes(options.output)
    command = options.command()
    page = to_markdown(outcomes, command)
    write_text(options.output / PAGE, page, force=True)
    write_json(options.output / VALUES, to_values(outcomes, command), force=True)
    if options.verdicts is not None:
        write_json(options.verdicts, verdict_values(outcomes), force=True)
    with whole_file(options.output / CURVES, force=True) as part:
        draw_curves(outcomes, part)
    echo(page, nl=False)
    if options.recipes:
        _require_reading(outcomes, chosen_arms)


def _recipes(methods: str, arms: Mapping[str, object]) -> list[str]:
    """The arms of the recipes of methods; ConfigError for a method without one."""
    from kept.lab.reading.arms import RECIPE
    from kept.methods import method_key
    from kept.suggestions import no_such

    if methods == "all":
        return list(arms)
    names = [f"{method_key(name)}{RECIPE}" for name in methods.split(",")]
    for name in names:
        if name not in arms:
            raise no_such("recipe that reads facts with a text", name, arms)
    return names


def _require_reading(outcomes: Sequence[Outcome], arms: Sequence[str]) -> None:
    """Fail, naming each recipe, and seed, that does not read, or answers from another's facts."""
    from kept.errors import EvaluationError
    from kept.lab.reading.conditions import REDRAWN, TRUE
    from kept.lab.reading.measures import GOOD, at_chance

    faults = []
    for each in outcomes:
        where = f"{each.arm}, seed {each.seed}: {each.accuracy:.3f}"
        if each.arm not in arms:
            continue
        if each.condition == TRUE and each.accuracy < GOOD:
            faults.append(f"{where} after {counted(each.stopped_at, 'steps')}")
        if each.condition == REDRAWN and not at_chance(
            each.accuracy, each.n, each.chance, level=SURE
        ):
            faults.append(f"{where} with another's facts, chance is {each.chance:.3f}")
    if faults:
        raise EvaluationError("recipes that do not read: " + "; ".join(faults))
    echo(f"{len(arms)} recipes read facts: at least {GOOD} on names that no training text has")


def _tasks(names: str) -> tuple[str, ...]:
    from kept.lab.reading.arms import TASK_NAMES
    from kept.suggestions import no_such

    if names == "all":
        return TASK_NAMES
    for name in (chosen := tuple(names.split(","))):
        if name not in TASK_NAMES:
            raise no_such("task of the reading controls", name, TASK_NAMES)
    return chosen


def _print_cell(cell: Cell, outcome: Outcome | None) -> None:
    """Print a cell that is about to be trained, and its outcome, on standard error."""
    what = f"{cell.arm}, {cell.task}, {cell.condition}, seed {cell.seed}"
    outcome_line = (
        "training"
        if outcome is None
        else f"{outcome.accuracy:.3f} after {counted(outcome.stopped_at, 'steps')}"
    )
    typer.echo(f"{what}: {outcome_line}", err=True)
