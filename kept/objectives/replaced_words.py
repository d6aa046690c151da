"""Replaced words: a generator fills masked words, and the encoder says which are not the text's.

Clark et al. 2020, "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators"
(ICLR), section 2; the released loss weighs the second 50 times the first (`objective_weights`).
Where we differ: generator and discriminator share all their weights but the heads, one of the
choices of section 3.2, so that any encoder serves as both. Sampling reads one number per node that
the data draw: it depends on neither padding nor neighbours.

Axis legend: batch, node, chosen (masked nodes), width, word (rows of the word table).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.graphs.graph import NodeKind
from kept.layers.means import mean_of
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.objectives.masked_words import MaskedWords, MaskedWordsOptions, MaskedWordsPreparation
from kept.outputs import KnowledgeOutput

SAMPLES = "replaced_words"
"""In `extra_labels`: the number of each masked node by which its replacement is sampled."""
N_LEVELS = 1 << 24
"""Samples are levels of the cumulative distribution: integers below this, over this."""


@dataclass(frozen=True, kw_only=True)
class ReplacedWordsOptions:
    """Which words are masked for the generator; all of them become the mask."""

    probability: float = 0.15
    strategy: str = "piece"

    def __post_init__(self) -> None:
        self.words()

    def words(self) -> MaskedWordsOptions:
        """The options of masking words; raises `ConfigError`."""
        return MaskedWordsOptions(
            probability=self.probability, mask_share=1.0, random_share=0.0, strategy=self.strategy
        )


class ReplacedWordsPreparation(Preparation):
    """Masks words instead of `mlm`, and draws the number that samples each replacement."""

    replaces: ClassVar[tuple[str, ...]] = ("mlm",)

    def __init__(self, words: MaskedWordsPreparation) -> None:
        self.words = words

    @classmethod
    def of(cls, options: ReplacedWordsOptions, world: PreparationContext) -> Self:
        """Raises `ConfigError` for a tokenizer without a mask token."""
        return cls(MaskedWordsPreparation.of(options.words(), world))

    @property
    def fingerprint(self) -> str:
        return f"replaced_words {self.words.fingerprint}"

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        marked = self.words.mark(batch, draws)
        levels = torch.from_numpy(draws.integers(N_LEVELS, size=marked.node_ids.shape))
        is_masked = marked.node_ids != batch.node_ids
        levels = levels.to(batch.node_ids.device).masked_fill(~is_masked, IGNORE)
        extra = {**(marked.extra_labels or {}), SAMPLES: levels[..., None]}
        return marked.replace(extra_labels=extra)


class ReplacedWords(Objective):
    """A head over words, and dense, gelu and a score per node: is it the text's own?"""

    def __init__(self, generator: MaskedWords, *, width: int) -> None:
        super().__init__()
        self.generator = generator
        self.dense, self.score = nn.Linear(width, width), nn.Linear(width, 1)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: ReplacedWordsOptions) -> Self:
        generator = MaskedWords.for_encoder(encoder, options.words())
        return cls(generator, width=encoder.host.config.hidden_size)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`replaced_words_mlm`: the generator's mean over masked words. `replaced_words`: the mean
        binary cross entropy over all words, against whether the sample differs from the text.
        """
        levels = (batch.extra_labels or {}).get(SAMPLES)
        if levels is None or batch.node_labels is None:
            return {}
        is_masked = levels[..., 0] != IGNORE
        gold = batch.node_labels[is_masked]
        words = hosts.word_table(encoder.host).weight
        logits = self.generator.logits(output.node_states[is_masked], words)
        total = F.cross_entropy(logits, gold, reduction="sum")
        sampled = sample(logits.detach(), levels[is_masked][:, 0])
        ids = batch.node_ids.clone()
        ids[is_masked] = sampled
        is_replaced = torch.zeros_like(is_masked)
        is_replaced[is_masked] = sampled != gold
        states = encoder(batch.replace(node_ids=ids)).node_states
        is_word = (batch.node_kinds == NodeKind.WORD) & batch.node_mask
        of_words = F.binary_cross_entropy_with_logits(
            self.scores(states[is_word]), is_replaced[is_word].to(states.dtype), reduction="sum"
        )
        return {
            "replaced_words_mlm": mean_of(total, len(gold)),
            "replaced_words": mean_of(of_words, is_word.sum()),
        }

    def scores(self, states: Float[Tensor, "*node width"]) -> Float[Tensor, "*node"]:
        """The logit that a node's word was replaced."""
        return self.score(F.gelu(self.dense(states))).squeeze(-1)


def sample(
    logits: Float[Tensor, "chosen word"], levels: Int[Tensor, " chosen"]
) -> Int[Tensor, " chosen"]:
    """Sample a word per row: the first whose cumulative probability exceeds the level.

    >>> sample(torch.tensor([[0.0, 0.0]]).expand(2, 2), torch.tensor([0, N_LEVELS - 1])).tolist()
    [0, 1]
    """
    cumulative = logits.double().softmax(-1).cumsum(-1)
    rows = torch.searchsorted(cumulative, levels[:, None].double() / N_LEVELS, right=True)
    return rows[:, 0].clamp_max(logits.shape[-1] - 1)
