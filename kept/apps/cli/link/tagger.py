"""`kept link train-tagger`: a tagger of names from texts whose names are all marked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import EPOCHS_TEXT, HOST_MODEL, SEED
from kg_loaders.counting import counted


@dataclass(frozen=True, kw_only=True)
class TaggerOptions:
    """What the command is given; a field is an option."""

    marked: list[Path] = argument(
        "Texts in which every name is marked: CoNLL, DocRED, or JSON lines.",
    )
    output: Path = required("Folder to make.", "--output", "-o")
    held_out: float = option(
        "Share of the texts that decides which epoch is kept.", default=0.1, bounds=(0.01, 0.9)
    )
    host: str = option(HOST_MODEL, default="minilm")
    layers: int = option(
        "Number of layers of the language model to use, from the first. More are slower and "
        "more accurate.",
        default=2,
        bounds=(1, 1000),
    )
    epochs: int = option(EPOCHS_TEXT, default=2, bounds=(1, 10**4))
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    force: bool = switch("Replace OUTPUT if it is a tagger.")


@takes(TaggerOptions)
def train_tagger(options: TaggerOptions) -> None:
    """Train a tagger that finds names in text, for `kept link --tagger` and `calibrate`.

    Example: kept link train-tagger wikigold.conll.txt.gz -o tagger/
    """
    from entity_linking.randomness import generator
    from kept.linking.tagging.marked import read_marked
    from kept.linking.tagging.tagger import TAGGER
    from kept.linking.tagging.training import TaggerSettings, span_scores, train_tagger
    from kg_loaders.disk.columns import replaced
    from kg_loaders.disk.writing import refuse_folder

    refuse_folder(options.output, **replaced(TAGGER), force=options.force, inputs=options.marked)
    settings = TaggerSettings(
        host=options.host, n_layers=options.layers, epochs=options.epochs, seed=options.seed
    )
    texts = [text for path in options.marked for text in read_marked(path)]
    apart = generator(options.seed, "tagger held out").random(len(texts)) < options.held_out
    train = [text for text, out in zip(texts, apart, strict=True) if not out]
    rest = [text for text, out in zip(texts, apart, strict=True) if out]
    began = time.process_time()
    names = ", ".join(path.name for path in options.marked)
    tagger = train_tagger(train, rest, settings, trained_on=names, announce=echo)
    tagger.save(options.output, force=options.force)
    precision, recall, f1 = span_scores(rest, tagger.tag([text.text for text in rest]))
    echo(
        f"{counted(tagger.record.n_spans, 'names')} in {counted(len(train), 'texts')}, "
        f"{counted(len(rest), 'texts')} held out; epoch "
        f"{tagger.record.n_epochs}: precision {precision:.4f}, recall {recall:.4f}, F1 {f1:.4f} of "
        f"spans held out; {time.process_time() - began:.0f} processor seconds; in {options.output}"
    )
