"""K-Adapter: adapters beside a frozen host, each trained on its own task.

Wang et al. 2020, "K-Adapter: Infusing Knowledge into Pre-Trained Models with Adapters" (Findings of
ACL 2021), section 3. Nothing flows back into the host, so adapters are trained, saved and loaded
one by one, and a new one changes none of the others.

Axis legend: batch, node, width.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.adapters.adapter import Adapter, AdapterOptions
from kept.adapters.files import RUN_FOLDER, find_adapter, read_adapter, write_adapter
from kept.adapters.fusion import make_fusion
from kept.batches import KnowledgeBatch, Visibility
from kept.encoders.base import EMBEDDINGS, HEAD, KnowledgeConfig, KnowledgeEncoder, layer_group
from kept.encoders.loading import load_strictly
from kept.errors import ConfigError
from kept.layers.packing import dense_rows
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

STAGES = ("pretraining", "task")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class KAdapterConfig(KnowledgeConfig):
    """The adapters, their fusion, and which parts are trained in which stage.

    `adapters`: name to fields of `AdapterOptions` that differ from the host's defaults; by default
    one, "factual". `fusion`: "sum", "concat" or "none" (see `kept.adapters.fusion`); adapters are
    fused in the order of their names. `pretraining_trains`, `task_trains`: parts that are trained
    in each `stage`, of "host", "fusion", "adapters" and "adapters.NAME"; the rest is frozen. Frozen
    parts named in `still` ("host", "adapters") are kept in evaluation mode; the released
    fine-tuning leaves its frozen adapters' dropout on: ("host",). `padding`: "masked", or
    "released": padded nodes stand at running positions, read the real ones and are read by the
    adapters, so that the length of a batch changes the result. `still_word`: the word piece whose
    embedding is frozen; None = the host's padding piece, the released code has 0, which is `<s>`.
    """

    model_type = "kept-kadapter"

    def __init__(
        self,
        *,
        adapters: Mapping[str, Mapping[str, Any]] | None = None,
        fusion: str = "sum",
        stage: str = "pretraining",
        pretraining_trains: Sequence[str] = ("adapters",),
        task_trains: Sequence[str] = ("host", "fusion"),
        still: Sequence[str] = ("host", "adapters"),
        padding: str = "masked",
        still_word: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.adapters: dict[str, dict[str, Any]] = {}
        for name, values in ({"factual": {}} if adapters is None else adapters).items():
            self.put_adapter(name, AdapterOptions.read(values, self.host))
        self.fusion, self.stage, self.padding = fusion, stage, padding
        self.pretraining_trains, self.task_trains = list(pretraining_trains), list(task_trains)
        self.still, self.still_word = list(still), still_word
        self._check()

    @classmethod
    def of(cls, host: PreTrainedModel, graph: KnowledgeGraph, **options: Any) -> KAdapterConfig:
        """As the base; every adapter that names no graph gets the hash of this one."""
        adapter_options = options.pop("adapters", None)
        adapters = {
            name: {"graph_hash": graph.content_hash, **values}
            for name, values in (
                {"factual": {}} if adapter_options is None else adapter_options
            ).items()
        }
        return super().of(host, graph, adapters=adapters, **options)

    def put_adapter(self, name: str, options: AdapterOptions) -> None:
        """Add or replace an adapter; raises `ConfigError` for a name that cannot be one."""
        if not _NAME.fullmatch(name) or hasattr(nn.ModuleDict, name):
            raise ConfigError(
                f"{name!r} cannot name an adapter; use lower-case letters, digits and _, "
                "and no method of a dictionary"
            )
        values = dataclasses.asdict(options)
        self.adapters[name] = {**values, "layers": list(options.layers)}

    @property
    def trains(self) -> tuple[str, ...]:
        """The parts that are trained in this stage."""
        task = self.stage == "task"
        return tuple(self.task_trains if task else self.pretraining_trains)

    def _check(self) -> None:
        parts = ["host", "fusion", "adapters", *(f"adapters.{name}" for name in self.adapters)]
        faults = [
            f"{field} {name!r}: one of {parts}"
            for field in ("pretraining_trains", "task_trains")
            for name in getattr(self, field)
            if name not in parts
        ]
        if self.stage not in STAGES:
            faults.append(f"stage {self.stage!r}: one of {STAGES}")
        if self.padding not in ("masked", "released"):
            faults.append(f"padding {self.padding!r}: 'masked' or 'released'")
        if not set(self.still) <= {"host", "adapters"}:
            faults.append(f"still {self.still}: of 'host', 'adapters'")
        if faults:
            raise ConfigError("KAdapterConfig: " + "; ".join(faults))


class KAdapter(KnowledgeEncoder):
    """A host, named adapters beside it, and their fusion.

    `KnowledgeOutput.hidden_states` are the host's, then the fused states, which are `node_states`;
    `adapter_states` holds each adapter's. Where we differ from the released code: any number of
    adapters instead of two, sizes that follow the host, and the defaults of `KAdapterConfig`.
    """

    config_class = KAdapterConfig
    parts = {  # noqa: RUF012 - a class variable of the base
        "host": ("host.",),
        "adapters": ("adapters.",),
        "fusion": ("fusion.",),
    }

    def __init__(self, config: KAdapterConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        if config.still_word is not None:
            hosts.word_table(self.host).padding_idx = config.still_word
        self.adapters = nn.ModuleDict(
            {name: self._new(AdapterOptions(**config.adapters[name])) for name in self.names}
        )
        self._fuse()
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
        adapters_from: Sequence[str | Path] = (),
        adapters_graph: KnowledgeGraph | None = None,
        any_graph: bool = False,
        **options: Any,
    ) -> KAdapter:
        """`from_host`, with the saved adapters in the folders `adapters_from` beside new ones.

        A folder is an adapter's own, or that of a run that trained one. They must have been trained
        on `adapters_graph` (by default `graph`), on none, or `any_graph` be true. New ones are
        those in `adapters`; by default they alone are trained in pre-training. Raises as
        `load_adapter`.
        """
        if not adapters_from:
            return cls.from_host(host, graph, **options)
        new, loaded = dict(options.pop("adapters", None) or {}), {}
        trained_on = (graph if adapters_graph is None else adapters_graph).content_hash
        for folder in adapters_from:
            saved = read_adapter(find_adapter(folder), host.config)
            if not any_graph:
                saved.require_graph(trained_on)
            if saved.name in loaded or saved.name in new:
                raise ConfigError(f"{folder}: there is an adapter {saved.name!r} already")
            loaded[saved.name] = saved
        values = {name: dataclasses.asdict(saved.options) for name, saved in loaded.items()}
        moving = {"pretraining_trains": [f"adapters.{name}" for name in new], **options}
        encoder = cls.from_host(host, graph, adapters={**new, **values}, **moving)
        for name, saved in loaded.items():
            load_strictly(encoder.adapter(name), saved.weights)
        return encoder

    def follow(self, graph: KnowledgeGraph) -> None:
        """As the base, and so do the adapters that learned the graph; they learn nothing new."""
        before = self.config.content_hash
        for name in self.names:
            if before and self.adapter(name).options.graph_hash == before:
                self.describe_adapter(name, graph_hash=graph.content_hash)
        super().follow(graph)

    @property
    def n_states(self) -> int:
        """The host's, and the fused ones."""
        return super().n_states + 1

    @property
    def names(self) -> list[str]:
        """The adapters' names, in the order in which they are fused."""
        return sorted(self.config.adapters)

    def adapter(self, name: str) -> Adapter:
        """The adapter called `name`; raises `ConfigError` listing all names."""
        if name not in self.config.adapters:
            raise ConfigError(f"there is no adapter {name!r}; there are {self.names}")
        module = self.adapters[name]
        assert isinstance(module, Adapter)
        return module

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the fused states of every word; those of padding are meaningless."""
        released = self.config.padding == "released"
        visibility, positions = batch.visibility, batch.positions
        if released:
            visibility = Visibility.of_real(batch.node_mask)
            n_nodes, device = positions.shape[1], positions.device
            positions = torch.arange(n_nodes, device=device).expand_as(positions)
        hidden = hosts.embed(
            self.host,
            hosts.word_table(self.host)(batch.node_ids),
            positions + hosts.own_position_offset(self.host),
            batch.segment_ids,
        )
        rows = None if released else dense_rows(batch.node_mask)
        if rows is not None:
            visibility = rows.pack_visibility(visibility, batch.node_mask)
            hidden, positions = rows.pack(hidden), rows.pack(positions)
        states = hosts.run(self.host, hidden, visibility, positions=positions)
        if released:  # its adapters see padding, too
            visibility = Visibility.everyone(*positions.shape, device=positions.device)
        attention = self.host.config._attn_implementation
        outputs: dict[str, Tensor] = {
            name: self.adapter(name).by(attention)(states, visibility) for name in self.names
        }
        states = (*states, self.fusion(states[-1], outputs))
        if rows is not None:
            states = tuple(rows.unpack(state) for state in states)
            outputs = {name: rows.unpack(state) for name, state in outputs.items()}
        return KnowledgeOutput.of(states, adapter_states=outputs)

    def group_outside_host(self, name: str) -> str:
        """A block belongs to the layer whose state it reads, the fusion to the head."""
        part, *inner = name.split(".")
        if part != "adapters":
            return HEAD
        state = self.adapter(inner[0]).options.layers[int(inner[2])]
        return layer_group(state - 1) if state else EMBEDDINGS

    def freeze(self) -> None:
        """Freeze what is not trained in this stage."""
        super().freeze()
        moving = tuple(f"{name}." for name in self.config.trains)
        for name, parameter in self.named_parameters():
            if not name.startswith(moving):
                parameter.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> KAdapter:
        """As any module, but frozen parts named in `config.still` stay in evaluation mode."""
        super().train(mode)
        groups = {"host": [self.host], "adapters": list(self.adapters.values())}
        for name in self.config.still:
            for module in groups[name]:
                if not any(p.requires_grad for p in module.parameters()):
                    module.eval()
        return self

    def begin_task(self) -> None:
        """Train `config.task_trains` from here on, by default the host beside frozen adapters."""
        self.config.stage = "task"
        self._restart()

    def train_adapter(self, name: str) -> None:
        """Train this adapter alone from here on, for its own pre-training."""
        self.adapter(name)
        self.config.stage, self.config.pretraining_trains = "pretraining", [f"adapters.{name}"]
        self._restart()

    def fuse(self, kind: str) -> None:
        """Fuse by another kind, with new layers where it has some: they belong to the next task."""
        self.config.fusion = kind
        self._fuse()
        self._restart()

    def add_adapter(
        self, name: str, *, graph: KnowledgeGraph | None = None, **options: Any
    ) -> Adapter:
        """A new adapter beside the others, which stay as they are; call `train_adapter` to train.

        `graph`: the one that it will be trained on, by default this model's. The fusion is made
        anew if it has layers.
        """
        if name in self.config.adapters:
            raise ConfigError(f"there is an adapter {name!r} already; there are {self.names}")
        content_hash = self.config.content_hash if graph is None else graph.content_hash
        values = {"graph_hash": content_hash, **options}
        return self._put(name, AdapterOptions.read(values, self.host.config))

    def save_adapter(self, folder: str | Path, name: str) -> None:
        """Write one adapter to a folder of its own."""
        write_adapter(folder, name, self.adapter(name), self.host.config)

    def save_trained_parts(self, folder: str | Path) -> None:
        """Write every adapter that is trained in this stage to `folder`/adapters/NAME."""
        for name in self.names:
            if any(p.requires_grad for p in self.adapter(name).parameters()):
                self.save_adapter(Path(folder) / RUN_FOLDER / name, name)

    def load_adapter(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        graph: KnowledgeGraph | None = None,
        any_graph: bool = False,
    ) -> str:
        """Add a saved adapter under its own name or `name`, and return that name.

        It must have been trained on `graph` (by default this model's), on none, or `any_graph` be
        true. Raises `GraphMismatchError` or, for faulty files or another host, `CheckpointError`.
        """
        saved = read_adapter(find_adapter(folder), self.host.config)
        if not any_graph:
            saved.require_graph(self.config.content_hash if graph is None else graph.content_hash)
        adapter_name = name or saved.name
        if adapter_name in self.config.adapters:
            raise ConfigError(f"there is an adapter {adapter_name!r} already; give another name")
        adapter = self._new(saved.options)
        load_strictly(adapter, saved.weights)
        self._put(adapter_name, saved.options, adapter)
        return adapter_name

    def describe_adapter(self, name: str, **fields: Any) -> None:
        """Change the description of an adapter: `graph_hash`, `trained_on`."""
        adapter = self.adapter(name)
        adapter.options = dataclasses.replace(adapter.options, **fields)
        self.config.put_adapter(name, adapter.options)

    def _put(self, name: str, options: AdapterOptions, adapter: Adapter | None = None) -> Adapter:
        module = self._new(options) if adapter is None else adapter
        self.config.put_adapter(name, options)
        self.adapters[name] = module.to(device=self.host.device, dtype=self.host.dtype)
        self._fuse()
        self._restart()
        return module

    def _new(self, options: AdapterOptions) -> Adapter:
        return Adapter.of_host(self.host, options)

    def _fuse(self) -> None:
        fusion = make_fusion(
            self.config.fusion, names=self.names, width=self.host.config.hidden_size
        )
        self.fusion = fusion.to(device=self.host.device, dtype=self.host.dtype)

    def _restart(self) -> None:
        self.requires_grad_(True)
        self.freeze()
