"""Graphs, masking, negative sampling and collation against the released CoLAKE pipeline."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from kept.batches import IGNORE, KnowledgeBatch
from kept.graphs.checks import check
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency, colake_view
from kept.objectives.masking import (
    EntitySampler,
    anchor_mask,
    colake_masking,
    merge_draws,
)
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.reference.original_colake import (
    OriginalConfig,
    OriginalNeighbours,
    build_original,
    original_attention_mask,
)

METHOD = "colake"
MODES = ("random", "all", "none")


@pytest.fixture(scope="module")
def golden(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "graph.json").read_text())
    return data


@pytest.fixture(scope="module")
def graph(golden: dict[str, Any]) -> KnowledgeGraph:
    records: list[Triple | Text] = [
        Triple(head, relation, tail) for head, relation, tail in kept_triples(golden)
    ]
    names = [name for name in golden["entity_vocab"] if not name.startswith("<")]
    records += [Text(name, TextKind.LABEL, name) for name in names]
    names = [name for name in golden["relation_vocab"] if not name.startswith("<")]
    records += [Text(name, TextKind.LABEL, name, is_relation=True) for name in names]
    return graph_from_records(records)


def kept_triples(golden: dict[str, Any]) -> list[tuple[str, str, str]]:
    removed = {tuple(triple) for triple in golden["removed_triples"]}
    triples = [(h, r, t) for h, pairs in golden["triples"].items() for r, t in pairs]
    return [triple for triple in triples if triple not in removed]


def encode(text: str) -> list[int]:
    """The toy tokenizer that the golden file describes."""
    parts = [part for word in text.split() for part in word.split("+")]
    return [int(p[1:]) if p[:1] == "w" and p[1:].isdigit() else 3 for p in parts]


def entity_of_mention(golden: dict[str, Any], anchors: dict[str, str]) -> dict[str, str]:
    entity_of = {alias: name for name, aliases in golden["aliases"].items() for alias in aliases}
    results = {m: entity_of.get(t, entity_of.get(t.lower())) for m, t in anchors.items()}
    return {mention: entity for mention, entity in results.items() if entity is not None}


def build_mode(
    golden: dict[str, Any], graph: KnowledgeGraph, mode: str
) -> tuple[list[WordKnowledgeGraph], list[list[Any]]]:
    """All graphs of a mode and the trace of its draws."""
    params = golden["params"]
    state = random.Random(params["python_random_seed"])
    trace: list[list[Any]] = []
    draw: dict[str, Callable[[], float]] = {
        "random": lambda: state.uniform(0, 1), "all": lambda: 1.0, "none": lambda: 0.0
    }  # fmt: skip

    def uniform() -> float:
        trace.append(["uniform", draw[mode]()])
        return float(trace[-1][1])

    def shuffle(pairs: list[tuple[int, int]]) -> None:
        if mode == "random":
            state.shuffle(pairs)
        names = [[graph.relations.name(r), graph.entities.name(t)] for r, t in pairs]
        trace.append(["shuffle", names])

    facts: dict[int, list[tuple[int, int]]] = {}
    for head, relation, tail in kept_triples(golden):
        pair = (graph.relations.id(relation), graph.entities.id(tail))
        facts.setdefault(graph.entities.id(head), []).append(pair)
    neighbours = OriginalNeighbours(
        facts, uniform=uniform, shuffle=shuffle, max_neighbours=params["max_neighbors"]
    )
    config = OriginalConfig(
        min_block_words=params["min_seq_len"],
        max_piece_words=params["max_seq_len_per_segment"],
        max_nodes=params["max_nodes_normal"],
    )
    built: list[WordKnowledgeGraph] = []
    for document in golden["documents"]:
        built += build_original(
            document["text"].split(golden["sentence_separator"]),
            entity_of_mention(golden, document["anchors"]),
            encode=encode,
            graph=graph,
            neighbours=neighbours,
            config=config,
        )
    return built, trace


def names_of(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> list[int | str]:
    vocabulary = {NodeKind.ENTITY: graph.entities, NodeKind.RELATION: graph.relations}
    return [
        int(i) if kind == NodeKind.WORD else vocabulary[NodeKind(kind)].name(int(i))
        for kind, i in zip(built.kinds, built.ids, strict=True)
    ]


def golden_rows(
    batch: KnowledgeBatch, built: WordKnowledgeGraph, graph: KnowledgeGraph, golden: dict[str, Any]
) -> KnowledgeBatch:
    """The same batch with the golden file's numbering of entities and relations."""
    vocabularies = {1: golden["entity_vocab"], 2: golden["relation_vocab"]}
    rows = [
        name if isinstance(name, int) else vocabularies[int(kind)][name]
        for kind, name in zip(built.kinds, names_of(built, graph), strict=True)
    ]
    return dataclasses.replace(batch, node_ids=torch.tensor([rows]))


