"""Entity-aware self-attention, and what an entity is before the first layer.

Yamada et al. 2020, "LUKE: Deep Contextualized Entity Representations with Entity-aware
Self-attention" (EMNLP), sections 3.1 and 3.2. Who asks and who is asked, words or entities, decides
which query map is taken; keys and values are the host's own, and one softmax goes over both.

Axis legend: batch, word, slot (of an entity), node (words, then slots), place (the words of a
batch, then its slots, without padding), span, width, embedding, head, part (of a head).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from kept.batches.host_copies import moved, on_both, on_host

LEAST = 1e-7
"""The least number of nodes that a mean is divided by."""


class EntityQueries(nn.Module):
    """The query maps of one layer beside the host's own, which is that of words to words."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.word_to_entity = nn.Linear(width, width)
        self.entity_to_word = nn.Linear(width, width)
        self.entity_to_entity = nn.Linear(width, width)

    @torch.no_grad()
    def copy_from(self, query: nn.Module) -> None:
        """Start as the host's own query map: then the layer does what it did before."""
        for mapping in self.children():
            mapping.load_state_dict(query.state_dict())


class EntityEmbeddings(nn.Module):
    """What stands in an entity's slot: its vector, the mean position of its words, and its type.

    The table of positions is the entities' own, and its row p is the word at place p of the text,
    whatever row that word has in the host's table. `dense` is the identity where vectors are as
    wide as the layers.
    """

    def __init__(
        self, *, embedding: int, width: int, n_positions: int, n_types: int, epsilon: float,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dense: nn.Module = nn.Identity()
        if embedding != width:
            self.dense = nn.Linear(embedding, width, bias=False)
        self.positions = nn.Embedding(n_positions, width)
        self.types = nn.Embedding(n_types, width)
        self.layer_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        vectors: Float[Tensor, "batch slot embedding"],
        places: Int[Tensor, "batch word"],
        spans: Int[Tensor, "batch slot 2"],
        types: Int[Tensor, "batch slot"],
    ) -> Float[Tensor, "batch slot width"]:
        """`places` are those of the text's words, `spans` the words of each entity's mention.

        An entity without a mention (an empty span) has the position 0, a vector of zeros.
        """
        position = mean_of_spans(self.positions(places), spans)
        embedded = self.dense(vectors) + position + self.types(types)
        return self.dropout(self.layer_norm(embedded))


def mean_of_spans(
    states: Float[Tensor, "batch word width"], spans: Int[Tensor, "batch span 2"]
) -> Float[Tensor, "batch span width"]:
    """The mean of each span's nodes; an empty span is exactly zero."""
    nodes = torch.arange(states.shape[1], device=states.device)
    inside = ((nodes >= spans[..., :1]) & (nodes < spans[..., 1:])).to(states.dtype)
    return inside @ states / inside.sum(2, keepdim=True).clamp(min=LEAST)


class RealPlaces:
    """The places of a padded batch that hold a word or an entity: layers compute these alone.

    All words come first, then all slots, so that each kind is one block for its query maps.
    """

    def __init__(
        self, is_word: Bool[Tensor, "batch word"], is_entity: Bool[Tensor, "batch slot"]
    ) -> None:
        n_batch, n_words = is_word.shape
        self.mask = on_both(lambda *parts: torch.cat(parts, dim=1), is_word, is_entity)
        self.shape = (n_batch, n_words + is_entity.shape[1])
        places = torch.arange(n_batch * self.shape[1]).view(self.shape)
        words = _chosen(places[:, :n_words], is_word)
        self.n_words = len(words)
        slots = _chosen(places[:, n_words:], is_entity)
        self._places = moved(torch.cat([words, slots]), is_word.device)

    def take(self, values: Float[Tensor, "batch node width"]) -> Float[Tensor, "place width"]:
        """The values of real places."""
        return values.flatten(0, 1).index_select(0, self._places)

    def spread(self, values: Float[Tensor, "place width"]) -> Float[Tensor, "batch node width"]:
        """The inverse of `take`; all other places get zeros."""
        whole = values.new_zeros(self.shape[0] * self.shape[1], values.shape[1])
        return whole.index_copy(0, self._places, values).unflatten(0, self.shape)


def _chosen(
    places: Int[Tensor, "batch slot"], is_real: Bool[Tensor, "batch slot"]
) -> Int[Tensor, " place"]:
    """The places that are real; all while a graph is compiled, as their number depends on data."""
    if torch.compiler.is_compiling():
        return places.flatten()
    return places[on_host(is_real)]


def entity_aware_layer(
    layer: Any,
    queries: EntityQueries,
    states: Float[Tensor, "place width"],
    real: RealPlaces,
    n_words: int,
    mask: Float[Tensor, "batch 1 node node"],
) -> Float[Tensor, "place width"]:
    """The states of `real` places after a layer of a BERT-like host.

    The first `n_words` nodes of a text are words. `mask` is added to the scores. All but the query
    maps is the host's: output map, feed-forward network and both normalisations.
    """
    attended = layer.attention.output(
        attend(layer.attention.self, queries, states, real, n_words, mask), states
    )
    return layer.output(layer.intermediate(attended), attended)


def attend(
    host: Any,
    queries: EntityQueries,
    states: Float[Tensor, "place width"],
    real: RealPlaces,
    n_words: int,
    mask: Float[Tensor, "batch 1 node node"],
) -> Float[Tensor, "place width"]:
    """What each node takes from those that it sees; `host` is the self-attention of its layer."""
    shares = host.dropout(attention_shares(host, queries, states, real, n_words, mask))
    values = _heads(host, real.spread(host.value(states)))
    return real.take((shares @ values).transpose(1, 2).flatten(2))


def attention_shares(
    host: Any,
    queries: EntityQueries,
    states: Float[Tensor, "place width"],
    real: RealPlaces,
    n_words: int,
    mask: Float[Tensor, "batch 1 node node"],
) -> Float[Tensor, "batch head node node"]:
    """How much of its attention each node pays to each: equation 2 and the softmax over it."""
    words, entities = states[: real.n_words], states[real.n_words :]
    to_words = torch.cat([host.query(words), queries.entity_to_word(entities)])
    to_entities = torch.cat([queries.word_to_entity(words), queries.entity_to_entity(entities)])
    keys = _heads(host, real.spread(host.key(states))).transpose(2, 3)
    scores = torch.cat(
        [
            _heads(host, real.spread(to_words)) @ keys[..., :n_words],
            _heads(host, real.spread(to_entities)) @ keys[..., n_words:],
        ],
        dim=3,
    )
    return (scores / math.sqrt(host.attention_head_size) + mask).softmax(dim=3)


def _heads(host: Any, values: Float[Tensor, "batch node width"]) -> Tensor:
    """`[batch head node part]`."""
    heads: Tensor = values.unflatten(2, (host.num_attention_heads, -1)).transpose(1, 2)
    return heads
