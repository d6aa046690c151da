"""LUKE's encoder: its start from host and graph, its [MASK] entities, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from entity_linking.mentions import Link, LinkedText, Mention
from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.encoders.luke import LUKE, LUKEConfig
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind
from kept.graphs.views import CoLAKEView, LUKEView
from kept.heads.model import KnowledgeForTask
from kept.methods import METHODS
from kept.vectors import FactVectors, LabelVectors
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import BERT_LIKE, tiny_host

CONFIG = BuilderConfig(max_words=40, max_nodes=90, **METHODS["luke"].builder)


def host_for(tokenizer: Any, family: str = "bert") -> PreTrainedModel:
    return tiny_host(family, n_words=len(tokenizer), n_positions=128)


@pytest.fixture
def samples(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> list[KnowledgeBatch]:
    texts = [text for text in linked if len(text.links) > 1][:4]
    graphs = build_many(texts, tokenizer, small_graph, seed=0, config=CONFIG)
    return [LUKEView()(graph) for graph in graphs]


# ---- first weights -------------------------------------------------------------------------------
@pytest.mark.parametrize("family", BERT_LIKE)
def test_queries_start_as_the_host_s(
    family: str, small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    """So that entity-aware attention is at first what the host does."""
    aware, plain = (
        LUKE.for_graph(
            host_for(tokenizer, family), small_graph, tokenizer, seed=0, entity_aware=aware
        ).eval()
        for aware in (True, False)
    )
    missing = plain.load_state_dict(aware.state_dict(), strict=False)
    assert all(name.startswith("queries.") for name in missing.unexpected_keys)
    assert len(aware.queries) == len(hosts.layers(aware.host))
    batch = KnowledgeBatch.stack(samples)
    with torch.no_grad():
        mine, theirs = aware(batch).node_states, plain(batch).node_states
    torch.testing.assert_close(mine[batch.node_mask], theirs[batch.node_mask], atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_positions_start_as_the_words_of_the_same_place(
    family: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = host_for(tokenizer, family)
    model = LUKE.for_graph(host, small_graph, tokenizer, seed=0)
    theirs, offset = host.embeddings.position_embeddings.weight, hosts.own_position_offset(host)
    n = len(theirs) - offset
    assert model.entity_inputs.positions.weight[:n].equal(theirs[offset:])
    assert model.entity_inputs.types.weight.equal(host.embeddings.token_type_embeddings.weight)
    luke = LUKE.for_graph(host, small_graph, tokenizer, seed=0, start="random")
    assert not luke.entity_inputs.positions.weight[:n].equal(theirs[offset:])


@pytest.mark.parametrize(
    ("vectors", "provider"), [("labels", LabelVectors), ("facts", FactVectors)]
)
def test_rows_start_from_names_and_facts(
    vectors: str, provider: Any, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = host_for(tokenizer)
    model = LUKE.for_graph(host, small_graph, tokenizer, seed=0, vectors=vectors)
    words = hosts.word_table(host).weight.detach()
    expected, rows = provider(words, tokenizer)(small_graph), model.entity_vectors.weight
    assert bool(expected.known.any())
    torch.testing.assert_close(
        rows[N_SPECIAL_ROWS:][expected.known], expected.vectors[expected.known]
    )
    assert rows[MASK_ROW].equal(words[tokenizer.mask_token_id])
    assert not bool(rows[PAD_ROW].any())
    assert model.row_tables()[0].space == "words"


@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("width", [3, 8, 40])
def test_a_narrow_row_and_its_map_are_the_best_of_their_rank(
    family: str, width: int, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """What enters is the host's own vector of a label, or on the words what an SVD leaves of it."""
    host = host_for(tokenizer, family)
    model = LUKE.for_graph(host, small_graph, tokenizer, seed=0, entity_width=width)
    words = hosts.word_table(host).weight.detach()
    expected = LabelVectors(words, tokenizer)(small_graph)
    _, _, basis = torch.linalg.svd(words, full_matrices=False)
    kept = basis[:width]
    vectors = expected.vectors[expected.known] @ kept.T @ kept
    if family == "electra":
        vectors = vectors @ host.embeddings_project.weight.T
    with torch.no_grad():
        entering = model.entity_inputs.dense(model.entity_vectors.weight[N_SPECIAL_ROWS:])
    torch.testing.assert_close(entering[expected.known], vectors, atol=1e-5, rtol=1e-4)


