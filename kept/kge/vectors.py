"""Entity vectors for encoders that read them: of a scorer or a file, special rows first.

Axis legend: row (special rows, then entities), width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from kept.batches import N_SPECIAL_ROWS, PAD_ROW
from kept.errors import CheckpointError
from kept.kge.scorers import make_scorer
from kept.kge.trained import mapped_entities, read_description
from kept.kge.training import train
from kept.kge.training_config import TrainingConfig
from kept.layers.part_table import ROWS_AT_ONCE, held_rows, put_rows
from kept.randomness import torch_generator
from kept.vectors import EntityVectors, Wikipedia2VecFile
from kg_loaders import KnowledgeGraph

RECIPE = TrainingConfig(
    n_epochs=20,
    batch_size=512,
    learning_rate=0.1,
    objective="negative_sampling",
    n_negatives=128,
    share_negatives=True,
    reject_known=True,
)
"""TransE whose step costs the same however many entities there are."""


@dataclass(frozen=True)
class ScorerFolder:
    """The entity vectors of a scorer in a folder that `kept kgc train` wrote."""

    folder: Path

    @property
    def width(self) -> int:
        """The width of its vectors; raises `CheckpointError` for a folder without a scorer."""
        return int(read_description(self.folder)["width"])

    def __call__(self, graph: KnowledgeGraph) -> EntityVectors:
        """Raises `CheckpointError` or `GraphMismatchError` for a folder that does not fit."""
        return _all_known(mapped_entities(self.folder, graph))


@dataclass(frozen=True)
class TransEVectors:
    """Those of a TransE that is trained when it is called; without triples its random first ones.

    An entity without triples keeps its random first vector.
    """

    width: int
    seed: int
    n_epochs: int = RECIPE.n_epochs

    def __call__(self, graph: KnowledgeGraph) -> EntityVectors:
        _, draws = _special_rows(graph, self.width, self.seed)
        scorer = make_scorer(
            "transe",
            n_entities=graph.n_entities,
            n_relations=graph.n_relations,
            width=self.width,
            generator=draws,
        )
        if graph.n_triples:
            config = replace(RECIPE, n_epochs=self.n_epochs)
            with torch.enable_grad():
                train(scorer, graph.triples, config=config, generator=draws)
        return _all_known(scorer.entities.detach())


def open_vectors(path: str | Path) -> ScorerFolder | Wikipedia2VecFile:
    """The provider in `path`: the folder of a scorer, or a text file of Wikipedia2Vec."""
    return Wikipedia2VecFile(Path(path)) if Path(path).is_file() else ScorerFolder(Path(path))


def entity_vectors(
    graph: KnowledgeGraph,
    *,
    width: int,
    seed: int,
    n_epochs: int = RECIPE.n_epochs,
    path: str | Path | None = None,
    standardise: bool = False,
) -> Float[Tensor, "row width"]:
    """One vector a row, entities of mean length 1; UNKNOWN and MASK are random, PAD is zero.

    The whole of `vector_rows`, which takes the same.
    """
    source = vector_rows(
        graph, width=width, seed=seed, n_epochs=n_epochs, path=path, standardise=standardise
    )
    return source.at(torch.arange(graph.n_entities + N_SPECIAL_ROWS))


@dataclass(frozen=True, eq=False)
class VectorRows:
    """The special rows and `vectors` divided by `length`, made where they are read."""

    special: Float[Tensor, "row width"]
    vectors: EntityVectors
    length: Tensor | float
    standard: Standard | None = None

    def at(self, rows: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen width"]:
        """These rows, of all rows."""
        is_special = rows < N_SPECIAL_ROWS
        entities = rows[~is_special] - N_SPECIAL_ROWS
        table = _standardised_rows(self.vectors, entities, self.standard) / self.length
        vectors = table.new_empty(len(rows), table.shape[1])
        vectors[is_special], vectors[~is_special] = self.special[rows[is_special]], table
        return vectors

    def put_into(self, table: nn.Embedding, first: int = 0, scale: float = 1.0) -> None:
        """Set the rows from `first` on of `table`, those that it holds, times `scale`."""
        for rows in held_rows(table, first, ROWS_AT_ONCE):
            put_rows(table, rows, self.at(rows) * scale)


def vector_rows(
    graph: KnowledgeGraph,
    *,
    width: int,
    seed: int,
    n_epochs: int = RECIPE.n_epochs,
    path: str | Path | None = None,
    standardise: bool = False,
) -> VectorRows:
    """The vectors of `entity_vectors` by the row; those of a scorer's folder stay in its file.

    `path` is what `open_vectors` takes; without it a TransE is trained. An entity that the file
    does not have is zero. With `standardise` every dimension first gets mean 0 and spread 1 over
    the entities that have a vector: what all of them share says nothing of one. Raises
    `CheckpointError` or `GraphMismatchError` for vectors that do not fit.
    """
    special, _ = _special_rows(graph, width, seed)
    provider = TransEVectors(width, seed, n_epochs) if path is None else open_vectors(path)
    vectors = provider(graph)
    if vectors.vectors.shape[1] != width:
        theirs = vectors.vectors.shape[1]
        raise CheckpointError(
            f"{path} holds vectors of width {theirs}, the encoder reads {width}; "
            f"give vectors of that width, or set the encoder's to {theirs}"
        )
    if graph.n_entities and not bool(vectors.known.any()):
        raise CheckpointError(
            f"{path} has a vector for none of the graph's {graph.n_entities} entities: its pages "
            "are named otherwise than their identifiers and labels"
        )
    standard = Standard.of(vectors) if standardise else None
    lengths = torch.cat(
        [
            _standardised_rows(vectors, entities[vectors.known[entities]], standard).norm(dim=1)
            for entities in torch.split(torch.arange(graph.n_entities), ROWS_AT_ONCE)
        ]
    )
    tiny = torch.finfo(lengths.dtype).tiny
    mean_length = lengths.mean().clamp_min(tiny) if len(lengths) else 1.0
    return VectorRows(special, vectors, mean_length, standard)


@dataclass(frozen=True, eq=False)
class Standard:
    """Mean and spread of each dimension over the known entities, and in which they differ."""

    mean: Float[Tensor, " width"]
    spread: Float[Tensor, " width"]
    differs: Bool[Tensor, " width"]

    @classmethod
    def of(cls, vectors: EntityVectors) -> Standard | None:
        """None without known entities."""
        if not bool(vectors.known.any()):
            return None
        known_rows = vectors.vectors
        if not bool(vectors.known.all()):
            known_rows = known_rows[vectors.known]
        spread = known_rows.std(0, correction=0)
        largest = max(float(part.abs().max()) for part in torch.split(known_rows, ROWS_AT_ONCE))
        return cls(known_rows.mean(0), spread, spread > 1e-6 * largest)


def _standardised_rows(
    vectors: EntityVectors, entities: Int[Tensor, " chosen"], standard: Standard | None
) -> Float[Tensor, "chosen width"]:
    table = vectors.vectors[entities]
    if standard is None:
        return table
    is_number = vectors.known[entities, None] & standard.differs
    return torch.where(is_number, (table - standard.mean) / standard.spread, 0.0)


def standardised(vectors: EntityVectors) -> Float[Tensor, "entity width"]:
    """Each dimension with mean 0 and spread 1 over the known entities; rows of others are 0.

    A dimension in which they do not differ is 0.

    >>> table = torch.tensor([[1.0, 5.0], [3.0, 5.0], [0.0, 0.0]])
    >>> standardised(EntityVectors(table, torch.tensor([True, True, False])))
    tensor([[-1.,  0.],
            [ 1.,  0.],
            [ 0.,  0.]])
    """
    return _standardised_rows(vectors, torch.arange(len(vectors.known)), Standard.of(vectors))


def _special_rows(
    graph: KnowledgeGraph, width: int, seed: int
) -> tuple[Float[Tensor, "row width"], torch.Generator]:
    """The special rows, and the generator that has drawn them: a scorer's draws follow theirs."""
    draws = torch_generator(seed, "entity vectors", graph.id_space_hash)
    special = torch.randn(N_SPECIAL_ROWS, width, generator=draws)
    special = special / special.norm(dim=1, keepdim=True)
    special[PAD_ROW] = 0
    return special, draws


def _all_known(vectors: Tensor) -> EntityVectors:
    return EntityVectors(vectors, torch.ones(len(vectors), dtype=torch.bool))
