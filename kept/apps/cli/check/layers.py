"""`kept check layers`: what each layer of an encoder holds of a sentence's grammar.

The work is in `kept.apps.cli.check.layers_run`, imported when the command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.options import Threads, local_or_hub
from kept.bounds import MAX_COUNT, MAX_SEED
from kept.help_texts import FORCE_FILES, SEED


def _models(names: list[str]) -> list[str]:
    for name in names:
        local_or_hub(name)
    return names


@dataclass(frozen=True, kw_only=True)
class LayersOptions:
    """What the command is given; a field is an option."""

    models: list[str] = argument(
        "Models to compare with the first: minilm, folders, names on the Hugging Face "
        "hub, or folders of runs.",
        callback=_models,
    )
    train: Path = required("Treebank (CoNLL-U) on which the probes are fitted.")
    test: Path = required("Treebank (CoNLL-U) on which the probes are tested.")
    output: Path = required("Folder for the results.", "--output", "-o")
    kg: Path | None = option("Folder of the knowledge graph, for runs that use one.")
    tasks: str = option(
        "What is probed, separated by commas: pos, relation, distance, control.",
        default="pos,relation,distance,control",
    )
    train_questions: int = option(
        "Largest number of training examples per task.", default=10_000, bounds=(20, MAX_COUNT)
    )
    test_questions: int = option(
        "Largest number of test examples per task.", default=5_000, bounds=(20, MAX_COUNT)
    )
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    threads: Threads = None
    force: bool = switch(FORCE_FILES)


@takes(LayersOptions)
def layers(options: LayersOptions) -> None:
    """Fit a linear probe on the states of words after every layer, and compare encoders by it.

    Printed are accuracies with intervals over sentences for parts of speech, relations to heads and
    distances of heads. As a control, the probe also learns random labels of word forms, and there
    is a baseline that knows the form alone.

    Example: kept check layers minilm runs/colake --kg kg/ --train train.conllu --test dev.conllu -o
    layers/
    """
    from kept.apps.cli.check import layers_run
    from kept.plotting import require_plotting

    require_plotting()
    layers_run.run(options)
