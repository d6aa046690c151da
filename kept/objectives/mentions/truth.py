"""Mention truth: some mentions are replaced by others of their type, which the model detects.

Xiong et al. 2020, "Pretrained Encyclopedia: Weakly Supervised Knowledge-Pretrained Language Model"
(WKLM, ICLR), section 2; released code xwhan/fairseq-wklm (`knowledge_pretrain`). The paper reads
the words on both sides of a mention; the released code has three ways to read it.

Axis legend: batch, node, mention, chosen (mentions that are scored), width, class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.batches.host_copies import at, places
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.views.base import View
from kept.graphs.views.linked_words import LinkedWordsView
from kept.host_families import layer_norm_eps
from kept.layers.means import mean_of
from kept.layers.transform import Transform
from kept.objectives.base import Objective, Preparation, PreparationContext, Rewritten
from kept.objectives.masked_words import MaskedWords
from kept.objectives.mentions.replacement import TRUE, Types, replace_mentions
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

BOUNDARY, FIRST, ENDS = "boundary", "first", "ends"
READS = (BOUNDARY, FIRST, ENDS)
N_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class MentionTruthOptions:
    """How mentions are replaced, and how they are read.

    `share`: the probability of replacing a mention; `types`: the types of entities (see
    `replacement.Types`). `read`: "boundary" the nodes before and after a mention; "first" its first
    node; "ends" its first and last, each with a loss of its own. `n_layers` layers of the host's
    kind, new, stand between the last state and what is read. `zero_single`: as released, the first
    node of a mention of one node reads as zeros.
    """

    share: float = 0.5
    types: str | None = None
    read: str = BOUNDARY
    n_layers: int = 0
    zero_single: bool = False

    def __post_init__(self) -> None:
        faults = []
        if not 0 < self.share <= 1:
            faults.append(f"share {self.share}: above 0, to 1")
        if self.read not in READS:
            faults.append(f"read {self.read!r}: one of {', '.join(READS)}")
        if self.n_layers < 0:
            faults.append(f"n_layers {self.n_layers}: 0 or more")
        if faults:
            raise ConfigError("objective mention_truth: " + "; ".join(faults))


class MentionTruthPreparation(Preparation):
    """Replaces mentions in the text; reads a `LinkedWordsView`."""

    rewrites: ClassVar[bool] = True
    remedy = (
        "no linked entity shares a type with another one; give a graph with types, or "
        "objectives.mention_truth.types: roles, or a relation whose tails are types"
    )

    def __init__(self, options: MentionTruthOptions, graph: KnowledgeGraph) -> None:
        self.options, self.graph = options, graph
        self.types = Types(graph, options.types)

    @classmethod
    def of(cls, options: MentionTruthOptions, world: PreparationContext) -> Self:
        return cls(options, world.graph)

    def require_view(self, view: View) -> None:
        if not isinstance(view, LinkedWordsView):
            raise ConfigError(
                "objective mention_truth needs mentions, which "
                f"{type(view).__name__} does not mark: leave out the objective, or use a "
                f"method that reads linked words, such as wklm"
            )

    @property
    def fingerprint(self) -> str:
        return f"mention_truth {self.options.share} {self.types.source} {self.graph.content_hash}"

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """Return the share of texts with an entity that another one can replace."""
        n_read = sum(
            any(map(self.types.of, entities[entities >= 0].tolist())) for entities in texts
        )
        return n_read / len(texts) if texts else 0.0

    def rewrite(self, text: LinkedText, draws: np.random.Generator) -> Rewritten:
        return replace_mentions(text, self.graph, self.types, share=self.options.share, draws=draws)


class MentionTruth(Objective):
    """Two classes for a mention: replaced (0) or true (1).

    It reads the last states under the transform of `mlm`, where that objective is trained too, as
    in the released code; without it, or behind layers of its own, under a transform of its own.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        transform: Transform | None,
        *,
        width: int,
        read: str,
        zero_single: bool,
    ) -> None:
        super().__init__()
        self.read, self.zero_single = read, zero_single
        self.layers = nn.ModuleList(layers)
        self.transform = transform
        self.classes = nn.ModuleList(
            nn.Linear(2 * width if read == BOUNDARY else width, N_CLASSES)
            for _ in range(2 if read == ENDS else 1)
        )
        self._words: tuple[Transform, ...] = ()  # of `mlm`; in a tuple, so that it is no submodule

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: MentionTruthOptions) -> Self:
        host = encoder.host.config
        width = hosts.word_table(encoder.host).embedding_dim
        is_shared = "mlm" in encoder.config.objectives and not options.n_layers
        transform = Transform(width=host.hidden_size, embedding=width, epsilon=layer_norm_eps(host))
        return cls(
            [hosts.new_layer(encoder.host) for _ in range(options.n_layers)],
            None if is_shared else transform,
            width=width,
            read=options.read,
            zero_single=options.zero_single,
        )

    def join(self, others: Mapping[str, Objective]) -> None:
        words = others.get("mlm")
        if self.transform is None and isinstance(words, MaskedWords):
            self._words = (words.transform,)

    def features(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Float[Tensor, "batch node width"]:
        """The states that mentions are read from."""
        states = output.node_states
        if self.layers:
            step = hosts.stepper(
                encoder.host, batch.visibility, batch.node_mask, positions=batch.positions
            )
            for layer in self.layers:
                states = step(layer, states)
        transform = self._words[0] if self.transform is None else self.transform
        return transform(states)

    def logits(
        self, features: Float[Tensor, "batch node width"], spans: Int[Tensor, "batch mention 2"]
    ) -> tuple[Float[Tensor, "batch mention class"], ...]:
        """Scores of the two classes; with "ends" of the first node and of the last."""
        n_nodes = features.shape[1]
        starts, stops = spans[..., 0], spans[..., 1]
        if self.read == BOUNDARY:
            sides = (starts - 1).clamp(min=0), stops.clamp(max=n_nodes - 1)
            both = torch.cat([_at(features, side) for side in sides], dim=-1)
            return (self.classes[0](both),)
        first = _at(features, starts)
        if self.zero_single:
            first = first.masked_fill((stops - starts == 1)[..., None], 0)
        if self.read == FIRST:
            return (self.classes[0](first),)
        last = _at(features, (stops - 1).clamp(min=0))
        return self.classes[0](first), self.classes[1](last)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Return the mean over labelled mentions, 0 where there is none; with "ends" two losses.

        With `mention_weights` mentions are weighted by their link's confidence.
        """
        if batch.mention_classes is None or batch.mention_spans is None:
            return {}
        labels = batch.mention_classes
        chosen = places(lambda each: each != IGNORE, labels)
        scores = self.logits(self.features(output, batch, encoder), batch.mention_spans)
        names = ("mention_first", "mention_last") if self.read == ENDS else ("mention_truth",)
        losses = {}
        for name, logits in zip(names, scores, strict=True):
            each = F.cross_entropy(at(logits, chosen), at(labels, chosen), reduction="none")
            if batch.mention_weights is not None:
                each = each * at(batch.mention_weights, chosen)
            losses[name] = mean_of(each.sum(), len(chosen))
        return losses

    def chance_true(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Float[Tensor, "batch mention"]:
        """p(true) of every mention; with "ends" the mean over both."""
        assert batch.mention_spans is not None
        scores = self.logits(self.features(output, batch, encoder), batch.mention_spans)
        return torch.stack([logits.softmax(-1)[..., TRUE] for logits in scores]).mean(0)


def _at(
    features: Float[Tensor, "batch node width"], positions: Int[Tensor, "batch mention"]
) -> Float[Tensor, "batch mention width"]:
    return features.gather(1, positions[..., None].expand(-1, -1, features.shape[2]))
