"""Examples as training data: nothing gives the answer away, targets are where they should be."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.batches import IGNORE, KnowledgeBatch
from kept.graphs.builder import BuilderConfig
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import CoLAKEView, View, colake_view
from kept.inputs.controls.conditions import (
    KNOWLEDGE,
    controlled_graph,
    n_pairs_with_facts,
    without_pairs,
)
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.tasks.datasets.example import clusters
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import MULTI, SINGLE, TAGGING
from kept.training.finetuning.data import CUT, TaskData, apply_condition, pair_ids
from kept.training.stream import BatchStream
from kg_loaders import KnowledgeGraph

SMALL = BuilderConfig(max_neighbours=9, max_words=40, max_nodes=120, directions="both")


class Watched(View):
    """CoLAKE's view, which remembers the graphs that it was given."""

    def __init__(self) -> None:
        self.graphs: list[WordKnowledgeGraph] = []

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: Any) -> Watched:
        return cls()

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        self.graphs.append(graph)
        return colake_view(graph)

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> Any:
        return np.arange(graph.n_nodes)

    def n_nodes(self, n_words: Any, n_links: Any, n_facts: Any) -> Any:
        return CoLAKEView().n_nodes(n_words, n_links, n_facts)


def sentence(
    head: str, tail: str, label: str = "P17", n_words: int = 0, n_between: int = 0
) -> TaskExample:
    text = f"{'old ' * n_words}Paris {'old ' * n_between}and Berlin"
    start, second = 4 * n_words, 4 * (n_words + n_between) + 10
    places = (Mention(start, start + 5), Mention(second, second + 6))
    links = tuple(gold_link(m.start, m.end, e) for m, e in zip(places, (head, tail), strict=True))
    return TaskExample(LinkedText(text, links), (label,), places, (head, tail))


@pytest.mark.parametrize("markers", ["none", "ernie", "kadapter"])
def test_one_sentence_asked_twice_is_one_group(markers: str) -> None:
    one = dataclasses.replace(sentence("Q90", "Q64"), pair=None)
    other = dataclasses.replace(one, targets=one.targets[::-1])
    third = dataclasses.replace(sentence("Q90", "Q64", n_words=1), pair=None)
    examples = apply_condition([one, other, third], markers=markers, knowledge="true")
    assert (examples[0].linked.text == examples[1].linked.text) == (markers == "none")
    assert clusters(examples) == [one.linked.text, one.linked.text, third.linked.text]
    again = apply_condition(examples, markers=markers, knowledge="true")
    assert [example.group for example in again] == clusters(examples)


def test_examples_are_of_one_group_by_text_or_by_pair() -> None:
    """Chains hold together; the loop below joins lists of indices until nothing changes."""
    texts, pairs = "aabcdde", [None, (1, 2), (2, 1), (3, 4), (4, 3), (5, 6), None]
    examples = [
        TaskExample(LinkedText(text, ()), ("r",), (), None if p is None else (str(p[0]), str(p[1])))
        for text, p in zip(texts, pairs, strict=True)
    ]
    groups = [{i} for i in range(len(examples))]
    for i, j in itertools.product(range(len(examples)), repeat=2):
        same_pair = examples[i].pair and {*examples[i].pair} == {*(examples[j].pair or ())}
        if texts[i] == texts[j] or same_pair:
            joined = groups[i] | groups[j]
            for k in joined:
                groups[k] = joined
    keys = clusters(examples)
    for i, j in itertools.product(range(len(examples)), repeat=2):
        assert (keys[i] == keys[j]) == (j in groups[i])
    assert len(set(keys)) == 3


def data_of(
    examples: list[TaskExample], graph: KnowledgeGraph, tokenizer: Any, **changes: Any
) -> TaskData:
    values: dict[str, Any] = {
        "builder": SMALL, "view": Watched(), "problem_type": SINGLE, "labels": {"P17": 0, "P1": 1},
    }  # fmt: skip
    return TaskData(examples, graph, tokenizer, **{**values, **changes})


