"""ERNIE: words and aligned entities in two streams, fused layer by layer.

Zhang et al. 2019, "ERNIE: Enhanced Language Representation with Informative Entities" (ACL),
section 3. Lower layers are the host's own; from the first fusion on, each layer also reads frozen
entity vectors learned from triples, one slot beside each word.

Axis legend: batch, node, width (of the host), entity_width, entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, Visibility
from kept.batches.host_copies import on_host
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, VectorEncoder, layer_group
from kept.errors import BatchError, ConfigError
from kept.kge.vectors import RECIPE, open_vectors, vector_rows
from kept.layers.fusion import EntityAttention, EntityFusion, NoAttention
from kept.layers.packing import dense_rows
from kept.layers.part_table import entity_table
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

SIM, MIX, NORM = "sim", "mix", "norm"
LAYER_TYPES = (SIM, MIX, NORM)
WIDTH = 100
"""Of the paper's entity vectors."""
SCALES = ("unit", "host")


class ERNIEConfig(KnowledgeConfig):
    """Which layers fuse, and how wide the entity stream is.

    `layer_types`: "sim" (a layer of the host, words only), "mix" (fusion without entity attention)
    or "norm" (fusion after entity attention) for every layer of the host; none means the paper's
    division (see `divide`). `entity_width`, `entity_heads`: of the entity stream.
    """

    model_type = "kept-ernie"

    def __init__(
        self,
        *,
        layer_types: Sequence[str] = (),
        entity_width: int = WIDTH,
        entity_heads: int = 4,
        **options: Any,
    ) -> None:
        unknown = [name for name in layer_types if name not in LAYER_TYPES]
        if unknown:
            raise ConfigError(f"layer_types holds {unknown[0]!r}; use {', '.join(LAYER_TYPES)}")
        if entity_heads < 1 or entity_width % entity_heads:
            raise ConfigError(
                f"entity_width {entity_width} is not a multiple of entity_heads {entity_heads}"
            )
        self.layer_types = list(layer_types)
        self.entity_width, self.entity_heads = entity_width, entity_heads
        super().__init__(**options)


def divide(n_layers: int) -> list[str]:
    """The paper's division for a host of any depth: half "sim", one "mix", the rest "norm".

    >>> divide(12).count("sim"), divide(12).count("norm")
    (6, 5)
    """
    n_words = n_layers // 2
    return [SIM] * n_words + [MIX] + [NORM] * (n_layers - n_words - 1)


