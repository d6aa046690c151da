"""`kept pretrain`: train a method on a host with your graph and your linked text.

The work is in `kept.apps.cli.training.pretrain_run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.apps.cli.options import (
    ConfigFile,
    Device,
    Going,
    HostModel,
    LearningRate,
    Minutes,
    RedirectFile,
    Seed,
    Sharding,
    Skipping,
    Steps,
    Threads,
    Track,
)
from kept.bounds import LEAST_RATE, MAX_COUNT, MAX_RATE, MAX_THREADS
from kept.help_texts import AS_PUBLISHED, EPOCHS_TEXT, KG, LINKED_TEXT


def pretrain(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the run. The model, checkpoints, log and curves are written there.",
        ),
    ],
    config: ConfigFile = None,
    kg: Annotated[Path | None, typer.Option(help=KG)] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(help=LINKED_TEXT),
    ] = None,
    redirects: RedirectFile = None,
    treebank: Annotated[
        list[Path] | None,
        typer.Option(
            help="Treebank in CoNLL-U, plain or compressed, instead of --text. May be repeated."
        ),
    ] = None,
    host: HostModel = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method to pre-train, with the settings of its recipe: colake (the default), or "
            "one of {kept.methods:METHODS}."
        ),
    ] = None,
    as_published: Annotated[
        bool | None,
        typer.Option(
            "--as-published",
            help=AS_PUBLISHED,
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Train this objective with its default options instead of those of the method: "
            "one of {kept.objectives.model:OBJECTIVES}. May be repeated.",
        ),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Folder of an earlier run whose weights to start from.")
    ] = None,
    train_only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="Part of the encoder to train; all other parts stay fixed. May be repeated.",
        ),
    ] = None,
    steps: Steps = None,
    epochs: Annotated[int | None, typer.Option(min=1, max=MAX_COUNT, help=EPOCHS_TEXT)] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="Number of texts per batch. Give either this or --node-budget.",
        ),
    ] = None,
    node_budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="Largest number of graph nodes per batch. Give either this or --batch-size.",
        ),
    ] = None,
    learning_rate: LearningRate = None,
    entity_learning_rate: Annotated[
        float | None,
        typer.Option(
            "--entity-lr",
            min=LEAST_RATE,
            max=MAX_RATE,
            help="Learning rate of the entity table (default: 0.001).",
        ),
    ] = None,
    warmup_steps: Annotated[
        int | None,
        typer.Option(
            "--warmup",
            min=0,
            max=MAX_COUNT,
            help="Number of first steps in which the learning rate rises from 0.",
        ),
    ] = None,
    seed: Seed = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_THREADS,
            help="Number of processes that build batches (default: the training process does).",
        ),
    ] = None,
    threads: Threads = None,
    device: Device = None,
    shard: Sharding = None,
    budget_minutes: Minutes = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the run, such as training.clip_norm=0.5. May be repeated.",
        ),
    ] = None,
    track: Track = None,
    resume: Going = False,
    skip_damaged: Skipping = False,
) -> Any:
    """Pre-train a method on linked texts. A run that is continued ends with the same weights.

    Ctrl-C stops after the current step and writes a checkpoint.

    Example: kept pretrain --method ernie --kg kg/ --text linked.jsonl --steps 1000 --batch-size 32
    -o runs/ernie
    """
    flags: dict[str, Any] = {
        "kg": kg,
        "text": text,
        "redirects": redirects,
        "treebank": treebank,
        "host": host,
        "method": method,
        "as_published": as_published,
        "objectives": {name: {} for name in objective} if objective else None,
        "start_from": start_from,
        "train_only": tuple(train_only) if train_only else None,
        "training.steps": steps,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "training.node_budget": node_budget,
        "training.learning_rate": learning_rate,
        "training.entity_learning_rate": entity_learning_rate,
        "training.warmup_steps": warmup_steps,
        "training.seed": seed,
        "training.workers": workers,
        "training.threads": threads,
        "training.device": device,
        "training.shard": tuple(shard) if shard else None,
        "training.budget_minutes": budget_minutes,
    }
    from kept.apps.cli.training import pretrain_run

    return pretrain_run.run(
        {name: value for name, value in flags.items() if value is not None},
        settings or [],
        output=output,
        config_file=config,
        track=track or (),
        resume=resume,
        skip_damaged=skip_damaged,
    )
