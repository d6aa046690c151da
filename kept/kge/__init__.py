"""Triple scorers: vectors for entities and relations, learned from triples alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kept.kge.kinds import FORMULAS, RECIPES, SCORERS
    from kept.kge.reciprocal import Reciprocal, make_reciprocal
    from kept.kge.resuming.epochs import TrainingHistory
    from kept.kge.scorers import (
        ComplEx,
        DistMult,
        Rescal,
        RotatE,
        Scorer,
        TransE,
        make_scorer,
    )
    from kept.kge.training import train
    from kept.kge.training_config import TrainingConfig

__all__ = [
    "FORMULAS",
    "RECIPES",
    "SCORERS",
    "ComplEx",
    "DistMult",
    "Reciprocal",
    "Rescal",
    "RotatE",
    "Scorer",
    "TrainingConfig",
    "TrainingHistory",
    "TransE",
    "make_reciprocal",
    "make_scorer",
    "train",
]

_PLACES = {
    "kept.kge.kinds": ("FORMULAS", "RECIPES", "SCORERS"),
    "kept.kge.reciprocal": ("Reciprocal", "make_reciprocal"),
    "kept.kge.resuming.epochs": ("TrainingHistory",),
    "kept.kge.scorers": (
        *("ComplEx", "DistMult", "Rescal", "RotatE", "Scorer", "TransE", "make_scorer"),
    ),
    "kept.kge.training": ("train",),
    "kept.kge.training_config": ("TrainingConfig",),
}
"""Imported when they are used: the table of scorers is read for help texts, without torch."""


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'kept.kge' has no attribute {name!r}")
