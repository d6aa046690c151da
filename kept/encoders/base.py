"""What every encoder shares: a host inside, a graph whose ids its rows follow, strict loading.

A new encoder is a `KnowledgeConfig`, a `KnowledgeEncoder` and a view, in that order; everything
else (objectives, heads, training, saving) takes any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from kept import hosts
from kept.adapters.inside import PLACES, freeze_around, is_inside, put_inside
from kept.batches import N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.batches.host_copies import on_both, on_host
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.graphs.graph import NodeKind
from kept.host_families import family_of
from kept.layers.part_table import PartTable, no_special_rows, put_rows
from kept.layers.products import use_products
from kept.layers.rows import RowTable
from kept.model_files import keep_weights, readable, require_finite, seal_model, verify_model
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError

EMBEDDINGS, HEAD = "embeddings", "head"
EVERY_PART: Mapping[str, tuple[str, ...]] = {
    "encoder": ("",),
    "words": (),
}
"""Parts that all encoders have besides those of their class: everything, and the host's word table,
whose name depends on its family (`KnowledgeEncoder._named`)."""

Config = TypeVar("Config", bound="KnowledgeConfig")
Model = TypeVar("Model", bound="KnowledgeModel")
Encoder = TypeVar("Encoder", bound="KnowledgeEncoder")


class KnowledgeConfig(PreTrainedConfig):  # type: ignore[misc]
    """Abstract: the host's configuration, the graph's sizes and hashes, the objectives and head.

    `n_entities`, `n_relations`: of the graph, special rows not counted. `id_space_hash` is the hash
    of the vocabularies that the tables' rows follow, `content_hash` that of the whole graph.
    `objectives`: name to options, of the objectives that were trained on top (see
    `kept.objectives.model`). `head`: name and options of a task's head (see `kept.heads.model`).
    `inside`: "lora", "houlsby" or "pals" to its options, where the host carries one
    (`kept.adapters.inside`).
    """

    sub_configs: ClassVar[dict[str, Any]] = {"host": AutoConfig}

    def __init__(
        self,
        *,
        host: Any = None,
        n_entities: int = 0,
        n_relations: int = 0,
        id_space_hash: str = "",
        content_hash: str = "",
        objectives: Mapping[str, Mapping[str, Any]] | None = None,
        head: Mapping[str, Any] | None = None,
        inside: Mapping[str, Mapping[str, Any]] | None = None,
        initializer_range: float = 0.02,
        **options: Any,
    ) -> None:
        host = {"model_type": "bert"} if host is None else host
        self.host: Any = AutoConfig.for_model(**host) if isinstance(host, dict) else host
        self.n_entities, self.n_relations = n_entities, n_relations
        self.id_space_hash, self.content_hash = id_space_hash, content_hash
        self.objectives = {name: dict(value) for name, value in (objectives or {}).items()}
        self.head = dict(head or {})
        self.inside = {name: dict(value) for name, value in (inside or {}).items()}
        self.initializer_range = initializer_range
        super().__init__(**options)

    def to_dict(self) -> dict[str, Any]:
        """As Hugging Face's, without the kind of a classification of one class.

        transformers reads no file that names it; `KnowledgeForTask` knows it by its one label.
        """
        fields: dict[str, Any] = super().to_dict()
        if self.problem_type == "single_label_classification" and self.num_labels == 1:
            del fields["problem_type"]
        return fields

    @classmethod
    def of(
        cls: type[Config], host: PreTrainedModel, graph: KnowledgeGraph, **options: Any
    ) -> Config:
        """The configuration of an encoder on `host` for `graph`."""
        return cls(host=host.config.to_dict(), **graph_fields(graph), **options)


class KnowledgeModel(PreTrainedModel):  # type: ignore[misc]
    """Abstract: a Hugging Face model with a `KnowledgeConfig`."""

    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    holds_rows: ClassVar[bool] = True
    """Whether a weight may stand for an entity or relation by its number in a graph."""
    tokenizer: PreTrainedTokenizerBase | None = None
    """The word pieces that belong to this model, if it brought some: saved in its folder, too."""

    def save_pretrained(self, save_directory: Any, *args: Any, **options: Any) -> None:
        """As Hugging Face's, with `tokenizer` and the checksums of all files; no bar."""
        with hosts.without_bar():
            super().save_pretrained(save_directory, *args, **options)
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(save_directory)
        seal_model(save_directory)

    def require_graph(self, graph: KnowledgeGraph) -> None:
        """Raise `GraphMismatchError` unless this model's entity and relation rows are `graph`'s.

        Any graph is accepted where it `holds_rows` of none.
        """
        if not self.holds_rows:
            return
        made_with = self.config.id_space_hash
        if made_with != graph.id_space_hash:
            raise GraphMismatchError(
                f"this {type(self).__name__} was made with the id space "
                f"{made_with or '(none: a temporary entity vocabulary)'}, the graph has "
                f"{graph.id_space_hash}; open the graph it was made with, or train on this one"
            )

    def row_tables(self) -> tuple[RowTable, ...]:
        """The weights whose rows are the graph's entities or relations."""
        return ()

    def follow(self, graph: KnowledgeGraph) -> None:
        """Belong to `graph` from here on, whose rows every one of `row_tables` has by now.

        Raises `GraphMismatchError` where something else of the model goes by the old graph.
        """
        self.config.update(graph_fields(graph))

    def freeze(self) -> None:
        """Freeze what this model never trains; called after construction and loading."""

    def post_init(self) -> None:
        """As Hugging Face's; linear layers compute as `kept.layers.products` chooses."""
        super().post_init()
        use_products(self)

    def _init_weights(self, module: nn.Module) -> None:
        """As Hugging Face's, in a part of a table too."""
        if isinstance(module, PartTable):
            module.draw(self.config.initializer_range or 0.02)
        else:
            super()._init_weights(module)

    @classmethod
    def from_pretrained(
        cls: type[Model],
        name_or_path: Any,
        *args: Any,
        graph: KnowledgeGraph | None = None,
        **options: Any,
    ) -> Model:
        """Load a saved model, every weight of it; with `graph`, also check `require_graph`.

        Raises `CheckpointError` for files that are not those that were saved, and naming every
        missing or unexpected weight and non-finite ones. A bare encoder may be loaded from a model
        with heads.
        """
        options = {"dtype": torch.float32} | options | {"output_loading_info": True}
        if Path(name_or_path).is_dir():
            verify_model(name_or_path)
        # the check below is stricter than transformers' remarks
        with hosts.only_errors(), hosts.without_bar(), readable(name_or_path):
            model, info = super().from_pretrained(name_or_path, *args, **options | hosts.SAFELY)
        missing = sorted(info["missing_keys"])
        has_prefix = not hasattr(model, cls.base_model_prefix)
        unexpected = [] if has_prefix else sorted(info["unexpected_keys"])
        if missing or unexpected:
            raise CheckpointError(
                f"{name_or_path} does not fit {cls.__name__}: missing {missing}, "
                f"unexpected {unexpected}"
            )
        for module in model.modules():
            if isinstance(module, PartTable):
                module.keep_own()
        require_finite(model, name_or_path)
        model.freeze()
        if graph is not None:
            model.require_graph(graph)
        loaded: Model = model
        return loaded


