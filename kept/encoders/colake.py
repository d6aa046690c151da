"""CoLAKE: one Transformer over words, entities and relations.

Sun et al. 2020, "CoLAKE: Contextualized Language and Knowledge Embedding" (COLING), section 3.
Each node's vector comes from the table of its kind; soft position and kind embeddings are added;
attention follows the word-knowledge graph's adjacency.

Axis legend: batch, node, width, embedding.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.batches.host_copies import on_both
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind
from kept.layers.part_table import entity_table, held_rows, put_rows
from kept.layers.rows import RowTable
from kept.outputs import KnowledgeOutput
from kept.vectors import LABELS_AT_ONCE, mean_pieces
from kg_loaders import KnowledgeGraph

ANCHOR_ROWS = ("own", "masked", "redrawn")


class CoLAKEConfig(KnowledgeConfig):
    """How soft positions and node kinds enter the host.

    `position_offset`: row of the host's position table where soft positions start; None = the
    host's own start. The released code uses 0 with RoBERTa, whose own start is 2. `kind_table`:
    "added" keeps the host's segment embeddings and adds a table of three kinds; "host" makes the
    host's own segment table that of the kinds (the released code). `sparse_entities`: gradients of
    the entity table are sparse (for `RowAdam`). `entity_table`: "host" keeps it, its gradients and
    moments in host memory wherever the model is (`HostTable`). `anchor_rows`: the row that an
    anchor is read with. With "own" (the paper) a task can be learned from the entity's identity,
    whatever its facts. "masked": always the MASK row; "redrawn": in training that of another anchor
    of the batch, so that it does not reveal the class.
    """

    model_type = "kept-colake"

    def __init__(
        self,
        *,
        position_offset: int | None = None,
        kind_table: str = "added",
        sparse_entities: bool = True,
        anchor_rows: str = "own",
        entity_table: str = "device",
        **options: Any,
    ) -> None:
        if entity_table not in ("device", "host"):
            raise ConfigError(f"entity_table is {entity_table!r}; use 'device' or 'host'")
        if entity_table == "host" and not sparse_entities:
            raise ConfigError("entity_table 'host' has sparse gradients; leave sparse_entities on")
        if anchor_rows not in ANCHOR_ROWS:
            raise ConfigError(f"anchor_rows is {anchor_rows!r}; use one of {ANCHOR_ROWS}")
        if kind_table not in ("added", "host"):
            raise ConfigError(f"kind_table is {kind_table!r}; use 'added' or 'host'")
        self.position_offset, self.kind_table = position_offset, kind_table
        self.sparse_entities, self.anchor_rows = sparse_entities, anchor_rows
        self.entity_table = entity_table
        super().__init__(**options)


class CoLAKE(KnowledgeEncoder):
    """The encoder: three tables in front of a host.

    Where we differ from the released code: the entity table is a parameter here (there it lives in
    a parameter server), and the defaults of `CoLAKEConfig` keep what the host has learned about
    positions and segments.
    """

    config_class = CoLAKEConfig
    parts = {  # noqa: RUF012 - a class variable of the base
        "host": ("host.",),
        "tables": ("entity_embeddings.", "relation_embeddings.", "kind_embeddings."),
        "entities": ("entity_embeddings.",),
    }

    def __init__(self, config: CoLAKEConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        embedding = hosts.word_table(self.host).embedding_dim
        self.entity_embeddings = entity_table(
            config.n_entities + N_SPECIAL_ROWS,
            embedding,
            sparse=config.sparse_entities,
            on_host=config.entity_table == "host",
        )
        self.relation_embeddings = nn.Embedding(
            config.n_relations + N_SPECIAL_ROWS, embedding, padding_idx=PAD_ROW
        )
        if config.kind_table == "added":
            self.kind_embeddings = nn.Embedding(len(NodeKind), embedding)
        elif self.host.config.type_vocab_size != len(NodeKind):
            raise ConfigError(
                f"kind_table='host' needs a host with type_vocab_size {len(NodeKind)}, "
                f"this one has {self.host.config.type_vocab_size}; use kind_table='added'"
            )
        self.post_init()

    @classmethod
    def for_graph(
        cls,
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        **options: Any,
    ) -> CoLAKE:
        """A new encoder whose entity and relation rows start from their labels."""
        model = cls.from_host(host, graph, **options)
        model.initialise_from_labels(graph, tokenizer)
        return model

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is getattr(self, "kind_embeddings", None):
            nn.init.zeros_(self.kind_embeddings.weight)

    def row_tables(self) -> tuple[RowTable, ...]:
        """Entities and relations, both in the space of the words."""
        return (
            RowTable(name="entity_embeddings.weight", of="entity", space="words"),
            RowTable(name="relation_embeddings.weight", of="relation", space="words"),
        )

    def group_outside_host(self, name: str) -> str:
        """All tables are embeddings."""
        return EMBEDDINGS

    @property
    def position_offset(self) -> int:
        """Row of the host's position table that soft position 0 uses."""
        offset = self.config.position_offset
        return hosts.own_position_offset(self.host) if offset is None else int(offset)

    def vectors_of(self, batch: KnowledgeBatch) -> Float[Tensor, "batch node embedding"]:
        """Each node's row of the table of its kind; raises `BatchError` for a row beyond it."""
        batch = self._with_anchor_rows(batch)
        tables = (hosts.word_table(self.host), self.entity_embeddings, self.relation_embeddings)
        vectors = self.node_vectors(batch, dict(zip(map(int, NodeKind), tables, strict=True)))
        if self.config.kind_table == "added":
            vectors = vectors + self.kind_embeddings(batch.node_kinds)
        return vectors

    def _with_anchor_rows(self, batch: KnowledgeBatch) -> KnowledgeBatch:
        """Return the batch with the rows of its anchors as `config.anchor_rows` says."""
        kind = self.config.anchor_rows
        if (
            kind == "own"
            or batch.mention_spans is None
            or (kind == "redrawn" and not self.training)
        ):
            return batch
        spans = batch.mention_spans
        texts, mentions = (spans[..., 1] > spans[..., 0]).nonzero(as_tuple=True)
        nodes, ids = spans[texts, mentions, 0], batch.node_ids.clone()
        rows = ids[texts, nodes]
        others = rows[torch.randperm(len(rows), device=rows.device)]
        ids[texts, nodes] = MASK_ROW if kind == "masked" else others
        return dataclasses.replace(batch, node_ids=ids)

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every node; those of padding are meaningless."""
        own_kinds = self.config.kind_table == "host"
        hidden = hosts.embed(
            self.host,
            self.vectors_of(batch),
            on_both(lambda counted: counted + self.position_offset, batch.positions),
            batch.node_kinds if own_kinds else batch.segment_ids,
        )
        states = hosts.run(
            self.host, hidden, batch.visibility, batch.node_mask, batch.node_weights,
            positions=batch.positions,
        )  # fmt: skip
        return KnowledgeOutput.of(states)

    @torch.no_grad()
    def initialise_from_labels(
        self, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Set entity and relation rows to the mean of their labels' word-piece embeddings.

        Section 3 of the paper starts from the word-piece embeddings of aliases; we take the best
        label alone. Special rows stay; a label without any piece leaves its row as it is.
        """
        self.require_graph(graph)
        words = hosts.word_table(self.host).weight
        relation_names = [graph.relation_label(i) for i in range(graph.n_relations)]
        for table in (self.entity_embeddings, self.relation_embeddings):
            for rows in held_rows(table, N_SPECIAL_ROWS, LABELS_AT_ONCE):
                ids = (rows - N_SPECIAL_ROWS).numpy()
                names = (
                    [relation_names[i] for i in ids]
                    if table is self.relation_embeddings
                    else graph.labels(ids)
                )
                means, is_known = mean_pieces(names, words, tokenizer)
                put_rows(table, rows[is_known], means[is_known])
