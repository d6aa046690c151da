"""`kept kgc`: train, evaluate and ask triple scorers.

The work is in the modules of this folder, imported when a command runs: `kept --help` loads no
torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.apps.cli.options import HostModel, KeptCommand
from kept.bounds import MAX_COUNT, MAX_SEED
from kept.help_texts import SEED
from kept.training.processes.launch import require_alone

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group(ctx: typer.Context) -> None:
    """Complete a knowledge graph: train and evaluate triple scorers, and predict with them."""
    require_alone(f"kgc {ctx.invoked_subcommand}")


Source = Annotated[
    Path, typer.Argument(help="Folder of a graph, or of a data set with train, valid and test.")
]
Model = Annotated[Path, typer.Option("--model", "-m", help="Folder of a trained scorer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("train", cls=KeptCommand)
def train_command(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")],
    scorer: Annotated[
        str,
        typer.Option(
            help="Kind of scorer. transe, rescal, distmult, complex or rotate: a vector per "
            "entity. rgcn, compgcn or bertmk: a network over the graph. ultra or nbfnet "
            "(paths), simkgc, dkrl, kepler or colake (texts): also answer for graphs that "
            "they were not trained on. mix: a weighted sum of trained scorers (--of)."
        ),
    ] = "complex",
    reciprocal: Annotated[
        bool,
        typer.Option(
            "--reciprocal",
            help="Train an inverse of each relation, and predict heads as tails of inverses.",
        ),
    ] = False,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10**6,
            help="Largest number of passes over the training triples (default: that of the recipe "
            "of the scorer).",
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=2**16,
            help="Number of dimensions of the vectors (default: that of the recipe of the scorer).",
        ),
    ] = None,
    norm: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2,
            help="With transe or rotate: norm of the distance, 1 or 2 (default: transe 2, rotate "
            "1).",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="With ultra: a released checkpoint, which --epochs trains further. With kepler: "
            "the folder of a run of `kept pretrain`."
        ),
    ] = None,
    of: Annotated[
        list[Path] | None,
        typer.Option(
            help="With mix: folder of a trained scorer. Its weight is fitted on the validation "
            "triples. May be repeated."
        ),
    ] = None,
    host: HostModel = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=2**20,
            help="With ultra, nbfnet or a scorer that reads texts: number of triples per batch "
            "(default: that of the recipe).",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="With simkgc: number of optimiser steps after which training ends (default: all "
            "epochs).",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=4,
            max=512,
            help="With simkgc, kepler or colake: longest text of an entity, in word pieces "
            "(default: that of the recipe).",
        ),
    ] = None,
    ask: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="With ultra, nbfnet, kepler or colake: number of training triples per epoch "
            "(default: that of the recipe). All epochs are run; none is skipped because "
            "validation has stopped to improve.",
        ),
    ] = None,
    literals: Annotated[
        bool,
        typer.Option(
            "--literals",
            help="With a scorer that reads texts: put the numbers and dates in "
            "SOURCE/literals.tsv before the descriptions.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    holdout: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.5,
            help="If SOURCE has no splits: share of its triples to hold out for testing, and the "
            "same share for validation.",
        ),
    ] = 0.05,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(min=0, max=86_400, help="Smallest number of seconds between two checkpoints."),
    ] = 60.0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUTPUT if it is a scorer.")
    ] = False,
) -> None:
    """Train a scorer and keep the epoch with the best MRR on the validation triples.

    Only triples whose entities and relation occur in training count. The validation triples also
    calibrate the scorer, so that `kept kgc predict` prints a confidence with each score. After an
    interruption the same command continues from OUTPUT.training and gives the same scorer.

    Example: kept kgc train kg/ --scorer complex -o model/
    """
    from kept.apps.cli.kgc.train_options import TrainOptions
    from kept.apps.cli.kgc.training import train_scorer

    options = TrainOptions(
        name=scorer, reciprocal=reciprocal, epochs=epochs, width=width, norm=norm, seed=seed,
        holdout=holdout, weights=weights, host=host, batch_size=batch_size, steps=steps, ask=ask,
        tokens=tokens, of=tuple(of or ()), literals=literals,
    )  # fmt: skip
    train_scorer(source, output, options, force=force, every_seconds=checkpoint_seconds)


@app.command("eval", cls=KeptCommand)
def eval_command(
    source: Source,
    model: Model,
    split: Annotated[
        str, typer.Option(help="Split whose triples are ranked: train, valid or test.")
    ] = "test",
    ties: Annotated[
        str,
        typer.Option(
            help="Rank among answers with the same score: optimistic (the best), realistic (the "
            "mean) or pessimistic (the worst)."
        ),
    ] = "realistic",
    directions: Annotated[
        str, typer.Option(help="What to predict, separated by commas: head, relation, tail.")
    ] = "head,tail",
    negatives: Annotated[
        Path | None,
        typer.Option(
            help="Also classify triples as true or false, with valid_negatives and "
            "test_negatives of this folder."
        ),
    ] = None,
    classify: Annotated[
        bool,
        typer.Option(
            "--classify",
            help="Also classify triples as true or false, with the negatives in SOURCE.",
        ),
    ] = False,
    pooled: Annotated[
        bool,
        typer.Option(
            "--pooled",
            help="Put all triples into one score, also those with entities or relations that "
            "were not in training. Published numbers do this.",
        ),
    ] = False,
    repeats: Annotated[
        bool,
        typer.Option(
            "--repeats", help="Rank a triple as often as it occurs in the split (default: once)."
        ),
    ] = False,
    baselines: Annotated[
        bool,
        typer.Option(
            help="Also print the ranks of two baselines, degree and PageRank, and the ranks "
            "among 50 sampled entities."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Print filtered ranks of a split (MRR, hits), and with negatives triple classification.

    The main score is over the triples whose entities and relation occur in training. Those with
    one or both entities unknown are scored separately; --pooled puts all into one score, as
    published numbers do. Scorers that read paths or texts can be evaluated on a graph that they
    were not trained on: give its folder, whose training triples are what they read.

    Example: kept kgc eval kg/ -m model/
    """
    from kept.apps.cli.kgc.evaluation import EvalOptions, evaluate

    options = EvalOptions(
        split=split, ties=ties, directions=directions.split(","), negatives=negatives,
        classify=classify, pooled=pooled, repeats=repeats, baselines=baselines, as_json=as_json,
    )  # fmt: skip
    evaluate(source, model, options)


