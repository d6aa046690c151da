"""`kept convert`: released checkpoints of the originals into folders that load here.

The work is in `kept.convert`, imported when the command runs: `kept --help` loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from kept.apps.cli.declared import argument, option, switch, takes
from kept.apps.cli.terminal import echo


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """What the command is given; a field is an option."""

    method: str = argument(
        "Method of the checkpoint: ernie, knowbert, kbert, kepler, colake, kadapter, "
        "qagnn, greaselm or luke.",
    )
    file: Path | None = argument(
        "The released checkpoint, as its authors published it.", default=None
    )
    output: Path | None = option("New folder for the model.", "--output", "-o")
    settings: list[str] | None = option(
        "An option of the method's converter, such as kg=DIR. May be repeated.",
        "--set",
        metavar="NAME=VALUE",
    )
    options: bool = switch("Print the options of METHOD and convert nothing.")
    force: bool = switch("Replace OUTPUT if it is a model.")


@takes(ConvertOptions)
def convert(options: ConvertOptions) -> None:
    """Convert a released checkpoint. A file with a weight that kept cannot place is refused.

    `kept convert METHOD --options` prints the layout of the original and the options.

    Example: kept convert ernie ernie_base/ -o runs/released
    """
    from kept.apps.cli.settings import read_setting
    from kept.convert import convert as run
    from kept.convert import describe

    if options.options:
        echo(describe(options.method))
        return
    if options.file is None or options.output is None:
        lacking = "FILE" if options.file is None else "--output DIR"
        raise typer.BadParameter("missing; or ask for --options", param_hint=lacking)
    done = run(
        options.method,
        options.file,
        options.output,
        dict(map(read_setting, options.settings or [])),
        force=options.force,
    )
    echo(f"{done.model}: {done.n_parameters:,} parameters in {done.folder}")
    for name, digest in done.sha256.items():
        echo(f"{name} SHA-256 {digest}")
