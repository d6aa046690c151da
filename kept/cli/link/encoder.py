"""`kept link train-encoder`: vectors that bring mentions beside the cards they mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from kept.bounds import MAX_SEED
from kept.cli.options import local_or_hub
from kept.cli.terminal import echo


def train_encoder(
    gold: Annotated[Path, typer.Argument(help="Annotated texts, as `kept link -o` writes them.")],
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")],
    held_out: Annotated[
        str,
        typer.Option(
            metavar="FILE|SHARE", help="Held-out texts that choose the epoch, or a share of GOLD."
        ),
    ] = "0.1",
    host: Annotated[
        str, typer.Option(callback=local_or_hub, help="minilm, a folder, or a hub name.")
    ] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, max=10**4, help="Passes over the texts.")] = 8,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of split and training.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing encoder.")] = False,
) -> None:
    """Train vectors of mentions in context and of entity cards, for `kept link index --dense`.

    Example: kept link train-encoder gold.jsonl --kg kg/ -o encoder/
    """
    from entity_linking.scorers.reranker import with_gold
    from kept.cli.link.train import texts_of
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker
    from kept.linking.matching.encoder import KIND, is_matching
    from kept.linking.matching.training import MatchingSettings, train_matching
    from kept.linking.sentences import HostSentenceEncoder
    from kg_loaders.disk.writing import refuse_folder

    refuse_folder(output, kind=KIND, is_kind=is_matching, force=force, inputs=[gold, kg])
    where = LinkerSettings(kg=str(kg))
    graph = open_graph(where)
    texts, stop = texts_of(gold, held_out, seed)
    linker = open_linker(where, graph)
    texts, stop = (with_gold(linker.propose(part), part) for part in (texts, stop))
    began = time.process_time()
    settings = MatchingSettings(epochs=epochs, seed=seed)
    encoder = train_matching(
        HostSentenceEncoder(host), host, graph, texts, stop, settings,
        trained_on=gold.name, announce=echo,
    )  # fmt: skip
    encoder.save(output, force=force)
    record = encoder.record
    echo(
        f"{record.n_mentions} ambiguous mentions; the right card is nearest for "
        f"{record.before:.4f} of those held out before, {record.after:.4f} after epoch "
        f"{record.n_epochs}; {time.process_time() - began:.0f} processor seconds; in {output}"
    )
