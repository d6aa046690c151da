"""`kept convert`: released checkpoints of the originals into folders that load here.

The work is in `kept.convert`, imported when the command runs: `kept --help` loads no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.terminal import echo


def convert(
    method: Annotated[
        str,
        typer.Argument(
            help="ernie, knowbert, kbert, kepler, colake, kadapter, qagnn, greaselm or luke."
        ),
    ],
    file: Annotated[
        Path | None, typer.Argument(help="The released checkpoint, as the original wrote it.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder of the model.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="An option of the method's converter: kg=DIR."
        ),
    ] = None,
    options: Annotated[
        bool, typer.Option("--options", help="List the options of METHOD and convert nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a model at OUTPUT.")] = False,
) -> None:
    """Convert a released checkpoint; a file with a weight that has no place is refused.

    `kept convert METHOD --options` prints the original's layout and the options.

    Example: kept convert ernie ernie_base/ -o runs/released
    """
    from kept.apps.cli.settings import read_setting
    from kept.convert import convert as run
    from kept.convert import describe

    if options:
        echo(describe(method))
        return
    if file is None or output is None:
        lacking = "FILE" if file is None else "--output DIR"
        raise typer.BadParameter("missing; or ask for --options", param_hint=lacking)
    done = run(method, file, output, dict(map(read_setting, settings or [])), force=force)
    echo(f"{done.model}: {done.n_parameters:,} parameters in {done.folder}")
    for name, digest in done.sha256.items():
        echo(f"{name} SHA-256 {digest}")