class KnowledgeEncoder(KnowledgeModel):
    """Abstract: a `KnowledgeBatch` in, a `KnowledgeOutput` out, a Hugging Face encoder inside.

    `host` is that encoder. `parts` names groups of parameters, so that a stage of training can
    train some of them only.
    """

    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {"host": ("host.",)}
    """Name of a part to the prefixes of its parameters."""
    unused: tuple[str, ...] = ("host.pooler.",)
    """Prefixes of parameters that no output depends on: they never get a gradient. An encoder whose
    configuration decides it sets its own in `__init__`."""
    enters_layers: ClassVar[bool] = False
    """Whether it computes with parts of the host's layers, instead of calling each as a whole."""
    needs_bert_layers: ClassVar[bool] = False
    """Whether it computes with the parts of BERT's layers, which some families do not have."""
    needs_layers: ClassVar[bool] = True
    """Whether something comes between the host's layers, or some nodes do not see others; without
    either, an encoder of any family will do."""
    own_vectors: ClassVar[tuple[str, ...]] = ()
    """Values of the option `vectors` computed from the run's own graph; others name files."""

    def __init__(self, config: KnowledgeConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        self.host: PreTrainedModel
        if host is None:
            self.host = AutoModel.from_config(self.config.host)
        else:
            self.host = host
            keep_weights(host)
        hosts.check_host(self.host)
        if self.needs_bert_layers:
            hosts.require_bert_layers(self.host, type(self).__name__)
        elif self.needs_layers:
            hosts.require_layers(self.host, type(self).__name__)
        self.config.host = self.host.config  # one object: a grown vocabulary is saved
        put_inside(self.host, self.config.inside)

    @property
    def n_states(self) -> int:
        """How many `hidden_states` there are: the embeddings' and one a layer."""
        return int(self.host.config.num_hidden_layers) + 1

    @classmethod
    def from_host(
        cls: type[Encoder], host: PreTrainedModel, graph: KnowledgeGraph, **options: Any
    ) -> Encoder:
        """A new encoder around a trained `host`; `options` are those of its configuration."""
        config_class: type[KnowledgeConfig] = cls.config_class
        hosts.check_host(host)
        hosts.require_whole_encoder(host)
        model: Encoder = cls(config_class.of(host, graph, **options), host=host).to(host.dtype)
        return model

    @classmethod
    def for_graph(
        cls: type[Encoder],
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        **options: Any,
    ) -> Encoder:
        """Return `from_host`, with tables initialised from the graph."""
        return cls.from_host(host, graph, **options)

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every node; those of padding are meaningless."""
        raise NotImplementedError  # abstract: each paper file has its own

    def read(
        self, vectors: Float[Tensor, "batch node embedding"], batch: KnowledgeBatch
    ) -> KnowledgeOutput:
        """Run the host over a vector for each node, at the batch's positions and segments."""
        positions = hosts.own_positions(self.host, batch.positions)
        hidden = hosts.embed(self.host, vectors, positions, batch.segment_ids)
        states = hosts.run(
            self.host, hidden, batch.visibility, batch.node_mask, batch.node_weights,
            positions=batch.positions,
        )  # fmt: skip
        return KnowledgeOutput.of(states)

    @staticmethod
    def node_vectors(
        batch: KnowledgeBatch, tables: Mapping[int, nn.Embedding]
    ) -> Float[Tensor, "batch node embedding"]:
        """Each node's row of the table of its kind; raises `BatchError` for one without a row."""
        checks = not torch.compiler.is_compiling()
        kinds = on_host(batch.node_kinds) if checks else batch.node_kinds
        if checks and (other := set(kinds.unique().tolist()) - tables.keys()):
            raise BatchError(
                f"this method reads no nodes of kind {min(other)}; make the batch with its own view"
            )
        vectors = None
        for kind, table in tables.items():
            is_kind = batch.node_kinds == kind
            rows = _rows_of(batch, kind)
            if checks and int(on_host(rows).max()) >= table.num_embeddings:
                name = NodeKind(kind).name.lower() if kind < len(NodeKind) else "piece"
                raise BatchError(
                    f"{name} row {int(on_host(rows).max())} is beyond the table of "
                    f"{table.num_embeddings} rows; the batch was made with another graph or "
                    "tokenizer"
                )
            injected = table(rows)
            vectors = injected if vectors is None else injected.where(is_kind[..., None], vectors)
        assert vectors is not None
        return vectors

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of `group_of`, lowest first: "embeddings", "layer.0" and so on, "head"."""
        n_layers = self.host.config.num_hidden_layers
        return (EMBEDDINGS, *map(layer_group, range(n_layers)), HEAD)

    def group_of(self, name: str) -> str:
        """Return the group of the parameter `name`, for schedules that go layer by layer.

        Everything that reads the last layer belongs to "head", the host's pooler too.
        """
        if not name.startswith("host."):
            return self.group_outside_host(name)
        family, inner = family_of(self.host.config), name.removeprefix("host.")
        number = family.layer_number(self.host.config, inner)
        if number is not None:
            return layer_group(number)
        return HEAD if inner.startswith(family.head_names) else EMBEDDINGS

    def group_outside_host(self, name: str) -> str:
        """Return the group of a parameter outside the host; for encoders that have some."""
        raise ConfigError(
            f"{type(self).__name__}.group_outside_host does not know the parameter {name!r}"
        )

    def insert(self, kind: str, options: Mapping[str, Any]) -> None:
        """Insert "lora", "houlsby" or "pals" into the host, whose own weights are then frozen.

        It is saved and loaded with the model. Raises `ConfigError` where there is one already.
        """
        if self.config.inside:
            raise ConfigError(f"this encoder carries {list(self.config.inside)} already; keep them")
        inside = {kind: dict(options)}
        put_inside(self.host, inside)
        self.config.inside = inside
        self.freeze()

    def freeze(self) -> None:
        """Freeze what is never trained: around an insertion, the rest of the host."""
        freeze_around(self.host, tuple(self.config.inside))

    def begin_task(self) -> None:
        """Called once, when a new task head is added: the moment to freeze other parts."""

    def save_trained_parts(self, folder: str | Path) -> None:
        """Called when pre-training ends: write parts that can be loaded beside other models."""

    def train_only(self, names: tuple[str, ...]) -> None:
        """Freeze every parameter outside the named `parts`; raises `ConfigError` on other names."""
        named = self._named(names)
        for name, parameter in self.named_parameters():
            if not named(name):
                parameter.requires_grad_(False)

    def freeze_parts(self, names: tuple[str, ...]) -> None:
        """Freeze the named `parts`, the host's word table with "words", or all with "encoder".

        Raises `ConfigError` on other names.
        """
        named = self._named(names)
        for name, parameter in self.named_parameters():
            if named(name):
                parameter.requires_grad_(False)

    def _named(self, names: tuple[str, ...]) -> Callable[[str], bool]:
        """Whether a parameter is in one of these parts, or in what was inserted into the host."""
        words = hosts.word_table(self.host)
        tables = [f"{name}." for name, module in self.named_modules() if module is words]
        parts = {**EVERY_PART, "words": tuple(tables), **self.parts}
        inside = {*PLACES} & {*self.config.inside}
        unknown = [name for name in names if name not in parts and name not in inside]
        if unknown:
            raise ConfigError(
                f"{type(self).__name__} has no part {unknown[0]!r}; "
                f"it has {sorted({*parts, *inside})}"
            )
        prefixes = tuple(prefix for name in names for prefix in parts.get(name, ()))
        kinds = tuple(name for name in names if name in inside)
        return lambda name: (
            name.startswith(prefixes) or (name.startswith("host.") and is_inside(name, kinds))
        )


class VectorEncoder(KnowledgeEncoder):
    """Abstract: an encoder with a frozen vector for each entity, special rows zero.

    `vector_table`: the attribute that has them, saved with the model.
    """

    vector_table: ClassVar[str] = "entity_vectors"

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is getattr(self, self.vector_table, None):
            no_special_rows(getattr(self, self.vector_table))

    def row_tables(self) -> tuple[RowTable, ...]:
        """The vectors, in the space of what they were learned by."""
        return (RowTable(name=f"{self.vector_table}.weight", of="entity"),)

    def freeze(self) -> None:
        """The vectors are inputs: they are never trained."""
        super().freeze()
        getattr(self, self.vector_table).requires_grad_(False)

    @torch.no_grad()
    def set_vectors(self, vectors: Float[Tensor, "entity entity_width"]) -> None:
        """Set one vector for every entity of the graph."""
        rows = torch.arange(N_SPECIAL_ROWS, len(vectors) + N_SPECIAL_ROWS)
        put_rows(getattr(self, self.vector_table), rows, vectors)


def _rows_of(batch: KnowledgeBatch, kind: int) -> Tensor:
    """The rows of the nodes of one kind, PAD_ROW for all others."""
    return on_both(
        lambda ids, kinds: ids.where(kinds == kind, PAD_ROW), batch.node_ids, batch.node_kinds
    )


def layer_group(index: int) -> str:
    """The group of the host's layer `index`, from 0."""
    return f"layer.{index}"


def graph_fields(graph: KnowledgeGraph) -> dict[str, Any]:
    """What a configuration keeps of the graph whose ids a model's rows follow."""
    return {
        "n_entities": graph.n_entities,
        "n_relations": graph.n_relations,
        "id_space_hash": graph.id_space_hash,
        "content_hash": graph.content_hash,
    }
