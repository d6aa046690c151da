"""`kept kgc`: train, evaluate and ask triple scorers.

The work is in the modules of this folder, imported when a command runs: `kept --help` loads no
torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import KeptCommand
from kept.bounds import MAX_COUNT
from kept.training.processes.launch import require_alone

if TYPE_CHECKING:
    from kept.kgc.options import ScorerRun

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group(ctx: typer.Context) -> None:
    """Complete a knowledge graph: train, evaluate and ask triple scorers."""
    require_alone(f"kgc {ctx.invoked_subcommand}")


Source = Annotated[Path, typer.Argument(help="Graph folder, or one with train, valid and test.")]
Model = Annotated[Path, typer.Option("--model", "-m", help="Folder of a trained scorer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def train(options: ScorerRun) -> None:
    """Train a scorer and keep the epoch with the best validation MRR, over seen triples.

    Validation also calibrates it: `kept kgc predict` prints a confidence beside each score. Killed
    at any moment, the same command goes on, from OUTPUT.training, to the same scorer.

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
    classify: Annotated[
        bool, typer.Option("--classify", help="The same, with those that lie beside the triples.")
    ] = False,
    pooled: Annotated[
        bool,
        typer.Option(
            "--pooled", help="Score all triples together, also those that training never saw."
        ),
    ] = False,
    repeats: Annotated[
        bool,
        typer.Option("--repeats", help="Rank a triple as often as the split has it, not once."),
    ] = False,
    baselines: Annotated[
        bool,
        typer.Option(help="Ranks by degree and PageRank, and among 50 sampled entities, beside."),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Filtered ranks of a split, with their conditions; triple classification with negatives.

    Scores are over the triples whose entities and relation training saw; half seen and unseen ones
    stand apart. Published numbers pool them all: --pooled. Scorers that read are asked about any
    graph: give another folder than that of the training, whose train is what they read.

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
    kg: Annotated[Path, typer.Option("--kg", help="Graph or folder of the training.")],
    model: Model,
    tail: Annotated[str, typer.Argument(help='Identifier or label, or "?".')] = "?",
    top: Annotated[int, typer.Option(min=1, max=MAX_COUNT, help="Answers to show.")] = 10,
    untrained: Annotated[
        bool,
        typer.Option("--untrained", help="Include entities and relations that training never saw."),
    ] = False,
    text: Annotated[
        str | None,
        typer.Option(help='Of an entity that is not in the graph: "name: description".'),
    ] = None,
    facts: Annotated[
        Path | None, typer.Option(help="Its known triples: head, relation, tail in a line.")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Facts, or parts of texts, behind the best answer."),
    ] = False,
    refuse_below: Annotated[
        float,
        typer.Option(min=0, max=1, help="Say that there is no answer below this confidence."),
    ] = 0.5,
    as_json: AsJson = False,
) -> Any:
    """Print the best answers for the slot "?"; known ones are marked.

    An entity or relation that training never saw is refused, and is no answer. An entity is none of
    its own answers, unless a known triple of the relation joins some entity with itself. ultra and
    nbfnet also answer for an entity that is not in the graph by its --facts, simkgc, dkrl, kepler
    and colake by its --text.

    Example: kept kgc predict NEW P17 --kg kg/ -m model/ --text "Lumen: a city on the Po in Italy"
    """
    from kept.apps.cli.kgc.prediction import PredictOptions, predict

    options = PredictOptions(
        top=top, untrained=untrained, text=text, facts=facts, explain=explain,
        refuse_below=refuse_below, as_json=as_json,
    )  # fmt: skip
    return predict(kg, model, (head, relation, tail), options)
