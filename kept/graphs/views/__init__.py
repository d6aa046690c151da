"""Views: from a `WordKnowledgeGraph` to the `KnowledgeBatch` of one method; one file per method."""

from kept.graphs.views.base import View, words_of
from kept.graphs.views.colake import CoLAKEView, adjacency, colake_batch, colake_view, is_anchor
from kept.graphs.views.ebert import EBERTView
from kept.graphs.views.ernie import ERNIEView
from kept.graphs.views.kbert import KBERTView
from kept.graphs.views.knowbert import KnowBERTView
from kept.graphs.views.ktnet import KTNETView
from kept.graphs.views.linked_words import LinkedWordsView, linked_words
from kept.graphs.views.luke import LUKEView
from kept.graphs.views.senses import SensesView
from kept.graphs.views.sentilare import SentiLAREView
from kept.graphs.views.subgraph import SubgraphView
from kept.graphs.views.words import WORDS_ONLY, WordsView

__all__ = [
    "WORDS_ONLY",
    "CoLAKEView",
    "EBERTView",
    "ERNIEView",
    "KBERTView",
    "KTNETView",
    "KnowBERTView",
    "LUKEView",
    "LinkedWordsView",
    "SensesView",
    "SentiLAREView",
    "SubgraphView",
    "View",
    "WordsView",
    "adjacency",
    "colake_batch",
    "colake_view",
    "is_anchor",
    "linked_words",
    "words_of",
]
