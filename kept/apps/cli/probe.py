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
from kept.help_texts import FORCE_FILES, SEED


def probe(
    model: Annotated[
        str,
        typer.Argument(
            callback=local_or_hub,
            help="A masked language model (a folder or a name on the Hugging Face hub), a "
            "decoder (a folder, or smollm2), or the folder of a run.",
        ),
    ],
    kg: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the knowledge graph. Its triples are the questions, unless "
            "--collection is given."
        ),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(
            help="Use the questions of this collection in the folder of LAMA: trex, pararel, "
            "squad, …"
        ),
    ] = "",
    data: Annotated[Path | None, typer.Option(help="Folder of LAMA, for --collection.")] = None,
    relations: Annotated[
        str,
        typer.Option(
            help="Relations to probe, separated by commas, such as P19,P36 (default: all)."
        ),
    ] = "",
    templates: Annotated[
        Path | None,
        typer.Option(
            help='File with a sentence for each relation: TSV with lines such as P19<TAB>"[X] '
            'was born in [Y] .", or JSON lines in the form of LAMA. A relation without a '
            'sentence becomes "[X] LABEL [Y] .".'
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="weights: the model alone. graph: the model with links and facts of the graph. "
            "both: one after the other."
        ),
    ] = "weights",
    show_asked: Annotated[
        bool,
        typer.Option(
            "--show-asked",
            help="With --mode graph: also give the model the facts that are the answers.",
        ),
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="File with the words to rank, one per line (default: all words of one piece)."
        ),
    ] = None,
    max_items: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="Largest number of triples per relation; more are sampled with --seed (default: "
            "all).",
        ),
    ] = None,
    edits: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_COUNT,
            help="With --mode graph: change this many facts, one at a time, and report which "
            "answers change.",
        ),
    ] = 0,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one",
            help="Score answers of several word pieces by filling one mask at a time (slow).",
        ),
    ] = False,
    truth: Annotated[
        bool,
        typer.Option(
            "--truth",
            help="Rank answers by how true the model judges the sentence with each of them. "
            "Needs a run trained with the objective mention_truth (WKLM); slow, one pass "
            "per answer.",
        ),
    ] = False,
    first_word: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=MAX_WEIGHT,
            help="With --truth: weight of the probability of the answer's first word piece, "
            "which is added to the score.",
        ),
    ] = 0.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for scores (JSON) and answers (JSON lines)."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_FILES)] = False,
) -> Any:
    """Probe what a model knows: rank its answers to cloze questions from a collection or a graph.

    Printed are P@1 with the number of questions that were scored and skipped, an interval over
    facts, the majority baseline, and scores by the number of facts about the subject. There are two
    rankings: among words of one piece, and among all objects of the relation. An audit of leaks
    follows.

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
