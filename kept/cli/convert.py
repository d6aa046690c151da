"""`kept convert`: released checkpoints of the originals into folders that load here.

The work is in `kept.convert`, imported when the command runs: `kept --help` loads no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    method: Annotated[
        str, typer.Argument(help="ernie, knowbert, kbert, kepler, colake or kadapter.")
    ],
    file: Annotated[
        Path, typer.Argument(help="The released checkpoint, as the original wrote it.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder of the model.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An option of the method's converter, such as kg=DIR; a wrong name lists all.",
        ),
    ] = None,
) -> None:
    """Convert a released checkpoint; every weight has its place or the file is refused."""
    from kept.cli.settings import read_setting
    from kept.convert import convert as run

    done = run(method, file, output, dict(map(read_setting, settings or [])))
    typer.echo(f"{done.model}: {done.n_parameters:,} parameters in {done.folder}")
    for name, digest in done.sha256.items():
        typer.echo(f"{name} SHA-256 {digest}")
