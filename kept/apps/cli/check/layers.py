"""`kept check layers`: what each layer of an encoder holds of a sentence's grammar.

The work is in `kept.apps.cli.check.layers_run`, imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.options import Threads, local_or_hub
from kept.bounds import MAX_COUNT, MAX_SEED


def _models(names: list[str]) -> list[str]:
    for name in names:
        local_or_hub(name)
    return names


def layers(
    models: Annotated[
        list[str],
        typer.Argument(
            callback=_models,
            help="Hosts (minilm, a folder, a hub name) or folders of runs; differences are from "
            "the first.",
        ),
    ],
    train: Annotated[Path, typer.Option(help="Treebank (CoNLL-U) to fit the probes on.")],
    test: Annotated[Path, typer.Option(help="Treebank to ask them questions of.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")],
    kg: Annotated[
        Path | None, typer.Option(help="Folder of the graph, for runs that read one.")
    ] = None,
    tasks: Annotated[
        str, typer.Option(help="Comma-separated: pos, relation, distance, control.")
    ] = "pos,relation,distance,control",
    train_questions: Annotated[
        int, typer.Option(min=20, max=MAX_COUNT, help="At most so many a task.")
    ] = 10_000,
    test_questions: Annotated[
        int, typer.Option(min=20, max=MAX_COUNT, help="At most so many a task.")
    ] = 5_000,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Of the chosen sentences.")] = 0,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Fit a linear probe on the words' states after every layer, and compare encoders by it.

    Prints accuracies with intervals over sentences: parts of speech, relations to heads, distances
    of heads, and random labels of words' forms as the control, beside what the form alone gives.

    Example: kept check layers minilm runs/colake --kg kg/ --train train.conllu --test dev.conllu
    -o layers/
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
