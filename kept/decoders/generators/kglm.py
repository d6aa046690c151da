"""KGLM: a recurrent language model that names entities, facts about recent ones, or plain words.

Logan et al. 2019, "Barack's Wife Hillary: Using Knowledge Graphs for Fact-Aware Language Modeling"
(ACL), section 3: at each token a kind of mention, then a new entity, or a parent among the recent
entities and an edge of it, then a word of the vocabulary or of the entity's aliases. `KGLM` is the
generative model; without `words` the same is the proposal of section 4, that reads annotations off
a text, over whose draws `importance_perplexity` takes the marginal.

Numbers are those of the released program (rloganiv/kglm-model), its traps included: what is
excluded is 103 nats less likely and not impossible; the loss of new entities is taken at every
token of a mention, related ones too; the copy score multiplies the states of the aliases in an
order of its own (`_copy_scores`).

Axis legend: batch, node, width, word, entity, parent, slot (a token of an alias), candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from kept.decoders.generators.recency import RecentEntities
from kept.errors import BatchError

TINY = 1e-45
FILLED = math.log(TINY)
"""The log-probability of what is not there, where the program computes it in double precision."""
PLAIN, NEW, RELATED, CONTINUED = range(4)
UNKNOWN = 1
ALPHA, BETA = 2.0, 1.0
"""Weights of the activation and of the temporal regulariser."""

Edges = Mapping[int, Sequence[tuple[int, int]]]
"""Entity id -> its edges: relation id and raw id of the tail."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """A stretch of annotated texts; 0 pads. Of what is below `parent_ids`, a proposal reads none.

    Raw ids tell dates and quantities apart, entity ids do not. `alias_local_ids` number the tokens
    of an entity's aliases, `alias_copy_inds` are the number of the target among them (0: none).
    """

    source: Int[Tensor, "batch node"]
    mention_type: Int[Tensor, "batch node"]
    entity_ids: Int[Tensor, "batch node"]
    raw_entity_ids: Int[Tensor, "batch node"]
    parent_ids: Int[Tensor, "batch node parent"]
    reset: Bool[Tensor, " batch"]
    shortlist: Int[Tensor, "batch entity"] | None = None
    shortlist_inds: Int[Tensor, "batch node"] | None = None
    target: Int[Tensor, "batch node"] | None = None
    alias_tokens: Int[Tensor, "batch node alias slot"] | None = None
    alias_local_ids: Int[Tensor, "batch node alias slot"] | None = None
    alias_copy_inds: Int[Tensor, "batch node"] | None = None

    def __post_init__(self) -> None:
        shapes = {
            name: tuple(getattr(self, name).shape)
            for name in ("source", "mention_type", "entity_ids", "raw_entity_ids")
        }
        if len(set(shapes.values())) > 1:
            raise BatchError(f"the fields of a chunk differ in shape: {shapes}")

    @property
    def mask(self) -> Bool[Tensor, "batch node"]:
        """Where there is a token."""
        return self.source != 0


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Log-softmax with about 103 nats off where the mask is False; alike over a row of False."""
    return (scores + (mask.to(scores.dtype) + TINY).log()).log_softmax(dim=-1)


@dataclass(frozen=True, eq=False)
class Words:
    """The words' part: scores, log-probabilities over words then slots, and the target's."""

    generate_scores: Float[Tensor, "batch node word"]
    copy_scores: Float[Tensor, "batch node slot"]
    log_probs: Float[Tensor, "batch node choice"]
    of_target: Float[Tensor, "batch node"]
    of_target_or_unknown: Float[Tensor, "batch node"]
    penalised: Float[Tensor, "batch node"]
    penalised_unknown: Float[Tensor, "batch node"]


@dataclass(frozen=True, eq=False)
class KGLMOutput:
    """Losses for each token (of all kinds), and what they are made from."""

    encoded: Float[Tensor, "batch node width"]
    candidate_ids: Int[Tensor, "batch candidate"]
    candidate_mask: Bool[Tensor, "batch node candidate"]
    new_entity_logits: Float[Tensor, "batch node entity"]
    parent_log_probs: Float[Tensor, "batch node parent"]
    relation_log_probs: Float[Tensor, "batch node parent"]
    mention_type_loss: Tensor
    new_entity_loss: Tensor
    kg_loss: Tensor
    vocab_loss: Tensor
    penalised_vocab_loss: Tensor
    alpha_reg: Tensor
    beta_reg: Tensor
    n_tokens: Tensor
    words: Words | None

    @property
    def loss(self) -> Tensor:
        """What is minimised: the parts and the two regularisers."""
        parts = self.mention_type_loss + self.new_entity_loss + self.kg_loss + self.vocab_loss
        return parts + ALPHA * self.alpha_reg + BETA * self.beta_reg

    @property
    def log_p(self) -> Tensor:
        """Log-probability of the chunk, annotation included."""
        parts = self.mention_type_loss + self.new_entity_loss + self.kg_loss + self.vocab_loss
        return -parts * self.n_tokens

    @property
    def penalised_log_p(self) -> Tensor:
        """The same where an unknown word that was not copied is one of all unknown words."""
        return self.log_p + (self.vocab_loss - self.penalised_vocab_loss) * self.n_tokens


