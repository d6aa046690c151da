"""`kept link train-tagger`: a tagger of names from texts whose names are all marked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import EPOCHS_TEXT, HOST_MODEL, SEED


def train_tagger(
    marked: Annotated[
        list[Path],
        typer.Argument(help="Texts in which every name is marked: CoNLL, DocRED, or JSON lines."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")],
    held_out: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.9, help="Share of the texts that decides which epoch is kept."
        ),
    ] = 0.1,
    host: Annotated[str, typer.Option(help=HOST_MODEL)] = "minilm",
    layers: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="Number of layers of the language model to use, from the first. More are slower "
            "and more accurate.",
        ),
    ] = 2,
    epochs: Annotated[int, typer.Option(min=1, max=10**4, help=EPOCHS_TEXT)] = 2,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUTPUT if it is a tagger.")
    ] = False,
) -> None:
    """Train a tagger that finds names in text, for `kept link --tagger` and `calibrate`.

    Example: kept link train-tagger wikigold.conll.txt.gz -o tagger/
    """
    from entity_linking.randomness import generator
    from kept.linking.tagging.marked import read_marked
    from kept.linking.tagging.tagger import KIND, is_tagger
    from kept.linking.tagging.training import TaggerSettings, span_scores, train_tagger
    from kg_loaders.disk.writing import refuse_folder

    refuse_folder(output, kind=KIND, is_kind=is_tagger, force=force, inputs=marked)
    settings = TaggerSettings(host=host, n_layers=layers, epochs=epochs, seed=seed)
    texts = [text for path in marked for text in read_marked(path)]
    apart = generator(seed, "tagger held out").random(len(texts)) < held_out
    train = [text for text, out in zip(texts, apart, strict=True) if not out]
    rest = [text for text, out in zip(texts, apart, strict=True) if out]
    began = time.process_time()
    names = ", ".join(path.name for path in marked)
    tagger = train_tagger(train, rest, settings, trained_on=names, announce=echo)
    tagger.save(output, force=force)
    precision, recall, f1 = span_scores(rest, tagger.tag([text.text for text in rest]))
    echo(
        f"{tagger.record.n_spans} names in {len(train)} texts, {len(rest)} texts held out; epoch "
        f"{tagger.record.n_epochs}: precision {precision:.4f}, recall {recall:.4f}, F1 {f1:.4f} of "
        f"spans held out; {time.process_time() - began:.0f} processor seconds; in {output}"
    )
