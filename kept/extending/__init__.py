"""A model that follows a graph which grew: rows for what is new, all others as they were."""

from kept.extending.extend import Extension, TableGrowth, extend
from kept.extending.starts import STARTS

__all__ = ["STARTS", "Extension", "TableGrowth", "extend"]
