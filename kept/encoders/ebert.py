"""E-BERT: entity vectors mapped into the space of a host's word pieces and read like words.

Poerner, Waltinger and Schütze 2020, "E-BERT: Efficient-Yet-Effective Entity Embeddings for BERT"
(Findings of EMNLP), section 3. Nothing is trained: the map is fitted by least squares on the words
that both vocabularies hold, and the host stays unchanged.

Axis legend: batch, node, width (of the host), embedding (of its word table), word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, PIECE, KnowledgeBatch
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, KnowledgeEncoder
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.graphs.graph import NodeKind
from kept.layers.part_table import entity_table, held_rows, no_special_rows, put_rows
from kept.layers.rows import RowTable
from kept.layers.vector_map import least_squares_map, orthogonal_map
from kept.outputs import KnowledgeOutput
from kept.vectors import LABELS_AT_ONCE, EntityVectors, FactVectors, LabelVectors, Wikipedia2VecFile
from kg_loaders import KnowledgeGraph

WORD_STARTS = ("\u0120", "\u2581")
"""What byte-level and unigram vocabularies write before a piece that starts a word."""
MAPPINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": least_squares_map,
    "orthogonal": orthogonal_map,
}

PROVIDERS: Mapping[str, Callable[[Tensor, Any], LabelVectors | FactVectors]] = {
    "labels": LabelVectors,
    "facts": FactVectors,
}


class EBERTConfig(KnowledgeConfig):
    """Sizes and hashes alone: the encoder has no setting of its own."""

    model_type = "kept-ebert"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)


class EBERT(KnowledgeEncoder):
    """The encoder: a frozen table of entities beside the host's word pieces.

    A row of zeros is an entity without a vector. Where we differ from the released code: words are
    read from the host's own word table, which is trained with the host (there from a frozen copy).
    """

    config_class = EBERTConfig
    own_vectors = tuple(PROVIDERS)
    needs_layers = False

    def __init__(self, config: EBERTConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        width = hosts.word_table(self.host).embedding_dim
        self.entity_vectors = entity_table(config.n_entities + N_SPECIAL_ROWS, width)
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
        vectors_from: str | Path | None = None,
        mapping: str = "linear",
        vectors: str = "labels",
        **options: Any,
    ) -> EBERT:
        """A new encoder whose entity vectors are those of a file, mapped into the host's space.

        `vectors_from` is a text file of Wikipedia2Vec; give it to the view, too, so that entities
        without a vector stay out of the text. Without it an entity is the mean of its label's word
        pieces, which needs no map, or with `vectors` "facts" (`FactVectors`; not of the paper) of
        that and of what its facts name, so that an unknown name represents its facts. `mapping`
        "linear" is the paper's, "orthogonal" keeps lengths and angles. Raises `CheckpointError` for
        a file that shares no word with the host, or no page with the graph.
        """
        model = cls.from_host(host, graph, **options)
        words = hosts.word_table(host).weight.detach()
        if vectors not in PROVIDERS or (vectors != "labels" and vectors_from is not None):
            raise ConfigError(
                f"vectors is {vectors!r}; use one of {', '.join(PROVIDERS)}, and no other than "
                "labels beside vectors_from"
            )
        if vectors_from is None and vectors == "labels":
            model.set_labels(LabelVectors(words, tokenizer), graph)
            return model
        if vectors_from is None:
            model.set_vectors(PROVIDERS[vectors](words, tokenizer)(graph))
            return model
        file = Wikipedia2VecFile(Path(vectors_from))
        graph_vectors = file(graph)
        if graph.n_entities and not bool(graph_vectors.known.any()):
            raise CheckpointError(
                f"{file.path} has a page for none of the graph's {graph.n_entities} entities; its "
                "pages must be named like their identifiers or labels"
            )
        mapped = graph_vectors.vectors @ fit_to_words(file, words, tokenizer, mapping).cpu()
        model.set_vectors(EntityVectors(mapped, graph_vectors.known))
        return model

    def row_tables(self) -> tuple[RowTable, ...]:
        """The vectors, in the space of the words."""
        return (RowTable(name="entity_vectors.weight", of="entity", space="words"),)

    def group_outside_host(self, name: str) -> str:
        """The table is an embedding."""
        return EMBEDDINGS

    def freeze(self) -> None:
        """Entity vectors are inputs: they are never trained."""
        super().freeze()
        self.entity_vectors.requires_grad_(False)

    @torch.no_grad()
    def set_vectors(self, vectors: EntityVectors) -> None:
        """Set the vectors of the graph's entities, in the host's space; special rows: 0."""
        no_special_rows(self.entity_vectors)
        rows = torch.arange(N_SPECIAL_ROWS, len(vectors.known) + N_SPECIAL_ROWS)
        put_rows(self.entity_vectors, rows, vectors.vectors * vectors.known[:, None])

    def set_labels(self, labels: LabelVectors, graph: KnowledgeGraph) -> None:
        """As `set_vectors`, of the rows that are held here alone."""
        no_special_rows(self.entity_vectors)
        for rows in held_rows(self.entity_vectors, N_SPECIAL_ROWS, LABELS_AT_ONCE):
            label_vectors = labels.of(graph, (rows - N_SPECIAL_ROWS).numpy())
            put_rows(
                self.entity_vectors, rows, label_vectors.vectors * label_vectors.known[:, None]
            )

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every node; raises `BatchError` for an entity without a vector.

        A masked entity (MASK_ROW) enters as the mean of the first mention's candidates (section
        4.3).
        """
        words = hosts.word_table(self.host)
        tables = {
            int(NodeKind.WORD): words,
            int(NodeKind.ENTITY): self.entity_vectors,
            PIECE: words,
        }
        vectors = self.node_vectors(batch, tables)
        is_entity = (batch.node_kinds == NodeKind.ENTITY) & batch.node_mask
        if batch.candidate_ids is not None:
            is_masked = is_entity & (batch.node_ids == MASK_ROW)
            mean = self._mean_of_candidates(batch.candidate_ids[:, 0])
            vectors = torch.where(is_masked[..., None], mean[:, None], vectors)
        if not torch.compiler.is_compiling():
            silent = batch.node_ids[is_entity][(vectors[is_entity] == 0).all(-1)]
            if len(silent):
                raise BatchError(
                    f"entity row {int(silent[0])} has no vector; give the view the same "
                    "vectors_from as the encoder, so that such entities stay out of the text"
                )
        return self.read(vectors, batch)

    def _mean_of_candidates(
        self, ids: Int[Tensor, "batch candidate"]
    ) -> Float[Tensor, "batch embedding"]:
        real = (ids != PAD_ROW)[..., None]
        total = (self.entity_vectors(ids) * real).sum(1)
        return total / real.sum(1).clamp(min=1)


