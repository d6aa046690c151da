"""`kept probe`: which facts of a graph does a model recall?

The work is in `kept.apps.cli.probe_run`, imported when the command runs: `kept --help` loads no
torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kept.apps.cli.options import Threads, local_or_hub
from kept.bounds import MAX_COUNT, MAX_SEED, MAX_WEIGHT
from kept.errors import ConfigError


def probe(
    model: Annotated[
        str,
        typer.Argument(
            callback=local_or_hub,
            help="A masked LM (folder or hub name), a decoder (folder, or smollm2), or the folder "
            "of a run.",
        ),
    ],
    kg: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the graph; without --collection, its triples are the questions."
        ),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(help="Questions of a collection (trex, pararel, squad, …) of LAMA's folder."),
    ] = "",
    data: Annotated[Path | None, typer.Option(help="LAMA's folder, for --collection.")] = None,
    relations: Annotated[
        str, typer.Option(help="Relations to probe, comma-separated: P19,P36 (default: all).")
    ] = "",
    templates: Annotated[
        Path | None,
        typer.Option(
            help='relation<TAB>"[X] was born in [Y] ." (.tsv), or JSONL as LAMA has it. A relation '
            'without one becomes "[X] LABEL [Y] .".'
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="weights: the model alone; graph: with links and facts of the graph; both."
        ),
    ] = "weights",
    show_asked: Annotated[
        bool,
        typer.Option(
            "--show-asked", help="In mode graph, also show the facts that are the answers."
        ),
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="Words of the restricted ranking, one per line (default: all words of one piece)."
        ),
    ] = None,
    max_items: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_COUNT, help="Number of triples per relation, drawn by the seed."
        ),
    ] = None,
    edits: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_COUNT,
            help="In mode graph, change this many facts of the graph, one at a time, and report "
            "which answers change.",
        ),
    ] = 0,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one", help="Score answers of several pieces one mask at a time (slow)."
        ),
    ] = False,
    truth: Annotated[
        bool,
        typer.Option(
            "--truth",
            help="Score each object in its place by how true a run that was trained with "
            "mention_truth (WKLM) holds it; a pass for each.",
        ),
    ] = False,
    first_word: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=MAX_WEIGHT,
            help="With --truth, add so many times the probability of the object's first piece.",
        ),
    ] = 0.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for scores (JSON) and answers (JSONL)."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Seed of the drawn items and the intervals.")
    ] = 0,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> Any:
    """Probe a model with a collection's questions or a graph's triples, and rank its answers.

    Prints P@1 with the numbers of questions, scored and skipped, an interval over facts, the
    majority baseline and bins by the subject's degree, for two rankings: words of one piece, and
    all objects of the relation; then an audit of leaks.

    Example: kept probe ./my-bert --kg kg/ --relations P19,P36
    """
    from kept.apps.cli import probe_run

    return probe_run.run(
        model,
        kg,
        collection=collection,
        data=data,
        relations=[name.strip() for name in relations.split(",") if name.strip()],
        templates=templates,
        mode=mode,
        show_asked=show_asked,
        vocabulary=vocabulary,
        max_items=max_items,
        edits=edits,
        likelihood=_likelihood(one_by_one, truth, first_word),
        first_word=first_word,
        output=output,
        seed=seed,
        threads=threads,
        force=force,
    )


def _likelihood(
    one_by_one: bool, truth: bool, first_word: float
) -> Literal["at_once", "one_by_one", "truth"]:
    """How objects are scored; raises `ConfigError` for options that contradict one another."""
    if one_by_one and truth:
        raise ConfigError("--one-by-one and --truth are two ways to score an object; give one")
    if first_word and not truth:
        raise ConfigError("--first-word adds to the score of --truth; give both, or neither")
    return "truth" if truth else "one_by_one" if one_by_one else "at_once"
