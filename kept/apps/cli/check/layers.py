"""`kept check layers`: what each layer of an encoder holds of a sentence's grammar.

The work is in `kept.apps.cli.check.layers_run`, imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.options import Threads, local_or_hub
from kept.bounds import MAX_COUNT, MAX_SEED
from kept.help_texts import FORCE_FILES, SEED


def _models(names: list[str]) -> list[str]:
    for name in names:
        local_or_hub(name)
    return names


def layers(
    models: Annotated[
        list[str],
        typer.Argument(
            callback=_models,
            help="Models to compare with the first: minilm, folders, names on the Hugging Face "
            "hub, or folders of runs.",
        ),
    ],
    train: Annotated[Path, typer.Option(help="Treebank (CoNLL-U) on which the probes are fitted.")],
    test: Annotated[Path, typer.Option(help="Treebank (CoNLL-U) on which the probes are tested.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    kg: Annotated[
        Path | None, typer.Option(help="Folder of the knowledge graph, for runs that use one.")
    ] = None,
    tasks: Annotated[
        str,
        typer.Option(help="What is probed, separated by commas: pos, relation, distance, control."),
    ] = "pos,relation,distance,control",
    train_questions: Annotated[
        int,
        typer.Option(min=20, max=MAX_COUNT, help="Largest number of training examples per task."),
    ] = 10_000,
    test_questions: Annotated[
        int, typer.Option(min=20, max=MAX_COUNT, help="Largest number of test examples per task.")
    ] = 5_000,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_FILES)] = False,
) -> None:
    """Fit a linear probe on the states of words after every layer, and compare encoders by it.

    Printed are accuracies with intervals over sentences for parts of speech, relations to heads and
    distances of heads. As a control, the probe also learns random labels of word forms, and there
    is a baseline that knows the form alone.

    Example: kept check layers minilm runs/colake --kg kg/ --train train.conllu --test dev.conllu -o
    layers/
    """
    from kept.apps.cli.check import layers_run
    from kept.plotting import require_plotting

    require_plotting()
    layers_run.run(
        models,
        train,
        test,
        output,
        kg=kg,
        tasks=[name.strip() for name in tasks.split(",") if name.strip()],
        size=(train_questions, test_questions, seed),
        threads=threads,
        force=force,
    )
