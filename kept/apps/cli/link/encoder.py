"""`kept link train-encoder`: vectors that bring mentions beside the cards they mean."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import GOLD, HELD_OUT, HOST_MODEL, KG, SEED

if TYPE_CHECKING:
    from kept.linking.matching.cross import CrossRecord
    from kept.linking.matching.encoder import MatchingRecord


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """What the command is given; a field is an option."""

    gold: Path = argument(GOLD)
    kg: Path = required(KG)
    output: Path = required("Folder to make.", "--output", "-o")
    held_out: str = option(HELD_OUT, default="0.1", metavar="FILE|SHARE")
    cross: bool = switch(
        "Train a cross-encoder instead, for `kept link index --cross`. It reads mention "
        "and description together to choose among the best three candidates; slow."
    )
    host: str = option(HOST_MODEL, default="minilm", callback=local_or_hub)
    epochs: int | None = option(
        "Number of passes over the training text (default: 8, with --cross 1).",
        bounds=(1, 10**4),
        show_default=False,
    )
    case: LinkCase = None
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    force: bool = switch("Replace OUTPUT if it is an encoder.")


@takes(EncoderOptions)
def train_encoder(options: EncoderOptions) -> None:
    """Train an encoder of mentions and of entity descriptions, for `kept link index --dense`.

    --cross trains a cross-encoder, for `kept link index --cross` and `kept link train --add cross`.

    Example: kept link train-encoder gold.jsonl --kg kg/ -o encoder/
    """
    from entity_linking.scorers.reranker import with_gold
    from kept.apps.cli.link.train import texts_of
    from kept.linking.linkers import open_graph, open_linker, settings_from
    from kept.linking.matching.cross import CROSS
    from kept.linking.matching.cross_training import CrossSettings, train_cross
    from kept.linking.matching.encoder import MATCHING
    from kept.linking.matching.training import MatchingSettings, train_matching
    from kept.linking.sentences import HostSentenceEncoder
    from kg_loaders.disk.columns import replaced
    from kg_loaders.disk.writing import refuse_folder

    kind = replaced(CROSS if options.cross else MATCHING)
    inputs = [options.gold, options.kg]
    refuse_folder(options.output, **kind, force=options.force, inputs=inputs)
    where = settings_from(options, "kg", "case")
    graph = open_graph(where)
    texts, stop = texts_of(options.gold, options.held_out, options.seed)
    linker = open_linker(where, graph)
    texts, stop = (with_gold(linker.propose(part), part) for part in (texts, stop))
    began = time.process_time()
    name, host, seed = options.gold.name, options.host, options.seed
    if options.cross:
        settings = CrossSettings(epochs=options.epochs or 1, seed=seed)
        scorer = train_cross(host, graph, texts, stop, settings, trained_on=name, announce=echo)
        scorer.save(options.output, force=options.force)
        record: CrossRecord | MatchingRecord = scorer.record
    else:
        start = HostSentenceEncoder(host)
        matching = MatchingSettings(epochs=options.epochs or 8, seed=seed)
        encoder = train_matching(
            start, host, graph, texts, stop, matching, trained_on=name, announce=echo
        )
        encoder.save(options.output, force=options.force)
        record = encoder.record
    rank = "first" if options.cross else "nearest"
    echo(
        f"{record.n_mentions} ambiguous mentions; the right card is {rank} for "
        f"{record.before:.4f} of those held out before, "
        f"{record.after:.4f} after epoch {record.n_epochs}; "
        f"{time.process_time() - began:.0f} processor seconds; in {options.output}"
    )