class WordModel(nn.Module):
    """A word of the vocabulary given the state and the entity, or a token of an alias."""

    def __init__(
        self, embed: nn.Embedding, entity_width: int, unknown_penalty: float, *, tied: bool
    ) -> None:
        super().__init__()
        n_words, width = embed.weight.shape
        self.unknown_penalty = unknown_penalty
        self.condense = nn.Linear(width + entity_width, width)
        self.generate = nn.Linear(width, n_words)
        if tied:
            self.generate.weight = embed.weight
        self.copy = nn.Linear(width, width)
        self.alias_encoder = nn.LSTM(width, width, batch_first=True)

    def forward(self, token: Tensor, entity: Tensor, embed: nn.Embedding, chunk: Chunk) -> Words:
        """Raises `BatchError` for a chunk without targets or aliases."""
        if chunk.target is None or chunk.alias_tokens is None or chunk.alias_local_ids is None:
            raise BatchError("words need target, alias_tokens and alias_local_ids; read them too")
        generate = self.generate(self.condense(torch.cat([token, entity], dim=-1)))
        copy = self._copy_scores(token, embed, chunk.alias_tokens)
        local = chunk.alias_local_ids.flatten(2)
        mask = torch.cat([torch.ones_like(generate, dtype=torch.bool), local > 0], dim=-1)
        log_probs = masked_log_softmax(torch.cat([generate, copy], dim=-1), mask)
        return self._of_targets(generate, copy, log_probs, chunk)

    def _copy_scores(self, token: Tensor, embed: nn.Embedding, aliases: Tensor) -> Tensor:
        """The projected states `[slot width]` of a node are read as `[width slot]`, not transposed.

        So a slot's score mixes parts of all slots' states, as in the released program.
        """
        flat = aliases.flatten(0, 2)
        lengths = (flat != 0).sum(dim=1)
        states = token.new_zeros(*flat.shape, token.shape[-1])
        if not bool(lengths.any()):
            return token.new_zeros(*aliases.shape[:2], aliases[0, 0].numel())
        real = lengths > 0
        packed = pack_padded_sequence(
            embed(flat[real]), lengths[real].cpu(), batch_first=True, enforce_sorted=False
        )
        alias_states, _ = pad_packed_sequence(
            self.alias_encoder(packed)[0], batch_first=True, total_length=flat.shape[1]
        )
        states = states.index_put((real.nonzero()[:, 0],), alias_states)
        projected = self.copy(states).tanh()
        projected = projected.reshape(*aliases.shape[:2], token.shape[-1], -1)
        return torch.einsum("bnw,bnws->bns", token, projected)

    def _of_targets(self, generate: Tensor, copy: Tensor, log_probs: Tensor, chunk: Chunk) -> Words:
        assert chunk.target is not None
        assert chunk.alias_local_ids is not None
        numbers = chunk.alias_copy_inds
        if numbers is None:
            raise BatchError("words need alias_copy_inds; 0 where the target is in no alias")
        n_words = generate.shape[-1]
        written = log_probs.gather(2, chunk.target[..., None])
        is_unknown, is_copied = chunk.target == UNKNOWN, numbers > 0
        is_slot = (chunk.alias_local_ids.flatten(2) == numbers[..., None]) & is_copied[..., None]
        slots = log_probs[..., n_words:] + (is_slot.to(log_probs.dtype) + TINY).log()
        counts = ~(is_unknown & is_copied)[..., None]  # a copied word is known
        written_log_probs = written + (counts.to(log_probs.dtype) + TINY).log()
        penalty = self.unknown_penalty * is_unknown[..., None]

        def total(first: Tensor) -> Tensor:
            return torch.cat([first, slots], dim=-1).logsumexp(dim=-1)

        return Words(
            generate,
            copy,
            log_probs,
            of_target=total(written_log_probs),
            of_target_or_unknown=total(written),
            penalised=total(written_log_probs - penalty * counts),
            penalised_unknown=total(written - penalty),
        )


