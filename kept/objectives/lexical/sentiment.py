"""Part of speech and polarity of masked words, and a text's rating (`sentiment`).

Ke et al. 2020, "SentiLARE" (EMNLP), section 3.2, label-aware masked language modelling: words with
a polarity are masked twice as often; a masked word's labels are masked with it, and predicted, too.
The rating of a text is input with its words (early fusion), or predicted at the first node (late
supervision).

Axis legend: batch, node, slot, unit (a word's pieces).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kept.batches import IGNORE, NONE, KnowledgeBatch
from kept.batches.host_copies import at, places
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.lexical.sentilare import SentiLARE
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind
from kept.graphs.sentiment import NEUTRAL
from kept.graphs.views.sentilare import PART, POLARITY, RATING
from kept.host_families import layer_norm_eps
from kept.layers.means import mean_of
from kept.layers.vocabularies import VocabularyHead, allowed_losses
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.objectives.masked_words import MaskedWordsOptions, MaskedWordsPreparation
from kept.outputs import KnowledgeOutput
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import read_lines

KEY = 24
"""Word pieces from the start of a text by which its rating is looked up."""


@dataclass(frozen=True, kw_only=True)
class SentimentOptions:
    """How often words and ratings are masked.

    `neutral`, `polar`: probability of masking a neutral word, and one with a polarity; `mask_share`
    and `random_share` as of `mlm`, the same for all pieces of a word. `ratings` is a file of lines
    rating, TAB, text (1 to the encoder's `n_ratings`) about the texts that are trained on; `late`
    is the share of texts whose rating is predicted, not given.
    """

    neutral: float = 0.15
    polar: float = 0.3
    mask_share: float = 0.8
    random_share: float = 0.1
    ratings: str | None = None
    late: float = 0.2

    def __post_init__(self) -> None:
        shares = {name: getattr(self, name) for name in ("neutral", "polar", "late")}
        if faults := [f"{n} {v}: from 0 to 1" for n, v in shares.items() if not 0 <= v <= 1]:
            raise ConfigError("objective sentiment: " + "; ".join(faults))
        self.words()

    def words(self) -> MaskedWordsOptions:
        """The options of masking words, all pieces of a word alike; raises `ConfigError`."""
        return MaskedWordsOptions(
            mask_share=self.mask_share, random_share=self.random_share, strategy="span"
        )


class SentimentPreparation(Preparation):
    """Masks words instead of `mlm`, with their labels, and the rating of some texts."""

    replaces: ClassVar[tuple[str, ...]] = ("mlm",)

    def __init__(
        self,
        options: SentimentOptions,
        words: MaskedWordsPreparation,
        ratings: Mapping[tuple[int, ...], int],
    ) -> None:
        self.options, self.words, self.ratings = options, words, ratings

    @classmethod
    def of(cls, options: SentimentOptions, world: PreparationContext) -> Self:
        words = MaskedWordsPreparation.of(options.words(), world)
        ratings = {}
        for text, rating in read_ratings(options.ratings):
            pieces = world.tokenizer(text, add_special_tokens=False)["input_ids"]
            ratings[tuple(pieces[:KEY])] = rating
        return cls(options, words, ratings)

    @property
    def cautions(self) -> list[str]:
        if self.ratings:
            return []
        caution = (
            "objective sentiment has no ratings of texts, so that its loss `rating` is always 0 "
            "and the table of ratings learns nothing; objectives.sentiment.ratings names a file of "
            "them, a rating, TAB and a text in each line"
        )
        return [caution]

    @property
    def fingerprint(self) -> str:
        ratings = hashlib.sha256(repr(sorted(self.ratings.items())).encode()).hexdigest()
        return f"{self.options} {self.words.fingerprint} {ratings}"

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        if batch.extra_ids is None or POLARITY not in batch.extra_ids:
            raise BatchError("sentiment reads words with a polarity: use SentiLAREView")
        signs = batch.extra_ids[POLARITY][0, :, 0].numpy()

        def chooser(unit: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
            if not len(unit):
                return unit
            _, first, inverse = np.unique(unit, return_index=True, return_inverse=True)
            is_polar = ~np.isin(signs[nodes[first]], (NONE, NEUTRAL))
            is_hidden = hides(draws.random(len(first)), is_polar, self.options)
            return np.where(is_hidden, np.arange(len(first)), -1)[inverse]

        hidden = self.words.hide(batch, draws, chooser)
        marked = with_labels(hidden, hidden.node_ids != batch.node_ids)
        special = torch.tensor(self.words.special_ids)
        is_word = (batch.node_kinds == NodeKind.WORD) & ~torch.isin(batch.node_ids, special)
        pieces = batch.node_ids[0][is_word[0]].tolist()
        rating = self.ratings.get(tuple(pieces[:KEY]))
        is_late = bool(draws.random() < self.options.late)
        return with_rating(marked, is_word, rating, is_late)


def hides(
    draws: NDArray[np.float64], is_polar: NDArray[np.bool_], options: SentimentOptions
) -> NDArray[np.bool_]:
    """Return which words are chosen, one random number each, `[unit]`."""
    return draws < np.where(is_polar, options.polar, options.neutral)


def with_labels(hidden: KnowledgeBatch, changed: Tensor) -> KnowledgeBatch:
    """Make the labels of words in `node_labels` targets; `changed` words lose them as input."""
    assert hidden.node_labels is not None
    assert hidden.extra_ids is not None
    is_hidden = (hidden.node_labels != IGNORE)[..., None]
    ids = {name: hidden.extra_ids[name] for name in (PART, POLARITY)}
    labels = {
        name: node_ids.masked_fill(~is_hidden | (node_ids == NONE), IGNORE)
        for name, node_ids in ids.items()
    }
    inputs = {
        name: node_ids.masked_fill(changed[..., None], NONE) for name, node_ids in ids.items()
    }
    return hidden.replace(
        extra_ids={**hidden.extra_ids, **inputs},
        extra_labels={**(hidden.extra_labels or {}), **labels},
    )


def with_rating(
    batch: KnowledgeBatch, is_word: Tensor, rating: int | None, is_late: bool
) -> KnowledgeBatch:
    """Add a `rating` (from 1; None: unknown) to a text's words, or if `is_late` as a target."""
    ids = torch.full_like(batch.node_ids, NONE)
    labels = torch.full_like(batch.node_ids, IGNORE)
    if rating is not None and is_late:
        labels[:, 0] = rating - 1
    elif rating is not None:
        ids[is_word] = rating - 1
    return batch.replace(
        extra_ids={**(batch.extra_ids or {}), RATING: ids[..., None]},
        extra_labels={**(batch.extra_labels or {}), RATING: labels[..., None]},
    )


def read_ratings(path: str | Path | None) -> list[tuple[str, int]]:
    """Texts and their ratings, whole numbers from 1; none without a file.

    Raises `SourceError` for a file that is not there, `DamageError` at another line.
    """
    if path is None:
        return []
    file, report, ratings = Path(path), DamageReport(), []
    if not file.is_file():
        raise SourceError(f"{file} is not a file; give one of lines rating, TAB, text")
    for number, offset, line in read_lines(file, report):
        rating, tab, text = line.decode().partition("\t")
        if tab and rating.isdecimal() and int(rating) > 0:
            ratings.append((text, int(rating)))
        elif line.strip():
            report.reject(str(file), number, offset, "not a rating from 1, a TAB and a text", line)
    return ratings


class Sentiment(Objective):
    """Three heads, each tied to its table: parts of speech, polarities, ratings."""

    def __init__(self, heads: Mapping[str, VocabularyHead]) -> None:
        super().__init__()
        self.heads = nn.ModuleDict(heads)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: SentimentOptions) -> Self:
        """Raises `ConfigError` for an encoder without the three tables."""
        if not isinstance(encoder, SentiLARE):
            raise ConfigError(f"sentiment needs SentiLARE; {type(encoder).__name__} has no labels")
        host, heads = encoder.host.config, {}
        for name in (PART, POLARITY, RATING):
            n_entries, embedding = encoder.table(name).vectors.weight.shape
            heads[name] = VocabularyHead(
                width=host.hidden_size,
                embedding=embedding,
                n_entries=n_entries,
                epsilon=layer_norm_eps(host),
            )
        return cls(heads)

    def logits(self, name: str, states: Tensor, encoder: KnowledgeEncoder) -> Tensor:
        """Scores of the entries of the vocabulary `name`."""
        assert isinstance(encoder, SentiLARE)
        scores: Tensor = self.heads[name](states, encoder.table(name).vectors.weight)
        return scores

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`part`, `polarity`, `rating`: each the mean over its labels, 0 without any."""
        by_name = {}
        for name in (PART, POLARITY, RATING):
            labels = (batch.extra_labels or {}).get(name)
            if labels is not None:
                chosen = places(lambda each: each[..., 0] != IGNORE, labels)
                logits = self.logits(name, at(output.node_states, chosen), encoder)
                losses, _ = allowed_losses(logits, at(labels, chosen))
                by_name[name] = mean_of(losses.sum(), len(losses))
        return by_name
