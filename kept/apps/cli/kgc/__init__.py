"""`kept kgc`: train, evaluate and ask triple scorers.

The work is in the modules of this folder, imported when a command runs: `kept --help` loads no
torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kept.apps.cli.declared import Declared, argument, option, required, switch, takes
from kept.apps.cli.options import KeptCommand
from kept.bounds import MAX_COUNT
from kept.training.processes.launch import require_alone

if TYPE_CHECKING:
    from kept.kgc.options import ScorerRun

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group(ctx: typer.Context) -> None:
    """Complete a knowledge graph: train and evaluate triple scorers, and predict with them."""
    require_alone(f"kgc {ctx.invoked_subcommand}")


Source = Annotated[
    Path, typer.Argument(help="Folder of a graph, or of a data set with train, valid and test.")
]
Model = Annotated[
    Path,
    typer.Option(
        "--model",
        "-m",
        help="Folder of a trained scorer, or ready:NAME: weights of the package kept-weights.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def train(options: ScorerRun) -> None:
    """Train a scorer and keep the epoch with the best MRR on the validation triples.

    Only triples whose entities and relation occur in training count. The validation triples also
    calibrate the scorer, so that `kept kgc predict` prints a confidence with each score. After an
    interruption the same command continues from OUTPUT.training and gives the same scorer.

    Example: kept kgc train kg/ --scorer complex -o model/
    """
    from kept.apps.cli.kgc.train_options import TrainOptions
    from kept.apps.cli.kgc.training import train_scorer
    from kept.apps.cli.settings import read_setting

    scorer = TrainOptions.of(
        options.scorer, seed=options.seed, holdout=options.holdout,
        **options.scorer_options(), **dict(map(read_setting, options.settings)),
    )  # fmt: skip
    train_scorer(
        options.source, options.output, scorer, force=options.force,
        every_seconds=options.checkpoint_seconds,
    )  # fmt: skip


app.command("train", cls=KeptCommand)(
    Declared("kept.kgc.options:KgcTrainOptions", train, arguments=("source",))
)


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What `kept kgc eval` is given; a field is an option."""

    source: Source
    model: Model
    split: str = option("Split whose triples are ranked: train, valid or test.", default="test")
    ties: str = option(
        "Rank among answers with the same score: optimistic (the best), realistic (the "
        "mean) or pessimistic (the worst).",
        default="realistic",
    )
    directions: str = option(
        "What to predict, separated by commas: head, relation, tail.", default="head,tail"
    )
    negatives: Path | None = option(
        "Also classify triples as true or false, with valid_negatives and "
        "test_negatives of this folder."
    )
    classify: bool = switch("Also classify triples as true or false, with the negatives in SOURCE.")
    pooled: bool = switch(
        "Put all triples into one score, also those with entities or relations that "
        "were not in training. Published numbers do this."
    )
    repeats: bool = switch("Rank a triple as often as it occurs in the split (default: once).")
    baselines: bool = option(
        "Also print the ranks of two baselines, degree and PageRank, and the ranks "
        "among 50 sampled entities.",
        default=True,
    )
    as_json: AsJson = False


@app.command("eval", cls=KeptCommand)
@takes(EvalOptions)
def eval_command(options: EvalOptions) -> None:
    """Print filtered ranks of a split (MRR, hits), and with negatives triple classification.

    The main score is over the triples whose entities and relation occur in training. Those with
    one or both entities unknown are scored separately; --pooled puts all into one score, as
    published numbers do. Scorers that read paths or texts can be evaluated on a graph that they
    were not trained on: give its folder, whose training triples are what they read.

    Example: kept kgc eval kg/ -m model/
    """
    from kept.apps.cli.kgc.evaluation import evaluate

    evaluate(options)


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """What `kept kgc predict` is given; a field is an option."""

    head: str = argument('Identifier or label, or "?".')
    relation: str = argument('Identifier or label, or "?".')
    kg: Path = required("Folder of the graph or data set that the scorer was trained on.")
    model: Model
    tail: str = argument('Identifier or label, or "?".', default="?")
    top: int = option("Number of answers to print.", default=10, bounds=(1, MAX_COUNT))
    untrained: bool = switch(
        "Include entities and relations that were not in training. Their scores mean little."
    )
    text: str | None = option('Text of an entity that is not in the graph, as "name: description".')
    facts: Path | None = option(
        "TSV file with triples of an entity that is not in the graph: head, relation "
        "and tail in each line."
    )
    explain: bool = switch(
        "Also print the facts, or the parts of texts, that the best answer depends on."
    )
    refuse_below: float = option(
        "Print that there is no answer if the confidence is lower, from 0 to 1.",
        default=0.5,
        bounds=(0, 1),
    )
    as_json: AsJson = False


@app.command("predict", cls=KeptCommand)
@takes(PredictOptions)
def predict_command(options: PredictOptions) -> Any:
    """Print the best answers for the slot "?", and mark those that are in the graph.

    Entities and relations that were not in training are refused and are not offered as answers. An
    entity is not offered as an answer about itself, unless the graph has such a triple of the
    relation. For an entity that is not in the graph, ultra and nbfnet need its --facts, and
    simkgc, dkrl, kepler and colake its --text.

    Example: kept kgc predict NEW P17 --kg kg/ -m model/ --text "Lumen: a city on the Po in Italy"
    """
    from kept.apps.cli.kgc.prediction import predict

    return predict(options)
