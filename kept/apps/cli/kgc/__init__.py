"""`kept kgc`: train, evaluate and ask triple scorers.

The work is in the modules of this folder, imported when a command runs: `kept --help` loads no
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from kept.apps.cli.declared import Declared, takes
from kept.apps.cli.kgc.options import EvalOptions, PredictOptions
from kept.apps.cli.options import KeptCommand
from kept.training.processes.launch import require_alone

if TYPE_CHECKING:
    from kept.kgc.options import ScorerRun

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group(ctx: typer.Context) -> None:
    """Complete a knowledge graph: train and evaluate triple scorers, and predict with them."""
    require_alone(f"kgc {ctx.invoked_subcommand}")


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
