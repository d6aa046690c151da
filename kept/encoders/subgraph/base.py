"""What QA-GNN and GreaseLM share: vectors of entities, a subgraph as a typed graph, and an output.

Both papers score an answer from `text_vector`: the pooled subgraph, the sentence and the context
node side by side (the head "graph" does that). Where we differ from them: so that any other head
and objective can read the graph, every word's state also gets a linear map of that vector, and
every word of a linked mention one of its own node's state.

Axis legend: batch, node (of the batch: words), place (the context node, then the entities of a
subgraph), spot (all places of a batch and a spare one), width (of the host), graph_width,
entity_width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.batches.host_copies import on_host
from kept.encoders.base import EMBEDDINGS, HEAD, KnowledgeConfig, KnowledgeEncoder, VectorEncoder
from kept.errors import BatchError, ConfigError
from kept.kge.vectors import RECIPE, open_vectors, vector_rows
from kept.layers.graph_layers import AttentionPooling, GraphLayers, NodeFeatures, gelu
from kept.layers.part_table import entity_table, held_rows, no_special_rows, put_rows
from kept.layers.typed_graph import CONTEXT, TypedGraph, n_edge_types, place_types, typed_graph
from kept.outputs import KnowledgeOutput
from kept.vectors import LABELS_AT_ONCE, LabelVectors
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError

Encoder = TypeVar("Encoder", bound="SubgraphEncoder")
LABELS = "labels"
TRAINED = "transe"


class SubgraphConfig(KnowledgeConfig):
    """Abstract: sizes of the graph network. Defaults are the papers'.

    `entity_width`: of the frozen vectors of entities; `graph_width`: of nodes in the network, a
    multiple of 4. `pooling_heads`: heads that pool the subgraph. `host_layer`: which of the host's
    states the sentence vector is taken from. `entity_dropout`, `graph_dropout`, `text_dropout`: of
    input vectors, between graph layers, and of the text vector. `with_padding`: in training, padded
    places and their self loops count in batch statistics, as in the released codes; without it a
    text's result does not depend on the longest subgraph of its batch in that way.
    """

    def __init__(
        self,
        *,
        entity_width: int = 1024,
        graph_width: int = 200,
        pooling_heads: int = 2,
        host_layer: int = -1,
        entity_dropout: float = 0.2,
        graph_dropout: float = 0.2,
        text_dropout: float = 0.2,
        with_padding: bool = False,
        **options: Any,
    ) -> None:
        self.entity_width, self.graph_width = entity_width, graph_width
        self.pooling_heads, self.host_layer = pooling_heads, host_layer
        self.entity_dropout, self.graph_dropout = entity_dropout, graph_dropout
        self.text_dropout, self.with_padding = text_dropout, with_padding
        super().__init__(**options)


class SubgraphEncoder(VectorEncoder):
    """Abstract: a host and a graph network over the subgraph of each text.

    `entity_vectors [entity row]` are frozen and saved with the model; special rows are zero.
    `KnowledgeOutput.hidden_states` are the host's, then the `node_states`, to which the graph was
    added; `text_vector` is what the head "graph" reads.
    """

    parts = {  # noqa: RUF012 - a class variable of the base
        **KnowledgeEncoder.parts,
        "graph": ("graph.", "features.", "entity_map.", "pooling.", "text_output.", "node_output."),
    }
    unused = ()
    own_vectors = (LABELS, TRAINED)

    def __init__(
        self, config: SubgraphConfig, *, n_layers: int, all_entities: bool,
        host: PreTrainedModel | None = None,
    ) -> None:  # fmt: skip
        super().__init__(config, host=host)
        width, inner = self.host.config.hidden_size, config.graph_width
        self.all_entities = all_entities
        self.entity_vectors = entity_table(config.n_entities + N_SPECIAL_ROWS, config.entity_width)
        self.entity_map = (
            nn.Identity() if config.entity_width == inner else nn.Linear(config.entity_width, inner)
        )
        self.entity_dropout = nn.Dropout(config.entity_dropout)
        self.features = NodeFeatures(width=inner)
        self.graph = GraphLayers(
            width=inner, n_layers=n_layers, dropout=config.graph_dropout,
            n_edge_types=n_edge_types(config.n_relations, all_entities=all_entities),
        )  # fmt: skip
        self.pooling = AttentionPooling(width=inner, text_width=width, heads=config.pooling_heads)
        self.text_dropout = nn.Dropout(config.text_dropout)
        self.text_output = nn.Linear(self.text_width, width)
        self.node_output = nn.Linear(inner, width, bias=False)

    @property
    def text_width(self) -> int:
        """The width of `KnowledgeOutput.text_vector`."""
        return 2 * int(self.config.graph_width) + int(self.host.config.hidden_size)

    @property
    def n_states(self) -> int:
        """The host's, and the last."""
        return super().n_states + 1

    @classmethod
    def for_graph(
        cls: type[Encoder],
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        vectors: str | Path = LABELS,
        vector_epochs: int = RECIPE.n_epochs,
        **options: Any,
    ) -> Encoder:
        """A new encoder with a vector for every entity of the graph.

        `vectors` "labels" is the mean of the vectors of a label's word pieces in the host's table;
        "transe" a TransE of `vector_epochs` epochs that is trained here, `entity_width` wide; else
        the folder of a scorer that `kept kgc train` made, or a text file of Wikipedia2Vec.
        Raises `ConfigError` for an `entity_width` that the vectors do not have.
        """
        entity_width = options.pop("entity_width", None)
        if str(vectors) == LABELS:
            width = hosts.word_table(host).embedding_dim
        elif str(vectors) == TRAINED:
            width = int(entity_width or options.get("graph_width", 100))
        else:
            width = open_vectors(vectors).width
        if entity_width not in (None, width):
            raise ConfigError(
                f"entity_width is {entity_width}, and vectors {str(vectors)!r} are {width} wide; "
                "leave entity_width out"
            )
        model = cls.from_host(host, graph, entity_width=width, **options)
        if str(vectors) == LABELS:
            words = hosts.word_table(host).weight.detach()
            model.set_labels(LabelVectors(words, tokenizer), graph)
            return model
        path = None if str(vectors) == TRAINED else vectors
        source = vector_rows(graph, width=width, seed=seed, n_epochs=vector_epochs, path=path)
        source.put_into(model.entity_vectors, N_SPECIAL_ROWS)
        return model

    def set_labels(self, labels: LabelVectors, graph: KnowledgeGraph) -> None:
        """Set the vector of every entity to that of its label; one without pieces is 0."""
        no_special_rows(self.entity_vectors)
        for rows in held_rows(self.entity_vectors, N_SPECIAL_ROWS, LABELS_AT_ONCE):
            values = labels.of(graph, (rows - N_SPECIAL_ROWS).numpy())
            put_rows(self.entity_vectors, rows, values.vectors * values.known[:, None])

    def follow(self, graph: KnowledgeGraph) -> None:
        """As the base's; raises `GraphMismatchError` for other relations, the types of edges."""
        if graph.n_relations != self.config.n_relations:
            raise GraphMismatchError(
                f"{type(self).__name__} knows {self.config.n_relations} relations as types of "
                f"edges, the graph has {graph.n_relations}; train a new model on this graph"
            )
        super().follow(graph)

    def group_outside_host(self, name: str) -> str:
        """Vectors of entities are embeddings; all else of the graph learns with the head."""
        return EMBEDDINGS if name.startswith("entity_vectors.") else HEAD

    @abstractmethod
    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every word; those of padding are meaningless."""

    # ---- the subgraph --------------------------------------------------------------------------
    def typed_graph(self, batch: KnowledgeBatch) -> TypedGraph:
        """The subgraphs of a batch; raises `BatchError` without any, or for other ids."""
        ids, n_rows = batch.subgraph_ids, self.entity_vectors.num_embeddings
        if (
            ids is not None
            and not torch.compiler.is_compiling()
            and bool((on_host(ids) >= n_rows).any())
        ):
            raise BatchError(
                f"entity row {int(ids.max())} is beyond the {n_rows} entity vectors; the batch was "
                "made with another graph"
            )
        return typed_graph(
            batch, n_relations=self.config.n_relations, all_entities=self.all_entities,
            with_padding=self.config.with_padding,
        )  # fmt: skip

    def entity_states(self, batch: KnowledgeBatch) -> Float[Tensor, "batch place graph_width"]:
        """What each entity of a subgraph is before the first graph layer."""
        vectors = self.entity_vectors(batch.subgraph_ids)
        if isinstance(self.entity_map, nn.Linear):
            vectors = gelu(self.entity_map(vectors))
        return vectors

    def flat_features(
        self, batch: KnowledgeBatch, scores: Float[Tensor, "batch place"]
    ) -> Float[Tensor, "spot graph_width"]:
        """Features of every place from its type and `scores`."""
        return to_spots(self.features(place_types(batch), scores))

    # ---- what comes out ------------------------------------------------------------------------
    def pooled_graph(
        self,
        sentence: Float[Tensor, "batch width"],
        output: Float[Tensor, "batch place graph_width"],
        batch: KnowledgeBatch,
    ) -> Float[Tensor, "batch _"]:
        """The text vector: the pooled subgraph, the sentence, the context node."""
        pooled = self.pooling(sentence, output, self.pooled_places(batch))
        joined = torch.cat([pooled, sentence, output[:, 0]], dim=1)
        return self.text_dropout(joined)

    def pooled_places(self, batch: KnowledgeBatch) -> Bool[Tensor, "batch place"]:
        """The places of entities."""
        return (place_types(batch) != CONTEXT) & real_places(batch)

    def with_graph(
        self,
        states: Sequence[Float[Tensor, "batch node width"]],
        sentence: Float[Tensor, "batch width"],
        output: Float[Tensor, "batch place graph_width"],
        batch: KnowledgeBatch,
    ) -> KnowledgeOutput:
        """The host's `states`, then the last of them with what the graph says added to words."""
        text = self.pooled_graph(sentence, output, batch)
        added = self.text_output(text)[:, None]
        if batch.entity_ids is not None and batch.subgraph_ids is not None:
            is_own_node = batch.entity_ids[:, :, None] == batch.subgraph_ids[:, None]
            is_own_node = is_own_node & (batch.entity_ids >= N_SPECIAL_ROWS)[:, :, None]
            nodes = self.node_output(output[:, 1:])
            added = added + is_own_node.to(nodes.dtype) @ nodes
        return KnowledgeOutput.of((*states, states[-1] + added), text_vector=text)


def real_places(batch: KnowledgeBatch) -> Bool[Tensor, "batch place"]:
    """The context node and every entity; padding is none."""
    assert batch.subgraph_ids is not None
    return F.pad(batch.subgraph_ids != PAD_ROW, (1, 0), value=True)


def to_spots(states: Float[Tensor, "batch place width"]) -> Float[Tensor, "spot width"]:
    """All places of a batch below one another, and zeros for the spare one."""
    return F.pad(states.flatten(0, 1), (0, 0, 0, 1))


def to_places(
    states: Float[Tensor, "spot width"], batch: KnowledgeBatch
) -> Float[Tensor, "batch place width"]:
    """The other way round."""
    return states[:-1].unflatten(0, (len(batch), -1))
