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


def pretrain(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the run: model, checkpoints, log, curves."),
    ],
    config: ConfigFile = None,
    kg: Annotated[Path | None, typer.Option(help="Folder of the knowledge graph.")] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(help="Linked text as `kept link -o` writes it; may be repeated."),
    ] = None,
    redirects: RedirectFile = None,
    treebank: Annotated[
        list[Path] | None,
        typer.Option(help="CoNLL-U, plain or compressed, instead of --text; may be repeated."),
    ] = None,
    host: HostModel = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="colake (default), or one of {kept.methods:METHODS}; with the settings of its "
            "recipe for options, view and graph."
        ),
    ] = None,
    as_published: Annotated[
        bool | None,
        typer.Option(
            "--as-published",
            help="The settings of the method's paper, not the recipe with which it reads facts.",
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Train these, with default options, instead of the method's own; may be repeated. "
            "One of {kept.objectives.model:OBJECTIVES}.",
        ),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Folder of an earlier run to start from.")
    ] = None,
    train_only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Part of the encoder to train; may be repeated."),
    ] = None,
    steps: Steps = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Passes over the text.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Texts a batch.")
    ] = None,
    node_budget: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_COUNT, help="Nodes per batch, instead of --batch-size."),
    ] = None,
    learning_rate: LearningRate = None,
    entity_learning_rate: Annotated[
        float | None,
        typer.Option("--entity-lr", min=LEAST_RATE, max=MAX_RATE, help="Rate of the entity table."),
    ] = None,
    warmup_steps: Annotated[
        int | None, typer.Option("--warmup", min=0, max=MAX_COUNT, help="Steps of warm-up.")
    ] = None,
    seed: Seed = None,
    workers: Annotated[
        int | None, typer.Option(min=0, max=MAX_THREADS, help="Processes that build batches.")
    ] = None,
    threads: Threads = None,
    device: Device = None,
    shard: Sharding = None,
    budget_minutes: Minutes = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any other field, such as training.clip_norm=0.5."
        ),
    ] = None,
    track: Track = None,
    resume: Going = False,
    skip_damaged: Skipping = False,
) -> Any:
    """Pre-train a method on a host; a resumed run ends with the same weights.

    Ctrl-C stops after the current step, with a checkpoint.

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
