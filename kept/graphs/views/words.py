"""The view of methods whose knowledge does not enter through the input: words, nothing else."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from kept.batches import KnowledgeBatch
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views.base import View, words_of
from kg_loaders import KnowledgeGraph


class WordsView(View):
    """`words_of` as a method's view; build graphs with `WORDS_ONLY`."""

    reads_graph = False

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase) -> WordsView:  # type: ignore[override]
        """Nothing is needed: no entity is shown."""
        return cls()

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        return words_of(graph)


WORDS_ONLY = {"replace_mentions": False, "max_neighbours": 0}
"""Fields of `BuilderConfig` under which a graph holds the words, and no fact that nobody reads."""
