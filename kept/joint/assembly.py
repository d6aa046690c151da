"""From a configuration to a joint space over a corpus, and from a trained one to its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field, PositiveFloat, PositiveInt, field_validator
from torch import Tensor

from entity_linking.annotations import read_jsonl
from entity_linking.annotations.redirects import read_resolved
from entity_linking.mentions import LinkedText
from kept.bounds import MAX_COUNT, MAX_SEED
from kept.errors import ConfigError
from kept.joint.by_distance import DistanceSettings, DistanceSpace
from kept.joint.corpus import Corpus, read_corpus, tokenise
from kept.joint.skip_gram import Tables
from kept.joint.wikipedia2vec import Wikipedia2Vec, Wikipedia2VecSettings
from kept.joint.writing import write_translations, write_vectors
from kept.joint.xu2017 import Xu2017, XuSettings, XuSpace
from kept.kge.splits import Splits, read_splits
from kept.kge.trained import unseen_ids
from kept.options import read_options
from kept.randomness import torch_generator
from kept.training.config import Rate, RunConfig
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

Model = Literal["wikipedia2vec", "wang2014", "zhong2015", "xu2017"]
MODELS: Mapping[str, Wikipedia2VecSettings | DistanceSettings | XuSettings] = {
    "wikipedia2vec": Wikipedia2VecSettings(),
    "wang2014": DistanceSettings(),
    "zhong2015": DistanceSettings(links=False, names=False, descriptions=True),
    "xu2017": XuSettings(),
}
"""The models by name, and what each is told unless a configuration says otherwise."""
VECTORS, SCORER = "vectors.txt", "scorer"
Space = Wikipedia2Vec | DistanceSpace | XuSpace


class JointConfig(RunConfig):
    """One joint space: its model, linked texts, graph, vocabulary, and how to train.

    `kg` is a graph folder, all of whose triples are trained on; with `holdout` above 0 the share
    that `kept kgc train` would test and validate with that seed is left out. Or it is a benchmark's
    folder, whose training triples are. `redirects` is a file by which links of `text` are resolved.
    `options` are further
    hyper-parameters of the model.
    """

    model: Model = "wikipedia2vec"
    kg: Path
    text: tuple[Path, ...] = ()
    redirects: Path | None = None
    width: PositiveInt = Field(100, le=2**16)
    epochs: PositiveInt | None = Field(None, le=MAX_COUNT)
    learning_rate: Rate | None = None
    min_word_count: PositiveInt = Field(5, le=MAX_COUNT)
    min_entity_count: PositiveInt = Field(1, le=MAX_COUNT)
    min_tokens: PositiveInt = Field(5, le=MAX_COUNT)
    holdout: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    seed: int = Field(0, ge=0, le=MAX_SEED)
    checkpoint_seconds: PositiveFloat = 300.0
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("width")
    @classmethod
    def _even(cls, width: int) -> int:
        if width % 2:
            raise ValueError(f"{width} is odd; take an even one, as triple scorers do")
        return width

    @property
    def settings(self) -> Any:  # a dataclass of `MODELS`
        """The hyper-parameters of the model; `ConfigError` for one that it does not have."""
        default = MODELS[self.model]
        recipe = {"epochs": self.epochs, "learning_rate": self.learning_rate}
        settings = {
            name: value for name, value in recipe.items() if value is not None
        } | self.options
        read_options(type(default), settings, self.model)
        return replace(default, **settings)


class Assembled:
    """A space, and all that its files need."""

    def __init__(self, config: JointConfig) -> None:
        self.config, self.settings = config, config.settings
        self.splits = _splits(config)
        self.graph: KnowledgeGraph = self.splits.graph
        if config.model != "wikipedia2vec" and not len(self.splits.train):
            raise ConfigError(f"{config.kg} has no triple; {config.model} learns from triples")
        texts = [text for path in config.text for text in read_jsonl(path, DamageReport())]
        entities = self.graph.entities
        texts, self.note = read_resolved(texts, config.redirects, lambda name: name in entities)
        self.corpus = _corpus(config, self.splits, texts)
        make: Mapping[str, Callable[[], Space]] = {
            "wikipedia2vec": self._wikipedia2vec,
            "xu2017": self._xu,
        }
        self.space = make.get(config.model, self._by_distance)()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the corpus, the triples and the configuration."""
        free = {"checkpoint_seconds", "kg", "text", "redirects"}
        settings = self.config.model_dump(mode="json", exclude=free)
        parts = [json.dumps(settings, sort_keys=True), self.corpus.fingerprint]
        parts += [self.graph.id_space_hash, self.splits.splits_hash]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def write(self, folder: Path, losses: list[float]) -> list[Path]:
        """Write the files of the trained space, replacing older ones; returns their paths."""
        items, relations = self.vectors()
        files = [folder / VECTORS]
        if relations is not None:
            files.append(folder / SCORER)
            table = torch.zeros(self.graph.n_entities, items.shape[1])
            table[torch.from_numpy(self.corpus.entities)] = items[len(self.corpus.words) :]
            training = {
                "seed": self.config.seed,
                "holdout": self.config.holdout,
                "splits_hash": self.splits.splits_hash,
                "unseen": unseen_ids(self.splits),
                "losses": losses,
                "joint": self.config.model_dump(mode="json"),
            }
            write_translations(folder / SCORER, self.graph, table, relations, training)
        write_vectors(folder / VECTORS, self.corpus, self.graph, items, force=True)
        return files

    def vectors(self) -> tuple[Tensor, Tensor | None]:
        """Of items `[item width]`, and of relations where entities translate into each other."""
        if isinstance(self.space, Wikipedia2Vec):
            return self.space.tables.inputs, None
        if isinstance(self.space, DistanceSpace):
            return self.space.vectors, self.space.relations
        model, is_alone = self.space.model, self.settings.encoder != "alstm"
        entities = model.entities(self.space.triples)[torch.from_numpy(self.corpus.entities)]
        relations = model.relations.detach() if is_alone else None
        return torch.cat([model.words.detach(), entities]), relations

    def _wikipedia2vec(self) -> Wikipedia2Vec:
        draws = torch_generator(self.config.seed, "joint", "first vectors")
        tables = Tables.fresh(self.corpus.n_items, self.config.width, draws)
        return Wikipedia2Vec(self.corpus, self.settings, tables, seed=self.config.seed)

    def _by_distance(self) -> DistanceSpace:
        return DistanceSpace(
            self.corpus,
            self.graph,
            self.splits.train,
            self.settings,
            width=self.config.width,
            seed=self.config.seed,
        )

    def _xu(self) -> XuSpace:
        draws = torch_generator(self.config.seed, "joint", "first vectors")
        model = Xu2017(
            _description_tokens(self.corpus, self.graph, self.settings.n_tokens),
            n_words=len(self.corpus.words),
            n_relations=self.graph.n_relations,
            width=self.config.width,
            encoder=self.settings.encoder,
            generator=draws,
        )
        return XuSpace(model, self.splits.train, self.settings, seed=self.config.seed)