def shown_pairs(graph: WordKnowledgeGraph, world: KnowledgeGraph) -> set[frozenset[str]]:
    rows = graph.origins[graph.kinds == NodeKind.RELATION, 1]
    triples = world.triples[rows]
    return {frozenset((world.entities.name(h), world.entities.name(t))) for h, _, t in triples}


def test_facts_between_the_two_entities_are_never_shown(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    example = sentence("Q90", "Q142")
    without_pair = data_of([dataclasses.replace(example, pair=None)], small_graph, tokenizer)
    with_pair = data_of([example], small_graph, tokenizer)
    for epoch in range(3):
        without_pair.sample(0, epoch=epoch, seed=1)
        with_pair.sample(0, epoch=epoch, seed=1)
    for data, hidden in ((without_pair, False), (with_pair, True)):
        for graph in data.view.graphs:
            pairs = shown_pairs(graph, small_graph)
            assert len(pairs) > 2
            assert (frozenset(("Q90", "Q142")) not in pairs) is hidden


def test_pairs_of_dev_and_test_leave_the_graph(small_graph: KnowledgeGraph) -> None:
    examples = [sentence("Q142", "Q90"), sentence("Q2", "Q90"), sentence("Q2", "nowhere")]
    pairs = pair_ids(examples, small_graph)
    assert len(pairs) == 2
    assert n_pairs_with_facts(small_graph, pairs) == 1
    clear = without_pairs(small_graph, pairs)
    assert clear.n_triples == small_graph.n_triples - 3  # two ways, and P17
    assert n_pairs_with_facts(clear, pairs) == 0
    assert clear.id_space_hash == small_graph.id_space_hash
    assert without_pairs(clear, pairs) is clear
    assert without_pairs(clear, pairs[:0]) is clear


def test_controls(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    graphs = {name: controlled_graph(small_graph, name, 1) for name in KNOWLEDGE}
    assert graphs["true"] is small_graph
    assert graphs["off"].n_triples == 0
    counts = [np.bincount(graphs[n].triples[:, 1]) for n in ("true", "shuffled")]
    assert (counts[1] <= counts[0]).all()
    assert graphs["shuffled"].content_hash != small_graph.content_hash
    (unlinked,) = apply_condition([sentence("Q90", "Q142")], markers="none", knowledge="off")
    data = data_of([unlinked], graphs["off"], tokenizer)
    batch = data.sample(0, epoch=0, seed=0)
    assert not batch.node_kinds.any()
    (linked,) = apply_condition([sentence("Q90", "Q142")], markers="none", knowledge="shuffled")
    assert len(linked.linked.links) == 2


@pytest.mark.parametrize("markers", ["none", "ernie", "kadapter"])
def test_targets_are_nodes(markers: str, small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    examples = apply_condition([sentence("Q90", "Q-nil")], markers=markers, knowledge="true")
    data = data_of(examples, small_graph, tokenizer)
    batch = data.sample(0, epoch=0, seed=0)
    (graph,) = data.view.graphs
    (head, tail) = batch.target_spans[0].tolist()
    opening = tokenizer.convert_ids_to_tokens(batch.node_ids[0, [head[0], tail[0]]].tolist())
    if markers == "none":
        assert graph.kinds[head[0]] == NodeKind.ENTITY  # an anchor in the place of "Paris"
        assert graph.text[slice(*graph.spans[tail[0]])] == "B"
    else:
        assert opening == ["#", "$"] if markers == "ernie" else ["@", "#"]
    assert batch.labels.tolist() == [0]


def test_labels_of_every_kind(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    example = sentence("Q90", "Q2")
    several = dataclasses.replace(example, labels=("P1",), targets=example.targets[:1])
    many = data_of([several], small_graph, tokenizer, problem_type=MULTI)
    assert many.sample(0, epoch=0, seed=0).labels.tolist() == [[0.0, 1.0]]
    unlinked = LinkedText("Paris and Berlin", ())
    tagged = TaskExample(unlinked, ("P1", "P17"), (Mention(0, 5), Mention(10, 16)))
    batch = data_of([tagged], small_graph, tokenizer, problem_type=TAGGING).sample(
        0, epoch=0, seed=0
    )
    starts = batch.target_spans[0, :, 0]
    assert batch.node_labels[0, starts].tolist() == [1, 0]
    assert int((batch.node_labels != IGNORE).sum()) == 2
    assert batch.labels is None
    unlabelled = data_of([example], small_graph, tokenizer, labels=None).sample(0, epoch=0, seed=0)
    assert unlabelled.labels is None
    assert unlabelled.node_labels is None
    plain = TaskExample(unlinked, ("P1",))
    assert data_of([plain], small_graph, tokenizer).sample(0, epoch=0, seed=0).target_spans is None


def test_a_cut_target_leaves_the_example_out_and_a_cut_word_is_not_asked(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    short, long = sentence("Q90", "Q142"), sentence("Q90", "Q142", n_words=50)
    apart = sentence("Q90", "Q142", n_between=50)
    data = data_of([apart, short], small_graph, tokenizer)
    assert (len(data), data.indices.tolist(), data.skipped) == (1, [1], {CUT: 1})
    assert [example.targets for example in data.cut_off] == [apart.targets]
    tags = dataclasses.replace(long, labels=("P1", "P17"), pair=None)
    tagged = data_of([tags], small_graph, tokenizer, problem_type=TAGGING)
    batch = tagged.sample(0, epoch=0, seed=0)
    assert batch.target_spans.tolist() == [[[0, 0], [0, 0]]]
    assert (batch.node_labels == IGNORE).all()


def test_a_target_behind_the_maximum_of_the_view_is_cut_off(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """E-BERT's builder keeps all words where the view has a maximum: that one counts."""
    short, long = sentence("Q90", "Q142"), sentence("Q90", "Q142", n_between=50)
    line, options = METHODS["ebert"], {"max_length": 40}
    view = line.view.of(small_graph, tokenizer, **options)
    builder = builder_for(line, SMALL, options)
    data = data_of([long, short], small_graph, tokenizer, view=view, builder=builder)
    assert (len(data), data.indices.tolist(), data.skipped) == (1, [1], {CUT: 1})
    assert (data.cut.max_words, data.cut.n_cut) == (40, 1)


class Cutting(Watched):
    """Shows no word of the text."""

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> Any:
        return np.full(graph.n_nodes, -1)


def test_a_target_that_the_view_cuts_is_read_at_the_first_node(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    data = data_of([sentence("Q90", "Q142")], small_graph, tokenizer, view=Cutting())
    assert data.sample(0, epoch=0, seed=0).target_spans.tolist() == [[[0, 1], [0, 1]]]


def test_samples_depend_on_seed_epoch_and_index_alone(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    examples = [sentence("Q90", "Q142"), sentence("Q64", "Q183"), sentence("Q90", "Q2")]
    builder = dataclasses.replace(SMALL, max_neighbours=2, drop_probability=0.3)
    data = data_of(examples, small_graph, tokenizer, view=CoLAKEView(), builder=builder)
    again = pickle.loads(pickle.dumps(data))
    seen = set()
    for epoch in range(6):
        one, other = (d.sample(1, epoch=epoch, seed=3) for d in (data, again))
        assert torch.equal(one.node_ids, other.node_ids)
        assert one.node_ids.shape[1] <= data.n_nodes(1)
        seen.add(tuple(one.node_ids[0].tolist()))
    assert len(seen) > 1
    stream = BatchStream(data, seed=0, node_budget=200)
    batch = stream[0]
    assert batch.labels.tolist() == [0] * len(batch)
    assert len(batch.target_spans) == len(batch)
    assert "3 texts, 6 links" in repr(data)


@pytest.mark.parametrize("policy", ["degree", "random"])
def test_samples_at_once_are_those_made_one_by_one(
    policy: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """Those without random choices are built for the first epoch and kept."""
    builder = dataclasses.replace(SMALL, policy=policy, max_neighbours=1)
    examples = [sentence("Q90", "Q64", n_words=n) for n in range(4)]
    data = data_of(examples, small_graph, tokenizer, builder=builder)
    for epoch in (0, 1):
        alone = [
            data_of(examples, small_graph, tokenizer, builder=builder).sample(
                i, epoch=epoch, seed=1
            )
            for i in (2, 0, 2)
        ]
        together = data.samples([2, 0, 2], epoch=epoch, seed=1)
        assert all(one.same_as(other) for one, other in zip(alone, together, strict=True))
    assert isinstance(data.view, Watched)
    assert len(data.view.graphs) == (2 if policy == "degree" else 4)


def test_no_more_samples_are_kept_than_the_limit(
    small_graph: KnowledgeGraph, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kept.training.finetuning.data.MOST_STORED", 1)
    examples = [sentence("Q90", "Q64", n_words=n) for n in range(3)]
    builder = dataclasses.replace(SMALL, policy="degree")
    data = data_of(examples, small_graph, tokenizer, builder=builder)
    for epoch in (0, 1):
        data.samples([0, 1, 2], epoch=epoch, seed=1)
    assert isinstance(data.view, Watched)
    assert len(data.view.graphs) == 5


def test_the_fingerprint_follows_every_choice(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    examples = [sentence("Q90", "Q142"), sentence("Q64", "Q183")]

    def of(rows: list[TaskExample] = examples, graph: Any = small_graph, **changes: Any) -> str:
        return data_of(rows, graph, tokenizer, **{"view": CoLAKEView(), **changes}).fingerprint

    other = dataclasses.replace(SMALL, max_neighbours=1)
    several = [
        of(),
        of(examples[::-1]),
        of([sentence("Q90", "Q142", "P1"), examples[1]]),
        of(graph=controlled_graph(small_graph, "shuffled", 0)),
        of(builder=other),
        of(labels={"P17": 1, "P1": 0}),
        of(view=Watched()),
        of(apply_condition(examples, markers="ernie", knowledge="true")),
    ]
    assert len(set(several)) == len(several)
    assert of() == several[0]


def tagged(n_words: int, tag: str) -> TaskExample:
    """The word "the" `n_words` times, each O, and a tagged one."""
    text = "the " * n_words + "old"
    words = tuple(Mention(match.start(), match.end()) for match in re.finditer("[a-z]+", text))
    return TaskExample(LinkedText(text, ()), ("O",) * n_words + (tag,), words)


def test_tagged_words_behind_the_cut_are_said(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """Six pieces are read; of training only the tag of a short text is left."""
    builder = dataclasses.replace(SMALL, max_words=8)
    more: dict[str, Any] = {"builder": builder, "problem_type": TAGGING}
    labels = {"B-A": 0, "B-B": 1, "O": 2}
    examples = [tagged(5, "B-A"), tagged(6, "B-B"), tagged(40, "O")]
    train = data_of(examples, small_graph, tokenizer, labels=labels, **more)
    remedy = "--set graph.max_words=52"
    words, classes = train.cut_warnings("train", 52)
    assert words.startswith("train: 1 of 2 tagged words are behind the cut at 8 word pieces; --set")
    assert remedy in words
    assert "leaves no example of B-B; --set" in classes
    dev = data_of(examples[1:], small_graph, tokenizer, labels=None, **more)
    assert dev.cut_warnings("dev", 8) == [
        "dev: 1 of 1 tagged words are behind the cut at 8 word pieces; give parts of the texts"
    ]
    short = data_of(examples[:1], small_graph, tokenizer, labels=labels, **more)
    assert short.cut_warnings("train", 52) == []


def test_a_cut_that_leaves_one_class_is_said(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    builder = dataclasses.replace(SMALL, max_words=20)
    examples = [sentence("Q90", "Q64", n_between=30), sentence("Q90", "Q64", "P1")]
    data = data_of(examples, small_graph, tokenizer, builder=builder)
    assert data.skipped
    (line,) = data.cut_warnings("train", 20)
    assert "leaves no example of P17, and only one class is left: nothing can be learned" in line
