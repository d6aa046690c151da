"""Methods × families of hosts: each takes a training step, or is refused with its reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.batches import KnowledgeBatch, Visibility
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError, HostError
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.kept.encoders.test_encoder_contract import Case, make_case
from tests.kept.tiny_hosts import BERT_LIKE, FAMILIES, N_WORDS, method_encoder, small_batch
from tests.kept.tiny_hosts import tiny_host as tiny

REFUSED = {
    (name, family)
    for name, method in METHODS.items()
    for family in FAMILIES
    if method.encoder.needs_bert_layers and family not in BERT_LIKE
}
SIZES: dict[str, dict[str, Any]] = {
    "eurobert": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                 "num_key_value_heads": 2, "intermediate_size": 16},
    "deberta": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                "intermediate_size": 16, "max_position_embeddings": 256},
    "roformer": {"hidden_size": 16, "embedding_size": 16, "num_hidden_layers": 2,
                 "num_attention_heads": 2, "intermediate_size": 16},
}  # fmt: skip
"""Encoders whose layers kept does not know, with sizes of a tiny one."""
RUNS_WHOLE = [name for name, method in METHODS.items() if not method.encoder.needs_layers]


@pytest.fixture(scope="module")
def cases(small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]) -> dict[str, Case]:
    """Samples of each method in its view, made once."""
    return {name: make_case(name, "bert", small_graph, tokenizer, linked) for name in METHODS}


def whole_host(family: str, n_words: int) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, vocab_size=n_words, pad_token_id=1, initializer_range=0.3, **SIZES[family]
    )
    return AutoModel.from_config(config).eval()


def train_step(encoder: KnowledgeEncoder, batch: KnowledgeBatch) -> None:
    """One step of SGD on the sum of the states; every gradient is finite, the states change."""
    states = encoder.train()(batch).node_states
    (states * states)[batch.node_mask].sum().backward()
    gradients = [p.grad for p in encoder.parameters() if p.grad is not None]
    assert gradients
    assert all((g.coalesce().values() if g.is_sparse else g).isfinite().all() for g in gradients)
    with torch.no_grad():
        before = encoder.eval()(batch).node_states[batch.node_mask]
        for parameter in encoder.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
        after = encoder(batch).node_states[batch.node_mask]
    assert not torch.equal(before, after)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", METHODS)
def test_each_pair_trains_or_is_refused(
    name: str, family: str, cases: dict[str, Case], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    if (name, family) in REFUSED:
        with pytest.raises(HostError, match=f"parts of BERT's layers, and those of a {family}"):
            method_encoder(name, small_graph, tokenizer, family=family)
        return
    train_step(method_encoder(name, small_graph, tokenizer, family=family), cases[name].batch)


@pytest.mark.parametrize("family", SIZES)
@pytest.mark.parametrize("name", METHODS)
def test_an_unknown_family_is_run_as_a_whole_or_refused(
    name: str, family: str, cases: dict[str, Case], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host, method = whole_host(family, len(tokenizer)), METHODS[name].encoder
    if name not in RUNS_WHOLE:
        with pytest.raises(HostError, match=f"layers of a host, and kept does not .*'{family}'"):
            method.for_graph(host, small_graph, tokenizer, seed=0)
        return
    encoder = method.for_graph(host, small_graph, tokenizer, seed=0).eval()
    train_step(encoder, cases[name].batch)


@torch.no_grad()
@pytest.mark.parametrize("family", SIZES)
def test_a_whole_host_gives_its_own_states(family: str) -> None:
    host = whole_host(family, N_WORDS)
    hosts.require_whole_encoder(host)
    ids = torch.randint(2, N_WORDS, (2, 6), generator=torch.Generator().manual_seed(3))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, 4:] = False
    both = mask[:, None, :] & mask[:, :, None]
    visible = Visibility(both | torch.eye(6, dtype=torch.bool))
    states = hosts.run(host, hosts.word_table(host)(ids), visible, mask)
    expected = host(ids, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(states[-1][mask], expected[mask], atol=5e-6, rtol=0)
    assert len(states) == 3


@torch.no_grad()
def test_a_whole_host_refuses_what_it_cannot_show() -> None:
    host, mask = whole_host("eurobert", N_WORDS), torch.ones(1, 3, dtype=torch.bool)
    vectors = hosts.word_table(host)(torch.tensor([[2, 3, 4]]))
    with pytest.raises(BatchError, match="all words see each other"):
        hosts.run(host, vectors, Visibility(torch.eye(3, dtype=torch.bool)[None]), mask)
    everyone = Visibility(torch.ones(1, 3, 3, dtype=torch.bool))
    with pytest.raises(BatchError, match="counts its positions itself"):
        hosts.run(host, vectors, everyone, mask, positions=torch.tensor([[0, 1, 1]]))


def test_a_decoder_is_no_whole_host() -> None:
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 30}
    decoder = AutoModel.from_config(AutoConfig.for_model("gpt2", **sizes))
    with pytest.raises(HostError, match="do not see the words after them, so it is a decoder"):
        hosts.require_whole_encoder(decoder)


@torch.no_grad()
@pytest.mark.parametrize("family", ["mpnet", "deberta-v2", "nomic_bert", "modernbert"])
def test_distances_follow_soft_positions(family: str) -> None:
    """A row in another order with the same positions gives the same states in that order."""
    host, batch = tiny(family), small_batch()
    vectors = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(4))
    order = torch.tensor([7, 2, 0, 5, 6, 1, 4, 3])
    states = hosts.run(host, vectors, batch.visibility, positions=batch.positions)[-1]
    turned = hosts.run(
        host,
        vectors[:, order],
        Visibility(batch.visibility.mask[:, order][:, :, order]),
        positions=batch.positions[:, order],
    )[-1]
    torch.testing.assert_close(turned, states[:, order], atol=5e-6, rtol=0)
    moved = batch.positions.clone()
    moved[:, 6:] += 2
    other = hosts.run(host, vectors, batch.visibility, positions=moved)[-1]
    assert (other - states).abs().max() > 1e-4


@pytest.mark.parametrize("family", ["mpnet", "deberta-v2", "nomic_bert", "modernbert"])
def test_positions_are_required_where_layers_read_them(family: str) -> None:
    host, batch = tiny(family), small_batch()
    with pytest.raises(BatchError, match="give `positions`"):
        hosts.run(host, torch.zeros(2, 8, 16), batch.visibility)


def test_deberta_takes_no_weights_of_links() -> None:
    host, batch = tiny("deberta-v2"), small_batch()
    with pytest.raises(BatchError, match="no weights of links"):
        hosts.run(
            host, torch.zeros(2, 8, 16), batch.visibility, None, torch.ones(2, 8),
            positions=batch.positions,
        )  # fmt: skip


@torch.no_grad()
def test_modernberts_local_layers_see_their_window() -> None:
    """A text longer than the window: states are the host's own."""
    host = tiny("modernbert")
    ids = torch.randint(2, N_WORDS, (1, 24), generator=torch.Generator().manual_seed(5))
    places = torch.arange(24)[None]
    hidden = hosts.embed(host, hosts.word_table(host)(ids), places, torch.zeros_like(ids))
    states = hosts.run(host, hidden, Visibility.everyone(1, 24), positions=places)[-1]
    torch.testing.assert_close(states, host(ids).last_hidden_state, atol=5e-6, rtol=0)


