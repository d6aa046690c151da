"""Texts in which mentions are replaced, and the objective that tells which."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import IGNORE, N_SPECIAL_ROWS
from kept.errors import ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, LinkedWordsView
from kept.methods import METHODS
from kept.objectives.mentions.replacement import (
    REPLACED,
    TRUE,
    Types,
    free_links,
    replace_mentions,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_hosts import method_encoder


@pytest.fixture(scope="module")
def typed() -> KnowledgeGraph:
    """Three towns, two rivers, and one mountain whose type nobody shares."""
    named = {
        "T1": ("the old city", "town", ["near"]), "T2": ("river a", "town", []),
        "T3": ("city of flows", "town", []), "R1": ("through", "river", []),
        "R2": ("old river", "river", ["the"]), "M1": ("a", "mountain", []), "X": ("of", None, []),
    }  # fmt: skip
    records: list[Any] = [
        Triple("R1", "in", "T1"),
        Triple("R1", "in", "T2"),
        Triple("R2", "at", "X"),
    ]
    for node, (label, kind, aliases) in named.items():
        records.append(Text(node, TextKind.LABEL, label, "en"))
        records += [Text(node, TextKind.ALIAS, alias, "en", 1) for alias in aliases]
        if kind:
            records.append(Text(node, TextKind.TYPE, kind))
    return graph_from_records(records)


def text_of(parts: list[tuple[str, str | None]], pair_at: int | None = None) -> LinkedText:
    """Stretches with their entity (None: plain words), one blank between them."""
    text, links, second = "", [], None
    for i, (words, entity) in enumerate(parts):
        if i == pair_at:
            second = len(text)
        if entity is not None:
            mention = Mention(len(text), len(text) + len(words))
            links.append(Link(mention, (Candidate(entity, 1.0, 1.0),), entity, 0.5))
        text += f"{words} "
    return LinkedText(text.rstrip(), tuple(links), pair_start=second)


TEXT = [
    ("the old city", "T1"), ("and", None), ("old river", "R2"), ("near", None), ("a", "M1"),
    ("of", "X"), ("through", "R1"), ("and", None), ("nowhere", "Q-unknown"), ("river a", "T2"),
    ("old", None),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_what_is_replaced_is_of_the_same_type_and_says_so(typed: KnowledgeGraph, seed: int) -> None:
    text = text_of(TEXT, pair_at=5)
    draws = generator(seed, "replaced")
    replaced = replace_mentions(text, typed, Types(typed), share=0.6, draws=draws)
    names = {
        e: {typed.label(e), *(a for a, _ in typed.aliases(e))} for e in range(typed.n_entities)
    }
    before = ""
    for i, (old, new, label) in enumerate(
        zip(text.links, replaced.linked.links, replaced.link_labels.tolist(), strict=True)
    ):
        surface = replaced.linked.text[new.mention.start : new.mention.end]
        if old.entity in ("M1", "X", "Q-unknown"):
            assert label == IGNORE
        if label != REPLACED:
            assert surface == text.text[old.mention.start : old.mention.end]
            assert (new.entity, new.candidates) == (old.entity, old.candidates)
        else:
            was, now = (typed.entities.find(each.entity) for each in (old, new))
            assert was is not None
            assert now is not None
            assert was != now
            assert typed.types(was) == typed.types(now)
            assert surface in names[now]
            assert new.candidates == ()
        before = replaced.linked.text[: new.mention.start]
        assert i == 0 or before.endswith(" ")
    labels = [label for label in replaced.link_labels.tolist() if label != IGNORE]
    assert len(labels) == 4
    assert not any(a == b == REPLACED for a, b in pairwise(labels))
    second = replaced.linked.pair_start
    assert second is not None
    assert replaced.linked.text[second:].startswith("of ")


def test_both_labels_and_all_members_come_up(typed: KnowledgeGraph) -> None:
    text, types = text_of(TEXT), Types(typed)
    labels, others = Counter[int](), Counter[str | None]()
    for seed in range(200):
        replaced = replace_mentions(
            text, typed, types, share=0.5, draws=generator(seed, "replaced")
        )
        labels.update(replaced.link_labels.tolist())
        if replaced.link_labels[0] == REPLACED:
            others[replaced.linked.links[0].entity] += 1
    assert set(labels) == {IGNORE, REPLACED, TRUE}
    assert 0.25 < labels[REPLACED] / (labels[REPLACED] + labels[TRUE]) < 0.42  # a third
    assert set(others) == {"T2", "T3"}
    assert min(others.values()) > 25


def test_a_name_that_is_the_true_one_is_no_replacement() -> None:
    records = [Text(node, TextKind.LABEL, "Old City", "en") for node in ("A", "B")]
    records += [Text(node, TextKind.TYPE, "town") for node in ("A", "B")]
    graph = graph_from_records(records)
    text = text_of([("old city", "A")])
    replaced = replace_mentions(text, graph, Types(graph), share=1.0, draws=generator(0, "x"))
    assert replaced.link_labels.tolist() == [TRUE]
    assert replaced.linked == text


@pytest.mark.parametrize(
    ("spans", "free"),
    [
        ([(0, 3), (4, 6)], [0, 1]), ([(0, 3), (3, 6)], [0, 1]), ([(0, 3), (2, 6)], []),
        ([(0, 9), (2, 3), (4, 6), (9, 10)], [3]), ([(0, 3), (0, 5), (6, 7)], [2]),
    ],
)  # fmt: skip
def test_links_that_touch_no_other(spans: list[tuple[int, int]], free: list[int]) -> None:
    links = [Link(Mention(*span), (), "e", 1.0) for span in spans]
    assert free_links(links) == free
    slow = [
        i for i, a in enumerate(spans)
        if not any(j != i and a[0] < b[1] and b[0] < a[1] for j, b in enumerate(spans))
    ]  # fmt: skip
    assert slow == free


# ---- types ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def untyped(small_graph: KnowledgeGraph) -> KnowledgeGraph:
    """The triples of the small graph, without any text."""
    nodes, relations = small_graph.entities.name, small_graph.relations.name
    rows = small_graph.triples.tolist()
    return graph_from_records([Triple(nodes(h), relations(r), nodes(t)) for h, r, t in rows])


def alike(types: Types, graph: KnowledgeGraph) -> set[tuple[str, str]]:
    """Pairs that may stand for one another, by many draws."""
    pairs = set()
    for entity in range(graph.n_entities):
        for seed in range(60 if types.of(entity) else 0):
            other = types.draw(entity, generator(seed, "types", entity))
            pairs.add((graph.entities.name(entity), graph.entities.name(other)))
    return pairs


def test_sources_of_types(typed: KnowledgeGraph, untyped: KnowledgeGraph) -> None:
    towns, rivers = ("T1", "T2", "T3"), ("R1", "R2")
    pairs = {(a, b) for group in (towns, rivers) for a in group for b in group if a != b}
    assert alike(Types(typed), typed) == alike(Types(typed, "records"), typed) == pairs
    assert alike(Types(typed, "roles"), typed) == {("T1", "T2"), ("T2", "T1")}
    assert alike(Types(typed, "in"), typed) == set()
    assert Types(typed).source == "records"
    roles = Types(untyped)
    assert roles.source == "roles"
    wanted = set()
    triples = [
        tuple(f(i) for f, i in zip(
            (untyped.entities.name, untyped.relations.name, untyped.entities.name),
            row, strict=True))
        for row in untyped.triples.tolist()
    ]  # fmt: skip
    for side in (0, 2):
        for one in triples:
            wanted |= {(one[side], o[side]) for o in triples if o[1] == one[1]}
    assert alike(roles, untyped) == {(a, b) for a, b in wanted if a != b}
    by_country = alike(Types(untyped, "P17"), untyped)
    assert {("Q64", "Q2"), ("Q90", "Q1471")} <= by_country
    assert ("Q64", "Q90") not in by_country


def test_types_that_are_not_there_are_refused(untyped: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match=r"no record of a type; give types: 'roles'"):
        Types(untyped, "records")
    with pytest.raises(ConfigError, match="no relation 'P19'"):
        Types(untyped, "P19")


# ---- data and model -------------------------------------------------------------------------
def data_of(
    texts: list[LinkedText], graph: KnowledgeGraph, tokenizer: Any, **objectives: Any
) -> WordGraphData:
    return WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=BuilderConfig(max_words=40, **WORDS_ONLY),
        view=LinkedWordsView(),
        objectives=objectives or METHODS["wklm"].objectives,
    )


@pytest.mark.parametrize("paired", [False, True])
def test_samples_show_the_text_that_was_made(
    typed: KnowledgeGraph, tokenizer: Any, paired: bool
) -> None:
    texts = [dataclasses.replace(text_of(TEXT), id=str(i)) for i in range(4)]
    further = {"nsp": {}} if paired else {}
    data = data_of(texts, typed, tokenizer, mention_truth={"share": 0.7}, **further)
    seen = set()
    for epoch in range(6):
        for index in range(len(data)):
            sample = data.sample(index, epoch=epoch, seed=0)
            assert sample.node_ids.shape[1] <= data.n_nodes(index)
            again = data.sample(index, epoch=epoch, seed=0)
            assert torch.equal(sample.node_ids, again.node_ids)
            spans, rows, classes = (
                getattr(sample, name)[0].tolist()
                for name in ("mention_spans", "mention_labels", "mention_classes")
            )
            for (start, stop), row, label in zip(spans, rows, classes, strict=True):
                entity = row - N_SPECIAL_ROWS
                names = [typed.label(entity), *(name for name, _ in typed.aliases(entity))]
                pieces = [tokenizer(n, add_special_tokens=False)["input_ids"] for n in names]
                assert sample.node_ids[0, start:stop].tolist() in pieces
                seen.add((typed.entities.name(entity), label))
    assert {("T1", TRUE), ("T3", REPLACED), ("M1", IGNORE)} <= seen
    assert ("T3", TRUE) not in seen


def test_words_of_mentions_are_not_masked(typed: KnowledgeGraph, tokenizer: Any) -> None:
    options = {"probability": 0.9, "spare_mentions": True}
    data = data_of([text_of(TEXT)], typed, tokenizer, mlm=options, mention_truth={})
    sample = data.sample(0, epoch=0, seed=0)
    assert sample.mention_spans is not None
    assert sample.node_labels is not None
    inside = np.zeros(sample.node_ids.shape[1], np.bool_)
    for start, stop in sample.mention_spans[0].tolist():
        inside[start:stop] = True
    is_target = (sample.node_labels[0] != IGNORE).numpy()
    assert is_target.any()
    assert not (is_target & inside).any()
    masking = data_of([text_of(TEXT)], typed, tokenizer, mlm={**options, "spare_mentions": False},
                   mention_truth={})  # fmt: skip
    assert masking.fingerprint != data.fingerprint
    labels = masking.sample(0, epoch=0, seed=0).node_labels
    assert labels is not None
    assert ((labels[0] != IGNORE).numpy() & inside[: labels.shape[1]]).any()


def test_a_graph_in_which_nobody_can_stand_for_another_is_refused(tokenizer: Any) -> None:
    graph = graph_from_records([Triple("A", "r", "B")])
    with pytest.raises(NoKnowledgeError, match="no linked entity shares a type"):
        data_of([text_of([("old", "A")])], graph, tokenizer)


def test_two_objectives_cannot_both_rewrite(
    typed: KnowledgeGraph, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kept.objectives.text_pairs import NextSentencePreparation

    monkeypatch.setattr(NextSentencePreparation, "rewrites", True)
    with pytest.raises(ConfigError, match="mention_truth and nsp both rewrite texts"):
        data_of([text_of(TEXT)] * 4, typed, tokenizer, mention_truth={}, nsp={})


@pytest.mark.parametrize("options", [{"read": "ends"}, {"n_layers": 2}, {"read": "first"}])
def test_other_ways_to_read_learn_and_are_saved(
    options: dict[str, Any], typed: KnowledgeGraph, tokenizer: Any, tmp_path: Any
) -> None:
    encoder = method_encoder("wklm", typed, tokenizer, family="electra")
    data = data_of([text_of(TEXT)] * 6, typed, tokenizer, mlm={}, mention_truth=options)
    model = KnowledgeForPreTraining.of(encoder, {"mlm": {}, "mention_truth": options}).eval()
    batch = data.collate(
        [data.sample(i, epoch=0, seed=0) for i in range(6)], epoch=0, seed=0, step=0
    )
    first = model(batch).losses
    names = (
        {"mention_first", "mention_last"} if options.get("read") == "ends" else {"mention_truth"}
    )
    assert set(first) == {"mlm", *names}
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        model.zero_grad()
        torch.stack(list(model(batch).losses.values())).sum().backward()
        optimiser.step()
    losses = model(batch).losses
    assert all(losses[name] < 0.5 * first[name] for name in names)
    chances = model.objectives["mention_truth"].chance_true(model(batch), batch, encoder)
    is_labelled = batch.mention_classes != IGNORE
    assert (
        (chances[is_labelled] > 0.5).long() == batch.mention_classes[is_labelled]
    ).float().mean() > 0.8
    model.save_pretrained(tmp_path)
    again = KnowledgeForPreTraining.from_pretrained(tmp_path).eval()
    for name, value in again(batch).losses.items():
        torch.testing.assert_close(value, losses[name], rtol=1e-5, atol=1e-6)
    is_shared = not options.get("n_layers")
    assert (model.objectives["mention_truth"].transform is None) == is_shared


def test_links_weigh_as_much_as_they_are_sure(typed: KnowledgeGraph, tokenizer: Any) -> None:
    encoder = method_encoder("wklm", typed, tokenizer)
    model = KnowledgeForPreTraining.of(encoder, {"mention_truth": {}}).eval()
    data = data_of([text_of(TEXT)], typed, tokenizer, mention_truth={})
    batch = data.sample(0, epoch=0, seed=0)
    whole = model(batch).losses["mention_truth"]
    for weight in (0.0, 0.25, 1.0):
        assert batch.mention_classes is not None
        weights = torch.full(batch.mention_classes.shape, weight)
        losses = model(batch.replace(mention_weights=weights)).losses
        torch.testing.assert_close(losses["mention_truth"], weight * whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"share": 0}, "share 0: above 0"), ({"read": "middle"}, "read 'middle': one of boundary"),
     ({"n_layers": -1}, "n_layers -1: 0 or more")],
)  # fmt: skip
def test_faulty_options_are_refused(options: dict[str, Any], message: str) -> None:
    from kept.objectives.model import objective_kind

    with pytest.raises(ConfigError, match=message):
        objective_kind("mention_truth").read("mention_truth", options)
