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
            help="Method of the checkpoint: ernie, knowbert, kbert, kepler, colake, kadapter, "
            "qagnn, greaselm or luke."
        ),
    ],
    file: Annotated[
        Path | None, typer.Argument(help="The released checkpoint, as its authors published it.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder for the model.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An option of the method's converter, such as kg=DIR. May be repeated.",
        ),
    ] = None,
    options: Annotated[
        bool, typer.Option("--options", help="Print the options of METHOD and convert nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUTPUT if it is a model.")
    ] = False,
) -> None:
    """Convert a released checkpoint. A file with a weight that kept cannot place is refused.

    `kept convert METHOD --options` prints the layout of the original and the options.

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
