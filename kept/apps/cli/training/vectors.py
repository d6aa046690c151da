"""`kept vectors`: words and entities with vectors in one space.

The work is in `kept.apps.cli.training.vectors_run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.apps.cli.options import ConfigFile, Going, KeptCommand, RedirectFile, Seed
from kept.bounds import LEAST_RATE, MAX_COUNT, MAX_RATE
from kept.help_texts import EPOCHS_TEXT, KG, LINKED_TEXT

app = typer.Typer(
    help="Train vectors of words and entities in one space, from linked text and a graph.",
    no_args_is_help=True,
)


@app.command("train", cls=KeptCommand)
def train_command(
    output: Annotated[
        Path, typer.Option("--output", "-o",
        help="Folder of the run. vectors.txt and the checkpoint are written there.")
    ],
    config: ConfigFile = None,
    kg: Annotated[Path | None, typer.Option(help=KG)] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(help=LINKED_TEXT),
    ] = None,
    redirects: RedirectFile = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model to train: wikipedia2vec (the default), or one of "
        "{kept.joint.assembly:MODELS}."),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=2, max=2**16,
            help="Number of dimensions of the vectors, an even number (default: 100).")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help=EPOCHS_TEXT)
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--lr", min=LEAST_RATE, max=MAX_RATE,
            help="Learning rate of the first step. It falls during training."),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT,
            help="Smallest number of times that a word must occur to get a vector (default: 5).")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.5,
            help="Leave out the triples that `kept kgc train` holds out with this --holdout and "
            "this --seed (default: 0, none).",
        ),
    ] = None,
    seed: Seed = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE",
            help="Any other setting of the run, such as options.window=10. May be repeated."),
    ] = None,
    resume: Going = False,
) -> None:  # fmt: skip
    """Train vectors of words and entities, as ERNIE, KnowBERT and E-BERT read them.

    Give OUTPUT/vectors.txt to these methods as `vectors` or `vectors_from`. wang2014, zhong2015 and
    xu2017 also write OUTPUT/scorer, which `kept kgc eval` and `kept kgc predict` read. Ctrl-C stops
    after the current step and writes a checkpoint; a run that is continued gives the same vectors.

    Example: kept vectors train --kg kg/ --text linked.jsonl --model wikipedia2vec -o space/
    """
    flags: dict[str, Any] = {
        "kg": kg, "text": text, "redirects": redirects, "model": model, "width": width,
        "epochs": epochs, "learning_rate": learning_rate, "min_word_count": min_count,
        "holdout": holdout, "seed": seed,
    }  # fmt: skip
    from kept.apps.cli.training import vectors_run

    vectors_run.run(
        {name: value for name, value in flags.items() if value is not None}, settings or [],
        output=output, config_file=config, resume=resume,
    )  # fmt: skip
