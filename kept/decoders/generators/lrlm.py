"""Latent relation language models: each word is written alone, or a span of words says a fact.

Hayashi et al. 2020, "Latent Relation Language Models" (AAAI), section 3: at each node a choice
between the vocabulary and the topic's facts; the probability of the text is the sum over all ways
of cutting it into words and spans (equations 4 to 7), computed by a forward recursion. The reader
always reads the words themselves. Released code: neulab/lrlm.

Where we differ: a row whose article has ended adds nothing to the loss. The released program adds
the probability of padding at its first node there (`as_released`). The mean of the fact vectors is
over the facts that there are; the released program divides by the most that any row of the batch
has (`mean_of_batch`), so that a row's numbers depend on the others.

Axis legend: batch, node, width, fact, alias (of a fact), word (of the vocabulary), span (that ends
at a node), choice (word or relation).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from kept.decoders import check_decoder
from kept.decoders.generators.lrlm_articles import Segment
from kept.decoders.generators.transformer_xl import TransformerXL, TransformerXLConfig
from kept.errors import BatchError

WORD, RELATION = 0, 1
N_SPECIAL = 2
"""Relations below 0 have this many vectors more than there are unknown relations."""


class Reader(Protocol):
    """What turns ids into states, with a memory from one segment to the next (None: the first)."""

    width: int

    def __call__(self, ids: Tensor, memory: Any) -> tuple[Tensor, Any]: ...


class LSTMReader(nn.Module):
    """Word vectors and a stack of LSTMs; memory is their last states, detached."""

    def __init__(self, n_words: int, word_width: int, width: int, n_layers: int) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(n_words, word_width)
        self.lstm = nn.LSTM(word_width, width, n_layers, batch_first=True)

    def forward(self, ids: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """States `[batch node width]`, and the memory."""
        states, after = self.lstm(self.embed(ids), memory)
        return states, tuple(part.detach() for part in after)


class TransformerXLReader(nn.Module):
    """Word vectors and a Transformer-XL."""

    def __init__(self, n_words: int, config: TransformerXLConfig) -> None:
        super().__init__()
        self.width = config.width
        self.embed = nn.Embedding(n_words, config.input_width)
        self.layers = TransformerXL(config)

    def forward(self, ids: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """States `[batch node width]`, and the memory."""
        states, after = self.layers(self.embed(ids), memory)
        return states, after


class HostReader(nn.Module):
    """A decoder host over its own word pieces, which reads the last `n_memory` ids once more.

    Raises `HostError` for a host that is not a decoder.
    """

    def __init__(self, host: PreTrainedModel, n_memory: int) -> None:
        super().__init__()
        check_decoder(host)
        self.host, self.n_memory = host, n_memory
        self.width = host.config.hidden_size

    def forward(self, ids: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """States `[batch node width]` of the new ids, and the last ids."""
        context = ids if memory is None else torch.cat([memory, ids], dim=1)
        states = self.host.base_model(input_ids=context, use_cache=False).last_hidden_state
        keep = max(0, context.shape[1] - self.n_memory)
        return states[:, -ids.shape[1] :], context[:, keep:]


class TwoLayers(nn.Module):
    """Linear, relu, linear."""

    def __init__(self, width: int, inner: int, out: int) -> None:
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(width, inner), nn.Linear(inner, out)

    def forward(self, states: Tensor) -> Tensor:
        """`[... width]` to `[... out]`."""
        scores: Tensor = self.layer2(self.layer1(states).relu())
        return scores


class HostWords(nn.Module):
    """The host's own head; where states are wider than the host, through a linear layer first."""

    def __init__(self, host: PreTrainedModel, width: int) -> None:
        super().__init__()
        self.host = host
        host_width = host.config.hidden_size
        self.narrow = nn.Identity() if width == host_width else nn.Linear(width, host_width)

    def forward(self, states: Tensor) -> Tensor:
        """`[... width]` to scores of the host's word pieces."""
        scores: Tensor = self.host.get_output_embeddings()(self.narrow(states))
        return scores


