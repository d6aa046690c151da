"""LUKE: words and entities as one sequence, with attention that knows which is which.

Yamada et al. 2020, "LUKE: Deep Contextualized Entity Representations with Entity-aware
Self-attention" (EMNLP), section 3. Behind the words stand the linked entities, each with a row of
its own, and a [MASK] entity for each target of a task, whose state the heads read. Ri et al. 2022,
"mLUKE" (ACL): the same with a multilingual host; an entity has one row in all languages.

Where we differ: rows start from the graph (`for_graph`), and positions, types and queries of
entities from the host's (there all but the queries is drawn at random, and trained for 200,000
steps on Wikipedia).

Axis legend: batch, node (of the batch: words and entities), slot (linked entities, then targets),
target, both (nodes, then slots), width, embedding (of entities), entity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Visibility
from kept.batches.host_copies import on_both
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, KnowledgeEncoder, layer_group
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind
from kept.kge.vectors import RECIPE, open_vectors, vector_rows
from kept.layers.entity_attention import (
    EntityEmbeddings,
    EntityQueries,
    RealPlaces,
    entity_aware_layer,
)
from kept.layers.part_table import entity_table, held_rows, put_rows
from kept.layers.rows import RowTable
from kept.outputs import KnowledgeOutput
from kept.vectors import LABELS_AT_ONCE, FactVectors, mean_pieces
from kg_loaders import KnowledgeGraph

RANDOM, LABELS, FACTS, TRAINED = "random", "labels", "facts", "transe"
HOST = "host"
Space = Literal["words", "own"]
TRANSE_WIDTH = 100
SPREAD = 0.02
"""Of numbers drawn for a row that nothing else gives."""


class LUKEConfig(KnowledgeConfig):
    """Sizes of the entity part.

    `entity_width`: of the entities' vectors, which a linear map brings to the host's width (256 in
    the paper); 0 means as wide as the host's layers, without a map. `entity_aware`: three further
    query maps a layer; without them entities attend as words do, as in the paper's pre-training.
    `n_masks`: rows for [MASK] entities of targets, 1 or 2; with 2 a second target, the tail of a
    pair, has its own. `mask_targets`: whether targets of a task get such an entity at all.
    `sparse_entities`: gradients of the entity table are sparse (for `RowAdam`), for graphs of
    millions of entities; the objective then ranks a sample (`shared_negatives`). `entity_space`:
    "words" where rows are means of the host's word vectors, else "own"; `for_graph` sets it.
    """

    model_type = "kept-luke"

    def __init__(
        self,
        *,
        entity_width: int = 0,
        entity_aware: bool = True,
        n_masks: int = 1,
        mask_targets: bool = True,
        sparse_entities: bool = False,
        entity_space: str = "own",
        **options: Any,
    ) -> None:
        faults = []
        if entity_width < 0:
            faults.append(f"entity_width {entity_width}: 1 or more, or 0 for the host's")
        if n_masks not in (1, 2):
            faults.append(f"n_masks {n_masks}: 1 or 2")
        if faults:
            raise ConfigError("LUKEConfig: " + "; ".join(faults))
        self.entity_width, self.entity_aware = entity_width, entity_aware
        self.n_masks, self.mask_targets = n_masks, mask_targets
        self.sparse_entities, self.entity_space = sparse_entities, entity_space
        super().__init__(**options)


@dataclass(frozen=True, eq=False)
class Slots:
    """The entities of a batch behind its words, those of targets last.

    `rows` are of the entity table, `spans` the words of each one's mention, `nodes` the node whose
    place it takes in who sees whom; a target has its first word's. `real` is False in padding.
    """

    rows: Int[Tensor, "batch slot"]
    spans: Int[Tensor, "batch slot 2"]
    nodes: Int[Tensor, "batch slot"]
    real: Bool[Tensor, "batch slot"]
    n_linked: int


class LUKE(KnowledgeEncoder):
    """The encoder: a host whose layers also read entities.

    `KnowledgeOutput.node_states` are the states of words and linked entities, `target_states` those
    of the [MASK] entities of the targets.
    """

    config_class = LUKEConfig
    enters_layers = True
    needs_bert_layers = True
    own_vectors = (RANDOM, LABELS, FACTS, TRAINED)
    parts = {  # noqa: RUF012 - a class variable of the base
        "host": ("host.",),
        "entities": ("entity_vectors.", "second_mask"),
        "entity_inputs": ("entity_inputs.",),
        "queries": ("queries.",),
    }

    def __init__(self, config: LUKEConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        if config.entity_aware:
            _require_parts(self.host, config.inside)
        sizes = self.host.config
        width = sizes.hidden_size
        config.entity_width = config.entity_width or width
        self.entity_vectors = entity_table(
            config.n_entities + N_SPECIAL_ROWS, config.entity_width, sparse=config.sparse_entities
        )
        self.entity_inputs = EntityEmbeddings(
            embedding=config.entity_width, width=width, n_positions=sizes.max_position_embeddings,
            n_types=sizes.type_vocab_size, epsilon=sizes.layer_norm_eps,
            dropout=sizes.hidden_dropout_prob,
        )  # fmt: skip
        n_layers = sizes.num_hidden_layers if config.entity_aware else 0
        self.queries = nn.ModuleList(EntityQueries(width=width) for _ in range(n_layers))
        self.second_mask = (
            nn.Parameter(torch.zeros(config.entity_width)) if config.n_masks == 2 else None
        )
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is getattr(self, "entity_vectors", None):
            put_rows(
                self.entity_vectors, torch.tensor([PAD_ROW]), torch.zeros(1, module.embedding_dim)
            )

    @classmethod
    def from_host(
        cls: type[LUKE], host: PreTrainedModel, graph: KnowledgeGraph, **options: Any
    ) -> LUKE:
        """As the base's; the entities' query maps are copies of the host's own (section 3.3)."""
        model: LUKE = super().from_host(host, graph, **options)
        layers: Iterable[Any] = hosts.layers(model.host)
        for queries, layer in zip(model.queries, layers, strict=False):
            cast(EntityQueries, queries).copy_from(layer.attention.self.query)
        model.set_mask(torch.empty(model.config.entity_width).normal_(0.0, SPREAD))
        return model

    @classmethod
    def for_graph(
        cls,
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        vectors: str | Path = LABELS,
        vector_epochs: int = RECIPE.n_epochs,
        start: str = HOST,
        **options: Any,
    ) -> LUKE:
        """A new encoder with a vector for each entity of the graph.

        `vectors` "labels" is the mean of a label's word pieces; "facts" that of its own and of all
        that its facts name (`FactVectors`), so that an entity unseen in training represents its
        facts; "random" the paper's start. The first two are in the space of the host's words, and
        where `entity_width` is less than theirs the map starts as the best one of that rank.
        "transe" is a TransE of `vector_epochs` epochs that is trained here, `entity_width` wide or
        100; else the folder of a scorer that `kept kgc train` made, or a text file of
        Wikipedia2Vec: their mean length is that of an embedded word. `start` "host" begins the
        entities' positions, types and normalisation as the words', "random" as in the paper.
        """
        if start not in (HOST, RANDOM):
            raise ConfigError(f"start is {start!r}; use '{HOST}' or '{RANDOM}'")
        if str(vectors) in (RANDOM, LABELS, FACTS):
            model = cls.from_host(host, graph, **options)
            if str(vectors) != RANDOM:
                model.set_named(graph, tokenizer, with_facts=str(vectors) == FACTS)
        else:
            path = None if str(vectors) == TRAINED else vectors
            width = _width_of(path, int(options.pop("entity_width", 0)))
            model = cls.from_host(host, graph, entity_width=width, **options)
            source = vector_rows(graph, width=width, seed=seed, n_epochs=vector_epochs, path=path)
            length = hosts.embedded_length(host)
            source.put_into(model.entity_vectors, N_SPECIAL_ROWS, length)
        if start == HOST:
            model.copy_inputs()
        return model

    def insert(self, kind: str, options: Mapping[str, Any]) -> None:
        """As the base's; raises `ConfigError` for PALs, which entity-aware layers would pass by."""
        if self.config.entity_aware:
            _require_parts(self.host, (kind,))
        super().insert(kind, options)

    # ---- first weights -------------------------------------------------------------------------
    @torch.no_grad()
    def set_mask(self, vector: Float[Tensor, " embedding"]) -> None:
        """Set the row of [MASK], and that of a second target's as the same."""
        put_rows(self.entity_vectors, torch.tensor([MASK_ROW]), vector[None])
        if self.second_mask is not None:
            self.second_mask.copy_(vector)

    @torch.no_grad()
    def set_named(
        self, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, *, with_facts: bool = False
    ) -> None:
        """Set each entity's row to the mean of word pieces, and [MASK] to the word of that name.

        `with_facts`: of the pieces of all that its facts name, too. An entity without any piece
        keeps its row.
        """
        self.require_graph(graph)
        words = hosts.word_table(self.host).weight.detach()
        inner, outer = _basis(words, self.config.entity_width, _projection(self.host))
        if outer is not None and isinstance(self.entity_inputs.dense, nn.Linear):
            self.entity_inputs.dense.weight.copy_(outer)
        self.config.entity_space = "words" if inner is None else "own"
        if tokenizer.mask_token_id is not None:
            mask = words[tokenizer.mask_token_id]
            self.set_mask(mask if inner is None else mask @ inner)
        all_facts = FactVectors(words, tokenizer)(graph) if with_facts else None
        for rows in held_rows(self.entity_vectors, N_SPECIAL_ROWS, LABELS_AT_ONCE):
            ids = rows - N_SPECIAL_ROWS
            if all_facts is None:
                values, known = mean_pieces(graph.labels(ids.numpy()), words, tokenizer)
            else:
                values, known = all_facts.vectors[ids], all_facts.known[ids]
            values = values if inner is None else values @ inner
            put_rows(self.entity_vectors, rows[known], values[known])

    @torch.no_grad()
    def copy_inputs(self) -> None:
        """Start the entities' positions, types and normalisation as the words' of the host.

        An entity's row p is the host's of the word at place p.
        """
        host, inputs = self.host.embeddings, self.entity_inputs
        projection, offset = _projection(self.host), hosts.own_position_offset(self.host)
        tables = (
            (inputs.positions.weight, host.position_embeddings.weight[offset:]),
            (inputs.types.weight, host.token_type_embeddings.weight),
        )
        for ours, theirs in tables:
            ours[: len(theirs)] = theirs if projection is None else theirs @ projection.T
        if projection is None:
            inputs.layer_norm.load_state_dict(host.LayerNorm.state_dict())

    def row_tables(self) -> tuple[RowTable, ...]:
        """The vectors, in the space of words where they were made of them and not mapped."""
        space: Space = "words" if self.config.entity_space == "words" else "own"
        return (RowTable(name="entity_vectors.weight", of="entity", space=space),)

    def group_outside_host(self, name: str) -> str:
        """Query maps belong to their layer, all else to the embeddings."""
        part, index, *_ = name.split(".")
        return layer_group(int(index)) if part == "queries" else EMBEDDINGS

    # ---- the forward pass ----------------------------------------------------------------------
    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of words and entities; those of padding are meaningless.

        Raises `BatchError` for entities without `mention_spans`, nodes of other kinds, and rows
        beyond the table.
        """
        slots = self.slots(batch)
        n_nodes, is_entity = batch.node_ids.shape[1], _is_entity(batch)
        padded = torch.cat([self._words(batch), self._entities(batch, slots)], dim=1)
        real = _real_places(batch, slots)
        states = real.take(padded)
        all_states = [padded]
        for number, layer in enumerate(hosts.layers(self.host)):
            if number == 0:
                step = self._stepper(batch, slots, real)
            states = step(number, layer, states)
            all_states.append(real.spread(states))
        last_slots = all_states[-1][:, n_nodes + slots.n_linked :]
        return KnowledgeOutput.of(
            [_by_node(states, is_entity, slots.n_linked) for states in all_states],
            target_states=last_slots if last_slots.shape[1] else None,
        )

    def slots(self, batch: KnowledgeBatch) -> Slots:
        """The linked entities of a batch, in the order of its mentions, then its targets."""
        spans, is_entity = batch.mention_spans, _is_entity(batch)
        n_linked = 0 if spans is None else spans.shape[1]
        if not torch.compiler.is_compiling():
            _check(batch, n_linked, is_entity, self.entity_vectors.num_embeddings)
        nodes = (~is_entity).long().argsort(dim=1, stable=True)[:, :n_linked]
        real = is_entity.gather(1, nodes)
        rows = batch.node_ids.gather(1, nodes).where(real, PAD_ROW)
        spans = batch.node_ids.new_zeros(len(batch), 0, 2) if spans is None else spans
        targets = batch.target_spans
        if targets is None or not self.config.mask_targets:
            return Slots(rows, spans, nodes, real, n_linked)
        is_target = targets[..., 1] > targets[..., 0]
        masks = torch.full_like(targets[..., 0], MASK_ROW).where(is_target, PAD_ROW)
        return Slots(
            torch.cat([rows, masks], dim=1),
            torch.cat([spans, targets], dim=1),
            torch.cat([nodes, targets[..., 0].where(is_target, 0)], dim=1),
            torch.cat([real, is_target], dim=1),
            n_linked,
        )

    def _words(self, batch: KnowledgeBatch) -> Float[Tensor, "batch node width"]:
        """Embedded words; what stands at an entity's node here is read by nobody."""
        ids = batch.node_ids.where(batch.node_kinds == int(NodeKind.WORD), 0)
        vectors = hosts.word_table(self.host)(ids)
        return hosts.embed(
            self.host, vectors, hosts.own_positions(self.host, batch.positions), batch.segment_ids
        )

    def _entities(self, batch: KnowledgeBatch, slots: Slots) -> Float[Tensor, "batch slot width"]:
        """Embedded entities."""
        vectors = self.entity_vectors(slots.rows)
        if self.second_mask is not None:
            is_second = torch.arange(slots.rows.shape[1], device=slots.rows.device)
            is_second = is_second == slots.n_linked + 1
            vectors = torch.where(is_second[:, None], self.second_mask, vectors)
        types = batch.segment_ids.gather(1, slots.spans[..., 0])
        if self.entity_inputs.types.num_embeddings == 1:
            types = torch.zeros_like(types)
        return self.entity_inputs(vectors, batch.positions, slots.spans, types)

    def _stepper(
        self, batch: KnowledgeBatch, slots: Slots, real: RealPlaces
    ) -> Callable[[int, nn.Module, Tensor], Tensor]:
        """A function from the number of a layer, the layer and states of `real` places to those
        after it."""
        visibility, weights = self.visibility(batch, slots), batch.node_weights
        if weights is not None:
            weights = weights.gather(1, _order(batch, slots))
        if not self.config.entity_aware:
            step = hosts.stepper(self.host, visibility, real.mask, weights)
            return lambda number, layer, states: real.take(step(layer, real.spread(states)))
        mask = visibility.attention("eager", self.host.dtype, weights=weights)
        n_words = batch.node_ids.shape[1]
        return lambda number, layer, states: entity_aware_layer(
            layer, cast(EntityQueries, self.queries[number]), states, real, n_words, mask
        )

    @staticmethod
    def visibility(batch: KnowledgeBatch, slots: Slots) -> Visibility:
        """Who sees whom among nodes and slots: an entity is seen in its slot, not at its node."""
        order = _order(batch, slots)
        n_both, n_nodes = order.shape[1], batch.node_ids.shape[1]
        sees = batch.visibility.mask.gather(1, order[:, :, None].expand(-1, -1, n_nodes))
        sees = sees.gather(2, order[:, None].expand(-1, n_both, -1))
        is_key = torch.cat([batch.node_kinds == int(NodeKind.WORD), slots.real], dim=1)
        itself = torch.eye(n_both, dtype=torch.bool, device=order.device)
        return Visibility((sees & is_key[:, None]) | itself)


