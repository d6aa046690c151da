"""Views: from a `WordKnowledgeGraph` to the `KnowledgeBatch` of one method; a file a method."""

from kept.graphs.views.base import View, words_of
from kept.graphs.views.colake import CoLAKEView, adjacency, colake_batch, colake_view, is_anchor
from kept.graphs.views.ernie import ERNIEView
from kept.graphs.views.kbert import KBERTView
from kept.graphs.views.words import WORDS_ONLY, WordsView

__all__ = [
    "WORDS_ONLY",
    "CoLAKEView",
    "ERNIEView",
    "KBERTView",
    "View",
    "WordsView",
    "adjacency",
    "colake_batch",
    "colake_view",
    "is_anchor",
    "words_of",
]
