"""`kept audit`: do answers leak from what the model was given? One table, one exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kept.apps.cli.declared import option, switch, takes
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.help_texts import FORCE_FILES, TEST, TRAIN

if TYPE_CHECKING:
    from kept.evaluation.audit import AuditPart


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What the command is given; a field is an option."""

    kg: Path | None = option("Graph that the model reads or learns from.")
    triples: list[str] | None = option(
        "Folder or file of triples with splits; `train` is used as the graph.", metavar="SET=FILE"
    )
    format: str | None = option("Format of --train, --dev and --test.")
    train: Path | None = option(TRAIN)
    dev: Path | None = option("File of development examples.")
    test: Path | None = option(TEST)
    text: list[Path] | None = option("Training text of a model: linked JSON lines, or plain lines.")
    cloze: list[Path] | None = option("Cloze questions: JSON lines in the form of LAMA.")
    against: list[str] | None = option(
        "Another data set, whose training triples are compared: a folder, or a name "
        "below KEPT_DATA.",
        metavar="NAME",
    )
    allow: list[str] | None = option(
        "Share of a leak to tolerate, such as pair-in-graph=0.05. May be repeated.",
        metavar="CHECK=SHARE",
    )
    output: list[Path] | None = option(
        "File for the result: .md, .json or .csv. May be repeated.", "--output", "-o"
    )
    force: bool = switch(FORCE_FILES)


@takes(AuditOptions)
def audit(options: AuditOptions) -> None:
    """Look for leaks: test answers in the graph, the training text or set, or the question.

    Exit code 0: no leak beyond what --allow tolerates. 1: a leak, or a damaged file. 3: no leak,
    but not everything could be checked (rows `…-not-checked`; --allow tolerates a share of these).

    --against checks whether tested triples, or their inverses, are in the training triples of
    another data set. Weights that were trained there have seen them.

    Example: kept audit --kg kg/ --format wiki80 --train train.txt --dev dev.txt -o audit.md
    """
    from kept.apps.cli.comparing.audit_sets import (
        cloze_part,
        other_data_set,
        read_training_text,
        triples_part,
    )
    from kept.evaluation.audit import WRITERS, as_markdown, require_codes
    from kept.evaluation.audit import audit as checks_of
    from kept.evaluation.leakage import exit_code
    from kg_loaders import KnowledgeGraph
    from kg_loaders.disk.writing import refuse_file, write_text

    allowed = _named(options.allow, "--allow CHECK=SHARE")
    limits = {code: _share(code, value) for code, value in allowed}
    require_codes(limits)
    texts, cloze, outputs = options.text or (), options.cloze or (), options.output or ()
    for path in outputs:
        if path.suffix not in WRITERS:
            raise ConfigError(f"{path}: the ending must be one of {', '.join(WRITERS)}")
        refuse_file(path, force=options.force, inputs=[*texts, *cloze])
    sets = _named(options.triples, "--triples SET=FILE")
    parts = [triples_part(name, Path(file)) for name, file in sets]
    files = {"train": options.train, "dev": options.dev, "test": options.test}
    parts += _task_parts(options.format, files)
    parts += [cloze_part(path.name, path) for path in cloze]
    checks = checks_of(
        parts,
        graph=None if options.kg is None else KnowledgeGraph.open(options.kg),
        training_texts=(line for path in texts for line in read_training_text(path)),
        against=dict(other_data_set(name) for name in options.against or ()),
    )
    echo(as_markdown(checks, limits), nl=False)
    for path in outputs:
        write_text(path, WRITERS[path.suffix](checks, limits), force=options.force)
    raise typer.Exit(exit_code(checks, allowed=limits))


def _task_parts(format: str | None, files: dict[str, Path | None]) -> list[AuditPart]:
    from kept.apps.cli.comparing.audit_sets import task_part

    paths = {name: path for name, path in files.items() if path is not None}
    if paths and format is None:
        raise ConfigError(
            f"--format is missing: which one has {', '.join(map(str, paths.values()))}?"
        )
    return [task_part(name, path, format or "") for name, path in paths.items()]


def _named(values: Sequence[str] | None, usage: str) -> list[tuple[str, str]]:
    pairs = []
    for value in values or ():
        name, separator, rest = value.partition("=")
        if not (name and separator and rest):
            raise ConfigError(f"{value!r}: write {usage}")
        pairs.append((name, rest))
    return pairs


def _share(code: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise ConfigError(f"--allow {code}={value}: {value!r} is not a number") from error