class FactVectors(nn.Module):
    """Vectors of facts: that of the relation, then that of the object.

    Tables may be frozen. Relations below 0 have `N_SPECIAL + n_unknown` vectors of their own, at
    row `relation + 1` counted from the end, as released: -1 and the lowest share one.
    """

    def __init__(self, relations: nn.Embedding, objects: nn.Embedding, n_unknown: int) -> None:
        super().__init__()
        self.relations, self.objects = relations, objects
        self.special = nn.Parameter(torch.randn(N_SPECIAL + n_unknown, relations.embedding_dim))
        self.unknown_object = nn.Parameter(torch.randn(objects.embedding_dim))
        self.width = relations.embedding_dim + objects.embedding_dim

    def forward(
        self, relations: Int[Tensor, "batch fact"], objects: Int[Tensor, "batch fact"]
    ) -> Float[Tensor, "batch fact width"]:
        """Raises `BatchError` for a relation below those that there are vectors for."""
        lowest = -len(self.special) - 1
        if int(relations.min()) < lowest:
            raise BatchError(f"relation {int(relations.min())} is below {lowest}; count it in")
        special = self.special[(relations + 1).clamp(max=0) % len(self.special)]
        relation_vectors = self.relations(relations.clamp(min=0))
        relation = torch.where((relations < 0)[..., None], special, relation_vectors)
        object_ = self.objects(objects.clamp(min=0))
        object_ = torch.where((objects < 0)[..., None], self.unknown_object, object_)
        return torch.cat([relation, object_], dim=-1)


class AliasScorer(nn.Module):
    """How likely each name of an object is: vectors of names against a query from the state."""

    def __init__(self, vectors: Tensor, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(len(vectors), vectors.shape[1]).requires_grad_(False)
        self.vectors.weight.copy_(vectors)
        self.query = nn.Linear(width, vectors.shape[1])

    def forward(self, states: Tensor, segment: Segment) -> Float[Tensor, "batch node fact alias"]:
        """Log-probabilities over the names of each object, at each node."""
        scores = torch.einsum("bnw,bfaw->bnfa", self.query(states), self.vectors(segment.alias_ids))
        return _log_softmax(scores, segment.alias_mask[:, None].expand_as(scores))


def _log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Over the last axis, -inf where the mask is False, also in a row that has nothing."""
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, low).log_softmax(dim=-1).masked_fill(~mask, -torch.inf)


@dataclass(frozen=True, eq=False)
class LRLMOutput:
    """Every part of the probability of a segment, in natural logarithms."""

    states: Float[Tensor, "batch node width"]
    selector: Float[Tensor, "batch node choice"]
    words: Float[Tensor, "batch node word"]
    targets: Float[Tensor, "batch node"]
    relations: Float[Tensor, "batch node fact"]
    spans: Float[Tensor, "batch node span"]
    marginal: Float[Tensor, "batch node"]
    memory: Any

    @property
    def word_path(self) -> Float[Tensor, "batch node"]:
        """Each target written as a word: the choice and the word."""
        return self.selector[..., WORD] + self.targets

    def row_losses(self, lengths: Tensor, *, as_released: bool = False) -> Float[Tensor, " batch"]:
        """Minus the log-probability of each row; 0 for length 0 unless `as_released`."""
        last = (lengths - 1).clamp(min=0)
        losses = -self.marginal.gather(1, last[:, None])[:, 0]
        return losses if as_released else losses.masked_fill(lengths == 0, 0)


class LRLM(nn.Module):
    """A latent relation language model from its parts.

    `words` scores the vocabulary, `fact_query` makes what facts are compared with, both from
    states (with `knows` followed by the mean of the fact vectors). Without `aliases` the name that
    a span says is given, as in the paper's oracle.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        facts: FactVectors,
        words: nn.Module,
        fact_query: nn.Module,
        aliases: AliasScorer | None = None,
        knows: bool = False,
        mean_of_batch: bool = False,
    ) -> None:
        super().__init__()
        self.reader, self.facts, self.words = reader, facts, words
        self.fact_query, self.aliases, self.knows = fact_query, aliases, knows
        self.mean_of_batch = mean_of_batch
        self.selector = nn.Linear(reader.width + knows * facts.width, 2)

    def forward(self, segment: Segment, memory: Any = None) -> LRLMOutput:
        """Score a segment; `memory` is that of the output of the segment before."""
        states, memory = self.reader(segment.ids, memory)
        facts = self.facts(segment.relations, segment.objects)
        features = self._with_knowledge(states, facts, segment)
        selector = self.selector(features).log_softmax(dim=-1)
        words = self.words(features).log_softmax(dim=-1)
        targets = words.gather(2, segment.targets[..., None])[..., 0] + segment.unknown
        scores = torch.einsum("bnw,bfw->bnf", self.fact_query(features), facts)
        relations = _log_softmax(scores, segment.fact_mask[:, None].expand_as(scores))
        names = None if self.aliases is None else self.aliases(features, segment)
        spans = span_scores(segment, selector, relations, names)
        marginal = forward_recursion(selector[..., WORD] + targets, spans, segment.span_starts)
        return LRLMOutput(states, selector, words, targets, relations, spans, marginal, memory)

    def _with_knowledge(self, states: Tensor, facts: Tensor, segment: Segment) -> Tensor:
        if not self.knows:
            return states
        kept = segment.fact_mask[..., None]
        n_facts = kept.shape[1] if self.mean_of_batch else kept.sum(dim=1).clamp(min=1)
        mean = facts.masked_fill(~kept, 0).sum(dim=1) / n_facts
        return torch.cat([states, mean[:, None].expand(-1, states.shape[1], -1)], dim=-1)


