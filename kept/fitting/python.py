"""`kept.fit`: the command as a function, with the same options."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from kept.errors import ConfigError
from kept.fitting.options import FitOptions
from kept.fitting.run import FitResult
from kept.fitting.run import fit as fit_options
from kg_loaders import KnowledgeGraph


def fit(
    data: str | Path,
    kg: KnowledgeGraph | str | Path,
    output: str | Path | None = None,
    *,
    quiet: bool = False,
    **options: Any,
) -> FitResult:
    """Return what a fit of `data` over `kg` found; the model is in its `output`.

    `data` is a file of labelled texts, `kg` a folder or an open graph, `options` are those of
    `kept fit --help` (`kept.fitting.options.FitOptions`), with underscores. Without an `output` a
    temporary folder is made. Progress goes to standard error, unless `quiet`. Raises `ConfigError`
    naming every faulty option.

    >>> import kept
    >>> result = kept.fit("people.csv", kg="kg/", output="runs/people")    # doctest: +SKIP
    >>> result.verdict.key                                                 # doctest: +SKIP
    'decides'
    """
    folder = Path(tempfile.mkdtemp(prefix="kept-fit-")) if output is None else Path(output)
    if isinstance(kg, KnowledgeGraph):
        place = kg.folder
        if place is None:
            if output is not None:
                raise ConfigError(
                    'a graph in memory: save it (graph.save("kg/")) and give the '
                    "folder, which the run refers to"
                )
            place = folder / "kg"
            kg.save(place)
            folder = folder / "run"
        kg = place
    fields = {"data": data, "kg": kg, "output": folder, **options}

    def announce(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    return fit_options(FitOptions.read(None, fields), (lambda line: None) if quiet else announce)
