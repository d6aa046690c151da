"""Where stretches of text stand in a batch, for views that replace, keep or branch words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.batches import KnowledgeBatch, Visibility
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.places import nodes_of, target_spans, text_nodes
from kept.graphs.views import CoLAKEView, View, WordsView
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

#        0         1
#        0123456789012345678
TEXT = "the old Paris and a"
LINKED = LinkedText(TEXT, (gold_link(8, 13, "Q90"),))


def graph_of(graph: KnowledgeGraph, tokenizer: Any, *, replace: bool) -> WordKnowledgeGraph:
    config = BuilderConfig(replace_mentions=replace, policy="degree", max_neighbours=2)
    return build(LINKED, tokenizer, graph, generator=generator(0, "t"), config=config)


@pytest.mark.parametrize("replace", [True, False])
def test_every_character_belongs_to_one_node_in_order(
    replace: bool, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    graph = graph_of(small_graph, tokenizer, replace=replace)
    nodes = text_nodes(graph)
    covered = [TEXT[a:b] for a, b in graph.spans[nodes].tolist()]
    assert "".join(covered) == TEXT.replace(" ", "")
    kinds = graph.kinds[nodes]
    assert bool((kinds == NodeKind.ENTITY).any()) is replace
    nodes_found = nodes_of(graph, nodes, Mention(4, 9))
    assert TEXT[4:7] in [TEXT[a:b] for a, b in graph.spans[nodes_found].tolist()]


def test_the_anchor_is_the_target_where_it_took_the_words(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    graph = graph_of(small_graph, tokenizer, replace=True)
    view = CoLAKEView()
    places = view.places(graph, view(graph))
    paris, whole, cut = target_spans(
        graph, places, [Mention(8, 13), Mention(4, 13), Mention(17, 18)]
    )
    (anchor,) = np.flatnonzero((graph.kinds == NodeKind.ENTITY) & (graph.spans[:, 0] >= 0))
    assert paris.tolist() == [anchor, anchor + 1]
    assert TEXT[slice(*graph.spans[whole[0]])] == "old"
    assert whole[1] == whole[0] + 1
    assert cut.tolist() == [0, 0]


def test_words_alone(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    graph = graph_of(small_graph, tokenizer, replace=False)
    view = WordsView()
    (span,) = target_spans(graph, view.places(graph, view(graph)), [Mention(8, 13)])
    pieces = [TEXT[a:b] for a, b in graph.spans[span[0] : span[1]].tolist()]
    assert "".join(pieces) == "Paris"


class Branching(View):
    """As K-BERT: a branch of two nodes after the third word, seen by that word alone; cut at 8."""

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: Any) -> Branching:
        return cls()

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        batch = WordsView()(graph)
        old = batch.node_ids.shape[1]
        kept_rows = np.r_[0:3, 5 : old + 2]
        widened = batch.pad_to(old + 2)
        visible = np.eye(old + 2, dtype=bool)
        visible[np.ix_(kept_rows, kept_rows)] = True
        visible[2:5, 2:5] = True
        tensor = widened.visibility.mask.new_tensor(visible)[None]
        mask = widened.node_mask | True
        whole = widened.replace(visibility=Visibility(tensor), node_mask=mask)
        values = {f.name: getattr(whole, f.name) for f in dataclasses.fields(whole)}
        cut = {k: v[:, :8] for k, v in values.items() if v is not None and k != "visibility"}
        return KnowledgeBatch(**cut, visibility=Visibility(tensor[:, :8, :8]))


def test_a_trunk_with_a_branch_that_is_cut(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    graph = graph_of(small_graph, tokenizer, replace=False)
    view = Branching()
    places = view.places(graph, view(graph))
    words = np.flatnonzero(graph.kinds == NodeKind.WORD)
    n_cut = len(words) - 6
    assert places[words].tolist() == [0, 1, 2, 5, 6, 7, *[-1] * n_cut]
    assert (places[graph.kinds != NodeKind.WORD] == -1).all()
    over, gone = target_spans(graph, places, [Mention(4, 13), Mention(18, 19)])
    assert over.tolist() == [2, 8]  # from "old" over the branch into "Paris"
    assert gone.tolist() == [0, 0]
