"""Triple scorers: vectors for entities and relations, learned from triples alone."""

from kept.kge.reciprocal import Reciprocal, make_reciprocal
from kept.kge.resuming.epochs import TrainingHistory
from kept.kge.scorers import (
    SCORERS,
    ComplEx,
    DistMult,
    Rescal,
    RotatE,
    Scorer,
    TransE,
    make_scorer,
)
from kept.kge.training import train
from kept.kge.training_config import RECIPES, TrainingConfig

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
