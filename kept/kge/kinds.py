"""The table of triple scorers: everything that `kept kgc` knows of one is its line here.

A line names what a scorer reads, its options, and what trains and opens it, as `module:function`,
so that a command line and its help are read without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kept.errors import ConfigError
from kept.kge.options import (
    DistanceOptions,
    EncoderOptions,
    KeplerOptions,
    MixOptions,
    NetworkOptions,
    PathOptions,
    ScorerOptions,
    SimKGCOptions,
    TextOptions,
    UltraOptions,
    VectorOptions,
)
from kept.kge.training_config import (
    BERTMK,
    OF_NETWORKS,
    ONE_VS_ALL,
    SAMPLED,
    BERTMKRecipe,
    NetworkRecipe,
    TrainingConfig,
)
from kg_loaders import plugins
from kg_loaders.plugins import Table

if TYPE_CHECKING:
    from kept.evaluation.ranking import HasScores
    from kept.kge.resuming.snapshots import Snapshots
    from kept.kge.scorer import Scorer
    from kept.kge.splits import Splits

Reads = Literal["triples", "graph", "paths", "texts", "scorers"]
"""Triples, a vector for each entity; a graph, by a network whose states are those vectors; paths of
facts or texts, of any graph; other scorers."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a scorer is trained with; `name` is that of its line.

    `validate` returns the MRR of a scorer on validation triples. `progress(n)` is a bar over n
    epochs, which is called with the number and the loss of each; `note` prints a line.
    """

    name: str
    splits: Splits
    options: Any
    seed: int
    validate: Callable[[HasScores], float]
    snapshots: Snapshots
    progress: Callable[[int], AbstractContextManager[Callable[[int, float], None]]]
    note: Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A scorer or a completer, its history (None: not trained), and its settings as JSON."""

    scorer: Any
    history: Any
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ScorerKind:
    """One scorer of triples.

    `train` takes a `Training` whose `options` are of the model `options`, and returns a `Trained`.
    Without `open` it holds a vector for each entity of its graph, and is saved and opened as such;
    else it is a completer, which answers any graph, and `open` makes one of the folder, what its
    `model.json` says, and its weights. `formula` is the class of `Scorer` that it trains, if it
    trains one directly. `recipe` is what it is trained with where no option says otherwise.
    """

    reads: Reads
    options: type[ScorerOptions]
    train: str
    open: str = ""
    formula: str = ""
    recipe: Any = None

    @property
    def answers_any_graph(self) -> bool:
        """Whether it is a completer: it has no vector for each entity of its graph."""
        return bool(self.open)

    def trained(self, training: Training) -> Trained:
        """Train one."""
        result: Trained = load(self.train)(training)
        return result

    @property
    def formula_class(self) -> type[Scorer]:
        """The class that `formula` names."""
        formula: type[Scorer] = load(self.formula)
        return formula


def load(path: str) -> Any:
    """Return what `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


class Recipe(NamedTuple):
    """The width of a scorer's vectors, and its training."""

    width: int = 128
    config: TrainingConfig = ONE_VS_ALL


def vectors(
    formula: str, recipe: Recipe, options: type[ScorerOptions] = VectorOptions
) -> ScorerKind:
    """Return the line of a scorer with a vector for each entity, by its class."""
    train = "kept.kge.table_training:train_formula"
    return ScorerKind(reads="triples", options=options, train=train, formula=formula, recipe=recipe)


def completer(
    reads: Reads, options: type[ScorerOptions], module: str, train: str, open: str
) -> ScorerKind:
    """Return the line of a completer, by its module of `kept.kgc.completers`."""
    module = f"kept.kgc.completers.{module}"
    return ScorerKind(
        reads=reads, options=options, train=f"{module}:{train}", open=f"{module}:{open}"
    )


_NETWORK = ScorerKind(
    reads="graph", options=NetworkOptions, train="kept.kge.table_training:train_graph_network"
)
_BILINEAR = replace(ONE_VS_ALL, n_epochs=30, n3_weight=0.01)
_BUILT_IN: dict[str, ScorerKind] = {
    "transe": vectors("kept.kge.scorers:TransE", Recipe(), DistanceOptions),
    "rescal": vectors("kept.kge.scorers:Rescal", Recipe(width=64, config=_BILINEAR)),
    "distmult": vectors("kept.kge.scorers:DistMult", Recipe(config=_BILINEAR)),
    "complex": vectors("kept.kge.scorers:ComplEx", Recipe(config=_BILINEAR)),
    "rotate": vectors("kept.kge.scorers:RotatE", Recipe(config=SAMPLED), DistanceOptions),
    "rgcn": replace(_NETWORK, recipe=NetworkRecipe(layers="rgcn", config=OF_NETWORKS)),
    "compgcn": replace(_NETWORK, recipe=NetworkRecipe(layers="compgcn", config=OF_NETWORKS)),
    "bertmk": replace(_NETWORK, recipe=BERTMK),
    "ultra": completer("paths", UltraOptions, "ultra", "train", "opened"),
    "nbfnet": completer("paths", PathOptions, "nbfnet", "train", "open_nbfnet"),
    "simkgc": completer("texts", SimKGCOptions, "texts.simkgc", "train", "open_simkgc"),
    "dkrl": completer("texts", TextOptions, "texts.dkrl", "train", "open_dkrl"),
    "kepler": completer("texts", KeplerOptions, "texts.kepler", "train", "open_kepler"),
    "colake": completer("texts", EncoderOptions, "texts.colake", "train", "open_colake"),
    "mix": completer("scorers", MixOptions, "folders", "train_mix", "open_mixed"),
}
SCORERS = Table(plugins.SCORERS, _BUILT_IN, kind=ScorerKind, what="scorer")
"""Every scorer by its name: those of kept, then those of plugins."""
RECIPES: dict[str, Recipe] = {
    name: kind.recipe for name, kind in _BUILT_IN.items() if isinstance(kind.recipe, Recipe)
}
"""Recipes that work on graphs of some ten thousand triples, by scorer."""
NETWORK_RECIPES: dict[str, NetworkRecipe | BERTMKRecipe] = {
    name: kind.recipe for name, kind in _BUILT_IN.items() if kind.reads == "graph"
}
"""By network. Both papers decode with DistMult (CompGCN also with TransE and ConvE).

BERT-MK's paper gives no sizes that we could read.
"""


class Formulas(Mapping[str, "type[Scorer]"]):
    """The classes of scorers with a vector for each entity, by name; imported when looked up.

    Iteration is over those of kept.
    """

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in _BUILT_IN.items() if kind.formula)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> type[Scorer]:
        kind = SCORERS[name]
        if not kind.formula:
            raise KeyError(name)
        return kind.formula_class

    def require(self, name: str) -> type[Scorer]:
        """Return the class of that name; raises `ConfigError` with all names for another."""
        if name not in self:
            raise ConfigError(f"scorer {name!r} is unknown; take one of {', '.join(self)}")
        return self[name]

    def name_of(self, scorer: Scorer) -> str:
        """Return the name of a scorer's own class; raises `ConfigError` where it is in no line."""
        for name in SCORERS:
            if name in self and self[name] is type(scorer):
                return name
        raise ConfigError(
            f"{type(scorer).__name__} is the formula of no scorer; add a line to SCORERS "
            "(kept/kge/kinds.py), or an entry point in kept.scorers"
        )


FORMULAS = Formulas()