@app.command("predict", cls=KeptCommand)
def predict_command(
    head: Annotated[str, typer.Argument(help='Identifier or label, or "?".')],
    relation: Annotated[str, typer.Argument(help='Identifier or label, or "?".')],
    kg: Annotated[
        Path,
        typer.Option(
            "--kg", help="Folder of the graph or data set that the scorer was trained on."
        ),
    ],
    model: Model,
    tail: Annotated[str, typer.Argument(help='Identifier or label, or "?".')] = "?",
    top: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="Number of answers to print.")
    ] = 10,
    untrained: Annotated[
        bool,
        typer.Option(
            "--untrained",
            help="Include entities and relations that were not in training. Their scores mean "
            "little.",
        ),
    ] = False,
    text: Annotated[
        str | None,
        typer.Option(help='Text of an entity that is not in the graph, as "name: description".'),
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option(
            help="TSV file with triples of an entity that is not in the graph: head, relation "
            "and tail in each line."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also print the facts, or the parts of texts, that the best answer depends on.",
        ),
    ] = False,
    refuse_below: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Print that there is no answer if the confidence is lower, from 0 to 1.",
        ),
    ] = 0.5,
    as_json: AsJson = False,
) -> Any:
    """Print the best answers for the slot "?", and mark those that are in the graph.

    Entities and relations that were not in training are refused and are not offered as answers. An
    entity is not offered as an answer about itself, unless the graph has such a triple of the
    relation. For an entity that is not in the graph, ultra and nbfnet need its --facts, and
    simkgc, dkrl, kepler and colake its --text.

    Example: kept kgc predict NEW P17 --kg kg/ -m model/ --text "Lumen: a city on the Po in Italy"
    """
    from kept.apps.cli.kgc.prediction import PredictOptions, predict

    options = PredictOptions(
        top=top, untrained=untrained, text=text, facts=facts, explain=explain,
        refuse_below=refuse_below, as_json=as_json,
    )  # fmt: skip
    return predict(kg, model, (head, relation, tail), options)