def _order(batch: KnowledgeBatch, slots: Slots) -> Int[Tensor, "batch both"]:
    """The node whose place each node and slot has."""
    n_batch, n_nodes = batch.node_ids.shape
    nodes = torch.arange(n_nodes, device=batch.node_ids.device).expand(n_batch, -1)
    return torch.cat([nodes, slots.nodes], dim=1)


def _real_places(batch: KnowledgeBatch, slots: Slots) -> RealPlaces:
    """Where words and entities are; what is real is counted in host memory."""
    kinds, node_mask, targets = batch.node_kinds, batch.node_mask, batch.target_spans
    is_word = on_both(lambda k, mask: (k == int(NodeKind.WORD)) & mask, kinds, node_mask)
    n_entities = on_both(
        lambda k, mask: ((k == int(NodeKind.ENTITY)) & mask).sum(1), kinds, node_mask
    )
    n_linked, n_slots = slots.n_linked, slots.rows.shape[1]
    is_slot = on_both(lambda n: torch.arange(n_linked, device=n.device) < n[:, None], n_entities)
    if targets is not None and n_slots > n_linked:
        is_target = on_both(lambda spans: spans[..., 1] > spans[..., 0], targets)
        is_slot = on_both(lambda *parts: torch.cat(parts, dim=1), is_slot, is_target)
    return RealPlaces(is_word, is_slot)


