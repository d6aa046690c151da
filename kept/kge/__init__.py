"""Triple scorers: vectors for entities and relations, learned from triples alone."""

from kept.kge.scorers import SCORERS, ComplEx, DistMult, RotatE, Scorer, TransE, make_scorer
from kept.kge.training import RECIPES, TrainingConfig, TrainingHistory, train

__all__ = [
    "RECIPES",
    "SCORERS",
    "ComplEx",
    "DistMult",
    "RotatE",
    "Scorer",
    "TrainingConfig",
    "TrainingHistory",
    "TransE",
    "make_scorer",
    "train",
]
