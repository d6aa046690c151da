"""QA-GNN: a graph network over a subgraph in which one node stands for the text.

Yasunaga et al. 2021, "QA-GNN: Reasoning with Language Models and Knowledge Graphs for Question
Answering" (NAACL). The host reads the text; its sentence vector becomes the context node of the
subgraph, and graph layers pass messages between all nodes.

Where we differ from the released code: entities have vectors from their labels or from a scorer,
where there all vectors are drawn at random (docs/reference/quirks.md); only real places count in
batch statistics, unless `with_padding`.

Axis legend: batch, place (the context node, then the entities of a subgraph), graph_width, width.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.subgraph.base import (
    SubgraphConfig,
    SubgraphEncoder,
    real_places,
    to_places,
    to_spots,
)
from kept.layers.graph_layers import gelu, normalised_scores
from kept.outputs import KnowledgeOutput


class QAGNNConfig(SubgraphConfig):
    """`n_layers`: of the graph network."""

    model_type = "kept-qagnn"

    def __init__(self, *, n_layers: int = 5, **options: Any) -> None:
        self.n_layers = n_layers
        super().__init__(**options)


class QAGNN(SubgraphEncoder):
    """The encoder: the host, then the graph network over its sentence vector and the subgraph."""

    config_class = QAGNNConfig
    parts = {  # noqa: RUF012 - a class variable of the base
        **SubgraphEncoder.parts,
        "graph": (*SubgraphEncoder.parts["graph"], "context."),
    }

    def __init__(self, config: QAGNNConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, n_layers=config.n_layers, all_entities=False, host=host)
        self.context = nn.Linear(self.host.config.hidden_size, config.graph_width)
        self.post_init()
        self.freeze()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Raises `BatchError` for a batch without subgraphs or of another graph."""
        hidden = hosts.embed_words(self.host, batch)
        states = hosts.run(
            self.host, hidden, batch.visibility, batch.node_mask, positions=batch.positions
        )
        sentence = hosts.pooled(self.host, states[self.config.host_layer])
        return self.with_graph(states, sentence, self.graph_output(sentence, batch), batch)

    def inputs(
        self, sentence: Float[Tensor, "batch width"], batch: KnowledgeBatch
    ) -> Float[Tensor, "batch place graph_width"]:
        """States of all places before the first graph layer."""
        context = gelu(self.context(sentence))[:, None]
        return self.entity_dropout(torch.cat([context, self.entity_states(batch)], dim=1))

    def scores(self, batch: KnowledgeBatch) -> Float[Tensor, "batch place"]:
        """Relevance as the network reads it; the context's own score is the batch's 0."""
        scores = batch.subgraph_scores
        assert scores is not None
        scores = F.pad(scores, (1, 0)).to(self.context.weight.dtype)
        return normalised_scores(scores, real_places(batch))

    def graph_output(
        self, sentence: Float[Tensor, "batch width"], batch: KnowledgeBatch
    ) -> Float[Tensor, "batch place graph_width"]:
        """The output of the graph network at every place."""
        graph, inputs = self.typed_graph(batch), self.inputs(sentence, batch)
        features = self.flat_features(batch, self.scores(batch))
        last = to_places(self.graph.run(to_spots(inputs), features, graph), batch)
        return self.graph.combined(inputs, last)
