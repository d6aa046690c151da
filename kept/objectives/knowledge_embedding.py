"""Knowledge embedding from descriptions (`ke`): true triples score above corrupted ones.

Wang et al. 2021, "KEPLER" (TACL), section "Knowledge Embedding". An entity's vector is the state of
the first node of its description; a relation's is a row of a table, or read from its description.

Axis legend: batch, node, text, triple, negative, corrupted (2 x negative: heads, then tails),
relation, width.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, TripleBatch
from kept.batches.host_copies import on_host
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError, ConfigError
from kept.graphs.coverage import look
from kept.graphs.naming import is_named
from kept.kge.kinds import FORMULAS
from kept.kge.scorers import SCORES, transe_score
from kept.kge.training import contrast
from kept.layers.means import mean_of
from kept.layers.rows import RowTable
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.objectives.described_triples import (
    Pieces,
    Questions,
    Sequences,
    draw_questions,
    entity_text,
    relation_text,
    triple_batch,
)
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

DISTANCES = ("transe", "rotate")
CHOICES = {
    "score": tuple(SCORES),
    "norm": (1, 2),
    "loss": ("log_sigmoid", "margin", "cross_entropy"),
    "relations": ("table", "conditioned", "described"),
    "negatives": ("graph", "batch"),
    "read": ("both", "description", "label"),
    "cut": ("text", "sequence"),
}


@dataclass(frozen=True, kw_only=True)
class KnowledgeEmbeddingOptions:
    """How triples are sampled, read and scored; raises `ConfigError` naming every faulty field.

    `gamma` is added to distances (transe, rotate) and is the margin of the margin loss. `norm` is
    TransE's. `relations`: "table" (KEPLER), "conditioned" (KEPLER-Cond: the partner of what is
    ranked is read together with the relation's description), "described" (KEPLER-Rel).
    `adversarial_temperature` > 0 weights negatives by their score (Sun et al., ICLR 2019). Each
    batch has `n_triples` with `n_negatives` heads and as many tails each; `negatives` is their
    source, with `reject_known` they are never true in the graph. `read` says which texts are read;
    `cut` and the sizes belong to `Sequences`. `relation_range` bounds the table's first values;
    None is (gamma + 2) / width, as released. `kg` is the folder of another graph than the run's
    own; its `n_relations` and `id_space_hash` are read from it unless given.
    """

    score: str = "transe"
    norm: int = 2
    gamma: float = 4.0
    loss: str = "log_sigmoid"
    adversarial_temperature: float = 0.0
    relations: str = "table"
    n_triples: int = 4
    n_negatives: int = 1
    negatives: str = "graph"
    reject_known: bool = True
    read: str = "both"
    n_tokens: int = 64
    n_relation_tokens: int = 16
    cut: str = "text"
    relation_range: float | None = None
    kg: str | None = None
    n_relations: int | None = None
    id_space_hash: str | None = None

    def __post_init__(self) -> None:
        faults = [
            f"{name} {getattr(self, name)!r}: one of {', '.join(map(str, allowed))}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        for name, least in (("n_triples", 1), ("n_negatives", 1), ("n_tokens", 8)):
            if getattr(self, name) < least:
                faults.append(f"{name} {getattr(self, name)}: {least} or more")
        if not 3 <= self.n_relation_tokens <= self.n_tokens - 4:
            faults.append(f"n_relation_tokens {self.n_relation_tokens}: from 3 to n_tokens - 4")
        if self.relations == "described" and self.score == "rotate":
            faults.append("relations 'described': not with rotate, whose relations are phases")
        if faults:
            raise ConfigError("objective ke: " + "; ".join(faults))
        if self.kg is not None and self.n_relations is None:
            graph = KnowledgeGraph.open(self.kg)
            object.__setattr__(self, "n_relations", graph.n_relations)
            object.__setattr__(self, "id_space_hash", graph.id_space_hash)


class KnowledgeEmbedding(Objective):
    """The relation table and the loss. Abstract in its `task`: the first or the second of a run.

    Where we differ from the released code: each text is encoded once, so that all its uses share
    one dropout mask; a second task has a gamma and a table size of its own (there it silently gets
    the first one's). With "described" relations the table is not read.
    """

    task: ClassVar[str]
    field: ClassVar[str]

    def __init__(self, options: Any, *, width: int, n_relations: int) -> None:
        super().__init__()
        if options.score in ("complex", "rotate") and width % 2:
            raise ConfigError(f"{options.score} needs an even width, the host has {width}")
        self.options = options
        self.score = SCORES[options.score]
        if options.score == "transe":
            self.score = partial(transe_score, norm=options.norm)
        size = FORMULAS[options.score].relation_width(width)
        bound = options.relation_range
        bound = (options.gamma + 2) / width if bound is None else bound
        self.relations = nn.Parameter(torch.empty(n_relations, size).uniform_(-bound, bound))

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: KnowledgeEmbeddingOptions) -> Self:
        """A table for the encoder's graph, or for the one that `options.kg` names."""
        n_relations = options.n_relations
        return cls(
            options,
            width=encoder.host.config.hidden_size,
            n_relations=encoder.config.n_relations if n_relations is None else n_relations,
        )

    def row_tables(self) -> tuple[RowTable, ...]:
        """The relations, where they are those of the run's own graph."""
        if self.options.kg is not None or self.options.id_space_hash is not None:
            return ()
        return (RowTable(name="relations", of="relation", n_special=0),)

    def relation_vectors(
        self, vectors: Float[Tensor, "text width"], triples: TripleBatch
    ) -> Float[Tensor, "triple relation"]:
        """The vector of each triple's relation; raises `BatchError` for one beyond the table."""
        if self.options.relations == "described":
            if triples.relation_texts is None:
                raise BatchError("described relations need relation_texts in the batch")
            return vectors[triples.relation_texts]
        ids, known = triples.relations - N_SPECIAL_ROWS, on_host(triples.relations) - N_SPECIAL_ROWS
        if len(ids) and not 0 <= int(known.min()) <= int(known.max()) < len(self.relations):
            raise BatchError(
                f"relation rows reach {int(known.max()) + N_SPECIAL_ROWS}; the table holds rows "
                f"{N_SPECIAL_ROWS} to {len(self.relations) + N_SPECIAL_ROWS - 1}"
            )
        return self.relations[ids].to(vectors.dtype)

    def scores(
        self, vectors: Float[Tensor, "text width"], triples: TripleBatch
    ) -> tuple[Float[Tensor, " triple"], Float[Tensor, "triple corrupted"]]:
        """Scores of true and of corrupted triples, negative heads first.

        A true triple's score is the mean of two: head partner with tail, head with tail partner.
        """
        heads, tails = triples.heads, triples.tails
        head_partners = heads if triples.head_partners is None else triples.head_partners
        tail_partners = tails if triples.tail_partners is None else triples.tail_partners
        if (self.options.relations == "conditioned") == (triples.head_partners is None):
            raise BatchError(f"relations are {self.options.relations!r}: partners do not fit")
        relations = self.relation_vectors(vectors, triples)
        shift = self.options.gamma if self.options.score in DISTANCES else 0.0
        one = self.score(vectors[head_partners], relations, vectors[tails])
        other = self.score(vectors[heads], relations, vectors[tail_partners])
        relations = relations[:, None]
        corrupted_heads = self.score(
            vectors[triples.negative_heads], relations, vectors[tail_partners][:, None]
        )
        corrupted_tails = self.score(
            vectors[head_partners][:, None], relations, vectors[triples.negative_tails]
        )
        negative = torch.cat([corrupted_heads, corrupted_tails], dim=1)
        return (one + other) / 2 + shift, negative + shift

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """The loss of this task; none for a batch without triples.

        log_sigmoid is half of `contrast`: the mean of its two terms, as released. Scores are taken
        in float32 at least.
        """
        triples: TripleBatch | None = getattr(batch, self.field)
        if triples is None:
            return {}
        states = encoder(triples.texts).node_states[:, 0]
        vectors = states.to(torch.promote_types(states.dtype, torch.float32))
        positive, negative = self.scores(vectors, triples)
        losses = contrast(
            positive,
            negative,
            loss=self.options.loss,
            margin=self.options.gamma if self.options.loss == "margin" else 0.0,
            temperature=self.options.adversarial_temperature,
        )
        scale = 0.5 if self.options.loss == "log_sigmoid" else 1.0
        return {self.task: scale * mean_of(losses.sum(), len(losses))}


class FirstKnowledgeEmbedding(KnowledgeEmbedding):
    """The objective `ke`, over `batch.triples`."""

    task, field = "ke", "triples"


class SecondKnowledgeEmbedding(KnowledgeEmbedding):
    """The objective `ke2`, over `batch.second_triples`: another graph beside the first."""

    task, field = "ke2", "second_triples"


class KnowledgeEmbeddingPreparation(Preparation):
    """Gives each batch its triples. Abstract in its `field`: the first or the second of a batch."""

    field: ClassVar[str]
    remedy = (
        "no entity of a triple has a description or a name to be read; build the graph with them "
        "(kept kg build … --descriptions FILE, --labels FILE)"
    )

    def __init__(
        self,
        options: KnowledgeEmbeddingOptions,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        if tokenizer.pad_token_id is None:
            raise ConfigError(f"ke needs a padding token; {type(tokenizer).__name__} has none")
        if not graph.n_triples:
            raise ConfigError(f"ke has no triples to draw: {graph}")
        self.options, self.graph, self.tokenizer = options, graph, tokenizer
        self.sequences = sequences_of(options, tokenizer)

    @classmethod
    def of(cls, options: KnowledgeEmbeddingOptions, world: PreparationContext) -> Self:
        """Raises `GraphMismatchError` when `options.kg` has changed since the model was made."""
        if options.kg is None:
            return cls(options, world.graph, world.tokenizer)
        graph = KnowledgeGraph.open(options.kg)
        if options.id_space_hash is not None:
            graph.require_id_space(options.id_space_hash, of="the objective's relation table")
        return cls(options, graph, world.tokenizer)

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """The share of the triples' entities that have a description, or words for a name."""
        ids = np.unique(self.graph.triples[:, [0, 2]])
        n, n_read = look(np.ones(len(ids), np.bool_), lambda i: self._is_told(int(ids[i])))
        return n_read / n

    def _is_told(self, entity: int) -> bool:
        described = self.options.read != "label" and self.graph.description(entity) is not None
        return described or is_named(self.graph, entity)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.graph.content_hash.encode())
        digest.update(json.dumps(sorted(self.tokenizer.get_vocab().items())).encode())
        return f"{self.field} {self.options} {self.sequences} {digest.hexdigest()}"

    def complete(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        questions = draw_questions(
            self.graph,
            draws,
            n_triples=self.options.n_triples,
            n_negatives=self.options.n_negatives,
            from_batch=self.options.negatives == "batch",
            reject_known=self.options.reject_known,
        )
        triples = self.read(questions)
        if batch.node_ids.is_cuda:
            triples = triples.to(batch.node_ids.device)
        added: dict[str, Any] = {self.field: triples}
        return batch.replace(**added)

    def read(self, questions: Questions) -> TripleBatch:
        """`questions` with the texts of their entities and relations."""
        named = np.unique(
            np.concatenate(
                [
                    questions.triples[:, [0, 2]].ravel(),
                    questions.negative_heads.ravel(),
                    questions.negative_tails.ravel(),
                ]
            )
        ).tolist()
        read = self.options.read
        entities = self._pieces({i: entity_text(self.graph, i, read) for i in named})
        relations: dict[int, Pieces] = {}
        if self.options.relations != "table":
            ids = np.unique(questions.triples[:, 1]).tolist()
            relations = self._pieces({i: relation_text(self.graph, i, read) for i in ids})
        return triple_batch(
            questions,
            entity=entities.__getitem__,
            relation=relations.__getitem__,
            sequences=self.sequences,
            relations=self.options.relations,  # type: ignore[arg-type]  # checked when made
            pad_id=int(self.tokenizer.pad_token_id),
        )

    def _pieces(self, texts: dict[int, str]) -> dict[int, Pieces]:
        return dict(
            zip(
                texts,
                word_pieces(list(texts.values()), self.tokenizer, self.options.n_tokens),
                strict=True,
            )
        )


class FirstPreparation(KnowledgeEmbeddingPreparation):
    """Of the objective `ke`."""

    field = "triples"


class SecondPreparation(KnowledgeEmbeddingPreparation):
    """Of the objective `ke2`."""

    field = "second_triples"


def sequences_of(
    options: KnowledgeEmbeddingOptions, tokenizer: PreTrainedTokenizerBase
) -> Sequences:
    """How these options read descriptions."""
    return Sequences.of(
        tokenizer,
        n_tokens=options.n_tokens,
        n_relation_tokens=options.n_relation_tokens,
        cut=options.cut,  # type: ignore[arg-type]  # checked when made
    )


def word_pieces(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, n_tokens: int
) -> list[list[int]]:
    """The first `n_tokens` pieces of each text, without special tokens."""
    encoded = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=n_tokens)
    pieces: list[list[int]] = encoded["input_ids"]
    return pieces
