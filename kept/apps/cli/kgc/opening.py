"""A scorer of either kind, opened over the graph that is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.evaluation.ranking import SLOTS, Direction, Filter, HasScores, Ties
from kept.kgc.completers.base import Completer
from kept.kgc.completers.folders import is_completer, open_completer
from kept.kgc.completers.mix import MixCompleter
from kept.kgc.completers.seen import TrainedOn
from kept.kgc.completers.texts.literals import with_literals
from kept.kge.splits import Seen, Splits, read_splits, whole_graph
from kept.kge.trained import load_scorer, read_description
from kept.packaged import READY, ready_weights
from kg_loaders.counting import counted
from kg_loaders.literal_entities import literal_notes

if TYPE_CHECKING:
    from kept.kge.ultra.released import ReleasedWeights


@dataclass(frozen=True, eq=False)
class Opened:
    """The source, cut as the training cut it, and the scorer over it.

    A `completer` scores any graph; what it was `trained_on` is None where nobody recorded it.
    """

    splits: Splits
    scorer: HasScores
    described: dict[str, Any]
    completer: Completer | None = None
    trained_on: TrainedOn | None = None

    def has_negatives(self, source: Path) -> bool:
        """Whether false triples lie beside the splits."""
        return any(source.glob("test_negatives.*")) or any(source.glob("*-test.json"))

    @property
    def has_tables(self) -> bool:
        """Whether it is a mix with a scorer that has a vector per entity of the graph."""
        parts = self.completer.parts if isinstance(self.completer, MixCompleter) else ()
        return any(part.completer is None for part in parts)

    @property
    def seen(self) -> Seen | None:
        """What training saw of the source; None where nobody recorded it."""
        if self.completer is None:
            return self.splits.seen
        return None if self.trained_on is None else self.trained_on.seen(self.splits.graph)

    @cached_property
    def released(self) -> ReleasedWeights | None:
        """The released weights that a completer has; None for its own, or for another scorer."""
        if self.completer is None or self.described["scorer"] != "ultra":
            return None
        from kept.kge.ultra.released import released

        return released(self.completer.weights())

    def trained_on_rows(self, rows: NDArray[np.integer]) -> int | None:
        """How many of the triples a completer was trained on; None where nobody knows."""
        if self.trained_on is None:
            return None
        return int(self.trained_on.holds(self.splits.graph, rows).sum())


def scorer_folder(model: Path) -> Path:
    """Return the folder of a scorer; `ready:NAME` is that of ready weights in kept-weights.

    Raises `ConfigError` where the package is not installed or has no weights of that name.
    """
    name = str(model)
    if not name.startswith(READY):
        return model
    folder = ready_weights(name.removeprefix(READY))
    if folder is None:
        raise ConfigError(
            f"{name}: kept-weights is not installed or has no such weights; build its wheel "
            "(python -m experiments ready_weights), or train a scorer: kept kgc train KG -o DIR"
        )
    return folder


def open_over(source: Path, model: Path, *, is_whole: bool = False) -> Opened:
    """Open the scorer in `model`, and `source`; a completer's source may be any graph.

    `is_whole`: all triples of a graph folder are read, and none are held out as in training.
    """
    described = read_description(model)
    training = described["training"]
    if is_whole:
        splits = whole_graph(source)
    else:
        splits = read_splits(
            source, holdout=training.get("holdout", 0.05), seed=training.get("seed", 0)
        )
    if training.get("literals", False):
        splits = with_literals(splits, source)
    if not is_completer(model):
        return Opened(splits, load_scorer(model, splits.graph).scorer, described)
    completer = open_completer(model)
    scorer = completer.completer.on(splits.graph, splits.train)
    return Opened(splits, scorer, described, completer.completer, completer.trained_on)


def warn_about_leaks(splits: Splits) -> None:
    """What a reader should know; a tested triple that was trained on is not a question."""
    for note in splits.notes:
        echo(note)
    for note in literal_notes(splits.graph):
        echo(f"note: {note}")
    for pair, n in splits.shared().items():
        of, other = pair.split(" in ")
        echo(f"{n} of the {len(splits.as_mapping()[of])} triples of {of} are in {other} too")
    for name, n in splits.reversed_in_train().items():
        total = len(splits.as_mapping()[name])
        echo(
            f"{n} of the {total} triples of {name} have their entities the other way round in train"
        )
    for name, n in splits.repeats().items():
        echo(f"{counted(n, 'triples')} of {name} repeated an earlier one")


def filter_of(splits: Splits) -> Filter:
    """All triples of the source."""
    graph = splits.graph
    return Filter(splits.as_mapping(), n_entities=graph.n_entities, n_relations=graph.n_relations)


def ties_of(name: str) -> Ties:
    """The tie rule of that name; ConfigError: there is none."""
    known: tuple[Ties, ...] = get_args(Ties)
    for rule in known:
        if name == rule:
            return rule
    raise ConfigError(f"tie rule {name!r} is unknown; take one of {', '.join(known)}")


def directions_of(names: list[str]) -> tuple[Direction, ...]:
    """The directions of those names, in order; ConfigError: an unknown one."""
    wrong = [name for name in names if name not in SLOTS]
    if wrong:
        raise ConfigError(f"directions {wrong} are unknown; take any of {', '.join(SLOTS)}")
    return tuple(name for name in SLOTS if name in names)
