"""Mentions that facts state: masked, without their link, in every view; the subject nameless."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_hosts import method_encoder

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import IGNORE
from kept.errors import NoKnowledgeError
from kept.graphs.builder import BuilderConfig
from kept.graphs.graph import NodeKind
from kept.methods import METHODS, method
from kept.objectives.base import World
from kept.objectives.mentions.stated import (
    StatedWords,
    StatedWordsOptions,
    StatedWordsPreparation,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.pretraining.assembly import builder_for, view_for
from kept.pretraining.data import WordGraphData
from kept.probing.models.enriched import KeptMaskedLM
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records


@pytest.fixture(scope="module")
def rivers() -> KnowledgeGraph:
    """One river through one city; a second city that no fact joins to it."""
    names = {"R": "river", "C": "old city", "D": "the"}
    records: list[Any] = [Triple("R", "through", "C")]
    records += [Text(node, TextKind.LABEL, name, "en") for node, name in names.items()]
    records += [Text(node, TextKind.TYPE, "place") for node in names]
    return graph_from_records(records)


def text_about(*ends: tuple[str, str]) -> LinkedText:
    """Names side by side with "of" between them, each linked."""
    text, links = "", []
    for name, entity in ends:
        mention = Mention(len(text), len(text) + len(name))
        links.append(Link(mention, (Candidate(entity, 1.0, 1.0),), entity, 1.0))
        text += f"{name} of "
    return LinkedText(text.rstrip(), tuple(links))


JOINED = text_about(("river", "R"), ("old city", "C"), ("the", "D"))
APART = text_about(("river", "R"), ("the", "D"))


def data_of(
    name: str, texts: list[LinkedText], graph: KnowledgeGraph, tokenizer: Any, **options: Any
) -> WordGraphData:
    line = method(name)
    return WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=builder_for(line, BuilderConfig(policy="degree", max_words=40), {}),
        view=view_for(line, graph, tokenizer, {}),
        objectives={"stated_words": options},
    )


@pytest.mark.parametrize("nameless", [True, False])
def test_the_tail_is_asked_without_its_link(
    rivers: KnowledgeGraph, tokenizer: Any, nameless: bool
) -> None:
    world = World(rivers, tokenizer, np.zeros(6))
    preparation = StatedWordsPreparation.of(StatedWordsOptions(nameless=nameless), world)
    names = set()
    for seed in range(5):
        rewritten = preparation.rewrite(JOINED, generator(seed, "rewrite"))
        text, (asked,) = rewritten.linked, rewritten.asked
        assert text.text[asked.start : asked.end] == "old city"
        assert [link.entity for link in text.links] == ["R", "D"]
        spelled = [text.text[k.mention.start : k.mention.end] for k in text.links]
        assert spelled[1] == "the"
        names.add(spelled[0])
        assert rewritten.link_labels is not None
        assert len(rewritten.link_labels) == 2
    assert ("river" in names) is not nameless
    assert len(names) == (5 if nameless else 1)


@pytest.mark.parametrize("name", METHODS)
def test_in_every_view_the_asked_words_alone_are_masked(
    name: str, rivers: KnowledgeGraph, tokenizer: Any
) -> None:
    data = data_of(name, [JOINED], rivers, tokenizer)
    batch = data.sample(0, epoch=0, seed=0)
    assert batch.node_labels is not None
    labelled = batch.node_labels[0] != IGNORE
    expected = tokenizer("old city", add_special_tokens=False)["input_ids"]
    assert batch.node_labels[0][labelled].tolist() == expected
    assert batch.node_ids[0][labelled].tolist() == [tokenizer.mask_token_id] * len(expected)
    assert (batch.node_kinds[0][labelled] == NodeKind.WORD).all()
    assert batch.target_spans is None
    assert data.shares_read == {"stated_words": 1.0}


@pytest.mark.parametrize("name", ["kbert", "colake"])
def test_the_fact_stands_beside_the_question(
    name: str, rivers: KnowledgeGraph, tokenizer: Any
) -> None:
    """The view shows (river, through, old city) though the text no longer names the city."""
    batch = data_of(name, [JOINED], rivers, tokenizer).sample(0, epoch=0, seed=0)
    beside = batch.node_ids[0][batch.node_kinds[0] != NodeKind.WORD]
    if name == "kbert":
        expected = tokenizer("old city", add_special_tokens=False)["input_ids"]
        assert set(expected) <= set(beside.tolist())
    else:
        city = rivers.entities.find("C")
        assert city is not None
        assert city + 3 in beside.tolist()


def test_a_text_without_a_stated_mention_is_masked_in_whole_words(
    rivers: KnowledgeGraph, tokenizer: Any
) -> None:
    data = data_of("kbert", [JOINED, APART], rivers, tokenizer)
    batch = data.sample(1, epoch=0, seed=0)
    assert batch.node_labels is not None
    assert int((batch.node_labels != IGNORE).sum()) >= 1
    assert data.shares_read == {"stated_words": 0.5}
    with pytest.raises(NoKnowledgeError, match="no text mentions two entities"):
        data_of("kbert", [APART], rivers, tokenizer)


def test_its_head_answers_cloze_questions(rivers: KnowledgeGraph, tokenizer: Any) -> None:
    encoder = method_encoder("kbert", rivers, tokenizer)
    model = KnowledgeForPreTraining.of(encoder, {"stated_words": {}})
    asked = KeptMaskedLM(model, tokenizer, "graph", rivers)
    words, bias = asked.words()
    head = model.objectives["stated_words"]
    assert isinstance(head, StatedWords)
    assert bias is not None
    assert bias.shape == head.words.bias.shape == words.shape[:1]
