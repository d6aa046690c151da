"""Pairs of texts: pieces, spans and segments of a second text, through every step of a graph."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.errors import HostError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.checks import check
from kept.graphs.drawing.draw import draw_svg
from kept.graphs.explain import explain
from kept.graphs.export import from_json, to_json
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import CoLAKEView, adjacency, is_anchor, words_of
from kept.graphs.words import PairTemplate, encode_words, join_texts, longest_first
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host


@pytest.fixture
def pair(linked: list[LinkedText]) -> LinkedText:
    """Two texts of several links, joined."""
    first, second = [text for text in linked if len(text.links) > 3][:2]
    return join_texts(first, second)


def built(pair: LinkedText, tokenizer: Any, graph: KnowledgeGraph, **o: Any) -> WordKnowledgeGraph:
    config = BuilderConfig(**{"max_words": 200, "max_nodes": 400, "max_neighbours": 2} | o)
    return build(pair, tokenizer, graph, generator=generator(0), config=config)


def test_the_template_joins_as_the_tokenizer_does(tokenizer: Any, linked: list[LinkedText]) -> None:
    template = PairTemplate.of(tokenizer)
    n_cut = 0
    for first, second in itertools.pairwise(linked):
        pair = join_texts(first, second)
        assert pair.pair_start is not None
        for most in (200, 31, 20, 9):
            (whole,) = encode_words(
                [pair.text], tokenizer, max_words=most, pair_starts=[pair.pair_start]
            )
            parts = encode_words([first.text, second.text], tokenizer, max_words=200)
            joined = template.join(*parts, shift=pair.pair_start, max_words=most)
            assert joined.ids.tolist() == whole.ids.tolist()
            assert joined.spans.tolist() == whole.spans.tolist()
            assert joined.segment_ids.tolist() == whole.segment_ids.tolist()
            assert len(whole.ids) <= most
            n_cut += len(whole.ids) == most
    assert n_cut > 20


def test_longest_first_is_the_tokenizers(tokenizer: Any) -> None:
    for n_first in range(1, 12):
        for n_second in range(1, 12):
            for most in range(4, 16):
                encoded = tokenizer(
                    "a " * n_first, "a " * n_second, truncation=True, max_length=most
                )
                sequence = encoded.encodings[0].sequence_ids
                kept = (sequence.count(0), sequence.count(1))
                assert longest_first(n_first, n_second, most - 3) == kept


def test_spans_are_those_of_the_whole_text(tokenizer: Any) -> None:
    text = "Old city.  Near a river"
    (words,) = encode_words([text], tokenizer, max_words=40, pair_starts=[11])
    pieces = tokenizer.convert_ids_to_tokens(words.ids.tolist())
    assert pieces == ["[CLS]", "old", "city", ".", "[SEP]", "near", "a", "river", "[SEP]"]
    assert words.segment_ids.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    surfaces = [text[a:b] for a, b in words.spans.tolist() if a >= 0]
    assert surfaces == ["Old", "city", ".", "Near", "a", "river"]
    single, paired = encode_words(
        ["the city", text], tokenizer, max_words=40, pair_starts=[None, 11]
    )
    assert single.segment_ids.sum() == 0
    assert paired.ids.tolist() == words.ids.tolist()


@pytest.mark.parametrize("replace", [True, False])
def test_graphs_of_pairs_are_sound(
    replace: bool, pair: LinkedText, tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    graph = built(pair, tokenizer, small_graph, replace_mentions=replace)
    assert check(graph, small_graph, visible_mask=adjacency(graph)) == []
    assert pair.pair_start is not None
    spanned = graph.spans[:, 0] >= 0
    wanted = graph.spans[spanned, 0] >= pair.pair_start
    assert graph.segments[spanned].tolist() == wanted.tolist()
    injected = np.flatnonzero(graph.origins[:, 0] >= 0)
    assert len(injected) > 4
    for node in injected.tolist():
        link = graph.links[graph.origins[node, 0]]
        assert graph.segments[node] == (link.mention.start >= pair.pair_start)
    assert set(graph.segments[is_anchor(graph)].tolist()) == {0, 1}
    anchors = {(a, b) for a, b in graph.spans[is_anchor(graph)].tolist()}
    known = [n for n in pair.links if n.entity and small_graph.entities.find(n.entity) is not None]
    assert anchors == {(link.mention.start, link.mention.end) for link in known}
    again = from_json(to_json(graph))
    assert again.segments.tolist() == graph.segments.tolist()
    assert CoLAKEView()(graph).segment_ids[0].tolist() == graph.segments.tolist()
    if not replace:
        words = graph.kinds == NodeKind.WORD
        assert words_of(graph).segment_ids[0].tolist() == graph.segments[words].tolist()


def test_a_cut_pair_keeps_whole_mentions_of_both_texts(
    pair: LinkedText, tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    for most in range(6, 60):
        graph = built(pair, tokenizer, small_graph, max_words=most, replace_mentions=False)
        assert check(graph, small_graph) == []
        words = graph.spans[(graph.kinds == NodeKind.WORD) & (graph.spans[:, 0] >= 0)]
        for start, end in graph.spans[is_anchor(graph)].tolist():
            inside = words[(words[:, 0] >= start) & (words[:, 1] <= end)]
            assert (inside[:, 0].min(), inside[:, 1].max()) == (start, end)


def test_checks_find_wrong_segments(
    pair: LinkedText, tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    graph = built(pair, tokenizer, small_graph)
    for node, value in ((1, 1), (int(np.flatnonzero(graph.segments)[3]), 0), (2, 7)):
        segments = graph.segments.copy()
        segments[node] = value
        object.__setattr__(graph, "segments", segments)
        assert {problem.code for problem in check(graph, small_graph)} == {"G114"}


def test_explain_and_draw_tell_the_texts_apart(
    pair: LinkedText, tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    graph = built(pair, tokenizer, small_graph)
    for node, explained in enumerate(explain(graph, small_graph, tokenizer)):
        if graph.kinds[node] == NodeKind.WORD:
            second = any("second text" in line for line in explained.why)
            assert second == bool(graph.segments[node])
    assert "second text" in draw_svg(graph, small_graph, tokenizer)


def test_a_host_of_one_segment_row_tells_no_texts_apart() -> None:
    host = tiny_host("roberta")
    vectors, positions = torch.randn(1, 3, 16), torch.tensor([[2, 3, 4]])
    ones, zeros = torch.ones(1, 3, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.int64)
    assert not torch.equal(
        hosts.embed(host, vectors, positions, ones), hosts.embed(host, vectors, positions, zeros)
    )
    host.config.type_vocab_size = 1
    assert torch.equal(
        hosts.embed(host, vectors, positions, ones), hosts.embed(host, vectors, positions, zeros)
    )


def test_byte_level_pairs_have_two_separators_and_no_loose_blank() -> None:
    pieces = ["<s>", "</s>", "<unk>", "a", "b", "Ġ", "Ġa", "Ġb", "."]
    merges = [("Ġ", "a"), ("Ġ", "b")]
    inner = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), add_prefix_space=False
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="</s>")
    (words,) = encode_words(["a b.  b a"], fast, max_words=20, pair_starts=[6])
    tokens = fast.convert_ids_to_tokens(words.ids.tolist())
    assert tokens == ["<s>", "a", "Ġb", ".", "</s>", "</s>", "b", "Ġa", "</s>"]
    assert words.segment_ids.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_a_tokenizer_without_a_template_is_refused() -> None:
    inner = Tokenizer(models.WordLevel({"a": 0, "<pad>": 1}, "a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>")
    with pytest.raises(HostError, match="no special token between"):
        encode_words(["a a"], fast, max_words=9, pair_starts=[2])
