"""Options that `kept pretrain` and `kept finetune` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file; flags lie over it.")
]
LearningRate = Annotated[float | None, typer.Option("--lr", help="Of the network.")]
Seed = Annotated[int | None, typer.Option(help="Of everything random.")]
Threads = Annotated[int | None, typer.Option(help="Threads of torch.")]
Minutes = Annotated[
    float | None, typer.Option(help="Stop with a checkpoint after so many minutes.")
]
Going = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")
]
Skipping = Annotated[
    bool, typer.Option("--skip-damaged", help="With --resume: pass over damaged checkpoints.")
]
