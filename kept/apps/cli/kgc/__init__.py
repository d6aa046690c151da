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
from kept.training.processes.launch import require_alone

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group(ctx: typer.Context) -> None:
    """Complete a knowledge graph: train, evaluate and ask triple scorers."""
    require_alone(f"kgc {ctx.invoked_subcommand}")


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
            "network over the graph, whose states are kept; ultra or nbfnet (paths), simkgc, "
            "dkrl, kepler or colake (texts): answers any other graph too; mix: of trained ones "
            "(--of)."
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
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Of ultra: a released file; with --epochs it is trained further. Of kepler: a run "
            "of kept pretrain."
        ),
    ] = None,
    of: Annotated[
        list[Path] | None,
        typer.Option(help="Of mix: folders of trained scorers, weighed on validation."),
    ] = None,
    host: HostModel = None,
    batch_size: Annotated[
        int | None, typer.Option(min=2, max=2**20, help="Of scorers that answer any graph.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Of simkgc: end after as many.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=4, max=512, help="Of simkgc, kepler, colake: word pieces of a text."),
    ] = None,
    ask: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="Of ultra, nbfnet, kepler, colake: triples asked in an epoch; all epochs are run.",
        ),
    ] = None,
    literals: Annotated[
        bool,
        typer.Option(
            "--literals",
            help="Of scorers that read texts: numbers and dates of literals.tsv in SOURCE, before "
            "descriptions.",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Of the split, the vectors and the training.")
    ] = 0,
    holdout: Annotated[
        float,
        typer.Option(
            min=0, max=0.5, help="Share of a graph for testing, and the same for validation."
        ),
    ] = 0.05,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(min=0, max=86_400, help="Write the state of the training at most as often."),
    ] = 60.0,
    force: Annotated[bool, typer.Option("--force", help="Replace a scorer at OUTPUT.")] = False,
) -> None:
    """Train a scorer and keep the epoch with the best validation MRR, over seen triples.

    Validation also calibrates it: `kept kgc predict` prints a confidence beside each score. Killed
    at any moment, the same command goes on, from OUTPUT.training, to the same scorer.

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
