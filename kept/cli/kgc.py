"""`kept kgc`: train, evaluate and ask triple scorers.

The work is in `kept.cli.kgc_runs`, imported when a command runs: `kept --help` loads no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.bounds import MAX_COUNT, MAX_SEED
from kept.cli.options import KeptCommand

app = typer.Typer(
    help="Complete a knowledge graph: train, evaluate and ask triple scorers.",
    no_args_is_help=True,
)

Source = Annotated[Path, typer.Argument(help="Graph folder, or one with train, valid and test.")]
Model = Annotated[Path, typer.Option("--model", "-m", help="Folder of a trained scorer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("train", cls=KeptCommand)
def train_command(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")],
    scorer: Annotated[
        str,
        typer.Option(
            help="transe, rescal, distmult, complex or rotate; rgcn, compgcn or bertmk: a "
            "network over the graph, whose states are kept."
        ),
    ] = "complex",
    reciprocal: Annotated[
        bool, typer.Option("--reciprocal", help="Ask for heads as tails of inverse relations.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="Instead of the recipe's.")
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=2, max=2**16, help="Instead of the recipe's.")
    ] = None,
    norm: Annotated[
        int | None, typer.Option(min=1, max=2, help="Of transe (else 2) or rotate (else 1).")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Of the split, the vectors and the training.")
    ] = 0,
    holdout: Annotated[
        float,
        typer.Option(
            min=0, max=0.5, help="Share of a graph for testing, and the same for validation."
        ),
    ] = 0.05,
    force: Annotated[bool, typer.Option("--force", help="Replace a scorer at OUTPUT.")] = False,
) -> None:
    """Train a scorer and keep the epoch with the best validation MRR, over seen triples."""
    from kept.cli import kgc_runs

    kgc_runs.train_scorer(
        source, output, name=scorer, reciprocal=reciprocal, epochs=epochs, width=width, norm=norm,
        seed=seed, holdout=holdout, force=force,
    )  # fmt: skip


@app.command("eval", cls=KeptCommand)
def eval_command(
    source: Source,
    model: Model,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    ties: Annotated[str, typer.Option(help="optimistic, realistic or pessimistic.")] = "realistic",
    directions: Annotated[str, typer.Option(help="Any of head,relation,tail.")] = "head,tail",
    negatives: Annotated[
        Path | None,
        typer.Option(help="Folder with valid_negatives and test_negatives: classify triples too."),
    ] = None,
    pooled: Annotated[
        bool,
        typer.Option(
            "--pooled", help="Score all triples together, also those that training never saw."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Filtered ranks of a split, with their conditions; triple classification with negatives.

    Scores are over the triples whose entities and relation training saw; half seen and unseen ones
    stand apart. Published numbers pool them all: --pooled.
    """
    from kept.cli import kgc_runs

    kgc_runs.evaluate(
        source, model, split=split, ties=ties, directions=directions.split(","),
        negatives=negatives, pooled=pooled, as_json=as_json,
    )  # fmt: skip


@app.command("predict", cls=KeptCommand)
def predict_command(
    head: Annotated[str, typer.Argument(help='Identifier, or "?".')],
    relation: Annotated[str, typer.Argument(help='Identifier, or "?".')],
    source: Annotated[Path, typer.Option("--kg", help="Graph or folder of the training.")],
    model: Model,
    tail: Annotated[str, typer.Argument(help='Identifier, or "?".')] = "?",
    top: Annotated[int, typer.Option(min=1, max=MAX_COUNT, help="Answers to show.")] = 10,
    untrained: Annotated[
        bool,
        typer.Option("--untrained", help="Include entities and relations that training never saw."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the best answers for the slot "?"; known ones are marked.

    An entity or relation that training never saw is refused, and is no answer. An entity is none of
    its own answers, unless a known triple of the relation joins some entity with itself.
    """
    from kept.cli import kgc_runs

    kgc_runs.predict(
        source, model, (head, relation, tail), top=top, untrained=untrained, as_json=as_json
    )
