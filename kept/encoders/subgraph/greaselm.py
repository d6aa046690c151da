"""GreaseLM: a graph layer beside each of the host's upper layers, mixed through one token and node.

Zhang et al. 2022, "GreaseLM: Graph REASoning Enhanced Language Models for Question Answering"
(ICLR), section 3. After each of these layers the states of the interaction token and of the
context node go through one MLP together, and are replaced by what comes out.

As in the released code, and other than in the paper: the first token is the interaction token,
relevance scores are read as 0 (they decide only which entities are cut), and the mixing has no
residual. Where we differ from the released code: vectors of entities, and batch statistics, as in
`kept.encoders.subgraph.qagnn`.

Axis legend: batch, node (words), place (the context node, then the entities of a subgraph), spot
(all places of a batch and a spare one), graph_width, width.
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
from kept.encoders.base import layer_group
from kept.encoders.subgraph.base import (
    SubgraphConfig,
    SubgraphEncoder,
    to_places,
    to_spots,
)
from kept.errors import ConfigError
from kept.layers.graph_layers import MLP
from kept.outputs import KnowledgeOutput

MIXED_LAYERS = ("all", "every_other", "none")
LAYERS_PER_FUSED = 4
"""The papers' hosts have 24 layers, 5 of them fused; one of fewer has a fourth, 5 at most."""
MOST_FUSED = 5


class GreaseLMConfig(SubgraphConfig):
    """`n_fused`: how many upper layers of the host have a graph layer (none given: see `fused`).

    `mixing_width`, `mixing_layers`: of the mixing MLP's hidden layers. `mixed`: "all" (after each
    fused layer), "every_other" (the first, the third, ...) or "none". `separate_mixing`: an MLP for
    each fused layer instead of one for all. `all_entities`: the context node is joined to the other
    entities, too.
    """

    model_type = "kept-greaselm"

    def __init__(
        self,
        *,
        n_fused: int | None = None,
        mixing_width: int = 200,
        mixing_layers: int = 1,
        mixed: str = "all",
        separate_mixing: bool = False,
        all_entities: bool = False,
        **options: Any,
    ) -> None:
        if mixed not in MIXED_LAYERS:
            raise ConfigError(f"mixed is {mixed!r}; use one of {', '.join(MIXED_LAYERS)}")
        self.n_fused, self.mixed = n_fused, mixed
        self.mixing_width, self.mixing_layers = mixing_width, mixing_layers
        self.separate_mixing, self.all_entities = separate_mixing, all_entities
        super().__init__(**options)


def fused(n_layers: int) -> int:
    """How many layers of a host of `n_layers` are fused where nobody says.

    >>> [fused(n) for n in (2, 6, 12, 24)]
    [1, 1, 3, 5]
    """
    return min(MOST_FUSED, max(1, n_layers // LAYERS_PER_FUSED))


class GreaseLM(SubgraphEncoder):
    """The encoder: a host whose upper layers exchange one vector each with a graph network."""

    config_class = GreaseLMConfig
    enters_layers = True
    parts = {  # noqa: RUF012 - a class variable of the base
        **SubgraphEncoder.parts,
        "graph": (*SubgraphEncoder.parts["graph"], "mixing."),
    }

    def __init__(self, config: GreaseLMConfig, *, host: PreTrainedModel | None = None) -> None:
        n_layers = int((config.host if host is None else host.config).num_hidden_layers)
        if config.n_fused is None:
            config.n_fused = fused(n_layers)
        if not 1 <= config.n_fused <= n_layers:
            raise ConfigError(
                f"n_fused is {config.n_fused}; the host has {n_layers} layers: use 1 to {n_layers}"
            )
        super().__init__(
            config, n_layers=config.n_fused, all_entities=config.all_entities, host=host
        )
        joint = self.host.config.hidden_size + config.graph_width
        sizes = (joint, *[config.mixing_width] * config.mixing_layers, joint)
        n_mixings = config.n_fused if config.separate_mixing else 1
        self.mixing = nn.ModuleList(
            MLP(sizes=sizes, dropout=config.graph_dropout, with_norm=False)
            for _ in range(n_mixings)
        )
        if config.mixed == "none":
            self.mixing.requires_grad_(False)
        self.post_init()
        self.freeze()

    def _init_weights(self, module: nn.Module) -> None:
        """Graph layers and mixing keep torch's own first weights, as in the released code."""
        modules = (self.graph, self.mixing, self.features) if hasattr(self, "mixing") else ()
        if any(module is part for whole in modules for part in whole.modules()):
            if isinstance(module, nn.Linear | nn.BatchNorm1d):
                module.reset_parameters()
            return
        super()._init_weights(module)

    def group_outside_host(self, name: str) -> str:
        """The graph network enters the host at its first fused layer, and belongs there."""
        if name.startswith(("graph.", "features.", "entity_map.", "mixing.")):
            return layer_group(self.host.config.num_hidden_layers - self.config.n_fused)
        return super().group_outside_host(name)

    def freeze(self) -> None:
        """Entity vectors; and the mixing where nothing is mixed."""
        super().freeze()
        if self.config.mixed == "none":
            self.mixing.requires_grad_(False)

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Raises `BatchError` for a batch without subgraphs or of another graph."""
        hidden = hosts.embed_words(self.host, batch)
        graph, inputs = self.typed_graph(batch), self.inputs(batch)
        features = self.flat_features(batch, inputs.new_zeros(inputs.shape[:2]))
        step = hosts.stepper(
            self.host, batch.visibility, batch.node_mask, positions=batch.positions
        )
        layers = list(hosts.layers(self.host))
        n_alone = len(layers) - self.config.n_fused
        states, spots = [hidden], to_spots(inputs)
        for number, layer in enumerate(layers):
            words = step(layer, states[-1])
            if number >= n_alone:
                spots = self.graph.step(number - n_alone, spots, features, graph)
                words, spots = self.mix(number - n_alone, words, spots)
            states.append(words)
        output = self.graph.combined(inputs, to_places(spots, batch))
        sentence = hosts.pooled(self.host, states[self.config.host_layer])
        return self.with_graph(states, sentence, output, batch)

    def inputs(self, batch: KnowledgeBatch) -> Float[Tensor, "batch place graph_width"]:
        """States of all places before the first graph layer; the context node is 0."""
        entities = self.entity_states(batch)
        return self.entity_dropout(F.pad(entities, (0, 0, 1, 0)))

    def mix(
        self,
        fused_layer: int,
        words: Float[Tensor, "batch node width"],
        spots: Float[Tensor, "spot graph_width"],
    ) -> tuple[Tensor, Tensor]:
        """The states with first token and context node replaced by what the MLP makes of both."""
        mixed = self.config.mixed
        if mixed == "none" or (mixed == "every_other" and fused_layer % 2):
            return words, spots
        mlp = self.mixing[fused_layer if self.config.separate_mixing else 0]
        places = spots[:-1].unflatten(0, (len(words), -1))
        both = mlp(torch.cat([words[:, 0], places[:, 0]], dim=1))
        token, node = both.split([words.shape[2], spots.shape[1]], dim=1)
        words = torch.cat([token[:, None].to(words.dtype), words[:, 1:]], dim=1)
        places = torch.cat([node[:, None].to(places.dtype), places[:, 1:]], dim=1)
        return words, to_spots(places)