def span_scores(
    segment: Segment, selector: Tensor, relations: Tensor, names: Tensor | None
) -> Float[Tensor, "batch node span"]:
    """Log-probability of each span from the state at its first word; -inf where there is none."""
    starts, facts = segment.span_starts.flatten(1), segment.span_facts.flatten(1)
    n_facts = relations.shape[2]
    scores = selector[..., RELATION].gather(1, starts)
    scores = scores + relations.flatten(1).gather(1, starts * n_facts + facts)
    if names is not None:
        n_aliases = names.shape[3]
        positions = (starts * n_facts + facts) * n_aliases + segment.span_aliases.flatten(1)
        scores = scores + names.flatten(1).gather(1, positions)
    mask = segment.span_mask
    return scores.view(mask.shape).masked_fill(~mask, -torch.inf)


def forward_recursion(
    word_path: Float[Tensor, "batch node"],
    spans: Float[Tensor, "batch node span"],
    span_starts: Int[Tensor, "batch node span"],
) -> Float[Tensor, "batch node"]:
    """Return, at each node, the log-sum over all ways of writing the targets up to it.

    Spans that end at one node add up, also those of the same words under two facts.

    >>> half = torch.full((1, 2), 0.5).log()
    >>> both = torch.tensor([[[-torch.inf], [0.25]]]).log().nan_to_num(nan=-torch.inf)
    >>> forward_recursion(half, both, torch.zeros(1, 2, 1, dtype=torch.long)).exp().tolist()
    [[0.5, 0.5]]
    """
    before = [word_path.new_zeros(len(word_path))]
    for node in range(word_path.shape[1]):
        reached = torch.stack(before, dim=1)
        by_word = before[-1] + word_path[:, node]
        by_span = reached.gather(1, span_starts[:, node].clamp(max=node)) + spans[:, node]
        before.append(torch.cat([by_word[:, None], by_span], dim=1).logsumexp(dim=1))
    return torch.stack(before[1:], dim=1)


def span_posteriors(output: LRLMOutput, segment: Segment) -> Float[Tensor, "batch node span"]:
    """How likely each span was used, given the text; the output must have been made with gradients.

    The gradient of the log of a sum of paths with respect to a part is the share of those with it.
    """
    total = output.row_losses(segment.lengths).sum()
    (shares,) = torch.autograd.grad(-total, output.spans, retain_graph=True)
    return shares.masked_fill(~segment.span_mask, 0)


def segment_loss(
    output: LRLMOutput, segment: Segment, *, as_released: bool = False
) -> Float[Tensor, ""]:
    """Minus the log-probability for each target of the segment."""
    rows = output.row_losses(segment.lengths, as_released=as_released)
    return rows.sum() / segment.n_targets


@torch.no_grad()
def perplexity(model: LRLM, articles: Iterable[Sequence[Segment]]) -> float:
    """exp of minus the mean log-probability of a target, over batches of articles in segments.

    With log-probabilities of unknown words in the segments it compares across vocabularies.
    Raises `BatchError` where there is no target.
    """
    model.eval()
    total, n_targets = 0.0, 0
    for parts in articles:
        memory = None
        for segment in parts:
            output = model(segment, memory)
            memory = output.memory
            total += float(output.row_losses(segment.lengths).sum())
            n_targets += segment.n_targets
    if not n_targets:
        raise BatchError("there is no text to measure perplexity on")
    return float(torch.tensor(total / n_targets).exp())
