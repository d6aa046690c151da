"""Options of `kept kgc eval` and `kept kgc predict`, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.declared import argument, option, required, switch
from kept.bounds import MAX_COUNT

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
