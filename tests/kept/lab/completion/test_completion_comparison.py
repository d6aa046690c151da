"""A whole comparison on a tiny host: batches, methods, files, resuming, tables."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from entity_linking import RelationExample
from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS
from kept.errors import BatchError, CheckpointError, UnfinishedError
from kept.evaluation.ranking import Filter
from kept.graphs.builder import BuilderConfig
from kept.graphs.edit import add_relation
from kept.graphs.graph import EdgeKind, NodeKind
from kept.hosts import load_tokenizer
from kept.kgc.batches import (
    CompletionData,
    completion_scores,
    completion_triples,
    entity_sampler,
    question_graph,
    rank_relations,
    usable_examples,
)
from kept.kgc.rankers import CoLAKERun, with_knowledge
from kept.kgc.split import CompletionSplit, split_examples
from kept.lab.completion.compare import Completion, compare
from kept.lab.completion.config import COLAKE, HIDDEN, CompletionConfig
from kept.lab.completion.tables import to_json, to_markdown
from kept.lab.completion.trial import CompletionTrial
from kept.lab.study.design import RunKey
from kept.lab.study.effects import summarise
from kept.lab.study.run import Study, run_all
from kept.lab.study.slices import ENTITY_ALONE, FACT, KNOWLEDGE
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.finetuning.answers import ANSWERS, read_answers, write_answers
from kg_loaders import KnowledgeGraph

BUILDER = BuilderConfig(max_neighbours=3, max_words=24, max_nodes=48)
SCORER = {"n_epochs": 2, "validate_every": 0, "patience": 0}


@pytest.fixture(scope="module")
def config(host: Path) -> CompletionConfig:
    return CompletionConfig.model_validate(
        {
            "host": str(host),
            "n_transductive": 10,
            "n_inductive": 6,
            "builder": {"max_neighbours": 3, "max_words": 24, "max_nodes": 48},
            "training": {"steps": 3, "batch_size": 8, "threads": 1, "log_every": 1},
            "scorers": ["transe", "complex"],
            "recipes": {"transe": SCORER, "complex": SCORER, "dkrl": {"n_epochs": 1}},
        }
    )


@pytest.fixture(scope="module")
def split(
    examples: list[RelationExample], world: KnowledgeGraph, config: CompletionConfig
) -> CompletionSplit:
    return split_examples(
        examples,
        world,
        n_valid=0,
        n_transductive=config.n_transductive,
        n_inductive=config.n_inductive,
        inductive_heads=[f"p{i:02d}" for i in range(10)],
        generator=np.random.default_rng(0),
    )


@pytest.fixture(scope="module")
def data(split: CompletionSplit, config: CompletionConfig) -> CompletionData:
    pieces = load_tokenizer(config.host)
    run: CoLAKERun = config.colake
    return CompletionData(
        examples=split.train,
        graph=split.train_graph,
        tokenizer=pieces,
        builder=BUILDER,
        masking=run.masking_config(split.train_graph, pieces),
        sampler=entity_sampler(split.train, split.train_graph),
    )


def test_asked_relation_is_last_masked_and_labelled(data: CompletionData) -> None:
    for index, example in enumerate(data.examples[:20]):
        batch = data.sample(index, epoch=0, seed=1)
        assert batch.node_labels is not None
        assert int(batch.node_kinds[0, -1]) == NodeKind.RELATION
        assert int(batch.node_ids[0, -1]) == MASK_ROW
        wanted = data.graph.relations.id(example.relation) + N_SPECIAL_ROWS
        assert int(batch.node_labels[0, -1]) == wanted
        seen = batch.visibility.mask[0, -1].nonzero()[:, 0].tolist()
        assert len(seen) == 3  # head, tail, itself


def test_the_asked_pair_brings_no_fact(data: CompletionData, world: KnowledgeGraph) -> None:
    for index, example in enumerate(data.examples[:40]):
        built = question_graph(
            example, world, data.tokenizer, BUILDER, generator=np.random.default_rng(index)
        )
        rows = built.origins[:-1, 1]
        pair = {world.entities.id(example.head), world.entities.id(example.tail)}
        for head, _, tail in world.triples[rows[rows >= 0]].tolist():
            assert {head, tail} != pair


def test_samples_depend_on_seed_epoch_and_index_alone(data: CompletionData) -> None:
    one, again = data.sample(3, epoch=1, seed=5), data.sample(3, epoch=1, seed=5)
    assert torch.equal(one.node_ids, again.node_ids)
    changed = [data.sample(3, epoch=e, seed=5).node_ids for e in range(2, 12)]
    assert any(c.shape != one.node_ids.shape or not torch.equal(c, one.node_ids) for c in changed)


def test_collated_golds_are_among_the_sampled(data: CompletionData) -> None:
    samples = [data.sample(i, epoch=0, seed=0) for i in range(8)]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    assert batch.node_labels is not None
    assert batch.sampled_entities is not None
    golds = batch.node_labels[(batch.node_kinds == NodeKind.ENTITY) & (batch.node_labels != IGNORE)]
    assert set(golds.tolist()) <= set(batch.sampled_entities.tolist())


def test_example_cut_off_is_left_out(data: CompletionData) -> None:
    long = dataclasses.replace(BUILDER, max_words=4)
    kept, n_left_out = usable_examples(data.examples[:9], data.graph, data.tokenizer, long)
    assert kept == ()
    assert n_left_out == 9


def test_added_relation_needs_entities(data: CompletionData, world: KnowledgeGraph) -> None:
    draws = np.random.default_rng(0)
    built = question_graph(data.examples[0], world, data.tokenizer, BUILDER, generator=draws)
    assert built.edge_kinds[-2:].tolist() == [EdgeKind.ENTITY_RELATION, EdgeKind.RELATION_ENTITY]
    with pytest.raises(BatchError, match=r"head node 0 of .* is not an entity"):
        add_relation(built, head=0, tail=1, relation=0)


def test_ranks_agree_with_loops(world: KnowledgeGraph, examples: list[RelationExample]) -> None:
    triples = completion_triples(examples[:30], world)
    scores = np.random.default_rng(0).integers(0, 3, (30, world.n_relations)).astype(np.float32)
    known = Filter(
        {"all": world.triples}, n_entities=world.n_entities, n_relations=world.n_relations
    )
    facts = {tuple(row) for row in world.triples.tolist()}
    expected = []
    for (head, relation, tail), row in zip(triples.tolist(), scores, strict=True):
        rivals = [
            row[other]
            for other in range(world.n_relations)
            if other != relation and (head, other, tail) not in facts
        ]
        better = sum(value > row[relation] for value in rivals)
        equal = sum(value == row[relation] for value in rivals)
        expected.append(1 + better + equal / 2)
    result = rank_relations(scores, triples, filter=known, ties="realistic")
    assert result.ranks.tolist() == expected


def test_scores_do_not_depend_on_the_batch(
    split: CompletionSplit, config: CompletionConfig
) -> None:
    pieces = load_tokenizer(config.host)
    model: KnowledgeForPreTraining = config.colake.fresh_model(split.train_graph, pieces)
    rows = split.tests["transductive"]
    alone, together = (
        completion_scores(
            model, rows, split.context_graph, pieces, BUILDER, seed=0, batch_size=size
        )
        for size in (1, 64)
    )
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_controls(split: CompletionSplit) -> None:
    _, off = with_knowledge(split, "off", 0)
    shuffled_train, shuffled = with_knowledge(split, "shuffled", 0)
    assert off.n_triples == 0
    assert shuffled.contains(shuffled_train.triples).all()
    assert not split.context_graph.contains(shuffled.triples).all()
    assert with_knowledge(split, "true", 0) == (split.train_graph, split.context_graph)


def test_a_training_that_its_budget_ended_is_not_asked(
    split: CompletionSplit, config: CompletionConfig, tmp_path: Path
) -> None:
    short = config.training.model_copy(update={"budget_minutes": 1e-9})
    run = dataclasses.replace(config.colake, training=short)
    with pytest.raises(UnfinishedError, match="at step 1 of 3"):
        run.train(split, "true", tmp_path, None)
    assert config.colake.train(split, "true", tmp_path, None) is not None  # goes on to the end


class Crash(Exception):
    """Stands for a kill between two methods."""


def test_compare_runs_and_resumes(
    split: CompletionSplit, config: CompletionConfig, tmp_path: Path
) -> None:
    def crash_at_off(text: str) -> None:
        if text.startswith("6/9 colake, knowledge off, seed 0: running"):
            raise Crash

    with pytest.raises(Crash):
        compare(split, config, tmp_path, announce=crash_at_off)
    lines: list[str] = []
    completion = compare(split, config, tmp_path, announce=lines.append)
    assert [line.partition(", at most")[0] for line in lines[4:6]] == [
        "5/9 colake, knowledge true, seed 0: done before",
        "6/9 colake, knowledge off, seed 0: running",
    ]
    whole = compare(split, config, tmp_path / "whole")
    _check(completion)
    for setting in ("transductive", "inductive"):
        one, other = (to_json(result)["settings"][setting] for result in (completion, whole))
        for values in (one, other):
            for row in values["rows"]:
                for record in row["records"]:
                    assert record["costs"].pop("seconds") >= 0
        assert one == other
    markdown = to_markdown(completion)
    assert "## Inductive" in markdown
    assert "| TransE | — | — | — | an entity has no trained vector |" in markdown
    assert "| CoLAKE | TransE, knowledge true |" in markdown
    lines.clear()
    compare(split, config, tmp_path, announce=lines.append)
    assert all("done before" in line for line in lines)
    other_config = config.model_copy(update={"n_negatives": 9})
    compare(split, other_config, tmp_path, announce=lines.append)
    assert [line.partition(",")[0] for line in lines[9:] if "running" in line] == [
        *(f"{n}/9 colake" for n in (5, 6, 7)), *(f"{n}/9 colake-hidden" for n in (8, 9)),
    ]  # fmt: skip


def _check(completion: Completion) -> None:
    json.dumps(to_json(completion))
    transductive, inductive = completion.settings
    arms = [(row.method, row.knowledge) for row in transductive.rows]
    assert arms == [
        ("none", "off"), ("transe", "true"), ("complex", "true"), ("dkrl", "true"),
        ("colake", "true"), ("colake", "off"), ("colake", "shuffled"),
        ("colake-hidden", "off"), ("colake-hidden", "shuffled"),
    ]  # fmt: skip
    without = [arm for arm in arms if arm[0] not in ("transe", "complex")]
    assert [(row.method, row.knowledge) for row in inductive.rows] == without
    assert list(inductive.left_out) == ["TransE", "ComplEx"]
    for compared in completion.settings:
        for row in compared.rows:
            scores = row.record.scores[compared.experiment.asked]
            assert row.score.estimate == pytest.approx(scores["mrr"])
            assert row.score.low <= scores["mrr"] <= row.score.high
            assert row.n == row.n_asked == scores["n_scored"]
        assert {g.name for g in compared.gains if g.kind == KNOWLEDGE} <= {FACT, ENTITY_ALONE}
        assert compared.baseline is None  # a row of its own
    pairs = {pair.theirs: pair for pair in transductive.pairs if pair.method == COLAKE}
    assert list(pairs) == [
        ("none", "off"), ("colake", "off"), ("colake", "shuffled"), ("transe", "true"),
        ("complex", "true"), ("dkrl", "true"), (HIDDEN, "off"), (HIDDEN, "shuffled"),
    ]  # fmt: skip
    assert pairs[HIDDEN, "off"].against == "CoLAKE trained with true facts, knowledge off"
    assert all("one seed" in pair.in_words for pair in pairs.values())
    leaks = {check.check: check.n_found for check in completion.audit}
    assert leaks["tested triple in the training graph"] == 0
    assert leaks["tested triple in the context graph"] == 0
    assert leaks["tested pair reversed in the graph"] == 0
    assert leaks["tested sentence in the training text"] == 0


def test_differences_are_of_reciprocal_ranks_and_seeds_are_drawn(
    split: CompletionSplit, config: CompletionConfig, tmp_path: Path
) -> None:
    """With two seeds the estimate is the difference of mean reciprocal ranks, over both."""
    plan = config.model_copy(update={"seeds": 2, "scorers": ("transe",)})
    runs = Study(CompletionTrial(plan, split, tmp_path))
    keys = [RunKey(name, "true", seed) for seed in (0, 1) for name in ("transe", COLAKE)]
    outcome = run_all(runs, keys, announce=print)
    assert len({record.run for record in outcome.done.values()}) == 4
    compared = summarise(runs, outcome)
    (pair,) = compared.pairs
    mrr = [
        [outcome.done[RunKey(name, "true", seed)].scores["transductive"]["mrr"] for seed in (0, 1)]
        for name in (COLAKE, "transe")
    ]
    assert mrr[1][0] != mrr[1][1]
    assert pair.effect.estimate == pytest.approx(np.mean(mrr[0]) - np.mean(mrr[1]))
    assert pair.effect.n_seeds == 2
    answers = read_answers(tmp_path / outcome.done[keys[0]].run / ANSWERS, "transductive")
    assert [answer.gold[0] for answer in answers] == [
        example.relation for example in split.tests["transductive"]
    ]
    for answer in answers:
        assert answer.counts is not None
        greater, equal = answer.counts["ranks"]
        assert answer.counts["mrr"] == [1 / (1 + greater + equal / 2), 1, 1]
    degrees = np.diff(split.context_graph.out_offsets) + np.diff(split.context_graph.in_offsets)
    heads = [split.context_graph.entities.id(e.head) for e in split.tests["transductive"]]
    assert [answer.traits["degree"] for answer in answers if answer.traits] == [
        degrees[head] for head in heads
    ]
    path = tmp_path / outcome.done[keys[0]].run / ANSWERS
    write_answers(path, [msgspec.structs.replace(answers[0], counts=None)])
    with pytest.raises(CheckpointError, match=r"predictions.jsonl has no answers .* remove its"):
        summarise(runs, outcome)


def test_ranks_of_0_1_are_refused_with_the_remedy(
    split: CompletionSplit, config: CompletionConfig, tmp_path: Path
) -> None:
    (tmp_path / "ranks-true.json").touch()
    with pytest.raises(CheckpointError, match=r"ranks-true.json is of kept 0.1.* remove ranks-"):
        compare(split, config, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ranks-true.json"]


@pytest.mark.parametrize("changed", ["graph", "sentence", "relation", "host", "recipe", "nothing"])
def test_an_address_is_of_what_the_ranks_depend_on(
    split: CompletionSplit, config: CompletionConfig, tmp_path: Path, host: Path, changed: str
) -> None:
    key = RunKey("dkrl", "true", 0)
    before = Study(CompletionTrial(config, split, tmp_path)).of(key).name
    first, *rest = split.train
    if changed == "graph":
        graph = split.context_graph
        smaller = graph.with_triples(graph.triples[::2], note="every other")
        split = dataclasses.replace(split, context_graph=smaller)
    elif changed == "sentence":
        split = dataclasses.replace(split, train=tuple(rest))
    elif changed == "relation":
        other = next(e.relation for e in rest if e.relation != first.relation)
        split = dataclasses.replace(
            split, train=(dataclasses.replace(first, relation=other), *rest)
        )
    elif changed == "host":
        shutil.copytree(host, tmp_path / "host")
        config = config.model_copy(update={"host": str(tmp_path / "host")})
    elif changed == "recipe":
        config = config.model_copy(update={"recipes": {"dkrl": {"n_epochs": 2}}})
    else:
        training = config.training.model_copy(update={"log_every": 7})
        config = config.model_copy(update={"training": training, "seeds": 9})
    assert (Study(CompletionTrial(config, split, tmp_path)).of(key).name == before) is (
        changed == "nothing"
    )
