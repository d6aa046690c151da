"""`kept vectors`: words and entities with vectors in one space.

The work is in `kept.apps.cli.training.vectors_run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.apps.cli.options import ConfigFile, Going, KeptCommand, RedirectFile, Seed
from kept.bounds import LEAST_RATE, MAX_COUNT, MAX_RATE

app = typer.Typer(
    help="Vectors of words and entities in one space, from linked text and a graph.",
    no_args_is_help=True,
)


@app.command("train", cls=KeptCommand)
def train_command(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the run: vectors.txt, checkpoint.")
    ],
    config: ConfigFile = None,
    kg: Annotated[Path | None, typer.Option(help="Folder of the knowledge graph.")] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(help="Linked text as `kept link -o` writes it; may be repeated."),
    ] = None,
    redirects: RedirectFile = None,
    model: Annotated[
        str | None,
        typer.Option(help="wikipedia2vec (default), or one of {kept.joint.assembly:MODELS}."),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=2, max=2**16, help="Of the vectors (100); even.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Passes over the text.")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--lr", min=LEAST_RATE, max=MAX_RATE, help="The first one; it falls."),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Rarer words are left out (5).")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.5,
            help="Leave out what `kept kgc train` tests with this share and seed (0).",
        ),
    ] = None,
    seed: Seed = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other, such as options.window=10."),
    ] = None,
    resume: Going = False,
) -> None:  # fmt: skip
    """Train vectors for ERNIE, KnowBERT, E-BERT: `vectors` or `vectors_from` is OUTPUT/vectors.txt.

    wang2014, zhong2015 and xu2017 also write OUTPUT/scorer, which `kept kgc eval` and `predict`
    take. Ctrl-C stops after the step at hand, with a checkpoint; resumed, the vectors are the same.

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