def fit_to_words(
    file: Wikipedia2VecFile,
    words: Float[Tensor, "word embedding"],
    tokenizer: Any,
    mapping: str = "linear",
) -> Float[Tensor, "source embedding"]:
    """The map of `MAPPINGS` of the file's space into that of the word pieces `words`.

    Raises `ConfigError` for another name, `CheckpointError` where the two share no word.
    """
    if mapping not in MAPPINGS:
        raise ConfigError(f"mapping is {mapping!r}; use one of {', '.join(MAPPINGS)}")
    rows = whole_words(tokenizer)
    theirs = file.words(rows.keys())
    if not theirs:
        raise CheckpointError(
            f"{file.path} and the host's word pieces share no word, so there is nothing to fit the "
            "map on; give a file whose words are spelled (and cased) as the host's"
        )
    shared = sorted(theirs)
    source = torch.stack([torch.from_numpy(theirs[word]) for word in shared])
    target = words[[rows[word] for word in shared]].float().cpu()
    return MAPPINGS[mapping](source, target)


def whole_words(tokenizer: Any) -> dict[str, int]:
    """The pieces that are words as they stand, and their rows; no special piece is one.

    Where a vocabulary marks the start of a word, only marked pieces count, without their mark.
    """
    special = set(tokenizer.all_special_ids)
    pieces = {piece: i for piece, i in tokenizer.get_vocab().items() if i not in special}
    marked = {piece[1:]: i for piece, i in pieces.items() if piece.startswith(WORD_STARTS)}
    return marked or pieces
