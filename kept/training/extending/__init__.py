"""A model that follows a graph which grew: rows for what is new, all others as they were."""

from kept.training.extending.extend import Extension, TableGrowth, extend
from kept.training.extending.starts import STARTS

__all__ = ["STARTS", "Extension", "TableGrowth", "extend"]