def mask_sample(
    batch: KnowledgeBatch, golden: dict[str, Any], *, mask_id: int, n_words: int
) -> KnowledgeBatch:
    """The released masking, kind by kind; labels -1 become IGNORE."""
    ids, kinds = batch.node_ids[0], batch.node_kinds[0]
    masks = (
        mask_id,
        golden["masked"]["entity_mask_index"],
        golden["masked"]["relation_mask_index"],
    )
    sizes = (n_words, len(golden["entity_vocab"]), len(golden["relation_vocab"]))
    anchors = ids[anchor_mask(batch)[0]].tolist()
    new, labels = ids.clone(), torch.full_like(ids, IGNORE)
    for kind in NodeKind:
        nodes = kinds == int(kind)
        tokens, kinds_of_labels = colake_masking(
            ids[nodes].tolist(),
            mask_id=masks[kind],
            n_tokens=sizes[kind],
            anchors=anchors if kind is NodeKind.ENTITY else None,
        )
        new[nodes] = torch.tensor(tokens, dtype=torch.int64)
        kind_labels = torch.tensor(kinds_of_labels, dtype=torch.int64)
        labels[nodes] = torch.where(kind_labels == -1, IGNORE, kind_labels)
    return dataclasses.replace(batch, node_ids=new[None], node_labels=labels[None])


def labels_of(batch: KnowledgeBatch, kind: NodeKind) -> list[int]:
    labels = batch.node_labels
    assert labels is not None
    chosen = labels[0][batch.node_kinds[0] == int(kind)]
    return torch.where(chosen == IGNORE, -1, chosen).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_graphs(golden: dict[str, Any], graph: KnowledgeGraph, mode: str, compared: Any) -> None:
    built, trace = build_mode(golden, graph, mode)
    expected = golden["graphs"][mode]
    compared.equal(f"graphs.{mode}.n", len(built), len(expected["samples"]))
    compared.equal(f"graphs.{mode}.random_trace", trace, expected["random_trace"])
    for ours, theirs in zip(built, expected["samples"], strict=True):
        compared.equal(f"graphs.{mode}.nodes", names_of(ours, graph), theirs["nodes"])
        n_words = int((ours.kinds == NodeKind.WORD).sum())
        compared.equal(f"graphs.{mode}.n_word_nodes", n_words, theirs["n_word_nodes"])
        compared.equal(
            f"graphs.{mode}.soft_position", ours.positions.tolist(), theirs["soft_position"]
        )
        compared.equal(f"graphs.{mode}.adj", adjacency(ours).astype(int).tolist(), theirs["adj"])
        compared.equal(f"graphs.{mode}.types", ours.kinds.tolist(), theirs["token_type_ids"])
        assert check(ours, graph) == []


@pytest.mark.parametrize("mode", MODES)
def test_masked_samples(
    golden: dict[str, Any], graph: KnowledgeGraph, mode: str, compared: Any
) -> None:
    built, _ = build_mode(golden, graph, mode)
    masked = golden["masked"]
    for ours, theirs in zip(built, masked[mode], strict=True):
        batch = golden_rows(colake_view(ours), ours, graph, golden)
        compared.equal("masked.before", batch.node_ids[0].tolist(), theirs["input_ids_unmasked"])
        anchors = [names_of(ours, graph)[i] for i in anchor_mask(batch)[0].nonzero()[:, 0]]
        compared.equal("masked.anchors", sorted(anchors), sorted(theirs["anchor_entities"]))
        batch = mask_sample(
            batch, golden, mask_id=masked["word_mask_index"], n_words=masked["word_vocab_size"]
        )
        compared.equal("masked.input_ids", batch.node_ids[0].tolist(), theirs["input_ids"])
        n_entities = int((ours.kinds == NodeKind.ENTITY).sum())
        compared.equal("masked.n_entity_nodes", n_entities, theirs["n_entity_nodes"])
        for kind, name in zip(NodeKind, ("masked", "ent_masked", "rel_masked"), strict=True):
            compared.equal(f"masked.{name}", labels_of(batch, kind), theirs[f"{name}_lm_labels"])


def test_masking_calls(golden: dict[str, Any], compared: Any) -> None:
    options = {"masked_lm_prob": "probability", "max_predictions_per_seq": "max_predictions"}
    options |= {"anchor_nodes": "anchors"}
    for call in golden["masking_calls"]:
        options_of_call = {ours: call[theirs] for theirs, ours in options.items() if theirs in call}
        tokens, labels = colake_masking(
            call["tokens"],
            mask_id=call["mask_index"],
            n_tokens=call["vocab_size"],
            **options_of_call,
        )
        compared.equal("masking_calls.tokens", tokens, call["output_tokens"])
        compared.equal("masking_calls.labels", labels, call["labels"])


def test_negative_sampling(golden: dict[str, Any], compared: Any) -> None:
    wanted = golden["negative_sampling"]
    counts = wanted["counts_in_vocab_order"]
    frequencies = [golden["entity_freq"][name] for name in golden["entity_vocab"]]
    compared.equal("negatives.counts", frequencies, counts)
    sampler = EntitySampler(frequencies, power=wanted["power"])
    compared.close(
        "negatives.probabilities",
        sampler.probabilities,
        wanted["probabilities"],
        atol=1e-8,
        rtol=1e-6,
    )
    n = 100_000
    rows = sampler.draw(n, np.random.default_rng(0))
    shares = np.bincount(rows, minlength=len(counts)) / n
    p = np.array(wanted["probabilities"])
    compared.close("negatives.drawn", shares, p, atol=float(6 * np.sqrt(p * (1 - p) / n).max()))
    assert not shares[p == 0].any()


