"""The view of methods whose knowledge enters elsewhere than in the input: the words alone."""

from __future__ import annotations

from typing import Any

from kept.batches import KnowledgeBatch
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views.base import View, words_of


class WordsView(View):
    """`words_of` as a method's view; build graphs with `WORDS_ONLY`."""

    reads_graph = False

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        return words_of(graph)


WORDS_ONLY: dict[str, Any] = {"replace_mentions": False, "max_neighbours": 0}
"""Fields of `BuilderConfig` under which a graph holds the words, and no fact that nobody reads."""
