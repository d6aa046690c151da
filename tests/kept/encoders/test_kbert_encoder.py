"""K-BERT's encoder: the host and nothing more, branches seen only where they should be."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from kept.batches import KnowledgeBatch, Visibility
from kept.encoders.kbert import KBERT, KBERTConfig
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import NodeKind
from kept.graphs.views import KBERTView
from kept.heads.model import KnowledgeForTask
from kept.heads.uer import POOLINGS, pool
from kept.layers.uer_norm import UERLayerNorm, use_uer_norm
from kept.randomness import generator
from kept.tasks.kinds import TAGGING
from kg_loaders import KnowledgeGraph
from tests.kept.kbert_texts import mentioning
from tests.kept.tiny_hosts import FAMILIES, N_WORDS, small_batch, tiny_host

BUILDER = BuilderConfig(policy="file", replace_mentions=False, max_words=60)


def words_only(n_words: int = 6) -> KnowledgeBatch:
    """One row of words that all see one another."""
    ids = torch.arange(5, 5 + n_words)[None]
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=torch.arange(n_words)[None],
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility.everyone(1, n_words),
    )


@pytest.fixture(scope="module")
def tree(small_graph: KnowledgeGraph, tokenizer: Any) -> KnowledgeBatch:
    """[CLS] berlin near the [SEP], with two branches at berlin."""
    text = mentioning(["Q64", "near", "the"], small_graph)
    graph = build(text, tokenizer, small_graph, generator=generator(0), config=BUILDER)
    return KBERTView.of(small_graph, tokenizer)(graph)


def tree_encoder(tokenizer: Any, graph: KnowledgeGraph, **options: Any) -> KBERT:
    host = tiny_host(n_words=len(tokenizer), n_positions=64)
    return KBERT.from_host(host, graph, **options).eval()


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_without_branches_it_is_the_host(family: str, small_graph: KnowledgeGraph) -> None:
    host = tiny_host(family)
    encoder, batch = KBERT.from_host(host, small_graph).eval(), words_only()
    assert len(list(encoder.parameters())) == len(list(host.parameters()))
    states = encoder(batch).node_states
    torch.testing.assert_close(states, host(batch.node_ids).last_hidden_state)


@torch.no_grad()
def test_knowledge_travels_by_its_mention(
    tree: KnowledgeBatch, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """After one layer a branch has reached its mention alone, after two the whole trunk."""
    encoder = tree_encoder(tokenizer, small_graph)
    ids, n_words = tree.node_ids.clone(), int((tree.node_kinds == NodeKind.WORD).sum())
    ids[0, n_words] = 7 if int(ids[0, n_words]) != 7 else 8
    before = encoder(tree).hidden_states
    after = encoder(dataclasses.replace(tree, node_ids=ids)).hidden_states
    moved = [(a - b).abs().amax(2)[0] > 1e-6 for a, b in zip(after, before, strict=True)]
    mention = torch.zeros(n_words, dtype=torch.bool)
    mention[1:7] = True
    assert moved[0].nonzero()[:, 0].tolist() == [n_words]
    assert torch.equal(moved[1][:n_words], mention)
    assert moved[2][:n_words].all()
    sibling = tree.visibility.mask[0, n_words].logical_not()
    sibling[:n_words] = False
    assert sibling.any()
    assert not moved[1][sibling].any()


@torch.no_grad()
def test_uer_norm() -> None:
    generator_ = torch.Generator().manual_seed(0)
    states = torch.randn(3, 5, generator=generator_)
    norm = UERLayerNorm(5)
    norm.weight.copy_(torch.randn(5, generator=generator_))
    norm.bias.copy_(torch.randn(5, generator=generator_))
    for row, actual in zip(states.tolist(), norm(states).tolist(), strict=True):
        mean = sum(row) / 5
        deviation = (sum((x - mean) ** 2 for x in row) / 4) ** 0.5
        wanted = [
            w * (x - mean) / (deviation + 1e-6) + b
            for x, w, b in zip(row, norm.weight.tolist(), norm.bias.tolist(), strict=True)
        ]
        assert actual == pytest.approx(wanted, abs=1e-5)


def test_every_layer_norm_is_replaced() -> None:
    host = tiny_host()
    before = {name: value.clone() for name, value in host.state_dict().items()}
    n_norms = sum(isinstance(m, torch.nn.LayerNorm) for m in host.modules())
    use_uer_norm(host)
    assert not any(isinstance(m, torch.nn.LayerNorm) for m in host.modules())
    assert sum(isinstance(m, UERLayerNorm) for m in host.modules()) == n_norms == 5
    assert all(torch.equal(value, before[name]) for name, value in host.state_dict().items())


@torch.no_grad()
def test_the_released_ways_are_saved(
    tree: KnowledgeBatch, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    options = {"layer_norm": "uer", "mask": "uer", "segment_offset": 1, "pooler": False}
    encoder = tree_encoder(tokenizer, small_graph, **options)
    batch = tree.pad_to(tree.node_ids.shape[1] + 3)
    plain = tree_encoder(tokenizer, small_graph)(batch).node_states[batch.node_mask]
    states = encoder(batch).node_states
    assert (states[batch.node_mask] - plain).abs().max() > 0.01
    encoder.save_pretrained(tmp_path)
    again = KBERT.from_pretrained(tmp_path, graph=small_graph).eval()
    assert again.host.pooler is None
    assert torch.equal(again(batch).node_states, states)


@torch.no_grad()
def test_minus_ten_thousand_hides_as_well(
    tree: KnowledgeBatch, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """Real nodes cannot tell the two masks apart; padded ones attend to everything."""
    batch = tree.pad_to(tree.node_ids.shape[1] + 3)
    ours = tree_encoder(tokenizer, small_graph)
    theirs = tree_encoder(tokenizer, small_graph, mask="uer")
    one, other = ours(batch).node_states, theirs(batch).node_states
    torch.testing.assert_close(one[batch.node_mask], other[batch.node_mask], atol=1e-5, rtol=1e-5)
    assert (one[~batch.node_mask] - other[~batch.node_mask]).abs().max() > 1e-3


def test_faulty_options_are_all_named(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match=r"layer_norm 'x'.*mask 'y'.*segment_offset 2"):
        KBERTConfig(layer_norm="x", mask="y", segment_offset=2)
    host = tiny_host()
    host.config.type_vocab_size = 1
    with pytest.raises(ConfigError, match="this has 1"):
        KBERT.from_host(host, small_graph, segment_offset=1)


def test_a_piece_of_another_tokenizer_is_refused(small_graph: KnowledgeGraph) -> None:
    batch = words_only()
    batch.node_ids[0, 2] = N_WORDS
    with pytest.raises(BatchError, match=f"word piece {N_WORDS} is beyond the host's {N_WORDS}"):
        KBERT.from_host(tiny_host(), small_graph)(batch)


# ---- fine-tuning ---------------------------------------------------------------------------------
@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_against_loops(pooling: str) -> None:
    states = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    read = torch.tensor([[False, True, True, False, False], [True, False, True, False, True]])
    for row, is_read, pooled in zip(states, read, pool(states, read, pooling), strict=True):
        chosen = [row[i] for i in range(5) if is_read[i]]
        wanted = {
            "first": chosen[0],
            "last": chosen[-1],
            "mean": sum(chosen) / len(chosen),
            "max": torch.stack([torch.stack(chosen)[:, k].max() for k in range(3)]),
        }[pooling]
        torch.testing.assert_close(pooled, wanted)


@torch.no_grad()
@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_head_reads_neither_padding_nor_branches(
    pooling: str, tree: KnowledgeBatch, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = tree_encoder(tokenizer, small_graph)
    model = KnowledgeForTask.of(encoder, "uer", ["a", "b"], pooling=pooling).eval()
    longer = tree.pad_to(tree.node_ids.shape[1] + 4)
    logits = model(tree).class_logits
    torch.testing.assert_close(model(longer).class_logits, logits, atol=1e-5, rtol=1e-5)
    output, n_words = encoder(tree), int((tree.node_kinds == NodeKind.WORD).sum())
    spoiled = dataclasses.replace(output, node_states=output.node_states.clone())
    spoiled.node_states[:, n_words:] = 99.0
    torch.testing.assert_close(model.head(spoiled, tree, encoder), logits)
    model.head.over = "all"
    reads_all = not torch.allclose(model(longer).class_logits, logits, atol=1e-5)
    assert reads_all == (pooling != "first")


def test_head_options_are_checked(small_graph: KnowledgeGraph) -> None:
    encoder = KBERT.from_host(tiny_host(), small_graph)
    with pytest.raises(ConfigError, match=r"pooling 'x'.*over 'y'"):
        KnowledgeForTask.of(encoder, "uer", ["a"], pooling="x", over="y")


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_fine_tuning_learns_one_batch(task: str, small_graph: KnowledgeGraph) -> None:
    """From a host that never saw a branch, and without pre-training."""
    batch = small_batch()
    batch = dataclasses.replace(batch, sampled_entities=None)
    encoder = KBERT.from_host(tiny_host(), small_graph)
    if task == "tagging":
        labels = batch.node_ids % 3
        batch = dataclasses.replace(batch, node_labels=labels)
        model = KnowledgeForTask.of(encoder, "tagging", list("abc"), problem_type=TAGGING)
    else:
        batch = dataclasses.replace(batch, node_labels=None, labels=torch.tensor([0, 1]))
        model = KnowledgeForTask.of(encoder, "uer", ["a", "b"], pooling="mean")
    model.eval()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = model(batch).losses["class"]
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]
