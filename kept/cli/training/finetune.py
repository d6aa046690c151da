"""`kept finetune`: train any method on a task, with true, no or false knowledge, and score it.

The work is in `kept.cli.training.finetune_run`, imported when the command runs: `kept --help` loads
no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.bounds import MAX_COUNT
from kept.cli.options import (
    ConfigFile,
    Device,
    Going,
    HostModel,
    LearningRate,
    LinkCase,
    Minutes,
    Seed,
    Sharding,
    Skipping,
    Steps,
    Threads,
    Track,
    require_given,
    require_named,
)

_TABLES = {
    "task": "kept.datasets.formats:TASKS",
    "format": "kept.datasets.formats:FORMATS",
    "method": "kept.methods:METHODS",
    "knowledge": "kept.controls.conditions:Knowledge",
    "markers": "kept.finetuning.markers:MARKERS",
    "head": "kept.heads.model:HEADS",
}
"""Options whose words are names of a table."""
_NEEDED = (
    ("task",), ("format",), ("train",), ("kg",), ("method", "model"),
    ("training.steps", "training.epochs"), ("training.batch_size", "training.node_budget"),
)  # fmt: skip
"""Options of a new run; one of each group."""


def finetune(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the run: model, scores, answers, log."),
    ],
    config: ConfigFile = None,
    task: Annotated[
        str | None,
        typer.Option(help="What is asked: {kept.datasets.formats:TASKS}."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of the files, {kept.datasets.formats:FORMATS}; table is kept's own, "
            "CSV, TSV or JSON lines (docs/reference/formats-of-texts.md)."
        ),
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Training file.")] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Development file (default: dev.* beside TRAIN, else a share of it)."),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Test file.")] = None,
    kg: Annotated[Path | None, typer.Option(help="Folder of the knowledge graph.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a trained model, or give --method.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A new encoder of this method, with its recipe: {kept.methods:METHODS}."),
    ] = None,
    as_published: Annotated[
        bool | None,
        typer.Option(
            "--as-published",
            help="The settings of the method's paper, not the recipe with which it reads facts.",
        ),
    ] = None,
    host: HostModel = None,
    adapter: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="For a new encoder: an adapter, or a run that trained one; may be repeated.",
        ),
    ] = None,
    knowledge: Annotated[
        str | None,
        typer.Option(
            help="What the run is given, {kept.controls.conditions:Knowledge}; true without it."
        ),
    ] = None,
    markers: Annotated[
        str | None,
        typer.Option(help="Marks around targets: {kept.finetuning.markers:MARKERS}."),
    ] = None,
    link: Annotated[
        bool | None, typer.Option("--link", help="Link texts without links by the graph's names.")
    ] = None,
    case: LinkCase = None,
    head: Annotated[
        str | None, typer.Option(help="How the model answers: {kept.heads.model:HEADS}.")
    ] = None,
    freeze: Annotated[
        list[str] | None, typer.Option(help="Part of the encoder to freeze; encoder is all of it.")
    ] = None,
    train_only: Annotated[
        list[str] | None, typer.Option(help="The only parts to train beside the head.")
    ] = None,
    steps: Steps = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Passes over the examples.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Examples a batch.")
    ] = None,
    learning_rate: LearningRate = None,
    evaluate_every: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_COUNT, help="Evaluate on dev every this many steps, and log it."
        ),
    ] = None,
    seed: Seed = None,
    threads: Threads = None,
    device: Device = None,
    shard: Sharding = None,
    budget_minutes: Minutes = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other field, such as max_train=500."),
    ] = None,
    track: Track = None,
    resume: Going = False,
    skip_damaged: Skipping = False,
) -> Any:
    """Fine-tune a method on a task and score it beside a baseline.

    Facts between the two entities of an example are never shown, and those of dev and test are
    removed from the graph. The model of the last step is scored. Ctrl-C stops with a checkpoint.

    Example: kept finetune --task typing --format tagme --train train.json --method kbert --kg kg/
    --steps 500 --batch-size 16 -o runs/types
    """
    flags = {
        "task": task,
        "format": format,
        "train": train,
        "dev": dev,
        "test": test,
        "kg": kg,
        "model": model,
        "method": method,
        "as_published": as_published,
        "host": host,
        "adapters": adapter or None,
        "knowledge": knowledge,
        "markers": markers,
        "link": link,
        "case": case,
        "head": head,
        "freeze": freeze or None,
        "train_only": train_only or None,
        "training.steps": steps,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "training.learning_rate": learning_rate,
        "training.evaluate_every": evaluate_every,
        "training.seed": seed,
        "training.threads": threads,
        "training.device": device,
        "training.shard": tuple(shard) if shard else None,
        "training.budget_minutes": budget_minutes,
    }
    require_named(flags, _TABLES, settings or [])
    if config is None and not resume:
        require_given(flags, _NEEDED, settings or [])
    from kept.cli.training import finetune_run

    return finetune_run.run(
        {name: value for name, value in flags.items() if value is not None},
        settings or [],
        output=output,
        config_file=config,
        track=track or (),
        resume=resume,
        skip_damaged=skip_damaged,
    )
