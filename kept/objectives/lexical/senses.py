"""Allowed senses of masked words: SenseBERT's second loss, and its choice of words (`senses`).

Levine et al. 2020, "SenseBERT: Driving Some Sense into BERT" (ACL), sections 3.3 and 3.5. The loss
of a word is -log of its allowed senses' total probability, plus the mean of their -log
probabilities. Words of one sense are preferred, as unambiguous supervision.

Axis legend: batch, node, slot, sense, width, embedding, unit (a word's pieces).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.senses.gloss_links import FUNCTION_WORDS
from kept.batches import IGNORE, NONE, KnowledgeBatch
from kept.batches.host_copies import at, places
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.lexical.sensebert import SenseBERT
from kept.errors import BatchError, ConfigError
from kept.graphs.views.senses import SENSES
from kept.layers.means import mean_of
from kept.layers.vocabularies import VocabularyHead, allowed_losses
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.objectives.masked_words import MaskedWordsOptions, MaskedWordsPreparation
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class SensesOptions:
    """Which words are masked, of which ones senses are predicted, and how they are scored.

    `probability`, `mask_share`, `random_share` are those of `mlm`, over whole words. Of the words
    with one sense, `single_share` are chosen first, up to `most_single` of all that are chosen.
    Senses are predicted for words above `short` characters other than function words. `transform`
    puts BERT's own layer between states and senses; a host whose word table is narrower than its
    layers has it in any case.
    """

    probability: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    single_share: float = 0.5
    most_single: float = 0.4
    short: int = 3
    transform: bool = False

    def __post_init__(self) -> None:
        shares = {n: getattr(self, n) for n in ("single_share", "most_single")}
        if faults := [f"{n} {v}: from 0 to 1" for n, v in shares.items() if not 0 <= v <= 1]:
            raise ConfigError("objective senses: " + "; ".join(faults))
        self.words()

    def words(self) -> MaskedWordsOptions:
        """The options of masking words; raises `ConfigError`."""
        return MaskedWordsOptions(
            probability=self.probability,
            mask_share=self.mask_share,
            random_share=self.random_share,
            strategy="whole_word",
        )


class SensesPreparation(Preparation):
    """Masks words instead of `mlm`, and their senses with them."""

    replaces: ClassVar[tuple[str, ...]] = ("mlm",)

    def __init__(
        self,
        options: SensesOptions,
        words: MaskedWordsPreparation,
        lengths: NDArray[np.int64],
        is_function: NDArray[np.bool_],
    ) -> None:
        self.options, self.words = options, words
        self.lengths, self.is_function = lengths, is_function

    @classmethod
    def of(cls, options: SensesOptions, world: PreparationContext) -> Self:
        words = MaskedWordsPreparation.of(options.words(), world)
        return cls(options, words, *letters(world.tokenizer))

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.lengths.tobytes() + self.is_function.tobytes()).hexdigest()
        return f"{self.options} {self.words.fingerprint} {digest}"

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        if batch.extra_ids is None or SENSES not in batch.extra_ids:
            raise BatchError("senses reads words with senses: use SenseBERT's view (SensesView)")
        ids = batch.extra_ids[SENSES]
        n_senses = (ids[0] != NONE).sum(1).numpy()
        is_masked = np.zeros(ids.shape[1], np.bool_)

        def chooser(unit: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
            is_masked[nodes] = self._is_asked(unit, batch.node_ids[0, nodes].numpy())
            return prefer_single(unit, n_senses[nodes], self.options, draws)

        hidden = self.words.hide(batch, draws, chooser)
        assert hidden.node_labels is not None
        is_chosen = (hidden.node_labels != IGNORE) & torch.from_numpy(is_masked)
        labels = ids.masked_fill(~is_chosen[..., None] | (ids == NONE), IGNORE)
        changed = hidden.node_ids != batch.node_ids
        return hidden.replace(
            extra_ids={**batch.extra_ids, SENSES: ids.masked_fill(changed[..., None], NONE)},
            extra_labels={**(batch.extra_labels or {}), SENSES: labels},
        )

    def _is_asked(self, unit: NDArray[np.int64], pieces: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each node's whole word is long enough, and no function word, `[node]`."""
        _, inverse, sizes = np.unique(unit, return_inverse=True, return_counts=True)
        lengths = np.zeros(len(sizes), np.int64)
        np.add.at(lengths, inverse, self.lengths[pieces])
        is_whole = (sizes == 1)[inverse]
        is_long: NDArray[np.bool_] = (lengths > self.options.short)[inverse]
        is_long &= ~(is_whole & self.is_function[pieces])
        return is_long


