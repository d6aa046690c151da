"""Masked language modelling on any encoder (`mlm`).

Devlin et al. 2019 (BERT, NAACL), section 3.1: 15 % of the pieces are chosen, of which 80 % are
masked, 10 % replaced and 10 % left. Liu et al. 2019 (RoBERTa), section 4.1: chosen anew in every
epoch. Whole words: BERT's release of May 2019. Spans: Joshi et al. 2020 (SpanBERT, TACL), section
3.1. Where we differ: random replacements are never special tokens, and a span ends where it would
exceed the quota (the released code cuts a word there).

Axis legend: batch, node, chosen (nodes that are scored), width, embedding, word (rows of the word
table), piece (rows of the tokenizer's vocabulary).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind
from kept.host_families import layer_norm_eps
from kept.layers.means import mean_of
from kept.layers.transform import Transform
from kept.objectives.base import Objective, Preparation, PreparationContext, labelled_nodes
from kept.objectives.word_starts import word_starts
from kept.outputs import KnowledgeOutput

Chooser = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
STRATEGIES = ("piece", "whole_word", "span")
LONGEST_SPAN, SPAN_STOP = 10, 0.2
"""Longest span in words, and the chance to end after each word (SpanBERT): 3.8 words on average."""


@dataclass(frozen=True, kw_only=True)
class MaskedWordsOptions:
    """Share of the pieces chosen, their corruption, and what is chosen together.

    `strategy`: "piece" chooses single pieces; "whole_word" all pieces of a word, each corrupted on
    its own; "span" runs of whole words that are corrupted alike. With `spare_mentions` no piece of
    a mention that the view shows is chosen (WKLM).
    """

    probability: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    strategy: str = "piece"
    spare_mentions: bool = field(default=False, repr=False)  # keeps older fingerprints

    def __post_init__(self) -> None:
        faults = []
        if not 0 < self.probability <= 1:
            faults.append(f"probability {self.probability}: above 0, to 1")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            faults.append(
                f"mask_share {self.mask_share} + random_share {self.random_share}: from 0 to 1"
            )
        if self.strategy not in STRATEGIES:
            faults.append(f"strategy {self.strategy!r}: one of {', '.join(STRATEGIES)}")
        if faults:
            raise ConfigError("objective mlm: " + "; ".join(faults))


class MaskedWordsPreparation(Preparation):
    """Masks words of a sample anew in every epoch; at least one wherever there is any.

    Only WORD nodes that are not special tokens are chosen; other kinds and labels that another
    objective has set stay as they are.
    """

    def __init__(
        self,
        options: MaskedWordsOptions,
        *,
        mask_id: int,
        special_ids: tuple[int, ...],
        n_pieces: int,
        starts: NDArray[np.bool_] | None,
    ) -> None:
        self.options, self.mask_id, self.n_pieces = options, mask_id, n_pieces
        self.special_ids, self.starts = special_ids, starts

    @classmethod
    def of(cls, options: MaskedWordsOptions, world: PreparationContext) -> Self:
        """Raises `ConfigError` for a tokenizer without a mask token."""
        tokenizer = world.tokenizer
        if tokenizer.mask_token_id is None:
            raise ConfigError(f"mlm needs a mask token; {type(tokenizer).__name__} has none")
        return cls(
            options,
            mask_id=tokenizer.mask_token_id,
            special_ids=tuple(sorted(set(tokenizer.all_special_ids))),
            n_pieces=max(tokenizer.get_vocab().values()) + 1,
            starts=None if options.strategy == "piece" else word_starts(tokenizer),
        )

    @property
    def fingerprint(self) -> str:
        starts = b"" if self.starts is None else np.packbits(self.starts).tobytes()
        digest = hashlib.sha256(starts).hexdigest()
        spares = " spares mentions" if self.options.spare_mentions else ""
        return f"{self.options} {self.mask_id} {self.special_ids} {self.n_pieces} {digest}{spares}"

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        return self.hide(batch, draws, lambda unit, _: choose(unit, self.options, draws))

    def hide(
        self, batch: KnowledgeBatch, draws: np.random.Generator, chooser: Chooser
    ) -> KnowledgeBatch:
        """`mark` with another choice of nodes.

        `chooser` gets the unit and the place of every eligible node, and returns what `choose`
        does.
        """
        ids = batch.node_ids[0].cpu().numpy().copy()
        labels = np.full_like(ids, IGNORE)
        if batch.node_labels is not None:
            labels = batch.node_labels[0].cpu().numpy().copy()
        is_word = (batch.node_kinds == NodeKind.WORD)[0] & batch.node_mask[0]
        words = np.flatnonzero(is_word.cpu().numpy())
        free = ~np.isin(ids[words], self.special_ids) & (labels[words] == IGNORE)
        if self.options.spare_mentions and batch.mention_spans is not None:
            for start, stop in batch.mention_spans[0].tolist():
                free &= (words < start) | (words >= stop)
        unit = self._units(ids[words], batch.positions[0].cpu().numpy()[words], free)
        units = chooser(unit[free], words[free])
        nodes = words[free][units >= 0]
        labels[nodes] = ids[nodes]
        ids[nodes] = self._hidden(ids[nodes], units[units >= 0], draws)
        device = batch.node_ids.device
        return batch.replace(
            node_ids=torch.from_numpy(ids).to(device)[None],
            node_labels=torch.from_numpy(labels).to(device)[None],
        )

    def _units(
        self, ids: NDArray[np.int64], positions: NDArray[np.int64], free: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Number of the unit that each word node belongs to, rising along the text, `[node]`.

        A piece goes on with a word only next to an ordinary piece at the position before it.
        """
        if self.starts is None:
            return np.arange(len(ids))
        begins = self.starts[ids] | ~free
        begins[:1] = True
        begins[1:] |= ~free[:-1] | (positions[1:] != positions[:-1] + 1)
        return np.cumsum(begins)

    def _hidden(
        self, ids: NDArray[np.int64], units: NDArray[np.int64], draws: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return what replaces the chosen pieces: the mask, a random ordinary piece, themselves."""
        action, replacement = draws.random((2, len(ids)))
        if self.options.strategy == "span":
            _, first, inverse = np.unique(units, return_index=True, return_inverse=True)
            action = action[first][inverse]
        other = (replacement * (self.n_pieces - len(self.special_ids))).astype(np.int64)
        for special in self.special_ids:
            other += other >= special
        masked = action < self.options.mask_share
        replaced = action < self.options.mask_share + self.options.random_share
        return np.where(masked, self.mask_id, np.where(replaced, other, ids))


def choose(
    unit: NDArray[np.int64], options: MaskedWordsOptions, draws: np.random.Generator
) -> NDArray[np.int64]:
    """Choose nodes to predict: the number of the choice that each belongs to, -1 for none,
    `[node]`.

    `unit [node]` says which nodes go together (numbers rise). The quota is `probability` of the
    nodes, rounded, and at least one; a unit that would exceed it is skipped, except the first.
    """
    if not len(unit):
        return unit
    _, sizes = np.unique(unit, return_counts=True)
    quota = max(1, round(len(unit) * options.probability))
    order = np.full(len(sizes), -1, np.int64)
    n_chosen = 0
    for choice, candidate in enumerate(draws.permutation(len(sizes)).tolist()):
        length = 1
        if options.strategy == "span":
            length = span_length(draws)
        for member in range(candidate, min(candidate + length, len(sizes))):
            size = int(sizes[member])
            if order[member] >= 0 or (n_chosen and n_chosen + size > quota):
                break
            order[member] = choice
            n_chosen += size
        if n_chosen >= quota:
            break
    return np.repeat(order, sizes)


def span_length(draws: np.random.Generator) -> int:
    """Sample a length in words from the geometric distribution, at most `LONGEST_SPAN`."""
    share = draws.random() * (1 - (1 - SPAN_STOP) ** LONGEST_SPAN)
    return max(1, math.ceil(math.log1p(-share) / math.log1p(-SPAN_STOP)))


class MaskedWords(Objective):
    """Cross entropy of the masked words against the host's own word table, tied, with a bias.

    The head of BERT (`cls.predictions`), RoBERTa and fairseq (`lm_head`); for a host whose word
    table is narrower than its layers (ELECTRA), `transform` leads from one to the other.
    """

    def __init__(self, *, width: int, embedding: int, n_words: int, epsilon: float) -> None:
        super().__init__()
        self.transform = Transform(width=width, embedding=embedding, epsilon=epsilon)
        self.bias = nn.Parameter(torch.zeros(n_words))

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: MaskedWordsOptions) -> Self:
        words, host = hosts.word_table(encoder.host), encoder.host.config
        return cls(
            width=host.hidden_size,
            embedding=words.embedding_dim,
            n_words=words.num_embeddings,
            epsilon=layer_norm_eps(host),
        )

    def logits(
        self, states: Float[Tensor, "*chosen width"], words: Float[Tensor, "word embedding"]
    ) -> Float[Tensor, "*chosen word"]:
        """Scores of every word piece; `words` is the host's table."""
        return F.linear(self.transform(states), words, self.bias)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`mlm`: the mean over labelled WORD nodes; 0 where labels exist but none at a word."""
        if batch.node_labels is None:
            return {}
        chosen = labelled_nodes(batch, NodeKind.WORD)
        states = output.node_states.flatten(0, 1).index_select(0, chosen)
        logits = self.logits(states, hosts.word_table(encoder.host).weight)
        labels = batch.node_labels.flatten().index_select(0, chosen)
        total = F.cross_entropy(logits, labels, reduction="sum")
        return {"mlm": mean_of(total, len(logits))}
