"""`kept data`: public data sets, from their owners into KEPT_DATA."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.options import KeptCommand
from kept.apps.cli.terminal import echo
from kept.help_texts import DATA
from kg_loaders.counting import counted

app = typer.Typer(help="Fetch public data sets from their owners, and check them.",
                  no_args_is_help=True)  # fmt: skip
Folder = Annotated[
    Path | None,
    typer.Option("--data", envvar="KEPT_DATA", help=DATA),
]
Sources = Annotated[
    Path | None,
    typer.Option(
        help="YAML file that describes further data sets, in the form of kept's own list."
    ),
]
NO_FOLDER = "name the folder of data sets: --data DIR, or the environment variable KEPT_DATA"


@app.command("list", cls=KeptCommand)
def list_sets(data: Folder = None, sources: Sources = None) -> None:
    """List the data sets that kept can fetch: content, owner, licence, and which files are there.

    Example: kept data list
    """
    from kept.tasks.public_data.sources import read_sources

    for name, source in read_sources(sources).items():
        here = ""
        if data is not None and source.files:
            n_here = sum((data / file.path).is_file() for file in source.files)
            here = f" {n_here} of {len(source.files)} files are here."
        n_fetched = sum(file.url is not None for file in source.files)
        way = "by hand" if not n_fetched else "kept data get"
        if 0 < n_fetched < len(source.files):
            way += f" ({len(source.files) - n_fetched} by hand)"
        if source.forbidden is not None:
            way = f"not by kept: {source.forbidden}"
        echo(f"{name}: {source.what}. {source.owner}; {source.licence}. Fetched {way}.{here}")


@app.command("get", cls=KeptCommand)
def get(
    name: Annotated[str, typer.Argument(help="Name of a data set, as `kept data list` prints it.")],
    data: Folder = None,
    sources: Sources = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Confirm that you have read the licence of the data set and accept it."
        ),
    ] = False,
) -> None:
    """Download a data set from its owner, at a fixed revision. Every file is checked by its hash.

    Files that are there are not fetched again, and an interrupted download is continued. The
    addresses come from the file listings of the owners' repositories.

    Example: kept data get codex-s --accept
    """
    from kept.errors import ConfigError
    from kept.tasks.public_data.fetching import fetch, missing_files, sweep
    from kept.tasks.public_data.sources import read_sources, source_of

    source = source_of(name, read_sources(sources))
    if source.forbidden is not None:
        raise ConfigError(
            f"{name} may not be fetched by kept ({source.licence}): {source.forbidden}"
        )
    if data is None:
        raise ConfigError(NO_FOLDER)
    echo(f"{name}: {source.what}\nowner: {source.owner}\nlicence: {source.licence}")
    missing = [each.file for each in missing_files(source, data)]
    by_hand = [file for file in missing if file.url is None]
    fetched = [file for file in missing if file.url is not None]
    if fetched and not accept:
        raise ConfigError(
            f"read the licence ({source.licence}) at {source.owner}, then confirm with "
            f"--accept that you accept it"
        )
    for file in fetched:
        fetch(file, data, report=echo)
    sweep([file for file in source.files if file not in missing], data)
    n_here = len(source.files) - len(missing)
    echo(f"already here: {counted(n_here, 'files')}; fetched: {counted(len(fetched), 'files')}")
    if by_hand:
        paths = ", ".join(str(data / file.path) for file in by_hand)
        raise ConfigError(
            f"no address is known for {counted(len(by_hand), 'files')}: download them from "
            f"{source.owner} to these paths: {paths}; then run `kept data check {name}`"
        )


@app.command("check", cls=KeptCommand)
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of data sets (default: all of which a file is there)."),
    ] = None,
    data: Folder = None,
    sources: Sources = None,
) -> None:
    """Compare every file with the hash of the original. Exit code 1 if one is missing or differs.

    Example: kept data check codex-s wiki80
    """
    from kept.errors import ConfigError
    from kept.tasks.public_data.fetching import missing_files
    from kept.tasks.public_data.sources import read_sources, source_of

    if data is None:
        raise ConfigError(NO_FOLDER)
    known = read_sources(sources)
    requested = names or [
        name
        for name, source in known.items()
        if any((data / file.path).is_file() for file in source.files)
    ]
    n_faults = 0
    for name in requested:
        source = source_of(name, known)
        missing = missing_files(source, data)
        n_faults += len(missing)
        echo(f"{name}: {len(source.files) - len(missing)} of {len(source.files)} files are right")
        for each in missing:
            echo(f"  {data / each.file.path}: {each.fault}")
    if not requested:
        echo(f"{data} holds none of the data sets that kept names")
    raise typer.Exit(1 if n_faults else 0)
