"""E-BERT's view: what stands before a mention or in its place, and where its words went."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, PIECE, KnowledgeBatch
from kept.encoders.colake import CoLAKE
from kept.encoders.ebert import EBERT, whole_words
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.places import target_spans
from kept.graphs.views import EBERTView, words_of
from kept.graphs.words import join_texts, longest_first
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host

PLAIN = BuilderConfig(max_words=40, max_nodes=90, **METHODS["ebert"].builder)


@pytest.fixture
def graphs(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> list[WordKnowledgeGraph]:
    texts = [text for text in linked if len(text.links) > 1][:6]
    return build_many(texts, tokenizer, small_graph, seed=0, config=PLAIN)


def by_loop(
    graph: WordKnowledgeGraph, separator: tuple[int, ...], form: str, known: set[int]
) -> tuple[list[int], list[int], list[float]]:
    """Ids, kinds and weights, word by word, by the characters that links cover."""
    anchors = {}
    for node in range(graph.n_nodes):
        if graph.kinds[node] == NodeKind.ENTITY and int(graph.ids[node]) in known:
            link = graph.links[int(graph.origins[node, 0])]
            anchors[link.mention] = (int(graph.ids[node]) + N_SPECIAL_ROWS, link.confidence)
    ids, kinds, weights, opened = [], [], [], set()
    for node in np.flatnonzero(graph.kinds == NodeKind.WORD).tolist():
        start, end = graph.spans[node].tolist()
        inside = [m for m in anchors if start >= 0 and start < m.end and end > m.start]
        for mention in set(inside) - opened:
            row, sure = anchors[mention]
            opened.add(mention)
            pieces = separator if form == "concat" else ()
            ids += [row, *pieces]
            kinds += [1, *[PIECE] * len(pieces)]
            weights += [sure if form == "concat" else 1.0] * (1 + len(pieces))
        if not inside or form == "concat":
            ids.append(int(graph.ids[node]))
            kinds.append(0)
            weights.append(1.0)
    return ids, kinds, weights


@pytest.mark.parametrize("form", ["concat", "replace"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_it_is_what_a_loop_writes(
    form: str,
    share: float,
    graphs: list[WordKnowledgeGraph],
    small_graph: KnowledgeGraph,
    tokenizer: Any,
) -> None:
    separator = tuple(tokenizer("/", add_special_tokens=False)["input_ids"])
    known = np.arange(small_graph.n_entities) < share * small_graph.n_entities
    view = EBERTView(separator, form=form, is_known=known, weigh_links=True)
    for graph in graphs:
        batch = view(graph)
        ids, kinds, weights = by_loop(graph, separator, form, set(np.flatnonzero(known).tolist()))
        assert batch.node_ids[0].tolist() == ids
        assert batch.node_kinds[0].tolist() == kinds
        assert batch.node_weights is not None
        assert batch.node_weights[0].tolist() == pytest.approx(weights)
        assert batch.positions[0].tolist() == list(range(len(ids)))
        assert batch.visibility.mask.all()
        n_links = int((graph.kinds == NodeKind.ENTITY).sum())
        n_words = graph.n_nodes - n_links
        bound = view.n_nodes(*(np.array([n]) for n in (n_words, n_links, 0)))
        assert len(ids) <= bound[0]


@pytest.mark.parametrize("form", ["concat", "replace"])
def test_words_and_targets_are_found_again(
    form: str, graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    view = EBERTView.of(small_graph, tokenizer, form=form)
    for graph in graphs:
        batch = view(graph)
        places = view.places(graph, batch)
        for node, position in enumerate(places.tolist()):
            is_entity = graph.kinds[node] == NodeKind.ENTITY
            kind = int(batch.node_kinds[0, position])
            if is_entity:
                assert kind == NodeKind.ENTITY
                assert int(batch.node_ids[0, position]) == graph.ids[node] + N_SPECIAL_ROWS
            elif kind == NodeKind.WORD:
                assert int(batch.node_ids[0, position]) == graph.ids[node]
            else:
                assert form == "replace"
        anchors = np.flatnonzero(graph.kinds == NodeKind.ENTITY)
        mentions = [graph.links[int(graph.origins[node, 0])].mention for node in anchors]
        for start, stop in target_spans(graph, places, mentions).tolist():
            assert stop > start
            kinds = set(batch.node_kinds[0, start:stop].tolist())
            assert kinds == ({int(NodeKind.ENTITY)} if form == "replace" else {0})


def test_who_has_no_vector_stays_a_word(
    graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    """The view leaves out whom the file lacks; a view that was not told meets an error."""
    path = tmp_path / "vectors.txt"
    lines = ["4 3", "river 1 0 0", "city 0 1 0", "old 0 0 1", "ENTITY/Q90 1 2 3"]
    path.write_text("\n".join(lines), encoding="utf-8")
    host = tiny_host(n_words=len(tokenizer), n_positions=128)
    encoder = EBERT.for_graph(host, small_graph, tokenizer, seed=0, vectors_from=path).eval()
    words = host.get_input_embeddings().weight
    rows = whole_words(tokenizer)
    expected = words[rows["river"]] + 2 * words[rows["city"]] + 3 * words[rows["old"]]
    paris = small_graph.entities.find("Q90")
    assert paris is not None
    weights = encoder.entity_vectors.weight
    torch.testing.assert_close(weights[paris + N_SPECIAL_ROWS], expected)
    assert not weights[:N_SPECIAL_ROWS].any()
    assert int((weights != 0).any(1).sum()) == 1
    view = EBERTView.of(small_graph, tokenizer, vectors_from=path)
    samples = [view(graph) for graph in graphs]
    ids = torch.cat([s.node_ids[s.node_kinds == NodeKind.ENTITY] for s in samples])
    assert set(ids.tolist()) <= {paris + N_SPECIAL_ROWS}
    assert encoder(KnowledgeBatch.stack(samples)).node_states.isfinite().all()
    blind = EBERTView.of(small_graph, tokenizer)
    with pytest.raises(BatchError, match="has no vector; give the view the same vectors_from"):
        encoder(KnowledgeBatch.stack([blind(graph) for graph in graphs]))


def test_what_does_not_fit_is_refused(
    graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="form is 'both'"):
        EBERTView.of(small_graph, tokenizer, form="both")
    host = tiny_host(n_words=len(tokenizer), n_positions=128)
    path = tmp_path / "vectors.txt"
    for line, message in (("nothing 1 2", "a page for none"), ("ENTITY/Q90 1 2", "share no word")):
        path.write_text(f"1 2\n{line}\n", encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            EBERT.for_graph(host, small_graph, tokenizer, seed=0, vectors_from=path)
    path.write_text("2 2\nENTITY/Q90 1 2\nriver 1 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="mapping is 'deep'"):
        EBERT.for_graph(host, small_graph, tokenizer, seed=0, vectors_from=path, mapping="deep")
    colake = CoLAKE.from_host(host, small_graph)
    batch = EBERTView.of(small_graph, tokenizer)(graphs[0])
    with pytest.raises(BatchError, match="reads no nodes of kind 3"):
        colake(batch)
    assert words_of(graphs[0]).node_ids.shape[1] < batch.node_ids.shape[1]


@pytest.mark.parametrize("form", ["concat", "replace"])
def test_what_insertions_make_too_long_is_cut_before_the_last_node(
    form: str, graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    whole = EBERTView.of(small_graph, tokenizer, form=form)
    n_cut = 0
    for graph in graphs:
        expected = whole(graph).node_ids[0].tolist()
        for length in (3, len(expected) - 1, len(expected), len(expected) + 1):
            view = EBERTView.of(small_graph, tokenizer, form=form, max_length=length)
            batch = view(graph)
            ids = batch.node_ids[0].tolist()
            if length >= len(expected):
                assert ids == expected
            else:
                n_cut += 1
                assert ids == [*expected[: length - 1], expected[-1]]
                assert ids[-1] == tokenizer.sep_token_id
            assert batch.positions[0].tolist() == list(range(len(ids)))
            places = view.places(graph, batch)
            assert places.max() == len(ids) - 1
            kept = places >= 0
            same = whole.places(graph, whole(graph))
            assert all(ids[p] == expected[q] for p, q in zip(places[kept], same[kept], strict=True))
            bound = view.n_nodes(*(np.array([n]) for n in (graph.n_nodes, 9, 0)))
            assert len(ids) <= bound[0] <= length
    assert n_cut > 5


@pytest.mark.parametrize("form", ["concat", "replace"])
def test_with_a_maximum_entities_are_inserted_before_anything_is_cut(
    form: str, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """However few words the builder would keep, the text is the whole one, cut to the maximum."""
    texts = [text for text in linked if len(text.links) > 1][:12]
    whole = EBERTView.of(small_graph, tokenizer, form=form)
    long = dataclasses.replace(PLAIN, max_words=500, max_nodes=1000)
    expected = [
        whole(graph).node_ids[0].tolist()
        for graph in build_many(texts, tokenizer, small_graph, seed=0, config=long)
    ]
    few = BuilderConfig(max_words=5, max_nodes=10)
    n_cut = 0
    for length in range(4, max(map(len, expected))):
        options = {"form": form, "max_length": length}
        config = builder_for(METHODS["ebert"], few, options)
        view = EBERTView.of(small_graph, tokenizer, **options)
        assert view.most_words(config) == length
        graphs = build_many(texts, tokenizer, small_graph, seed=0, config=config)
        for graph, nodes in zip(graphs, expected, strict=True):
            is_cut = len(nodes) > length
            n_cut += is_cut
            cut = [*nodes[: length - 1], nodes[-1]] if is_cut else nodes
            assert view(graph).node_ids[0].tolist() == cut
    assert n_cut > 20


def test_of_a_pair_the_longer_text_is_cut(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    texts = sorted((text for text in linked if text.links), key=lambda text: len(text.text))
    for first, second in ((texts[0], texts[-1]), (texts[-1], texts[0])):
        options = {"max_length": 20}
        config = builder_for(METHODS["ebert"], PLAIN, options)
        pair = [join_texts(first, second)]
        (graph,) = build_many(pair, tokenizer, small_graph, seed=0, config=config)
        view = EBERTView.of(small_graph, tokenizer, **options)
        batch, whole = view(graph), EBERTView.of(small_graph, tokenizer)(graph)
        assert batch.node_ids.shape[1] == 20 < whole.node_ids.shape[1]
        ids, segments = batch.node_ids[0], batch.segment_ids[0]
        n_parts = [int((segments == part).sum()) for part in (0, 1)]
        n_whole = [int((whole.segment_ids[0] == part).sum()) for part in (0, 1)]
        assert tuple(n_parts) == longest_first(*n_whole, 20)
        for part in (0, 1):
            ids_of_part, all_ = (
                ids[segments == part],
                whole.node_ids[0][whole.segment_ids[0] == part],
            )
            assert ids_of_part.tolist() == [
                *all_[: len(ids_of_part) - 1].tolist(),
                tokenizer.sep_token_id,
            ]
        places = view.places(graph, batch)
        seen = places >= 0
        is_word = (graph.kinds == NodeKind.WORD) & seen
        assert ids[places[is_word]].tolist() == graph.ids[is_word].tolist()


def test_a_builder_without_a_maximum_keeps_its_words() -> None:
    assert builder_for(METHODS["ebert"], PLAIN, {}).max_words == PLAIN.max_words
    more = builder_for(METHODS["ebert"], PLAIN, {"max_length": 8})
    assert more.max_words > 10**6


def test_a_maximum_of_nothing_is_refused() -> None:
    for length in (2, "12", 8.5):
        with pytest.raises(ConfigError, match=f"max_length is {length!r}; give 3 or more"):
            EBERTView((1,), max_length=length)  # type: ignore[arg-type]