def _is_entity(batch: KnowledgeBatch) -> Bool[Tensor, "batch node"]:
    return (batch.node_kinds == int(NodeKind.ENTITY)) & batch.node_mask


def _by_node(
    states: Float[Tensor, "batch both width"], is_entity: Bool[Tensor, "batch node"], n_linked: int
) -> Float[Tensor, "batch node width"]:
    """States of nodes, those of entities from their slots."""
    n_nodes = is_entity.shape[1]
    words = states[:, :n_nodes]
    if n_linked == 0:
        return words
    slots = (is_entity.long().cumsum(1) - 1).clamp(min=0, max=n_linked - 1) + n_nodes
    entities = states.gather(1, slots[..., None].expand(-1, -1, states.shape[2]))
    return torch.where(is_entity[..., None], entities, words)


def _check(
    batch: KnowledgeBatch, n_linked: int, is_entity: Bool[Tensor, "batch node"], n_rows: int
) -> None:
    """Raise `BatchError` for a batch that is none of LUKE's view."""
    other = ~is_entity & (batch.node_kinds != int(NodeKind.WORD)) & batch.node_mask
    most = int(is_entity.sum(1).max()) if is_entity.numel() else 0
    if bool(other.any()) or most > n_linked:
        raise BatchError(
            f"LUKE reads words and entities, each with its mention_spans; a text has {most} "
            f"entities and {n_linked} spans, and {int(other.sum())} nodes are neither; use LUKEView"
        )
    rows = batch.node_ids[is_entity]
    if len(rows) and int(rows.max()) >= n_rows:
        raise BatchError(
            f"entity row {int(rows.max())} is beyond the table of {n_rows} rows; the batch was "
            "made with another graph"
        )


