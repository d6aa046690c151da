"""`kept check`: which methods read a fact within some steps, what layers and words' places hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kept.apps.cli.check.analogies import analogies
from kept.apps.cli.check.layers import layers
from kept.apps.cli.options import KeptCommand, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_COUNT, MAX_SEED
from kept.help_texts import HOST_MODEL

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


@app.command(cls=KeptCommand)
def reading(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the results. Runs that are stored there are not repeated.",
        ),
    ],
    methods: Annotated[
        str, typer.Option(help="Methods or arms to train, separated by commas, or all.")
    ] = "all",
    tasks: Annotated[
        str,
        typer.Option(
            help="Control tasks, separated by commas. own means the first task of each arm."
        ),
    ] = "own",
    conditions: Annotated[
        str, typer.Option(help="Conditions to compare with true, separated by commas, or all.")
    ] = "redrawn",
    seeds: Annotated[int, typer.Option(min=1, max=MAX_COUNT, help="Number of seeds.")] = 1,
    first_seed: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_SEED, help="The first seed. Settings were chosen on other seeds."
        ),
    ] = 0,
    steps: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="Largest number of optimiser steps.")
    ] = 400,
    form: Annotated[
        str,
        typer.Option(help="fresh: every name occurs in one example. returning: names occur again."),
    ] = "fresh",
    distractors: Annotated[
        int,
        typer.Option(
            min=0,
            max=2,
            help="Number of further facts about each head, which do not matter for the answer.",
        ),
    ] = 1,
    host: Annotated[str, typer.Option(callback=local_or_hub, help=HOST_MODEL)] = "minilm",
    verdicts: Annotated[
        Path | None,
        typer.Option(help="File for the verdicts alone, in the form that comparisons read."),
    ] = None,
    layers: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_COUNT,
            help="Number of layers of the language model to use, from the first. 0 means all.",
        ),
    ] = 3,
    recipes: Annotated[
        bool,
        typer.Option(
            "--recipes",
            help="Test the recipes instead, that is what `--method X` means without further "
            "options: every method that reads facts, the whole language model, 320 training "
            "heads, at most 200 steps. Exit code 1 if one does not read its facts.",
        ),
    ] = False,
) -> None:
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
    chosen_conditions = (
        CONDITIONS if conditions == "all" else tuple(filter(None, conditions.split(",")))
    )
    chosen_arms, size = arms_of(methods.split(",")), Size(form=form, n_distractors=distractors)
    budget = Budget(steps=steps, host=host, n_layers=layers or None)
    if recipes:
        chosen_arms = _recipes(methods, recipe_arms())
        size = replace(size, n_train=RECIPE_HEADS)
        budget = replace(budget, steps=min(steps, RECIPE_STEPS), n_layers=None, train_words=True,
                         measures=False)  # fmt: skip
    study = ReadingDesign(
        arms=chosen_arms,
        tasks=() if tasks == "own" else _tasks(tasks),
        conditions=(TRUE, *map(require_condition, chosen_conditions)),
        seeds=seeds,
        first_seed=first_seed,
        size=size,
        budget=budget,
    )
    run_study(study, output, report=_print_cell)
    outcomes = read_outcomes(output)
    command = (
        f"kept check reading --methods {methods} --tasks {tasks} --conditions {conditions} --seeds "
        f"{seeds}{f' --first-seed {first_seed}' if first_seed else ''} --steps {steps} --form "
        f"{form} --distractors {distractors} --host {host} --layers {layers}"
        f"{' --recipes' if recipes else ''} -o {output.name}"
    )
    page = to_markdown(outcomes, command)
    write_text(output / PAGE, page, force=True)
    write_json(output / VALUES, to_values(outcomes, command), force=True)
    if verdicts is not None:
        write_json(verdicts, verdict_values(outcomes), force=True)
    with whole_file(output / CURVES, force=True) as part:
        draw_curves(outcomes, part)
    echo(page, nl=False)
    if recipes:
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
            faults.append(f"{where} after {each.stopped_at} steps")
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
        else f"{outcome.accuracy:.3f} after {outcome.stopped_at} steps"
    )
    typer.echo(f"{what}: {outcome_line}", err=True)