def letters(tokenizer: PreTrainedTokenizerBase) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """How many characters each word piece adds to its word, and whether it is a function word."""
    vocabulary = tokenizer.get_vocab()
    n_pieces = max(vocabulary.values()) + 1
    lengths, is_function = np.zeros(n_pieces, np.int64), np.zeros(n_pieces, np.bool_)
    for piece, index in vocabulary.items():
        piece_text = piece.removeprefix("##").lstrip("\u0120\u2581")
        lengths[index], is_function[index] = len(piece_text), piece_text.lower() in FUNCTION_WORDS
    return lengths, is_function


def prefer_single(
    unit: NDArray[np.int64],
    n_senses: NDArray[np.int64],
    options: SensesOptions,
    draws: np.random.Generator,
) -> NDArray[np.int64]:
    """As `choose`, but words of one sense first; `unit`, `n_senses` and the result are `[node]`."""
    if not len(unit):
        return unit
    _, first, inverse, sizes = np.unique(
        unit, return_index=True, return_inverse=True, return_counts=True
    )
    quota = max(1, round(len(unit) * options.probability))
    is_taken = np.zeros(len(sizes), np.bool_)
    single = draws.permutation(np.flatnonzero(n_senses[first] == 1))
    n_chosen = 0
    for word in single[: round(options.single_share * len(single))].tolist():
        if n_chosen + sizes[word] <= options.most_single * quota:
            is_taken[word] = True
            n_chosen += int(sizes[word])
    rest = draws.permutation(np.flatnonzero(~is_taken)).tolist()
    for word in rest:
        if not n_chosen or n_chosen + sizes[word] <= quota:
            is_taken[word] = True
            n_chosen += int(sizes[word])
    numbers = np.where(is_taken, np.arange(len(sizes)), -1)
    return numbers[inverse]


class Senses(Objective):
    """Scores of the senses: products of a word's state with their vectors, and a bias each."""

    def __init__(self, *, width: int, embedding: int, n_senses: int, transform: bool) -> None:
        super().__init__()
        self.head = VocabularyHead(
            width=width, embedding=embedding, n_entries=n_senses, transform=transform
        )

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: SensesOptions) -> Self:
        """Raises `ConfigError` for an encoder without a table of senses."""
        if not isinstance(encoder, SenseBERT):
            raise ConfigError(f"senses needs SenseBERT; {type(encoder).__name__} has no senses")
        vectors = encoder.senses.vectors
        width, embedding = encoder.host.config.hidden_size, vectors.embedding_dim
        return cls(
            width=width,
            embedding=embedding,
            n_senses=vectors.num_embeddings,
            transform=options.transform or width != embedding,
        )

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`senses`: the mean of both losses' sum over words with labels, 0 without any."""
        labels = (batch.extra_labels or {}).get(SENSES)
        if labels is None:
            return {}
        assert isinstance(encoder, SenseBERT)
        chosen = places(lambda each: (each != IGNORE).any(-1), labels)
        logits = self.head(at(output.node_states, chosen), encoder.senses.vectors.weight)
        together, each = allowed_losses(logits, at(labels, chosen))
        return {SENSES: mean_of((together + each).sum(), len(logits))}
