"""The graphs of texts that state facts: these are shown, and told as the text tells them.

Axis legend: text, fact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kept.graphs.builder import BuilderConfig, Exclusion, RequiredFacts, join_all
from kept.graphs.edit import with_object
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views import View
from kept.graphs.words import Words
from kept.objectives.base import Rewritten
from kg_loaders import KnowledgeGraph


def joined(
    texts: Sequence[Rewritten],
    words: Sequence[Words],
    graph: KnowledgeGraph,
    builder: BuilderConfig,
    view: View,
    draws: Sequence[np.random.Generator],
) -> list[WordKnowledgeGraph]:
    """Return each text's word-knowledge graph, with the facts in its `stated` among those shown.

    Each is at a random place of those that the view shows, and has the object that it is told with.
    """
    within = min(view.facts_per_mention or builder.max_neighbours, builder.max_neighbours)
    graphs = join_all(
        [text.linked for text in texts],
        words,
        graph,
        generators=draws,
        config=builder,
        exclude=[_hidden(text) for text in texts],
        insist=[_required_facts(text, within) for text in texts],
    )
    return [_as_told(text, one) for text, one in zip(texts, graphs, strict=True)]


def _hidden(text: Rewritten) -> Exclusion | None:
    if not text.stated:
        return None
    return Exclusion(triples=np.concatenate([fact.hidden for fact in text.stated]))


def _required_facts(text: Rewritten, within: int) -> RequiredFacts | None:
    return RequiredFacts(tuple(fact.row for fact in text.stated), within) if text.stated else None


def _as_told(text: Rewritten, graph: WordKnowledgeGraph) -> WordKnowledgeGraph:
    for fact in text.stated:
        if fact.new_object is not None:
            graph = with_object(graph, fact.row, fact.new_object)
    return graph
