"""A whole comparison on a tiny host: batches, methods, files, resuming, tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking import RelationExample
from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS
from kept.completion.batches import (
    CompletionData,
    asked_graph,
    completion_scores,
    completion_triples,
    entity_sampler,
    rank_relations,
    usable_examples,
)
from kept.completion.compare import CompletionConfig, compare
from kept.completion.rankers import CoLAKERun, with_knowledge
from kept.completion.split import CompletionSplit, split_examples
from kept.completion.tables import to_json, to_markdown
from kept.errors import BatchError, CheckpointError, UnfinishedError
from kept.evaluation.ranking import Filter
from kept.graphs.builder import BuilderConfig
from kept.graphs.edit import add_relation
from kept.graphs.graph import EdgeKind, NodeKind
from kept.hosts import load_tokenizer
from kept.objectives.model import KnowledgeForPreTraining
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
            "n_resamples": 50,
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
        built = asked_graph(
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
    built = asked_graph(data.examples[0], world, data.tokenizer, BUILDER, generator=draws)
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


def test_compare_runs_resumes_and_refuses(
    split: CompletionSplit, config: CompletionConfig, tmp_path: Path
) -> None:
    def crash_at_off(text: str) -> None:
        if text == "off: running":
            raise Crash

    with pytest.raises(Crash):
        compare(split, config, tmp_path, announce=crash_at_off)
    told: list[str] = []
    comparison = compare(split, config, tmp_path, announce=told.append)
    assert comparison is not None
    assert "true: read from ranks-true.json" in told
    assert "off: running" in told
    whole = compare(split, config, tmp_path / "whole")
    assert to_json(whole) == to_json(comparison)  # type: ignore[arg-type]
    _check_rows(to_json(comparison))
    markdown = to_markdown(comparison)
    assert "## Inductive" in markdown
    assert "| TransE | — | — | an entity has no trained vector |" in markdown
    other = config.model_copy(update={"n_negatives": 9})
    with pytest.raises(CheckpointError, match="belongs to another run"):
        compare(split, other, tmp_path)


def _check_rows(values: dict[str, Any]) -> None:
    json.dumps(values)
    methods = {row["method"] for row in values["rows"] if row["setting"] == "transductive"}
    assert {
        "most frequent relation", "TransE", "ComplEx", "DKRL", "CoLAKE", "CoLAKE, knowledge off",
        "CoLAKE, objects shuffled", "CoLAKE, knowledge off at test only",
        "CoLAKE, objects shuffled at test only",
    } == methods  # fmt: skip
    for row in values["rows"]:
        assert (row["metrics"] is None) == (row["skipped"] is not None)
        if row["metrics"] is not None:
            assert row["mrr"]["low"] <= row["metrics"]["mrr"] <= row["mrr"]["high"]
    leaks = {check["check"]: check["n_found"] for check in values["audit"]}
    assert leaks["tested triple in the training graph"] == 0
    assert leaks["tested triple in the context graph"] == 0
    assert leaks["tested pair reversed in the graph"] == 0
    assert leaks["tested sentence in the training text"] == 0