class KGLM(nn.Module):
    """Entities, facts and, with `words`, words; `reset` of a chunk begins rows anew.

    Embeddings have their padding in row 0. With `uses_shortlist` a new entity is one of the chunk's
    shortlist, else any. Each row's state goes on from chunk to chunk in the model, detached.
    """

    def __init__(
        self,
        *,
        tokens: nn.Embedding,
        entities: nn.Embedding,
        relations: nn.Embedding,
        edges: Edges,
        hidden_width: int,
        n_layers: int,
        cutoff: int,
        uses_shortlist: bool = False,
        words: WordModel | None = None,
    ) -> None:
        super().__init__()
        self.tokens, self.entities, self.relations = tokens, entities, relations
        self.edges, self.uses_shortlist, self.words = edges, uses_shortlist, words
        width, entity_width = tokens.embedding_dim, entities.embedding_dim
        self.parts = [width, entity_width, entity_width]
        widths = [width, *[hidden_width] * (n_layers - 1), sum(self.parts)]
        self.layers = nn.ModuleList(
            nn.LSTM(before, after, batch_first=True) for before, after in pairwise(widths)
        )
        self.mention_type = nn.Linear(width, 4)
        self.new_entity: nn.Linear | None = None
        if not uses_shortlist:
            self.new_entity = nn.Linear(entity_width, entities.num_embeddings)
            self.new_entity.weight = entities.weight
        self.recent = RecentEntities(cutoff)
        self.states: list[tuple[Tensor, Tensor]] = []

    def forward(self, chunk: Chunk) -> KGLMOutput:
        """Score a chunk with its annotation."""
        self.recent.reset(chunk.reset.tolist())
        encoded = self._encode(chunk)
        token, head, relation = torch.split(encoded, self.parts, dim=-1)
        n_tokens = chunk.mask.sum()
        kinds = self.mention_type(token).log_softmax(dim=-1)
        kind = kinds.gather(2, chunk.mention_type[..., None])[..., 0]
        logits, new = self._new_entities(head + relation, chunk)
        candidates, candidate_mask = self.recent(chunk.entity_ids)
        parents = self._parents(head, candidates, candidate_mask, chunk)
        relations = self._relations(relation, chunk)
        related = (parents + relations).logsumexp(dim=-1)
        is_related = (chunk.parent_ids > 0).any(dim=-1)
        words = vocab = penalised = None
        if self.words is not None:
            words = self.words(token, self.entities(chunk.entity_ids), self.tokens, chunk)
            vocab, penalised = words.of_target, words.penalised

        def loss(log_p: Tensor | None, where: Tensor) -> Tensor:
            if log_p is None:
                return encoded.new_zeros(())
            mean: Tensor = -log_p.masked_fill(~(where & chunk.mask), 0).sum() / n_tokens
            return mean

        return KGLMOutput(
            encoded=encoded,
            candidate_ids=candidates,
            candidate_mask=candidate_mask,
            new_entity_logits=logits,
            parent_log_probs=parents,
            relation_log_probs=relations,
            mention_type_loss=loss(kind, chunk.mask),
            new_entity_loss=loss(new, self._is_new(chunk)),
            kg_loss=loss(related, is_related),
            vocab_loss=loss(vocab, chunk.mask),
            penalised_vocab_loss=loss(penalised, chunk.mask),
            alpha_reg=encoded.pow(2).mean(),
            beta_reg=(encoded[:, 1:] - encoded[:, :-1]).pow(2).mean(),
            n_tokens=n_tokens,
            words=words,
        )

    def _encode(self, chunk: Chunk) -> Tensor:
        keep = (~chunk.reset)[None, :, None]
        hidden, after = self.tokens(chunk.source), []
        for i, layer in enumerate(self.layers):
            before = None
            if len(self.states) == len(self.layers) and bool(keep.any()):
                before = tuple(part * keep for part in self.states[i])
            hidden, (h, c) = layer(hidden, before)
            after.append((h.detach(), c.detach()))
        self.states = after
        encoded: Tensor = hidden
        return encoded

    def _is_new(self, chunk: Chunk) -> Tensor:
        """Where the loss of new entities is taken."""
        if self.words is None and self.uses_shortlist and chunk.shortlist_inds is not None:
            return torch.ne(chunk.shortlist_inds, 0)
        return torch.ne(chunk.entity_ids, 0)

    def _new_entities(self, query: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        if self.new_entity is not None:
            logits = self.new_entity(query)
            log_p, target = logits.log_softmax(dim=-1), chunk.entity_ids
        elif chunk.shortlist is None or chunk.shortlist_inds is None:
            raise BatchError("a model with shortlists needs shortlist and shortlist_inds")
        else:
            logits = torch.einsum("bnw,bew->bne", query, self.entities(chunk.shortlist))
            mask = (chunk.shortlist != 0)[:, None].expand_as(logits)
            log_p, target = masked_log_softmax(logits, mask), chunk.shortlist_inds
        return logits, log_p.gather(2, target[..., None])[..., 0]

    def _parents(
        self, head: Tensor, candidates: Tensor, candidate_mask: Tensor, chunk: Chunk
    ) -> Float[Tensor, "batch node parent"]:
        scores = torch.einsum("bnw,bcw->bnc", head, self.entities(candidates))
        log_p = masked_log_softmax(scores, candidate_mask)
        same = candidates[:, None, None] == chunk.parent_ids[..., None]
        parent_log_p = log_p.gather(2, same.int().argmax(dim=-1))  # no match: the first candidate
        counts = same.any(dim=-1) & (chunk.parent_ids > 0)
        return parent_log_p + (counts.to(parent_log_p.dtype) + TINY).log()

    def _relations(self, query: Tensor, chunk: Chunk) -> Float[Tensor, "batch node parent"]:
        """-inf for a parent whose edges do not reach the target, `FILLED` without an edge."""
        positions, values = [], []
        for b, i, p in chunk.parent_ids.nonzero().tolist():
            edges = self.edges.get(int(chunk.parent_ids[b, i, p]), ())
            if not edges:
                continue
            kinds, tails = torch.tensor(edges, device=query.device).unbind(dim=1)
            log_p = (self.relations(kinds) @ query[b, i]).log_softmax(dim=0)
            reaches = tails == chunk.raw_entity_ids[b, i]
            positions.append((b, i, p))
            values.append(log_p.masked_fill(~reaches, -torch.inf).logsumexp(dim=0))
        filled = query.new_full(chunk.parent_ids.shape, FILLED)
        if not values:
            return filled
        index = torch.tensor(positions, device=query.device).unbind(dim=1)
        return filled.index_put(index, torch.stack(values))


@dataclass
class WordPerplexity:
    """Perplexity of words given their annotation, over chunks; `unknown_penalised` is UPP."""

    n_tokens: int = 0
    total: float = 0.0
    unknown_penalised: float = 0.0

    def add(self, output: KGLMOutput, where: Bool[Tensor, "batch node"]) -> None:
        """Count the tokens `where` True; raises `BatchError` for a model without words."""
        if output.words is None:
            raise BatchError("a proposal has no words; score with the generative model")
        self.n_tokens += int(where.sum())
        self.total -= float(output.words.of_target_or_unknown.detach()[where].sum())
        self.unknown_penalised -= float(output.words.penalised_unknown.detach()[where].sum())

    @property
    def values(self) -> tuple[float, float]:
        """Perplexity and unknown-penalised perplexity; raises `BatchError` without a token."""
        if not self.n_tokens:
            raise BatchError("there is no token to measure perplexity on")
        return (
            math.exp(self.total / self.n_tokens),
            math.exp(self.unknown_penalised / self.n_tokens),
        )


def importance_perplexity(
    log_p: Sequence[float], proposal_log_p: Sequence[float], n_tokens: int
) -> float:
    """The marginal perplexity from draws of the proposal: of a text with its annotation, and of it.

    exp of minus (log of the mean of p / q) / tokens (section 4). Raises `BatchError` without draws.

    >>> round(importance_perplexity([math.log(0.25)] * 2, [math.log(0.5)] * 2, 1), 12)
    2.0
    """
    if not log_p or len(log_p) != len(proposal_log_p) or n_tokens < 1:
        raise BatchError(
            f"{len(log_p)} and {len(proposal_log_p)} log-probabilities of draws over {n_tokens} "
            "tokens make no perplexity"
        )
    of_model, of_proposal = (
        torch.tensor(values, dtype=torch.float64) for values in (log_p, proposal_log_p)
    )
    weights = of_model - of_proposal
    return math.exp(-(float(weights.logsumexp(0)) - math.log(len(log_p))) / n_tokens)
