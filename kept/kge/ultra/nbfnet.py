"""NBFNet: paths from the entity asked about, with relation vectors that the question makes.

Zhu et al. 2021, "Neural Bellman-Ford Networks" (NeurIPS), section 3.2; released code
DeepGraphLearning/NBFNet. The layers are ULTRA's; what differs is that relations have vectors of
their own, so that a trained network answers graphs with new entities, but not with new relations.

Axis legend: batch, node, type, width, candidate.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from kept.kge.ultra.graphs import Edges
from kept.kge.ultra.messages import on_device
from kept.kge.ultra.networks import EntityNetwork, LayerOptions, NetworkOptions


class NBFNet(nn.Module):
    """Scores of all entities by paths along `n_relations` relations and their inverses.

    `aggregation` is "sum" here, "pna" in the paper's best runs: twelve numbers for one, and so
    slower by several times.
    """

    def __init__(self, n_relations: int, *, width: int = 32, n_layers: int = 6) -> None:
        super().__init__()
        layer = LayerOptions(width=width, relations="dependent")
        self.query = nn.Embedding(2 * n_relations, width)
        options = NetworkOptions(layer=layer, n_layers=n_layers)
        self.entity_model = EntityNetwork(options, 2 * n_relations)

    def forward(
        self,
        edges: Edges,
        between: Edges,
        anchors: Int[Tensor, " batch"],
        relations: Int[Tensor, " batch"],
        is_head: Bool[Tensor, " batch"],
        candidates: Int[Tensor, "batch candidate"] | None = None,
    ) -> Float[Tensor, "batch candidate"]:
        """Scores for (anchor, relation, ?), or for (?, relation, anchor) where `is_head`.

        `between`, how ULTRA's relations meet, is not read.
        """
        types = relations + is_head * (edges.n_types // 2)
        query: Tensor = self.query(on_device(types, self.query.weight.device))
        kinds = types.unique(return_inverse=True)[1]
        return self.entity_model(edges, anchors, query, None, candidates, kinds)
