"""SenseBERT: which senses words bring, which words are hidden first, what is asked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from entity_linking.senses.wordnet import WordNetCandidates
from kept.batches import IGNORE, NONE, KnowledgeBatch
from kept.errors import BatchError, ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views import WORDS_ONLY, SensesView, WordsView
from kept.graphs.views.senses import SENSES, sense_names
from kept.objectives.base import PreparationContext
from kept.objectives.lexical.senses import SensesOptions, SensesPreparation, prefer_single
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.formats.wordnet import SUPERSENSES
from kg_loaders.formats.wordnet_lexicon import Lexicon
from tests.kept.tiny_hosts import FAMILIES, method_encoder

PLAIN = BuilderConfig(max_words=60, **WORDS_ONLY)


def link(text: str, word: str, *entities: str) -> Link:
    start = text.index(word)
    candidates = tuple(Candidate(name, 0.5, 0.5) for name in entities)
    return Link(Mention(start, start + len(word)), candidates, entities[0], 1.0)


def batch_of(
    linked: LinkedText, graph: KnowledgeGraph, tokenizer: Any, **options: Any
) -> KnowledgeBatch:
    graph_ = build(linked, tokenizer, graph, generator=generator(0, "x"), config=PLAIN)
    return SensesView.of(graph, tokenizer, **options)(graph_)


def words_with(batch: KnowledgeBatch, tokenizer: Any) -> list[tuple[str, set[int]]]:
    pieces = tokenizer.convert_ids_to_tokens(batch.node_ids[0])
    assert batch.extra_ids is not None
    rows = batch.extra_ids[SENSES][0].tolist()
    return [(p, {*row} - {NONE}) for p, row in zip(pieces, rows, strict=True) if {*row} != {NONE}]


def test_words_bring_the_types_of_all_candidates(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    names = sense_names(small_graph)
    assert names == ("city", "continent", "country", "language", "place", "river")
    text = "the city of ab near a b"
    links = (link(text, "ab", "Q90", "Q142"), link(text, "a b", "Q1471", "Q-unknown"))
    city, country, town, river = (names.index(n) for n in ("city", "country", "place", "river"))
    linked = LinkedText(text, links)
    types = words_with(batch_of(linked, small_graph, tokenizer), tokenizer)
    both = {city, country, town}
    assert types == [("a", both), ("##b", both), ("a", {river}), ("b", {river})]
    single = words_with(batch_of(linked, small_graph, tokenizer, phrases=False), tokenizer)
    assert single == types[:2]


@pytest.mark.wordnet
def test_wordnet_gives_its_supersenses(
    tokenizer: Any, wordnet: KnowledgeGraph, wordnet_files: Path
) -> None:
    assert sense_names(wordnet) == SUPERSENSES
    (linked,) = WordNetCandidates(wordnet, Lexicon.open(wordnet_files)).link(["the rivers"])
    ((_, senses), *_) = words_with(batch_of(linked, wordnet, tokenizer), tokenizer)
    assert {SUPERSENSES[i] for i in senses} == {"noun.object"}


def test_words_of_one_sense_are_hidden_first() -> None:
    options = SensesOptions()
    unit, n_senses = np.repeat(np.arange(100), 2), np.repeat(np.arange(100) % 4, 2)
    n_single = []
    for seed in range(60):
        preferred = prefer_single(unit, n_senses, options, generator(seed, "x"))
        assert ((preferred[::2] >= 0) == (preferred[1::2] >= 0)).all(), (
            "a word is hidden as a whole"
        )
        assert (preferred >= 0).sum() == 30
        n_single.append(((preferred >= 0) & (n_senses == 1)).sum())
    assert min(n_single) >= 12, "40 % of 30 pieces, and some by chance"
    few = np.where(np.arange(100) < 6, 1, 2)
    always = [
        (prefer_single(np.arange(100), few, options, generator(seed, "y"))[:6] >= 0).sum()
        for seed in range(60)
    ]
    assert min(always) >= 3, "half of them"
    assert prefer_single(np.arange(0), np.arange(0), options, generator(0, "z")).size == 0


def test_hidden_words_lose_their_senses_and_are_asked_for_them(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    def data(objectives: dict[str, dict[str, Any]]) -> WordGraphData:
        return WordGraphData(
            linked, small_graph, tokenizer, builder=PLAIN,
            view=SensesView.of(small_graph, tokenizer), objectives=objectives,
        )  # fmt: skip

    with_senses, plain = data({"mlm": {}, "senses": {"probability": 0.4}}), data({})
    assert list(with_senses.preparations) == ["senses"], "it hides words in the stead of mlm"
    n_asked = 0
    for index in range(len(with_senses)):
        hidden, visible = (each.sample(index, epoch=0, seed=0) for each in (with_senses, plain))
        assert hidden.node_labels is not None
        assert hidden.extra_ids is not None
        assert hidden.extra_labels is not None
        assert visible.extra_ids is not None
        chosen = hidden.node_labels != IGNORE
        changed = hidden.node_ids != visible.node_ids
        assert not (changed & ~chosen).any()
        ids, before = hidden.extra_ids[SENSES], visible.extra_ids[SENSES]
        assert (ids[changed] == NONE).all()
        assert torch.equal(ids[~changed], before[~changed])
        labels = hidden.extra_labels[SENSES]
        assert (labels[~chosen] == IGNORE).all()
        some = (labels != IGNORE).any(-1)
        assert torch.equal(labels[some].clamp(min=NONE), before[some])
        n_asked += int(some.sum())
    assert n_asked > 20
    with pytest.raises(ConfigError, match=r"senses chooses what mlm predicts; give .* probability"):
        data({"mlm": {"probability": 0.3}, "senses": {}})


def test_short_and_function_words_are_not_asked(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = "through the city old"
    links = tuple(link(text, word, "Q90") for word in text.split())
    batch = batch_of(LinkedText(text, links), small_graph, tokenizer)
    world = PreparationContext(small_graph, tokenizer, np.zeros(3))
    preparation = SensesPreparation.of(SensesOptions(probability=1.0), world)
    marked = preparation.mark(batch, generator(0, "marks"))
    assert marked.extra_labels is not None
    is_target = (marked.extra_labels[SENSES][0] != IGNORE).any(-1)
    pieces = tokenizer.convert_ids_to_tokens(batch.node_ids[0])
    assert [p for p, is_asked in zip(pieces, is_target, strict=True) if is_asked] == ["city"]


@pytest.mark.parametrize("family", FAMILIES)
def test_senses_move_the_states_of_every_host(
    family: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = method_encoder("sensebert", small_graph, tokenizer, family=family)
    text = "the ab flows"
    batch = batch_of(LinkedText(text, (link(text, "ab", "Q90"),)), small_graph, tokenizer)
    without_senses = dataclasses.replace(batch, extra_ids=None)
    with torch.no_grad():
        plain, moved = encoder(without_senses).hidden_states[0], encoder(batch).hidden_states[0]
    differs = ((plain - moved).abs().amax(-1) > 1e-6)[0].tolist()
    assert differs == [False, False, True, True, *[False] * (len(differs) - 4)]


def test_what_cannot_be_had_is_refused(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    with pytest.raises(ConfigError, match=r"single_share 2: from 0 to 1"):
        SensesOptions(single_share=2)
    with pytest.raises(ConfigError, match="probability 0"):
        SensesOptions(probability=0)
    with pytest.raises(ConfigError, match="senses needs SenseBERT; Plain has no senses"):
        KnowledgeForPreTraining.of(method_encoder("none", small_graph, tokenizer), {"senses": {}})
    data = WordGraphData(
        linked, small_graph, tokenizer, builder=PLAIN, view=WordsView(), objectives={"senses": {}}
    )
    with pytest.raises(BatchError, match="use SenseBERT's view"):
        data.sample(0, epoch=0, seed=0)
    no_senses = graph_from_records(
        [Triple("Q90", "P17", "Q142"), Text("Q90", TextKind.LABEL, "x", "en")]
    )
    with pytest.raises(NoKnowledgeError, match="none of their candidates has a type"):
        WordGraphData(
            linked, no_senses, tokenizer, builder=PLAIN, view=SensesView.of(no_senses, tokenizer),
            objectives={"senses": {}},
        )  # fmt: skip
