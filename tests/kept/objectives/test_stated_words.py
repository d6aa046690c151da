"""Mentions that facts state: masked, without their link, in every view; the subject nameless."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import IGNORE
from kept.errors import ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig
from kept.graphs.graph import NodeKind
from kept.inputs.views import builder_for, view_for
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.methods import METHODS, method
from kept.objectives.base import PreparationContext
from kept.objectives.mentions.stated import (
    StatedWords,
    StatedWordsOptions,
    StatedWordsPreparation,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_hosts import method_encoder


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
    name: str,
    texts: list[LinkedText],
    graph: KnowledgeGraph,
    tokenizer: Any,
    *,
    max_neighbours: int = 15,
    **options: Any,
) -> WordGraphData:
    line = method(name)
    config = BuilderConfig(policy="degree", max_words=40, max_neighbours=max_neighbours)
    return WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=builder_for(line, config, {}),
        view=view_for(line, graph, tokenizer, {}),
        objectives={"stated_words": options},
    )


@pytest.mark.parametrize("nameless", [True, False])
def test_the_tail_is_asked_without_its_link(
    rivers: KnowledgeGraph, tokenizer: Any, nameless: bool
) -> None:
    world = PreparationContext(rivers, tokenizer, np.zeros(6))
    preparation = StatedWordsPreparation.of(StatedWordsOptions(nameless=nameless), world)
    names = set()
    for seed in range(5):
        rewritten = preparation.rewrite(JOINED, generator(seed, "rewrite"))
        text, (question,) = rewritten.linked, rewritten.marked
        assert text.text[question.start : question.end] == "old city"
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
def test_the_fact_is_read_with_the_question(
    name: str, rivers: KnowledgeGraph, tokenizer: Any
) -> None:
    """The view shows (river, through, old city) though the text no longer names the city."""
    batch = data_of(name, [JOINED], rivers, tokenizer).sample(0, epoch=0, seed=0)
    inserted = batch.node_ids[0][batch.node_kinds[0] != NodeKind.WORD]
    if name == "kbert":
        expected = tokenizer("old city", add_special_tokens=False)["input_ids"]
        assert set(expected) <= set(inserted.tolist())
    else:
        city = rivers.entities.find("C")
        assert city is not None
        assert city + 3 in inserted.tolist()


LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def towns() -> KnowledgeGraph:
    """A river with four facts, two of one relation; a town with one each to 26 of one piece."""
    records: list[Any] = [Triple("R", "through", "C"), Triple("R", "through", "D")]
    records += [Triple("R", "near", "C"), Triple("R", "east", "E")]
    records += [Triple("T", "has", letter) for letter in LETTERS]
    names = {"R": "river", "C": "old city", "D": "the", "E": "of", "T": "old"}
    names |= {letter: letter for letter in LETTERS}
    records += [Text(node, TextKind.LABEL, name, "en") for node, name in names.items()]
    return graph_from_records(records)


def test_the_stated_fact_is_shown_whatever_else_could_be(
    towns: KnowledgeGraph, tokenizer: Any
) -> None:
    """One of 26 facts may be shown, and it is always the one that the text states."""
    text = text_about(("old", "T"), ("x", "x"))
    data = data_of("kbert", [text], towns, tokenizer, max_neighbours=1)
    (piece,) = tokenizer("x", add_special_tokens=False)["input_ids"]
    for epoch in range(8):
        batch = data.sample(0, epoch=epoch, seed=0)
        inserted = batch.node_ids[0][batch.node_kinds[0] == NodeKind.ENTITY]
        assert inserted.tolist() == [piece]


def test_what_would_be_another_answer_is_hidden(towns: KnowledgeGraph, tokenizer: Any) -> None:
    """Another object of the relation, and another fact that names the object."""
    preparation = StatedWordsPreparation.of(
        StatedWordsOptions(), PreparationContext(towns, tokenizer, np.zeros(40))
    )
    text = text_about(("river", "R"), ("the", "D"), ("old", "T"))
    (stated,) = preparation.rewrite(text, generator(0, "rewrite")).stated
    assert stated.new_object is None
    assert named(towns, towns.triples[stated.row]) == ("R", "through", "D")
    assert [named(towns, row) for row in stated.hidden] == [("R", "through", "C")]
    (stated,) = preparation.rewrite(JOINED, generator(0, "rewrite")).stated
    fact = named(towns, towns.triples[stated.row])
    facts = {("R", "through", "C"), ("R", "through", "D"), ("R", "near", "C")}
    assert {named(towns, row) for row in stated.hidden} <= facts - {fact}
    assert len(stated.hidden)


def named(graph: KnowledgeGraph, row: Any) -> tuple[str, str, str]:
    head, relation, tail = map(int, row)
    return graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)


@pytest.mark.parametrize("name", ["kbert", "colake"])
def test_text_and_fact_name_another_object_at_every_reading(
    name: str, towns: KnowledgeGraph, tokenizer: Any
) -> None:
    text = text_about(("river", "R"), ("of", "E"))
    data = data_of(name, [text], towns, tokenizer, objects="redrawn")
    met = set()
    for epoch in range(8):
        batch = data.sample(0, epoch=epoch, seed=0)
        assert batch.node_labels is not None
        (label,) = batch.node_labels[0][batch.node_labels[0] != IGNORE].tolist()
        inserted = batch.node_ids[0][batch.node_kinds[0] == NodeKind.ENTITY].tolist()
        word = tokenizer.decode([label]).strip()
        assert word != "of"
        if name == "kbert":
            assert label in inserted
        else:
            assert word in [towns.label(row - 3) for row in inserted if row >= 3]
        met.add(label)
    assert len(met) > 4


def test_an_object_that_is_named_twice_stays(towns: KnowledgeGraph, tokenizer: Any) -> None:
    text = text_about(("river", "R"), ("of", "E"), ("of", "E"))
    preparation = StatedWordsPreparation.of(
        StatedWordsOptions(objects="redrawn"), PreparationContext(towns, tokenizer, np.zeros(40))
    )
    (stated,) = preparation.rewrite(text, generator(0, "rewrite")).stated
    assert stated.new_object is None


def test_objects_that_cannot_be_redrawn_are_an_error(
    rivers: KnowledgeGraph, tokenizer: Any
) -> None:
    with pytest.raises(ConfigError, match="take objects: own"):
        data_of("kbert", [JOINED], rivers, tokenizer, objects="redrawn")
    with pytest.raises(ConfigError, match="own or redrawn"):
        StatedWordsOptions(objects="any")  # type: ignore[arg-type]


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
    masked_lm = KeptMaskedLM(model, tokenizer, "graph", rivers)
    words, bias = masked_lm.words()
    head = model.objectives["stated_words"]
    assert isinstance(head, StatedWords)
    assert bias is not None
    assert bias.shape == head.words.bias.shape == words.shape[:1]