def _splits(config: JointConfig) -> Splits:
    if config.holdout or not (config.kg / "manifest.json").is_file():
        return read_splits(config.kg, holdout=config.holdout, seed=config.seed)
    graph = KnowledgeGraph.open(config.kg)
    triples = np.array(graph.triples)
    return Splits(graph, triples, triples[:0], triples[:0])


def _corpus(config: JointConfig, splits: Splits, texts: list[LinkedText]) -> Corpus:
    """The texts and, where the model reads them, the descriptions; edges of training triples."""
    reads = config.model == "xu2017" or getattr(config.settings, "descriptions", False)
    described = [splits.graph.description(i) for i in range(splits.graph.n_entities)]
    if reads:
        texts = texts + [LinkedText(text, ()) for text in described if text]
    if not texts:
        raise ConfigError(
            f"{config.model} has no text to learn from: give --text, linked by `kept link -o`"
            + (", or a graph with descriptions" if reads else "")
        )
    return read_corpus(
        texts,
        splits.graph,
        triples=splits.train,
        min_word_count=config.min_word_count,
        min_entity_count=config.min_entity_count,
        min_tokens=config.min_tokens,
    )


def _description_tokens(corpus: Corpus, graph: KnowledgeGraph, n: int) -> Tensor:
    """The first `n` known words of each entity's description, -1 after them `[entity token]`."""
    rows = {word: row for row, word in enumerate(corpus.words)}
    token_rows = torch.full((graph.n_entities, n), -1)
    for entity in range(graph.n_entities):
        words = (token[0].lower() for token in tokenise(graph.description(entity) or ""))
        ids = [rows[word] for word in words if word in rows][:n]
        token_rows[entity, : len(ids)] = torch.tensor(ids, dtype=torch.long)
    return token_rows
