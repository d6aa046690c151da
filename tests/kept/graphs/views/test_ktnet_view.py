"""KT-NET's view: which concepts each word piece has, against a loop over links."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import N_SPECIAL_ROWS, NONE
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import WORDS_ONLY, KTNETView
from kept.graphs.views.ktnet import CONCEPTS
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

TEXT = "the old city of paris near the river"
CONFIG = BuilderConfig(max_words=24, max_nodes=48, **WORDS_ONLY)


def link(start: int, end: int, names: Sequence[str], entity: str | None = None) -> Link:
    candidates = tuple(Candidate(name, 0.5, 0.5) for name in names)
    return Link(Mention(start, end), candidates, entity, 0.5)


LINKS = (
    link(4, 21, ["Q90", "Q-else", "Q64"], "Q90"),  # "old city of paris"
    link(8, 12, ["Q64", "Q1471"]),  # "city", inside the first
    link(22, 26, ["Q-else"], "Q90"),  # "near": the graph has no candidate of it
    link(31, 36, [], "Q1471"),  # "river": the choice alone
)


@pytest.fixture
def graph(small_graph: KnowledgeGraph, tokenizer: Any) -> WordKnowledgeGraph:
    text = LinkedText(TEXT, LINKS)
    return build(text, tokenizer, small_graph, generator=generator(0, "view"), config=CONFIG)


def expected(
    graph: WordKnowledgeGraph, kg: KnowledgeGraph, *, most: int = 30, phrases: bool = True
) -> list[list[int]]:
    """Word by word, link by link."""
    words = []
    for start, end in graph.spans[graph.kinds == NodeKind.WORD].tolist():
        rows: list[int] = []
        for each in LINKS:
            is_phrase = " " in TEXT[each.mention.start : each.mention.end]
            touches = 0 <= start < each.mention.end and each.mention.start < end
            if not touches or (is_phrase and not phrases):
                continue
            names = [c.entity for c in each.candidates] or [each.entity]
            known = [i for name in names if (i := kg.entities.find(str(name))) is not None]
            rows += [r for i in known[:most] if (r := i + N_SPECIAL_ROWS) not in rows]
        words.append(rows)
    return words


@pytest.mark.parametrize("options", [{}, {"most": 1}, {"phrases": False}])
def test_concepts_of_each_word(
    graph: WordKnowledgeGraph, small_graph: KnowledgeGraph, tokenizer: Any, options: Any
) -> None:
    names = {"most": "max_concepts", "phrases": "phrases"}
    view = KTNETView.of(small_graph, tokenizer, **{names[k]: v for k, v in options.items()})
    batch = pickle.loads(pickle.dumps(view))(graph)
    concepts = [[i for i in row if i != NONE] for row in batch.extra_ids[CONCEPTS][0].tolist()]
    assert concepts == expected(graph, small_graph, **options)
    assert any(concepts)
    assert view.contains_knowledge(graph, batch)
    assert (view.fingerprint == KTNETView(small_graph).fingerprint) == (not options)


def test_no_link_is_no_knowledge(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = LinkedText(TEXT, LINKS[2:3])
    unlinked = build(text, tokenizer, small_graph, generator=generator(0, "view"), config=CONFIG)
    view = KTNETView(small_graph)
    assert not view.contains_knowledge(unlinked, view(unlinked))


def test_options_are_checked(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match="max_concepts is 0; use 1 or more"):
        KTNETView(small_graph, max_concepts=0)
