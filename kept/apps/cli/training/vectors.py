"""`kept vectors`: words and entities with vectors in one space.

The work is in `kept.apps.cli.training.vectors_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import KeptCommand

if TYPE_CHECKING:
    from kept.joint.options import VectorsOptions

app = typer.Typer(
    help="Train vectors of words and entities in one space, from linked text and a graph.",
    no_args_is_help=True,
)


def train(options: VectorsOptions) -> None:
    """Train vectors of words and entities, as ERNIE, KnowBERT and E-BERT read them.

    Give OUTPUT/vectors.txt to these methods as `vectors` or `vectors_from`. wang2014, zhong2015 and
    xu2017 also write OUTPUT/scorer, which `kept kgc eval` and `kept kgc predict` read. Ctrl-C stops
    after the current step and writes a checkpoint; a run that is continued gives the same vectors.

    Example: kept vectors train --kg kg/ --text linked.jsonl --model wikipedia2vec -o space/
    """
    from kept.apps.cli.training import vectors_run

    vectors_run.run(options)


app.command("train", cls=KeptCommand)(Declared("kept.joint.options:VectorsOptions", train))