@torch.no_grad()
def test_albert_is_passed_as_often_as_it_has_layers() -> None:
    host = tiny("albert", n_layers=3)
    assert len(hosts.layers(host)) == 3
    assert len({id(layer) for layer in hosts.layers(host)}) == 1
    ids = torch.tensor([[2, 5, 9, 3]])
    whole = host(ids, output_hidden_states=True).hidden_states
    short = hosts.first_layers(host, 2)
    torch.testing.assert_close(short(ids).last_hidden_state, whole[2], atol=5e-6, rtol=0)


def test_a_whole_host_that_cannot_compute_in_bf16_is_known() -> None:
    """transformers' DeBERTa of version 1 hides words with the least float32."""
    assert not hosts.computes_in_bf16(whole_host("deberta", N_WORDS))
    assert hosts.computes_in_bf16(whole_host("eurobert", N_WORDS))
    assert hosts.computes_in_bf16(tiny("deberta-v2"))


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_layers_of_any_family(family: str) -> None:
    """The states of one layer are those of the whole host after one, but for a last norm."""
    batch = small_batch()
    vectors = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(6))
    whole = hosts.run(tiny(family), vectors, batch.visibility, positions=batch.positions)
    host = hosts.first_layers(tiny(family), 1)
    states = hosts.run(host, vectors, batch.visibility, positions=batch.positions)
    assert len(hosts.layers(host)) == host.config.num_hidden_layers == 1
    assert len(states) == 2
    expected = host.final_norm(whole[1]) if family == "modernbert" else whole[1]
    torch.testing.assert_close(states[1], expected, atol=5e-6, rtol=0)
