"""Triple scorers: vectors for entities and relations, learned from triples alone."""

from kept.kgc.kge.reciprocal import Reciprocal, make_reciprocal
from kept.kgc.kge.resuming.epochs import TrainingHistory
from kept.kgc.kge.scorers import (
    SCORERS,
    ComplEx,
    DistMult,
    Rescal,
    RotatE,
    Scorer,
    TransE,
    make_scorer,
)
from kept.kgc.kge.training import train
from kept.kgc.kge.training_config import RECIPES, TrainingConfig

__all__ = [
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