def test_rows_of_a_scorer_have_its_width(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    model = LUKE.for_graph(
        host_for(tokenizer), small_graph, tokenizer, seed=0, vectors="transe", vector_epochs=1,
        entity_width=6,
    )  # fmt: skip
    rows = model.entity_vectors.weight[N_SPECIAL_ROWS:].detach()
    assert rows.shape == (small_graph.n_entities, 6)
    assert float(rows.norm(dim=1).mean()) == pytest.approx(hosts.embedded_length(model.host))
    assert model.row_tables()[0].space == "own"


def test_a_fact_changes_the_row_that_says_facts(tokenizer: Any) -> None:
    """Rows of labels are the same whatever the graph says, rows of facts are not."""
    one, other = (
        KnowledgeGraph.from_triples(
            [("Q1", "P106", tail), ("Q4", "P106", "Q2"), ("Q4", "P106", "Q3")],
            {"Q1": "city", "Q2": "old", "Q3": "river", "Q4": "bank"},
        )
        for tail in ("Q2", "Q3")
    )

    def row(graph: KnowledgeGraph, vectors: str) -> torch.Tensor:
        model = LUKE.for_graph(host_for(tokenizer), graph, tokenizer, seed=0, vectors=vectors)
        entity = graph.entities.find("Q1")
        assert entity is not None
        return model.entity_vectors.weight[entity + N_SPECIAL_ROWS].detach()

    assert row(one, "labels").equal(row(other, "labels"))
    assert not torch.allclose(row(one, "facts"), row(other, "facts"))


# ---- [MASK] entities of targets ------------------------------------------------------------------
@torch.no_grad()
def test_targets_get_a_masked_entity_that_says_where_they_are(
    small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    """The same as a linked entity with the MASK row would be; padded targets change nothing."""
    model = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0).eval()
    sample, span = samples[0], torch.tensor([[[2, 4]]])
    output = model(sample.replace(target_spans=span))
    n_nodes = sample.node_ids.shape[1]
    assert output.node_states.shape[1] == n_nodes
    longer = sample.pad_to(n_nodes + 1)
    ids, kinds, mask = longer.node_ids.clone(), longer.node_kinds.clone(), longer.node_mask.clone()
    ids[0, -1], kinds[0, -1], mask[0, -1] = MASK_ROW, int(NodeKind.ENTITY), True
    assert sample.mention_spans is not None
    as_node = model(
        longer.replace(
            node_ids=ids, node_kinds=kinds, node_mask=mask,
            visibility=type(sample.visibility).everyone(1, n_nodes + 1),
            mention_spans=torch.cat([sample.mention_spans, span], dim=1),
        )
    )  # fmt: skip
    assert output.target_states is not None
    torch.testing.assert_close(output.target_states[0, 0], as_node.node_states[0, -1])
    torch.testing.assert_close(output.node_states[0], as_node.node_states[0, :-1])
    padded = model(sample.replace(target_spans=torch.tensor([[[2, 4], [0, 0]]])))
    torch.testing.assert_close(padded.node_states, output.node_states)


@torch.no_grad()
def test_a_second_target_has_its_own_row(
    small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    """Of two targets at one place the states are equal, until the second row is another."""
    model = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0, n_masks=2).eval()
    batch = samples[0].replace(target_spans=torch.tensor([[[2, 4], [2, 4]]]))
    head, tail = model(batch).target_states[0]
    torch.testing.assert_close(head, tail)
    model.second_mask.neg_()
    head, tail = model(batch).target_states[0]
    assert not torch.allclose(head, tail)


def test_without_masked_targets_the_head_is_refused(
    small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    model = LUKE.for_graph(
        host_for(tokenizer), small_graph, tokenizer, seed=0, mask_targets=False
    ).eval()
    batch = samples[0].replace(target_spans=torch.tensor([[[2, 4]]]))
    assert model(batch).target_states is None
    assert model(batch).node_states.equal(model(samples[0]).node_states)
    with pytest.raises(ConfigError, match="mask_targets, or the head targets"):
        KnowledgeForTask.of(model, "entities", ["a", "b"])


# ---- links ---------------------------------------------------------------------------------------
@torch.no_grad()
def test_a_link_of_weight_0_is_no_link(
    small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    """For every other node: nobody attends to it; half of it lies between."""
    model = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0).eval()
    sample = samples[0]
    n_words = int((sample.node_kinds == NodeKind.WORD).sum())
    n_nodes = sample.node_ids.shape[1]

    def words(weight: float) -> torch.Tensor:
        weights = torch.ones(1, n_nodes)
        weights[0, n_words:] = weight
        return model(sample.replace(node_weights=weights)).node_states[0, :n_words]

    alone = KnowledgeBatch(
        sample.node_ids[:, :n_words], sample.node_kinds[:, :n_words],
        sample.node_mask[:, :n_words], sample.positions[:, :n_words],
        sample.segment_ids[:, :n_words], type(sample.visibility).everyone(1, n_words),
    )  # fmt: skip
    torch.testing.assert_close(words(0.0), model(alone).node_states[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(words(1.0), model(sample).node_states[0, :n_words])
    assert not torch.allclose(words(0.5), words(1.0), atol=1e-4)


@torch.no_grad()
def test_an_entity_has_one_row_in_all_languages(tokenizer: Any) -> None:
    """mLUKE: texts in two languages about one entity share its row; their words stay theirs."""
    graph = KnowledgeGraph.from_triples([("Q64", "P17", "Q183")], {"Q64": "river"})
    texts = [
        LinkedText(text, (Link(Mention(0, len(name)), (), "Q64", 1.0),))
        for text, name in (("river old", "river"), ("city of old", "city"))
    ]
    graphs = build_many(texts, tokenizer, graph, seed=0, config=CONFIG)
    rows = [LUKEView()(each) for each in graphs]
    entities = [batch.node_ids[batch.node_kinds == NodeKind.ENTITY] for batch in rows]
    assert entities[0].tolist() == entities[1].tolist() == [graph.entities.find("Q64") + 3]


def test_pals_are_added_to_plain_attention_alone(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """Entity-aware layers would pass them by; bottlenecks and LoRA are inside their parts."""
    aware = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0)
    with pytest.raises(ConfigError, match="entity_aware=false"):
        aware.insert("pals", {"width": 4, "heads": 2})
    plain = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0, entity_aware=False)
    plain.insert("pals", {"width": 4, "heads": 2})
    assert "pals" in plain.config.inside


# ---- what is refused -----------------------------------------------------------------------------
def test_faulty_batches(
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    samples: list[KnowledgeBatch],
    linked: list[LinkedText],
) -> None:
    model = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0).eval()
    with pytest.raises(BatchError, match="use LUKEView"):
        model(samples[0].replace(mention_spans=None))
    ids = samples[0].node_ids.clone()
    ids[0, -1] = 10_000
    with pytest.raises(BatchError, match="entity row 10000 is beyond the table of"):
        model(samples[0].replace(node_ids=ids))
    texts = [text for text in linked if text.links][:1]
    facts = BuilderConfig(max_words=40, max_nodes=90, replace_mentions=False)
    (graph,) = build_many(texts, tokenizer, small_graph, seed=0, config=facts)
    with pytest.raises(BatchError, match="nodes are neither"):
        model(CoLAKEView()(graph))


def test_faulty_settings(small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"entity_width -1: .*n_masks 3: 1 or 2"):
        LUKEConfig(entity_width=-1, n_masks=3)
    with pytest.raises(ConfigError, match="start is 'words'; use 'host' or 'random'"):
        LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0, start="words")
    file = tmp_path / "vectors.txt"
    file.write_text("1 3\nENTITY/Q64 1 2 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="entity_width is 5, and the vectors"):
        LUKE.for_graph(
            host_for(tokenizer), small_graph, tokenizer, seed=0, vectors=file, entity_width=5
        )


def test_layers_compute_no_padding(
    small_graph: KnowledgeGraph, tokenizer: Any, samples: list[KnowledgeBatch]
) -> None:
    model = LUKE.for_graph(host_for(tokenizer), small_graph, tokenizer, seed=0).eval()
    batch = KnowledgeBatch.stack(samples)
    n_rows: list[int] = []
    hosts.layers(model.host)[0].intermediate.register_forward_pre_hook(
        lambda layer, inputs: n_rows.append(inputs[0].flatten(0, -2).shape[0])
    )
    with torch.no_grad():
        states = model(batch).node_states
        alone = [model(sample).node_states[0] for sample in samples]
    assert n_rows[0] == int(batch.node_mask.sum()) < batch.node_mask.numel()
    for row, expected in zip(states, alone, strict=True):
        torch.testing.assert_close(row[: len(expected)], expected, atol=5e-6, rtol=1e-5)
