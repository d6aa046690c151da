"""`kept link train-encoder`: vectors that bring mentions beside the cards they mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import GOLD, HELD_OUT, HOST_MODEL, KG, SEED

if TYPE_CHECKING:
    from entity_linking.names.rules.case import Case
    from kept.linking.matching.cross import CrossRecord
    from kept.linking.matching.encoder import MatchingRecord


def train_encoder(
    gold: Annotated[Path, typer.Argument(help=GOLD)],
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")],
    held_out: Annotated[
        str,
        typer.Option(metavar="FILE|SHARE", help=HELD_OUT),
    ] = "0.1",
    cross: Annotated[
        bool,
        typer.Option(
            "--cross",
            help="Train a cross-encoder instead, for `kept link index --cross`. It reads mention "
            "and description together to choose among the best three candidates; slow.",
        ),
    ] = False,
    host: Annotated[str, typer.Option(callback=local_or_hub, help=HOST_MODEL)] = "minilm",
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10**4,
            help="Number of passes over the training text (default: 8, with --cross 1).",
            show_default=False,
        ),
    ] = None,
    case: LinkCase = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUTPUT if it is an encoder.")
    ] = False,
) -> None:
    """Train an encoder of mentions and of entity descriptions, for `kept link index --dense`.

    --cross trains a cross-encoder, for `kept link index --cross` and `kept link train --add cross`.

    Example: kept link train-encoder gold.jsonl --kg kg/ -o encoder/
    """
    from entity_linking.scorers.reranker import with_gold
    from kept.apps.cli.link.train import texts_of
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker
    from kept.linking.matching.cross import KIND as CROSS_KIND
    from kept.linking.matching.cross import is_cross
    from kept.linking.matching.cross_training import CrossSettings, train_cross
    from kept.linking.matching.encoder import KIND, is_matching
    from kept.linking.matching.training import MatchingSettings, train_matching
    from kept.linking.sentences import HostSentenceEncoder
    from kg_loaders.disk.writing import refuse_folder

    kind, is_kind = (CROSS_KIND, is_cross) if cross else (KIND, is_matching)
    refuse_folder(output, kind=kind, is_kind=is_kind, force=force, inputs=[gold, kg])
    where = LinkerSettings(kg=str(kg), case=cast("Case | None", case))
    graph = open_graph(where)
    texts, stop = texts_of(gold, held_out, seed)
    linker = open_linker(where, graph)
    texts, stop = (with_gold(linker.propose(part), part) for part in (texts, stop))
    began = time.process_time()
    if cross:
        scorer = train_cross(
            host, graph, texts, stop, CrossSettings(epochs=epochs or 1, seed=seed),
            trained_on=gold.name, announce=echo,
        )  # fmt: skip
        scorer.save(output, force=force)
        record: CrossRecord | MatchingRecord = scorer.record
    else:
        encoder = train_matching(
            HostSentenceEncoder(host), host, graph, texts, stop,
            MatchingSettings(epochs=epochs or 8, seed=seed), trained_on=gold.name, announce=echo,
        )  # fmt: skip
        encoder.save(output, force=force)
        record = encoder.record
    echo(
        f"{record.n_mentions} ambiguous mentions; the right card is "
        f"{'first' if cross else 'nearest'} for {record.before:.4f} of those held out before, "
        f"{record.after:.4f} after epoch {record.n_epochs}; "
        f"{time.process_time() - began:.0f} processor seconds; in {output}"
    )
