"""The CoLAKE encoder: what may influence what, saving and loading, graphs, host families."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, Visibility, pack
from kept.encoders.colake import CoLAKE, CoLAKEConfig
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.graphs.graph import NodeKind
from kept.objectives.masked_nodes import MaskedNodesOptions
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import (
    FAMILIES,
    N_WORDS,
    one_of,
    pretraining_model,
    small_batch,
    tiny_host,
)


@pytest.fixture(params=FAMILIES)
def encoder(request: pytest.FixtureRequest, small_graph: KnowledgeGraph) -> CoLAKE:
    host = tiny_host(request.param)
    return CoLAKE.from_host(host, small_graph, initializer_range=0.3).eval()


@pytest.fixture
def bert(small_graph: KnowledgeGraph) -> CoLAKE:
    return CoLAKE.from_host(tiny_host(), small_graph, initializer_range=0.3).eval()


def test_an_invisible_node_has_no_influence(encoder: CoLAKE) -> None:
    """Gradient of a state at a node to each input node is zero unless a path of `depth` sees it."""
    batch = small_batch()
    vectors: list[torch.Tensor] = []
    original = hosts.embed

    def spy(*args: object) -> torch.Tensor:
        hidden = original(*args).detach().requires_grad_()  # type: ignore[arg-type]
        vectors.append(hidden)
        return hidden

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hosts, "embed", spy)
        states = encoder(batch).hidden_states
    direct = batch.visibility.mask[0]
    twice = (direct.float() @ direct.float()) > 0
    assert not direct.all()
    assert not twice.all()
    for reachable, layer in ((direct, states[1]), (twice, states[2])):
        for node in range(8):
            (gradient,) = torch.autograd.grad(
                layer[0, node].square().sum(), vectors[0], retain_graph=True
            )
            influence = gradient[0].abs().sum(-1)
            assert (influence[~reachable[node]] == 0).all()
            assert (influence[reachable[node]] > 0).all()
            assert (gradient[1] == 0).all()


def test_padding_changes_nothing(encoder: CoLAKE) -> None:
    plain, longer = encoder(small_batch()).node_states, encoder(small_batch(3)).node_states
    torch.testing.assert_close(longer[:, :8], plain, atol=2e-6, rtol=0)
    assert longer.isfinite().all()


def test_a_batch_equals_batches_of_one(encoder: CoLAKE) -> None:
    batch = small_batch()
    whole = encoder(batch).node_states
    for index in range(2):
        alone = encoder(one_of(batch, index)).node_states
        torch.testing.assert_close(alone[0], whole[index], atol=2e-6, rtol=0)


def test_packing_changes_nothing(encoder: CoLAKE) -> None:
    batch = dataclasses.replace(small_batch(), sampled_entities=None)
    samples = [one_of(batch, index) for index in (0, 1, 0)]
    packed = pack(samples, 20)  # two samples in the first row, padding after them
    assert packed.rows == (0, 0, 1)
    parts = packed.unpack(encoder(packed.batch).node_states)
    for sample, part in zip(samples, parts, strict=True):
        torch.testing.assert_close(part, encoder(sample).node_states[0], atol=2e-6, rtol=0)


def test_output(encoder: CoLAKE) -> None:
    output = encoder(small_batch())
    assert len(output.hidden_states) == 3
    assert output.node_states is output.hidden_states[-1]
    assert torch.equal(output.pooled_state, output.node_states[:, 0])
    assert output.losses == {}


def test_words_alone_are_the_hosts_own_states(encoder: CoLAKE) -> None:
    """Fresh kind embeddings are zero: without injected nodes a new encoder is its host."""
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    plain = small_batch()
    words = dataclasses.replace(
        one_of(plain, 0),
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=ids > 0,
        positions=torch.arange(5)[None],
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility.everyone(1, 5),
        node_labels=None,
    )
    torch.testing.assert_close(
        encoder(words).node_states, encoder.host(ids).last_hidden_state, atol=1e-6, rtol=0
    )


def test_position_offset(small_graph: KnowledgeGraph) -> None:
    assert CoLAKE.from_host(tiny_host("bert"), small_graph).position_offset == 0
    assert CoLAKE.from_host(tiny_host("roberta"), small_graph).position_offset == 2
    original = CoLAKE.from_host(tiny_host("roberta"), small_graph, position_offset=0)
    assert original.position_offset == 0


def test_wrapping_keeps_the_hosts_weights(small_graph: KnowledgeGraph) -> None:
    before = {k: v.clone() for k, v in tiny_host(seed=3).state_dict().items()}
    after = CoLAKE.from_host(tiny_host(seed=3), small_graph).host.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("family", FAMILIES)
def test_save_and_load(family: str, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    model = pretraining_model(tiny_host(family), small_graph, empty_loss="nan").eval()
    torch.nn.init.normal_(model.encoder.kind_embeddings.weight)
    model.save_pretrained(tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "checksums.json",
        "config.json",
        "model.safetensors",
    ]
    loaded = KnowledgeForPreTraining.from_pretrained(tmp_path / "model", graph=small_graph)
    batch = small_batch()
    one, other = model(batch), loaded(batch)
    assert torch.equal(one.node_states, other.node_states)
    losses = {k: v.item() for k, v in other.losses.items()}
    assert {k: v.item() for k, v in one.losses.items()} == pytest.approx(losses, rel=1e-6)
    assert loaded.config.content_hash == small_graph.content_hash
    assert loaded.objectives["masked_nodes"].empty_loss == "nan"
    opened = CoLAKE.from_pretrained(tmp_path / "model", graph=small_graph)
    assert torch.equal(opened(batch).node_states, one.node_states)
    opened.save_pretrained(tmp_path / "bare")
    again = CoLAKE.from_pretrained(tmp_path / "bare", attn_implementation="eager")
    assert again.host.config._attn_implementation == "eager"
    torch.testing.assert_close(again(batch).node_states, one.node_states, atol=1e-5, rtol=0)


def test_loading_refuses_missing_weights(bert: CoLAKE, tmp_path: Path) -> None:
    bert.save_pretrained(tmp_path / "bare")
    with pytest.raises(CheckpointError, match="holds an encoder without objectives"):
        KnowledgeForPreTraining.from_pretrained(tmp_path / "bare")


def test_another_id_space_is_refused(
    bert: CoLAKE, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    bert.save_pretrained(tmp_path / "model")
    with pytest.raises(GraphMismatchError) as caught:
        CoLAKE.from_pretrained(tmp_path / "model", graph=other)
    assert small_graph.id_space_hash in str(caught.value)
    assert other.id_space_hash in str(caught.value)
    shuffled = small_graph.with_triples(small_graph.triples[:3], note="three")
    bert.require_graph(shuffled)  # other triples, same ids


def test_rows_beyond_a_table_are_named(bert: CoLAKE, small_graph: KnowledgeGraph) -> None:
    n_rows = small_graph.n_entities + N_SPECIAL_ROWS
    batch = small_batch()
    ids = batch.node_ids.clone()
    ids[0, 5] = n_rows
    with pytest.raises(BatchError, match=f"entity row {n_rows} is beyond the table of {n_rows}"):
        bert(dataclasses.replace(batch, node_ids=ids))


def test_faulty_configuration() -> None:
    with pytest.raises(ConfigError, match="kind_table"):
        CoLAKEConfig(kind_table="both")
    with pytest.raises(ConfigError, match="empty_loss"):
        MaskedNodesOptions(empty_loss="one")
    with pytest.raises(ConfigError, match="type_vocab_size 3, this one has 2"):
        CoLAKE(CoLAKEConfig(host=tiny_host().config.to_dict(), kind_table="host"))


def test_entity_gradients_are_sparse_rows(bert: CoLAKE) -> None:
    batch = small_batch()
    bert(batch).node_states.square().sum().backward()
    gradient = bert.entity_embeddings.weight.grad.coalesce()
    used = batch.node_ids[batch.node_kinds == NodeKind.ENTITY].unique().tolist()
    values = gradient.values().abs().sum(1)
    assert [row for row, v in zip(gradient.indices()[0].tolist(), values, strict=True) if v] == used


def test_labels_start_the_tables(bert: CoLAKE, small_graph: KnowledgeGraph) -> None:
    names = ["France", "Paris", "Germany", "capital", "of", "Seine", "country"]
    vocabulary = {"[UNK]": 0, **{name: i + 5 for i, name in enumerate(names)}}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]")
    words = hosts.word_table(bert.host).weight
    special = bert.entity_embeddings.weight[:N_SPECIAL_ROWS].clone()
    bert.initialise_from_labels(small_graph, tokenizer)
    france = bert.entity_embeddings.weight[small_graph.entities.id("Q142") + N_SPECIAL_ROWS]
    assert torch.equal(france, words[vocabulary["France"]])
    capital_of = bert.relation_embeddings.weight[small_graph.relations.id("P1376") + N_SPECIAL_ROWS]
    mean = (words[vocabulary["capital"]] + words[vocabulary["of"]]) / 2
    torch.testing.assert_close(capital_of, mean)
    assert torch.equal(bert.entity_embeddings.weight[:N_SPECIAL_ROWS], special)
    assert bert.entity_embeddings.weight.requires_grad


def test_vocabulary_size_is_the_hosts(bert: CoLAKE, tmp_path: Path) -> None:
    bert.host.resize_token_embeddings(N_WORDS + 2, mean_resizing=False)
    bert.save_pretrained(tmp_path / "grown")
    grown = CoLAKE.from_pretrained(tmp_path / "grown")
    assert hosts.word_table(grown.host).num_embeddings == N_WORDS + 2