def _require_parts(host: PreTrainedModel, inside: Collection[str]) -> None:
    """Raise `ConfigError` where a host's layers are not all that their attention and output do."""
    if "pals" in inside:
        raise ConfigError(
            "entity-aware attention goes through the parts of a layer, and PALs stand beside it; "
            "give options.entity_aware=false, or lora or houlsby instead"
        )


def _width_of(path: str | Path | None, width: int) -> int:
    """The width of the vectors in `path`; of a TransE that is trained, the one that is given."""
    if path is None:
        return width or TRANSE_WIDTH
    file_width = int(open_vectors(path).width)
    if width not in (0, file_width):
        raise ConfigError(
            f"entity_width is {width}, and the vectors in {path} are {file_width} wide; leave "
            "entity_width out"
        )
    return file_width


def _projection(host: PreTrainedModel) -> Float[Tensor, "width embedding"] | None:
    """What brings a word's vector to the layers' width; None where it has that width."""
    projection = getattr(host, "embeddings_project", None)
    return None if projection is None else projection.weight.detach()


def _basis(
    words: Float[Tensor, "word wide"], width: int, projection: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return maps of a word's vector into `width` numbers, and of these into the layers' width.

    Together they are the host's own way of a word, or the nearest to it of rank `width` on the
    words of its table. None is the identity.
    """
    n_wide = words.shape[1]
    weights = torch.eye(n_wide).to(words) if projection is None else projection
    if width == len(weights):
        return (None if projection is None else projection.T), None
    _, vectors = torch.linalg.eigh(words.T.double() @ words.double())
    inner = words.new_zeros(n_wide, width)
    n_kept = min(width, n_wide)
    inner[:, :n_kept] = vectors.flip(1)[:, :n_kept].to(words)
    return inner, weights @ inner
