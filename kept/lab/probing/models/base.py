"""`ClozeModel`: the interface of probed models, plain masked LMs and enriched ones.

Axis legend: sample, node, mask, word (rows of the word table), embedding.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.graphs.cuts import UNCUT
from kept.graphs.windows import TextWindow, around_targets
from kept.graphs.words import Words, encode_words
from kept.lab.probing.results import Mode

MAX_WORDS = 128
REMEDY = (
    "train one: kept pretrain --method none --objective mlm --host HOST --kg KG --text TEXTS "
    "--steps N --batch-size 32 -o FOLDER, and probe FOLDER"
)
AskedFacts = Literal["hidden", "shown", "none"]


@dataclass(frozen=True)
class Question:
    """A text with masks in the place of the answer, about `fact`. `key` seeds its sampled facts."""

    linked: LinkedText
    key: str
    fact: tuple[str, str, str] | None = None


@dataclass(frozen=True, eq=False)
class Sample:
    """A question as a model's input: `ids [node]`, the nodes of its masks, the rest in `body`.

    `asked_shown`: whether the input has a fact that joins the ends of the question's fact.
    """

    ids: Int[Tensor, " node"]
    masks: tuple[int, ...]
    body: Any = None
    asked_shown: bool = False

    def filled(self, pieces: Sequence[int], mask: int) -> Sample:
        """The sample with `pieces` in its masks, except at the node `mask`, which stays one."""
        ids = self.ids.clone()
        ids[list(self.masks)] = torch.tensor(list(pieces)).to(ids)
        ids[mask] = self.ids[mask]
        return dataclasses.replace(self, ids=ids, masks=(mask,))

    def answered(self, pieces: Sequence[int]) -> Sample:
        """The sample with `pieces` in all of its masks."""
        ids = self.ids.clone()
        ids[list(self.masks)] = torch.tensor(list(pieces)).to(ids)
        return dataclasses.replace(self, ids=ids)


class ClozeModel(ABC):
    """Abstract: questions to samples, samples to states, and the output embedding.

    `mode`: "weights" without any graph or link, "graph" with both. `max_words`: how many pieces
    are read of a text, None for all.
    """

    max_words: int | None = None

    name: str
    method: str
    mode: Mode
    asked_facts: AskedFacts
    tokenizer: Any

    @abstractmethod
    def samples(self, questions: Sequence[Question]) -> list[Sample]:
        """One sample per question, in order."""

    @abstractmethod
    def states(self, samples: Sequence[Sample]) -> Float[Tensor, "sample mask embedding"]:
        """The inputs of the output embedding at the masks alone; all have as many masks."""

    @abstractmethod
    def words(self) -> tuple[Float[Tensor, "word embedding"], Float[Tensor, " word"] | None]:
        """The output embedding over words, and its bias."""

    def truths(
        self, samples: Sequence[Sample], *, first_word: float = 0.0
    ) -> Float[Tensor, " sample"]:
        """How true the model holds what stands at each sample's `masks` (`models.truth.truths`).

        Raises `ConfigError` for a model that was not trained to tell.
        """
        raise ConfigError(
            f"{self.name} is not a run of kept pretrain with --objective mention_truth, "
            f"which is needed to judge whether a mention is true; leave out --truth"
        )


def words_around_masks(
    texts: Sequence[LinkedText], tokenizer: Any, max_words: int
) -> tuple[list[LinkedText], list[Words]]:
    """Return the pieces of each text: its first ones, or a window around masks behind these.

    The text has the links that lie in its window. A pair keeps its first pieces, and so does a text
    whose masks are further apart.
    """
    linked = list(texts)
    encoded = encode_words(
        [text.text for text in texts],
        tokenizer,
        max_words=max_words,
        pair_starts=[text.pair_start for text in texts],
    )
    for i, (text, words) in enumerate(zip(texts, encoded, strict=True)):
        ids = words.ids[words.spans[:, 0] >= 0]
        is_read = (ids == tokenizer.mask_token_id).any() and ids[-1] != tokenizer.mask_token_id
        if len(words.ids) < max_words or is_read or text.pair_start is not None:
            continue
        (whole,) = encode_words([text.text], tokenizer, max_words=UNCUT)
        is_mask = whole.ids == tokenizer.mask_token_id
        masks = [Mention(*span) for span in whole.spans[is_mask].tolist()]
        window = around_targets(whole, masks, max_words=max_words)
        if window is not None and len(whole.ids) > max_words:
            linked[i], encoded[i] = TextWindow(window, 0, UNCUT).text(text), window
    return linked, encoded


def mask_places(ids: Int[Tensor, " node"], tokenizer: Any) -> tuple[int, ...]:
    """The nodes of `ids` that are masks, in order."""
    positions: list[int] = (ids == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    return tuple(positions)
