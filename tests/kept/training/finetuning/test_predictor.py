"""Answers about new texts, and what each fact and link does to them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.apps.cli.training.predict import _page
from kept.errors import CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.heads.model import KnowledgeForTask
from kept.hosts import load_host, load_tokenizer
from kept.methods import METHODS
from kept.tasks.datasets.example import question
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import MULTI, SINGLE
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError

CLASSES = ("bake", "sail", "pray")


def _graph(**tails: str) -> KnowledgeGraph:
    """Two people with an occupation and a home; `tails` says other ones."""
    names = {"Q1": "ab", "Q2": "cd", "Q3": "bake", "Q4": "sail", "Q5": "pray", "Q6": "ef"}
    facts = {("Q1", "P1"): "Q3", ("Q2", "P1"): "Q4", ("Q1", "P2"): "Q6"}
    facts |= {("Q1", name): tail for name, tail in tails.items()}
    return graph_from_records(
        [
            *(Text(node, TextKind.LABEL, name, "en") for node, name in names.items()),
            *(
                Text(p, TextKind.LABEL, w, is_relation=True)
                for p, w in (("P1", "is"), ("P2", "in"))
            ),
            *(Triple(head, relation, tail) for (head, relation), tail in facts.items()),
        ]
    )


@pytest.fixture
def graph() -> KnowledgeGraph:
    return _graph()


def _example() -> TaskExample:
    text = "ab met cd ."
    links = tuple(
        Link(Mention(start, start + 2), (Candidate(entity, 0.5, 0.5),), entity, 0.5)
        for start, entity in ((0, "Q1"), (7, "Q2"))
    )
    return question(LinkedText(text, links), "ab")


def _predictor(name: str, graph: KnowledgeGraph, host: Path, problem: str = SINGLE) -> Predictor:
    tokenizer = load_tokenizer(host)
    torch.manual_seed(1)
    encoder = METHODS[name].encoder.for_graph(load_host(host), graph, tokenizer, seed=0)
    model = KnowledgeForTask.of(encoder, "targets", CLASSES, n_targets=1, problem_type=problem)
    with torch.no_grad():  # large enough for what is left out to be seen
        for weights in model.parameters():
            if weights.ndim == 2:
                weights.mul_(12)
    return Predictor(
        model, tokenizer, task="typing", builder=BuilderConfig(policy="degree", max_neighbours=4)
    )


def test_each_fact_is_left_out_alone(graph: KnowledgeGraph, host: Path) -> None:
    """The score without a fact is that of a graph without it."""
    predictor = _predictor("kbert", graph, host)
    explanation = predictor.explain(_example(), graph)
    assert (
        explanation.label
        == explanation.about
        == max(explanation.scores, key=explanation.scores.__getitem__)
    )
    assert sum(explanation.scores.values()) == pytest.approx(1)
    facts = [one for one in explanation.influences if one.kind == "fact"]
    assert sorted(one.what for one in facts) == [
        "ab — in → ef", "ab — is → bake", "cd — is → sail",
    ]  # fmt: skip
    for one in facts:
        assert one.row is not None
        rest = graph.with_triples(np.delete(graph.triples, one.row, axis=0), note="one less")
        alone = predictor.explain(_example(), rest, about=explanation.about)
        assert alone.scores[explanation.about] == pytest.approx(one.score, abs=1e-6)
        assert alone.label == one.label
        assert one.change == pytest.approx(
            explanation.scores[explanation.about] - one.score, abs=1e-6
        )
    changes = [abs(one.change) for one in explanation.influences]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 1e-4


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].view.reads_graph])
def test_each_link_is_left_out_alone(name: str, graph: KnowledgeGraph, host: Path) -> None:
    predictor = _predictor(name, graph, host)
    example = _example()
    explanation = predictor.explain(example, graph)
    links = {one.link: one for one in explanation.influences if one.kind == "link"}
    assert sorted(links) == [0, 1]
    assert links[0].what == "“ab” → Q1"
    for i, one in links.items():
        kept = tuple(link for k, link in enumerate(example.linked.links) if k != i)
        linked = dataclasses.replace(example.linked, links=kept)
        alone = predictor.explain(dataclasses.replace(example, linked=linked), graph)
        assert alone.scores[explanation.about] == pytest.approx(one.score, abs=1e-5)


@pytest.mark.parametrize("name", ["words", "kbert", "colake"])
def test_facts_that_say_the_same_are_left_out_together(name: str, host: Path) -> None:
    graph = _graph(P2="Q3")  # ab is bake, and in bake
    predictor = _predictor(name, graph, host)
    explanation = predictor.explain(_example(), graph)
    (group,) = [each for each in explanation.groups if each.why == "say the same"]
    assert sorted(group.what) == ["ab — in → bake", "ab — is → bake"]
    assert group.link == 0
    keep = [r not in group.rows for r in range(graph.n_triples)]
    without = graph.with_triples(graph.triples[keep], note="without both")
    predictor.model.encoder.require_graph = lambda graph: None  # type: ignore[method-assign]
    alone = predictor.explain(_example(), without, about=explanation.about)
    assert alone.scores[explanation.about] == pytest.approx(group.score, abs=1e-5)
    assert not alone.groups


def test_all_facts_of_a_mention_are_left_out_together(graph: KnowledgeGraph, host: Path) -> None:
    explanation = _predictor("words", graph, host).explain(_example(), graph)
    (group,) = explanation.groups
    assert (group.why, sorted(group.what)) == (
        "all of its facts", ["ab — in → ef", "ab — is → bake"],
    )  # fmt: skip
    assert explanation.as_json()["groups"][0]["link"] == 0


def test_an_explanation_is_never_blank(graph: KnowledgeGraph, host: Path) -> None:
    predictor = _predictor("kbert", graph, host, MULTI)
    predictor.threshold = 1e9  # no type is likely enough
    explanation = predictor.explain(_example(), graph)
    assert explanation.label == ""
    first, *rest = _page(explanation).splitlines()
    assert first.startswith(f"no answer is likely enough; the likeliest is {explanation.about}")
    assert all(not line.endswith(": ") and "no answer" in line for line in rest)


def test_of_several_types_the_likeliest_is_followed(graph: KnowledgeGraph, host: Path) -> None:
    predictor = _predictor("kbert", graph, host, MULTI)
    explanation = predictor.explain(_example(), graph)
    assert explanation.about == max(explanation.scores, key=explanation.scores.__getitem__)
    above = ", ".join(name for name, score in explanation.scores.items() if score > 0.5)
    assert explanation.label == above
    assert predictor.predict([_example()], graph) == [tuple(above.split(", ")) if above else ()]
    assert predictor.explain(_example(), graph, about="sail").about == "sail"
    with pytest.raises(ConfigError, match="'fly' is not a class; there are bake, sail, pray"):
        predictor.explain(_example(), graph, about="fly")


def test_a_model_of_words_alone_reads_graphs_it_has_never_seen(
    graph: KnowledgeGraph, host: Path
) -> None:
    """An edited fact and a new entity reach K-BERT; a model with rows of a graph refuses."""
    predictor = _predictor("kbert", graph, host)
    before = predictor.explain(_example(), graph)
    edited = predictor.explain(_example(), _graph(P1="Q5"))
    assert "ab — is → pray" in [one.what for one in edited.influences]
    assert edited.scores != before.scores
    more = graph_from_records([Triple("X9", "P1", "Q3"), Text("X9", TextKind.LABEL, "gh", "en")])
    influences = predictor.explain(question("gh met the river .", "gh"), more).influences
    assert sorted(one.what for one in influences) == ["gh — P1 → Q3", "“gh” → X9"]
    with pytest.raises(GraphMismatchError):
        _predictor("colake", graph, host).predict([_example()], more)


def test_plain_texts_are_linked_by_the_names_of_the_graph(
    graph: KnowledgeGraph, host: Path
) -> None:
    predictor = _predictor("kbert", graph, host)
    (prediction,) = predictor.predict([question("ab met cd .", "ab")], graph)
    assert predictor.explain(question("ab met cd .", "ab"), graph).label == prediction[0]


def test_a_text_without_a_mention_is_no_question(graph: KnowledgeGraph, host: Path) -> None:
    reason = r"needs 1 mention\(s\) in a text, 'ab met cd \.' comes with 0"
    with pytest.raises(ConfigError, match=reason):
        _predictor("kbert", graph, host).predict(["ab met cd ."], graph)


def test_a_mention_far_into_a_text_is_read_in_a_window(graph: KnowledgeGraph, host: Path) -> None:
    """The answer is that of the window alone: what lies further away is nothing to it."""
    predictor, far = _predictor("kbert", graph, host), "the " * 200
    predictor.builder = dataclasses.replace(predictor.builder, max_words=40)
    long = question(f"{far}ab met cd .{far}", (800, 802))
    (prediction,) = predictor.predict([long], graph)
    n_room = 40 - 2  # all but the special pieces
    words = long.linked.text.split()
    first = 200 - (n_room - 1) // 2
    near = " ".join(words[first : first + n_room])
    (alone,) = predictor.predict([question(near, "ab")], graph)
    assert prediction == alone


@pytest.mark.parametrize("target", ["a", "x", ""])
def test_a_target_stands_once_in_its_text(target: str) -> None:
    with pytest.raises(ConfigError, match="times in 'abab'"):
        question("abab", target)


def test_only_a_run_of_a_task_is_opened(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no finetune\.json"):
        Predictor.from_pretrained(tmp_path)
    (tmp_path / "finetune.json").write_text("[]")
    with pytest.raises(CheckpointError, match="is not what a run wrote"):
        Predictor.from_pretrained(tmp_path)


def test_the_head_says_how_many_targets_there_are(graph: KnowledgeGraph, host: Path) -> None:
    """A class for one mention: the task has no target of its own, the head reads one."""
    typing = _predictor("kbert", graph, host)
    without_labels = dataclasses.replace(_example(), labels=())
    one = Predictor(
        typing.model, typing.tokenizer, task="classification", markers="kadapter",
        builder=typing.builder,
    )  # fmt: skip
    assert one.predict([without_labels], graph) == typing.predict([without_labels], graph)