def collate(golden: dict[str, Any], graph: KnowledgeGraph, compared: Any) -> KnowledgeBatch:
    """The golden batch from its documents, compared sample by sample on the way."""
    wanted = golden["collated_batch"]
    built, _ = build_mode(golden, graph, "random")
    original_mask = golden["masked"]["word_mask_index"]
    samples = []
    for index, theirs in zip(wanted["sample_indices"], wanted["samples"], strict=True):
        batch = golden_rows(colake_view(built[index]), built[index], graph, golden)
        batch = mask_sample(
            batch,
            golden,
            mask_id=original_mask,
            n_words=wanted["word_vocab_size_used_for_random_words"],
        )
        ids = torch.where(batch.node_ids == original_mask, wanted["word_mask_id"], batch.node_ids)
        batch = dataclasses.replace(batch, node_ids=ids)
        compared.equal("collated.input_ids", ids[0].tolist(), theirs["input_ids"])
        compared.equal("collated.position_ids", batch.positions[0].tolist(), theirs["position_ids"])
        compared.equal("collated.types", batch.node_kinds[0].tolist(), theirs["token_type_ids"])
        mask = batch.visibility.mask[0].int().tolist()
        compared.equal("collated.attention_mask", mask, theirs["attention_mask"])
        for kind, name in zip(NodeKind, ("masked", "ent_masked", "rel_masked"), strict=True):
            compared.equal(f"collated.{name}", labels_of(batch, kind), theirs[f"{name}_lm_labels"])
        samples.append(batch)
    return KnowledgeBatch.stack(samples, layout="grouped", word_pad_id=1)


def test_collated_batch(
    golden: dict[str, Any], folder: Path, graph: KnowledgeGraph, compared: Any
) -> None:
    wanted = golden["collated_batch"]
    inputs = load_file(folder / "inputs.safetensors")
    batch = collate(golden, graph, compared)
    labels = batch.node_labels
    assert labels is not None
    for name, ours in (
        ("input_ids", batch.node_ids),
        ("position_ids", batch.positions),
        ("token_type_ids", batch.node_kinds * batch.node_mask),
        ("attention_mask", original_attention_mask(batch)),
    ):
        compared.equal(f"inputs.{name}", ours.tolist(), inputs[name].tolist())
    entity_labels = torch.where(batch.node_kinds == NodeKind.ENTITY, labels, IGNORE)
    golds = [row for row in dict.fromkeys(entity_labels.flatten().tolist()) if row != IGNORE]
    compared.equal("n golds", len(golds), wanted["gold_entities_distinct"])
    n_draws = golden["negative_sampling"]["k_negative_samples"] * len(golds)
    compared.equal("n draws", n_draws, len(wanted["multinomial_draws"]))
    sampled = merge_draws(golds, wanted["multinomial_draws"])
    compared.equal("ent_index", sampled.tolist(), wanted["ent_index"])
    compared.equal(
        "inputs.ent_index", [sampled.tolist()] * len(batch), inputs["ent_index"].tolist()
    )
    slot_of = {row: slot for slot, row in enumerate(sampled.tolist())}
    slots = torch.tensor([[slot_of.get(x, -1) for x in row] for row in entity_labels.tolist()])
    targets = torch.where(batch.node_kinds == NodeKind.ENTITY, slots, labels)
    targets = torch.where(targets == IGNORE, -1, targets)
    for kind, name in zip(NodeKind, ("masked", "ent_masked", "rel_masked"), strict=True):
        columns = batch.node_kinds[0] == int(kind)
        ours = targets[:, columns].tolist()
        compared.equal(f"targets.{name}", ours, wanted["targets"][f"{name}_lm_labels"])
        compared.equal(f"inputs.{name}", ours, inputs[f"{name}_lm_labels"].tolist())
    for kind, name in (
        (NodeKind.WORD, "word"),
        (NodeKind.ENTITY, "ent"),
        (NodeKind.RELATION, "rel"),
    ):
        lengths = ((batch.node_kinds == int(kind)) & batch.node_mask).sum(1).tolist()
        compared.equal(f"targets.{name}_seq_len", lengths, wanted["targets"][f"{name}_seq_len"])
    for kind, name in ((NodeKind.WORD, "word"), (NodeKind.ENTITY, "entity")):
        widths = (batch.node_kinds == int(kind)).sum(1).tolist()
        compared.equal(f"inputs.n_{name}_nodes", widths, inputs[f"n_{name}_nodes"].tolist())


def test_a_batch_without_gold_ranks_the_pad_row() -> None:
    assert merge_draws([], []).tolist() == [1]
    sampler = EntitySampler([0, 0, 0, 2, 1])
    none = torch.tensor([[IGNORE, IGNORE]])
    assert sampler.sample(none, 3, np.random.default_rng(0)).tolist() == [1]
