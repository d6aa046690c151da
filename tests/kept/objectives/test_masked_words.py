"""Masked words: what is chosen, what becomes of it, the loss, tokenizers of every kind."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.encoders.colake import CoLAKE
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind
from kept.graphs.views import CoLAKEView
from kept.objectives.base import PreparationContext
from kept.objectives.masked_words import (
    LONGEST_SPAN,
    STRATEGIES,
    MaskedWords,
    MaskedWordsOptions,
    MaskedWordsPreparation,
    choose,
    span_length,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.objectives.word_starts import word_starts
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import FAMILIES, tiny_host


def preparation(graph: KnowledgeGraph, tokenizer: Any, **options: Any) -> MaskedWordsPreparation:
    world = PreparationContext(graph, tokenizer, np.ones(graph.n_entities + 3))
    return MaskedWordsPreparation.of(MaskedWordsOptions(**options), world)


@pytest.fixture(scope="module")
def samples(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> list[KnowledgeBatch]:
    config = BuilderConfig(max_neighbours=2, max_words=60, max_nodes=120)
    view = CoLAKEView()
    return [view(g) for g in build_many(linked, tokenizer, small_graph, seed=0, config=config)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_words_are_asked_and_at_least_one(
    strategy: str, small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    preparation_ = preparation(small_graph, tokenizer, strategy=strategy)
    special = torch.tensor(tokenizer.all_special_ids)
    n_asked = n_words = 0
    for index, sample in enumerate(samples):
        marked = preparation_.mark(sample, generator(0, "mlm", index))
        assert marked.node_labels is not None
        is_target = marked.node_labels != IGNORE
        ordinary = (sample.node_kinds == NodeKind.WORD) & ~torch.isin(sample.node_ids, special)
        assert not (is_target & ~ordinary).any()
        assert torch.equal(marked.node_labels[is_target], sample.node_ids[is_target])
        assert torch.equal(marked.node_ids[~is_target], sample.node_ids[~is_target])
        visible_ids = marked.node_ids[is_target]
        fine = (visible_ids == tokenizer.mask_token_id) | ~torch.isin(visible_ids, special)
        assert fine.all()
        assert is_target.any() or not ordinary.any()
        n_asked, n_words = n_asked + int(is_target.sum()), n_words + int(ordinary.sum())
    assert 0.1 < n_asked / n_words < 0.4


def test_fates_have_their_shares(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    ids = torch.full((1, 20_000), 7)
    batch = one_kind(ids)
    for strategy in STRATEGIES:
        marked = preparation(small_graph, tokenizer, strategy=strategy).mark(
            batch, generator(0, strategy)
        )
        assert marked.node_labels is not None
        is_target = marked.node_labels != IGNORE
        visible_ids = marked.node_ids[is_target]
        assert int(is_target.sum()) == 3000
        masked = (visible_ids == tokenizer.mask_token_id).float().mean().item()
        left = (visible_ids == 7).float().mean().item()
        assert masked == pytest.approx(0.8, abs=0.05)
        assert left == pytest.approx(0.1, abs=0.04)


def one_kind(ids: torch.Tensor, positions: torch.Tensor | None = None) -> KnowledgeBatch:
    n = ids.shape[1]
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=torch.arange(n)[None] if positions is None else positions,
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility(torch.eye(n, dtype=torch.bool)[None]),
    )


def test_pieces_of_a_word_go_together(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """Continuations follow their word, but not across a gap in positions or a special token."""
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", "p", "##a", "##r", "old", "##x", "[SEP]"])
    positions = torch.tensor([[0, 1, 2, 3, 4, 6, 7]])
    preparation_ = preparation(small_graph, tokenizer, strategy="whole_word", probability=0.5)
    together = set()
    for index in range(60):
        marked = preparation_.mark(one_kind(torch.tensor([ids]), positions), generator(0, index))
        assert marked.node_labels is not None
        is_target = (marked.node_labels[0] != IGNORE).tolist()
        assert is_target[1] == is_target[2] == is_target[3]
        together.add((is_target[1], is_target[4], is_target[5]))
    assert (False, True, True) in together
    assert {(True, False, False)} <= together
    assert len(together) == 2


def test_spans_are_runs_of_at_most_ten_words() -> None:
    unit = np.repeat(np.arange(2000), 2)
    chosen = choose(unit, MaskedWordsOptions(strategy="span"), generator(0, "span"))
    assert (chosen >= 0).sum() == 600
    lengths = []
    for number in np.unique(chosen[chosen >= 0]):
        places = np.flatnonzero(chosen == number)
        assert (np.diff(places) == 1).all()
        assert places[0] % 2 == 0
        lengths.append(len(places) // 2)
    assert max(lengths) <= LONGEST_SPAN
    draws = generator(0, "length")
    counts = np.bincount([span_length(draws) for _ in range(20_000)])
    shares = 0.8 ** np.arange(10)
    np.testing.assert_allclose(counts[1:] / 20_000, shares / shares.sum(), atol=0.01)
    assert np.average(np.arange(11), weights=counts) == pytest.approx(3.8, abs=0.05)


def test_labels_of_others_stay(
    small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    sample = samples[0]
    labels = torch.full_like(sample.node_ids, IGNORE)
    labels[0, 1] = 9
    labels[sample.node_kinds == NodeKind.RELATION] = 4
    marked = preparation(small_graph, tokenizer, probability=1.0).mark(
        dataclasses.replace(sample, node_labels=labels), generator(0)
    )
    assert marked.node_labels is not None
    assert marked.node_ids[0, 1] == sample.node_ids[0, 1]
    assert torch.equal(marked.node_labels[labels != IGNORE], labels[labels != IGNORE])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_that_of_a_loop(
    family: str, small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    host = tiny_host(family, n_words=len(tokenizer) + 5, n_positions=128)
    model = KnowledgeForPreTraining.of(CoLAKE.from_host(host, small_graph), {"mlm": {}}).eval()
    preparation_ = preparation(small_graph, tokenizer)
    batch = KnowledgeBatch.stack([preparation_.mark(s, generator(0)) for s in samples[:4]])
    output = model(batch)
    head = model.objectives["mlm"]
    assert isinstance(head, MaskedWords)
    assert batch.node_labels is not None
    table, terms = hosts.word_table(model.encoder.host).weight, []
    for row, node in (batch.node_labels != IGNORE).nonzero().tolist():
        scores = table @ head.transform(output.node_states[row, node]) + head.bias
        terms.append(-scores.log_softmax(0)[batch.node_labels[row, node]])
    assert len(terms) > 4
    torch.testing.assert_close(output.losses["mlm"], torch.stack(terms).mean())
    nothing = dataclasses.replace(batch, node_labels=torch.full_like(batch.node_ids, IGNORE))
    assert model(nothing).losses["mlm"].item() == 0
    assert model(dataclasses.replace(batch, node_labels=None)).losses == {}


def fast(model: Any, pre_tokenizer: Any) -> PreTrainedTokenizerFast:
    inner = Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizer
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, mask_token="<mask>", pad_token="<pad>")


def test_word_starts_of_every_kind_of_tokenizer(tokenizer: Any) -> None:
    pieces = ["<mask>", "<pad>", "Ġthe", "▁the", "the", ",", "##s"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    byte_level = fast(models.BPE(vocabulary, []), pre_tokenizers.ByteLevel())
    assert word_starts(byte_level).tolist() == [True, True, True, False, False, False, False]
    pairs = [(piece, -1.0) for piece in pieces]
    split = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    sentence = fast(models.Unigram(pairs, 0), split)
    assert word_starts(sentence).tolist() == [True, True, False, True, False, False, False]
    whole = fast(models.WordLevel(vocabulary, "<pad>"), pre_tokenizers.Whitespace())
    assert word_starts(whole).all()
    starts = word_starts(tokenizer)
    assert starts[tokenizer.convert_tokens_to_ids("old")]
    assert not starts[tokenizer.convert_tokens_to_ids("##o")]
    with pytest.raises(ConfigError, match="where words begin"):
        word_starts(fast(models.BPE(vocabulary, []), pre_tokenizers.Whitespace()))


def test_bad_options_and_tokenizers_are_refused(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match=r"probability 0.*mask_share.*strategy 'word'"):
        MaskedWordsOptions(probability=0, mask_share=1.0, strategy="word")
    inner = Tokenizer(models.WordLevel({"a": 0}, "a"))
    with pytest.raises(ConfigError, match="mask token"):
        preparation(small_graph, PreTrainedTokenizerFast(tokenizer_object=inner))