class ERNIE(VectorEncoder):
    """The encoder: entity slots beside a host's words.

    `entity_vectors [entity row]` are frozen and saved with the model; special rows are zero. The
    first node of a text takes part in entity attention with a zero vector, as in the released code.
    Where we differ from it: an unknown layer type is refused instead of skipped, and a slot without
    an entity whose text shows it no slot at all reads itself (its result is dropped either way).
    """

    config_class = ERNIEConfig
    enters_layers = True
    needs_bert_layers = True
    parts = {  # noqa: RUF012 - a class variable of the base
        "host": ("host.",),
        "fusion": ("fusions.",),
    }

    def __init__(self, config: ERNIEConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        n_layers = self.host.config.num_hidden_layers
        config.layer_types = list(config.layer_types) or divide(n_layers)
        fused = [i for i, name in enumerate(config.layer_types) if name != SIM]
        if len(config.layer_types) != n_layers or not fused:
            raise ConfigError(
                f"layer_types {config.layer_types} must name all {n_layers} layers of the host, "
                f"one of them {MIX!r} or {NORM!r}"
            )
        n_rows = config.n_entities + N_SPECIAL_ROWS
        self.entity_vectors = entity_table(n_rows, config.entity_width)
        self.fusions = nn.ModuleDict(
            {str(i): _fusion(config, self.host.config, config.layer_types[i]) for i in fused}
        )
        # Nothing reads the slots of the last fusion.
        self.unused = (*type(self).unused, f"fusions.{fused[-1]}.output.")
        self.post_init()
        self.freeze()

    @classmethod
    def for_graph(
        cls,
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        vectors: str | Path | None = None,
        vector_epochs: int = RECIPE.n_epochs,
        scale: str = "unit",
        standardise: bool = False,
        **options: Any,
    ) -> ERNIE:
        """A new encoder whose entity vectors are those of a triple scorer on `graph`.

        `vectors` is the folder of one trained with `kept kgc train`, or a text file of
        Wikipedia2Vec; without it a TransE of `vector_epochs` epochs is trained here, `entity_width`
        wide. Their mean length is 1; an entity that the file does not have is a zero vector.
        `scale` "host" makes it that of the host's embedded words instead: beside those a vector of
        length 1 is .019 of what the first fusion reads, too little to learn from in a short task.
        `standardise` gives every dimension mean 0 and spread 1 before that: vectors of words and
        entities in one space (Wikipedia2Vec's) mostly point the same way, and what one entity's
        differs by is too small a part of them. Neither is of the paper.
        """
        if scale not in SCALES:
            raise ConfigError(f"scale is {scale!r}; use one of {', '.join(SCALES)}")
        width = int(options.pop("entity_width", WIDTH))
        if vectors is not None:
            width = open_vectors(vectors).width
        source = vector_rows(
            graph,
            width=width,
            seed=seed,
            n_epochs=vector_epochs,
            path=vectors,
            standardise=standardise,
        )
        model = cls.from_host(host, graph, entity_width=width, **options)
        length = hosts.embedded_length(host) if scale == "host" else 1.0
        source.put_into(model.entity_vectors, N_SPECIAL_ROWS, length)
        return model

    def group_outside_host(self, name: str) -> str:
        """A fusion belongs to its layer, entity vectors to the embeddings."""
        part, index, *_ = name.split(".")
        return layer_group(int(index)) if part == "fusions" else EMBEDDINGS

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of words and entity slots; those of padding are meaningless.

        Raises `BatchError` without `entity_ids`, or for a row beyond the entity vectors.
        """
        if batch.entity_ids is None:
            raise BatchError("ERNIE reads entity_ids, and the batch has none; use ERNIEView")
        hidden = hosts.embed_words(self.host, batch)
        first = (batch.positions == 0) & batch.node_mask
        slots, visibility = self.slots(batch.entity_ids), batch.visibility
        is_slot, weights = first | (batch.entity_ids >= N_SPECIAL_ROWS), batch.node_weights
        rows = dense_rows(batch.node_mask)
        if rows is not None:
            visibility = rows.pack_visibility(visibility, batch.node_mask)
            hidden, slots, is_slot = map(rows.pack, (hidden, slots, is_slot))
            weights = None if weights is None else rows.pack(weights)
        words, entities = self.run(hidden, slots, visibility, is_slot, weights)
        if rows is not None:
            words, entities = (tuple(map(rows.unpack, states)) for states in (words, entities))
        return KnowledgeOutput.of(words, entity_states=entities[-1])

    def slots(
        self, entity_ids: Int[Tensor, "batch node"]
    ) -> Float[Tensor, "batch node entity_width"]:
        """The frozen vector of each row; raises `BatchError` for a row beyond them."""
        n_rows = self.entity_vectors.num_embeddings
        checks = not torch.compiler.is_compiling() and entity_ids.numel() > 0
        if checks and (highest := int(on_host(entity_ids).max())) >= n_rows:
            raise BatchError(
                f"entity row {highest} is beyond the {n_rows} entity vectors; the batch was made "
                "with another graph"
            )
        return self.entity_vectors(entity_ids)

    def run(
        self,
        words: Float[Tensor, "batch node width"],
        entities: Float[Tensor, "batch node entity_width"],
        visibility: Visibility,
        is_slot: Bool[Tensor, "batch node"],
        weights: Float[Tensor, "batch node"] | None = None,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Word and entity states, before the first layer and after every one.

        `is_slot`: entity slots that may be read as keys and keep their value; `weights`: the share
        of it that they keep and of attention to them, 0 as if they were no slots.
        """
        mask = hosts.attention_mask(self.host, visibility)
        slot_mask = visibility.attention("sdpa", words.dtype, keys=is_slot, weights=weights)
        share: Tensor = is_slot if weights is None else is_slot * weights.to(words.dtype)
        all_words, all_entities = [words], [entities]
        for index, layer in enumerate(hosts.layers(self.host)):
            if str(index) in self.fusions:
                fusion = self.fusions[str(index)]
                words, entities = _fuse(layer, fusion, words, entities, mask, slot_mask, share)
            else:
                words = layer(words, mask)
            all_words.append(words)
            all_entities.append(entities)
        return tuple(all_words), tuple(all_entities)


def _fusion(config: ERNIEConfig, host: Any, layer_type: str) -> EntityFusion:
    """The entity half of one layer, with the host's own dropouts and epsilon."""
    epsilon, dropout = host.layer_norm_eps, host.hidden_dropout_prob
    attention: NoAttention | EntityAttention = NoAttention()
    if layer_type == NORM:
        attention = EntityAttention(
            width=config.entity_width,
            heads=config.entity_heads,
            epsilon=epsilon,
            dropout=dropout,
            attention_dropout=host.attention_probs_dropout_prob,
        )
    return EntityFusion(
        width=config.entity_width,
        inner=host.intermediate_size,
        attention=attention,
        epsilon=epsilon,
        dropout=dropout,
    )


def _fuse(
    layer: Any,
    fusion: Any,
    words: Tensor,
    entities: Tensor,
    mask: Tensor,
    slot_mask: Tensor,
    share: Tensor,
) -> tuple[Tensor, Tensor]:
    """Section 3.3, equations 4 and 5: both streams through one hidden vector and back."""
    attended = layer.attention(words, mask)[0]
    slots = fusion.attend(entities, share, slot_mask)
    dense, activation = layer.intermediate.dense, layer.intermediate.intermediate_act_fn
    hidden = activation(dense(attended) + fusion.inner(slots))
    return layer.output(hidden, attended), fusion.output(hidden, slots)
