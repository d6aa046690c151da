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
FAMILIES = (
    "bert", "electra", "ernie", "roberta", "xlm-roberta", "camembert",
    "distilbert", "albert", "mpnet", "deberta-v2", "nomic_bert", "modernbert",
)  # fmt: skip
BERT_LIKE = FAMILIES[:6]
"""Families whose layers have the parts of BERT's."""
NO_SDPA = ("mpnet", "deberta-v2")
_SIZES: dict[str, dict[str, Any]] = {
    "electra": {"embedding_size": 8},
    "albert": {"embedding_size": 8, "hidden_dropout_prob": 0.1},
    "ernie": {"use_task_id": True},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "deberta-v2": {
        "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"],
        "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
}  # fmt: skip
"""What a tiny host of a family has beside, as released ones have it: DeBERTa as in its v3."""


def tiny_host(
    family: str = "bert",
    attention: str = "sdpa",
    seed: int = 0,
    n_words: int = N_WORDS,
    n_positions: int = 32,
    n_layers: int = 2,
) -> PreTrainedModel:
    """16 wide; the word tables of ELECTRA and ALBERT are 8 wide, so that they project."""
    torch.manual_seed(seed)
    attention = "eager" if family in NO_SDPA else attention
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
        **_SIZES.get(family, {}) | ({"n_layers": n_layers} if family == "distilbert" else {}),
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
    host = tiny_host(family, attention, n_words=len(tokenizer), n_positions=256, n_layers=n_layers)
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
