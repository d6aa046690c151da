"""Configuration of `kept pretrain`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from kept.graphs.builder import BuilderConfig
from kept.graphs.windows import Long
from kept.methods import BASELINE, method, method_key
from kept.training.config import RunConfig, TrainConfig

PATH_OPTIONS = frozenset({"adapters_from", "kg", "lexicon", "vectors_from"})
"""Options of encoders and views that name files or folders."""


TREES = "dependency_heads"
"""The objective that reads treebanks."""


class PretrainConfig(RunConfig):
    """One pre-training run: host, method, data, graphs, objectives and training.

    `text` are files of linked texts, `treebank` CoNLL-U files: one or the other. Trees are read by
    the objective dependency_heads alone, and need no `kg` where the method reads none either; nor
    do texts where the method is "none". `objectives` maps names to options that differ from their
    defaults; without it the method's own are trained (`kept.methods`). `options` are those of the
    encoder's configuration, `view` those of the method's view. `start_from` is the folder of an
    earlier run, for the initial weights of the encoder and of a head over words; `train_only` names
    the encoder's parts to train (all, if empty), so that schedules of several stages are several
    runs; `long` "windows" makes several examples of a text that is too long; `redirects` is a file
    by which links of `text` are resolved; `freeze` names parts that stay, such as "words", the
    host's word table. `as_published`: options, view and graph are the paper's where none are given,
    not the recipe's, which `kept.training.pretraining.recipes` fills in.
    """

    host: str = "minilm"
    method: str = "colake"
    as_published: bool = False
    text: tuple[Path, ...] = ()
    redirects: Path | None = None
    treebank: tuple[Path, ...] = Field((), validate_default=True)
    kg: Path | None = Field(None, validate_default=True)
    graph: BuilderConfig = BuilderConfig()
    long: Long = "cut"
    objectives: dict[str, dict[str, Any]] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    view: dict[str, Any] = Field(default_factory=dict)
    start_from: Path | None = None
    train_only: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    training: TrainConfig = Field(default_factory=dict, validate_default=True)

    @field_validator("method")
    @classmethod
    def _known_method(cls, name: str) -> str:
        return method_key(name)

    @field_validator("treebank")
    @classmethod
    def _one_source(cls, treebank: tuple[Path, ...], info: ValidationInfo) -> tuple[Path, ...]:
        if "text" in info.data and bool(treebank) == bool(info.data["text"]):
            raise ValueError("give text or treebank, exactly one")
        return treebank

    @field_validator("kg")
    @classmethod
    def _graph_where_read(cls, kg: Path | None, info: ValidationInfo) -> Path | None:
        trees, name = info.data.get("treebank"), info.data.get("method")
        reads = name is None or method(name).view.reads_graph
        if kg is None and (reads or not (trees or name == BASELINE)):
            raise PydanticCustomError("missing", "required")
        return kg

    @field_validator("objectives", "view")
    @classmethod
    def _for_trees(cls, values: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if info.data.get("treebank"):
            if info.field_name == "view" and values:
                raise ValueError(
                    "a model gets the sentences of a treebank as words alone; leave the view out"
                )
            if info.field_name == "objectives" and values.keys() - {TREES}:
                raise ValueError(f"trees are read by {TREES} alone; give it, or none")
        return values

    @field_validator("training")
    @classmethod
    def _without_classes(cls, training: TrainConfig) -> TrainConfig:
        if training.averaging is not None and training.averaging.distil:
            raise ValueError("averaging.distil is for kept finetune: pre-training has no classes")
        return training

    def with_absolute_paths(self) -> Self:
        """The same run from any working directory."""
        paths: dict[str, Any] = {
            "text": tuple(map(Path.resolve, self.text)),
            "treebank": tuple(map(Path.resolve, self.treebank)),
            "options": absolute(self.options, words=own_vectors(self.method)),
            "view": absolute(self.view),
        }
        for name in ("kg", "start_from", "redirects"):
            if getattr(self, name) is not None:
                paths[name] = getattr(self, name).resolve()
        if Path(self.host).is_dir():
            paths["host"] = str(Path(self.host).resolve())
        return self.model_copy(update=paths)


def own_vectors(name: str | None) -> frozenset[str]:
    """Return the words that an option `vectors` of this method may be, such as E-BERT's "facts".

    >>> sorted(own_vectors("ebert"))
    ['facts', 'labels']
    """
    options = () if name is None else method(name).encoder.own_vectors
    return frozenset(word for word in options if word is not None)


def absolute(
    options: Any,
    paths: Collection[str] = (*PATH_OPTIONS, "vectors"),
    *,
    words: Collection[str] = (),
) -> Any:
    """`options` with every path under one of `PATH_OPTIONS`, however deep, made absolute.

    `vectors` is a path at the top (ERNIE), or one of `words` (E-BERT's "facts"), which stays even
    where a file has that name; a KAR's own says of what kind its table is.
    """

    def resolved(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [resolved(each) for each in value]
        if not isinstance(value, (str, Path)) or value in words:
            return value
        return str(Path(value).resolve())

    if isinstance(options, Mapping):
        return {
            name: resolved(value) if name in paths else absolute(value, PATH_OPTIONS)
            for name, value in options.items()
        }
    if isinstance(options, (list, tuple)):
        return [absolute(each, PATH_OPTIONS) for each in options]
    return options
