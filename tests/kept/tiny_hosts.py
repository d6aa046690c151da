"""Tiny random hosts and batches made by hand, for the tests of encoders and heads."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerFast

from kept.batches import IGNORE, MASK_ROW, PAD_ROW, KnowledgeBatch, Visibility
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.colake import CoLAKE
from kept.graphs.graph import NodeKind
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

N_WORDS = 30
FAMILIES = ("bert", "roberta", "xlm-roberta", "electra")


def tiny_host(
    family: str = "bert",
    attention: str = "sdpa",
    seed: int = 0,
    n_words: int = N_WORDS,
    n_positions: int = 32,
    n_layers: int = 2,
) -> PreTrainedModel:
    """16 wide; ELECTRA's word table is 8 wide, so that it projects."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        family,
        vocab_size=n_words,
        hidden_size=16,
        num_hidden_layers=n_layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=n_positions,
        pad_token_id=1,
        initializer_range=0.3,
        **({"embedding_size": 8} if family == "electra" else {}),
    )
    return AutoModel.from_config(config, attn_implementation=attention).eval()


def fast_tokenizer(inner: Tokenizer) -> PreTrainedTokenizerFast:
    """`inner` with BERT's special pieces."""
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def method_encoder(
    name: str,
    graph: KnowledgeGraph,
    tokenizer: Any,
    *,
    family: str = "bert",
    attention: str = "sdpa",
    n_layers: int = 2,
) -> KnowledgeEncoder:
    """The method's encoder on a tiny host whose words are the tokenizer's."""
    host = tiny_host(family, attention, n_words=len(tokenizer), n_positions=128, n_layers=n_layers)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return METHODS[name].encoder.for_graph(host, graph, tokenizer, seed=0).eval()


def untaught_encoder(
    name: str, graph: KnowledgeGraph, tokenizer: Any, family: str = "bert"
) -> KnowledgeEncoder:
    """As `method_encoder`, without learning anything from the graph first, which takes time."""
    host = tiny_host(family, n_words=len(tokenizer), n_positions=128)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return METHODS[name].encoder.from_host(host, graph).eval()


def pretraining_model(
    host: PreTrainedModel, graph: KnowledgeGraph, *, empty_loss: str = "zero", **options: Any
) -> KnowledgeForPreTraining:
    """CoLAKE on `host` under its own objective."""
    encoder = CoLAKE.from_host(host, graph, **options)
    return KnowledgeForPreTraining.of(encoder, {"masked_nodes": {"empty_loss": empty_loss}})


def small_batch(n_pads: int = 0) -> KnowledgeBatch:
    """Two texts of five words and an anchor; a relation and its tail hang at the anchor.

    Nodes: words 0-4, anchor 5, tail 6, relation 7, pads. The anchor sees the relation, the words
    do not; tail and relation see only each other, the relation also the anchor.
    """
    word, entity, relation = (int(kind) for kind in NodeKind)
    kinds = torch.tensor([[word] * 5 + [entity] * 2 + [relation]]).repeat(2, 1)
    ids = torch.tensor([[2, 7, 8, 9, 3, 5, 6, 4], [2, 17, 18, 19, 3, 8, MASK_ROW, MASK_ROW]])
    positions = torch.tensor([[0, 1, 2, 3, 5, 4, 6, 5]]).repeat(2, 1)
    visible = torch.eye(8, dtype=torch.bool)
    visible[:6, :6] = True
    for one, other in ((5, 7), (7, 6)):
        visible[one, other] = visible[other, one] = True
    labels = torch.full_like(ids, IGNORE)
    labels[0, 2], labels[1, 1], labels[0, 5], labels[1, 6], labels[1, 7] = 11, 12, 5, 9, 6
    batch = KnowledgeBatch(
        node_ids=ids,
        node_kinds=kinds,
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=positions,
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility(visible.repeat(2, 1, 1)),
        node_labels=labels,
        sampled_entities=torch.tensor([9, 5, 11, 3]),
    )
    return padded(batch, n_pads)


def padded(batch: KnowledgeBatch, n_pads: int) -> KnowledgeBatch:
    """`batch` with `n_pads` word pads at the end, each seeing itself."""

    def pad(value: Tensor, fill: int) -> Tensor:
        return torch.nn.functional.pad(value, (0, n_pads), value=fill)

    visible = torch.nn.functional.pad(batch.visibility.mask, (0, n_pads, 0, n_pads))
    return dataclasses.replace(
        batch,
        node_ids=pad(batch.node_ids, PAD_ROW),
        node_kinds=pad(batch.node_kinds, int(NodeKind.WORD)),
        node_mask=pad(batch.node_mask, False),
        positions=pad(batch.positions, 0),
        segment_ids=pad(batch.segment_ids, 0),
        visibility=Visibility(visible | torch.eye(visible.shape[1], dtype=torch.bool)),
        node_labels=None if batch.node_labels is None else pad(batch.node_labels, IGNORE),
    )


def one_of(batch: KnowledgeBatch, index: int) -> KnowledgeBatch:
    """Row `index` as a batch of one."""
    rows = {
        field.name: value[index : index + 1]
        for field in dataclasses.fields(batch)
        if (value := getattr(batch, field.name)) is not None and field.name != "sampled_entities"
    }
    return dataclasses.replace(batch, **rows)
