"""Views: from a `WordKnowledgeGraph` to the `KnowledgeBatch` of one method; a file a method."""

from kept.graphs.views.base import View, words_of
from kept.graphs.views.colake import CoLAKEView, adjacency, colake_batch, colake_view, is_anchor
from kept.graphs.views.knowbert import KnowBERTView

__all__ = [
    "CoLAKEView",
    "KnowBERTView",
    "View",
    "adjacency",
    "colake_batch",
    "colake_view",
    "is_anchor",
    "words_of",
]
