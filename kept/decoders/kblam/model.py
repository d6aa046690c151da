"""KBLaM: every fact is a key and a value that a decoder's layers attend to beside the text.

Wang et al. 2025, "KBLaM: Knowledge Base augmented Language Model" (ICLR). A fact (name, property,
value) becomes one key and one value vector a layer, by trained linear maps from sentence vectors of
"the {property} of {name}" and of the value. Text reads facts, no fact reads anything, and one
softmax goes over facts and text together ("rectangular attention"), so the cost is linear in the
number of facts and their order says nothing. The host is frozen. Without facts it is the host.

Where we differ from the released code, and the options that keep it: docs/how-to/kblam.md.

Axis legend: batch, node, word, fact, head, width (of the host), stacked (all slices of a fact),
vector (of a sentence).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel

from kept.batches import Visibility
from kept.decoders import hosts
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.fact_encoder import FactEncoder
from kept.decoders.kblam.rectangular import (
    FactTokens,
    best_facts,
    best_of_each_node,
    gathered,
    mixed,
    products,
    projections,
    query_map,
    rotated,
)
from kept.errors import BatchError, ConfigError, HostError

HOSTS = ("llama", "mistral", "phi3", "qwen2", "qwen3")
"""Families whose layers can read facts: Llama-shaped ones."""
PADDING_QUERY = torch.finfo(torch.bfloat16).min


@dataclass(frozen=True, eq=False)
class KBLaMStates:
    """One pass: `hidden_states` from what enters the first layer to what leaves the last, finished.

    By reading layer: `fact_weights`, the share of attention that each node gives each fact column;
    `chosen`, the facts behind the columns where some were pruned.
    """

    hidden_states: tuple[Float[Tensor, "batch node width"], ...]
    fact_weights: dict[int, Float[Tensor, "batch head node fact"]] = field(default_factory=dict)
    chosen: dict[int, Int[Tensor, "batch fact"]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class KBLaMOutput:
    """`KBLaMStates` and the host's scores of the next word at every node."""

    logits: Float[Tensor, "batch node word"]
    states: KBLaMStates


@dataclass(frozen=True, eq=False)
class _Pass:
    """What every reading layer of one pass shares."""

    facts: FactTokens
    text_mask: Tensor
    fact_mask: Tensor | None
    rotary: tuple[Tensor, Tensor]
    counted: Tensor
    cache: Cache | None
    weights: dict[int, Tensor] = field(default_factory=dict)
    chosen: dict[int, Tensor] = field(default_factory=dict)


def _read_at(shared: _Pass, reading: Tensor) -> _Pass:
    """A pass in which other nodes give facts no attention."""
    others = torch.zeros_like(reading, dtype=shared.text_mask.dtype)
    others = others.masked_fill(~reading, -torch.inf)[:, None, :, None]
    fact_mask = others if shared.fact_mask is None else shared.fact_mask + others
    return replace(shared, fact_mask=fact_mask, counted=shared.counted & reading)


class KBLaM(nn.Module):
    """A frozen decoder that reads facts in every `config.every`-th layer.

    `host` is of a family in `HOSTS`; it is kept in evaluation mode and none of it is trained.
    `encoder` makes facts of sentence vectors; `queries`, where the configuration asks for them, are
    the maps that read facts, which begin as copies of the host's own.
    Raises `HostError` for another host.
    """

    def __init__(self, host: PreTrainedModel, config: KBLaMConfig) -> None:
        super().__init__()
        hosts.check_decoder(host)
        if host.config.model_type not in HOSTS:
            raise HostError(
                f"KBLaM reads facts in Llama-shaped layers ({', '.join(HOSTS)}), not in "
                f"{host.config.model_type!r}"
            )
        n_layers = len(hosts.layers(host))
        if config.first >= n_layers:
            raise ConfigError(f"kblam: first {config.first}: below the host's {n_layers} layers")
        self.host, self.config = host.requires_grad_(False).eval(), config
        attention: Any = hosts.layers(host)[0].self_attn
        self.n_heads = int(attention.o_proj.in_features // attention.head_dim)
        self.n_slices = config.n_slices(n_layers)
        self.encoder = FactEncoder(
            vector_width=config.vector_width,
            stacked_width=self.n_slices * attention.o_proj.in_features,
            mlp_depth=config.mlp_depth,
            mlp_width=config.mlp_width,
            value_width=config.value_width,
        ).to(host.device, host.dtype)
        has_queries = config.separate_queries or config.top_k is not None
        reading: list[Any] = [hosts.layers(host)[number] for number in self.reading_layers]
        maps = zip(self.reading_layers, reading, strict=True)
        query_maps = {str(number): query_map(layer.self_attn) for number, layer in maps}
        self.queries = nn.ModuleDict(query_maps if has_queries else {})
        self.queries.requires_grad_(config.separate_queries)

    @property
    def reading_layers(self) -> range:
        """The numbers of the layers that read facts."""
        end, last = len(hosts.layers(self.host)), self.config.last
        end = end if last is None else min(last + 1, end)
        return range(self.config.first, end, self.config.every)

    def train(self, mode: bool = True) -> KBLaM:
        """As of any module, but the host stays in evaluation mode."""
        super().train(mode)
        self.host.eval()
        return self

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and values of what is trained: the encoder, and the queries if they are used."""
        return ((n, p) for n, p in self.named_parameters() if p.requires_grad)

    def own_state(self) -> dict[str, Tensor]:
        """All that is not the host's, by name."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value for name, value in state.items() if not name.startswith("host.")}

    def load_own_state(self, state: Mapping[str, Tensor]) -> None:
        """Set what `own_state` returns; raises `ConfigError` for a name too many or too few."""
        wrong = sorted(self.own_state().keys() ^ state.keys())
        if wrong:
            raise ConfigError(f"weights of another KBLaM; in one of the two alone: {wrong[:5]}")
        self.load_state_dict(dict(state), strict=False)

    def forward(
        self,
        input_ids: Int[Tensor, "batch node"],
        node_mask: Bool[Tensor, "batch node_and_cached"],
        facts: FactTokens | None,
        positions: Int[Tensor, "batch node"] | None = None,
        cache: Cache | None = None,
        reading: Bool[Tensor, "batch node"] | None = None,
    ) -> KBLaMOutput:
        """`read` the text and the facts, and score the next word at every node."""
        states = self.read(input_ids, node_mask, facts, positions, cache, reading=reading)
        return KBLaMOutput(hosts.logits(self.host, states.hidden_states[-1]), states)

    def read(
        self,
        input_ids: Int[Tensor, "batch node"],
        node_mask: Bool[Tensor, "batch node_and_cached"],
        facts: FactTokens | None,
        positions: Int[Tensor, "batch node"] | None = None,
        cache: Cache | None = None,
        entering: Float[Tensor, "batch node width"] | None = None,
        reading: Bool[Tensor, "batch node"] | None = None,
    ) -> KBLaMStates:
        """Read text and facts; without `facts` the states are the host's own, bit for bit.

        `node_mask` (True = real) is over the nodes in `cache`, then the new ones. Positions that
        are not given count real nodes; with `padding_reads` they count all. `entering` is what
        enters the first reading layer (of the host's own `hidden_states`), which is then not read
        by the layers below; it goes with facts, and a cache needs no more than the layers above.
        Raises `BatchError` for sizes that do not fit.
        """
        n_new = input_ids.shape[1]
        if positions is None:
            counted = torch.ones_like(node_mask) if self.config.padding_reads else node_mask
            positions = hosts.running_positions(counted)[:, -n_new:]
        visibility = Visibility.causal(node_mask)
        if entering is not None and facts is None:
            raise BatchError("states entering the first reading layer go with facts")
        if entering is not None and entering.shape[:2] != input_ids.shape:
            raise BatchError(f"states {tuple(entering.shape)} of {tuple(input_ids.shape)} nodes")
        hidden = entering
        if hidden is None:
            vectors = self.host.get_input_embeddings()(input_ids)
            hidden = hosts.embed(self.host, vectors, positions)
        if facts is None:
            return KBLaMStates(hosts.run(self.host, hidden, visibility, positions, cache))
        if facts.keys.ndim == 3 and len(facts.keys) != len(input_ids):
            raise BatchError(f"{facts} for a batch of {len(input_ids)}")
        shared = self._shared(visibility, node_mask, n_new, facts, (hidden, positions), cache)
        if reading is not None:
            shared = _read_at(shared, reading)
        step = hosts.masked_stepper(self.host, shared.text_mask, positions, cache)
        every, below = [hidden], self.config.first if entering is not None else 0
        for number, layer in list(enumerate(hosts.layers(self.host)))[below:]:
            if number in self.reading_layers:
                every.append(self._layer(number, layer, every[-1], shared))
            else:
                every.append(step(layer, every[-1]))
        states = (*every[:-1], hosts.finish(self.host, every[-1]))
        return KBLaMStates(states, shared.weights, shared.chosen)

    def _shared(
        self,
        visibility: Visibility,
        node_mask: Tensor,
        n_new: int,
        facts: FactTokens,
        start: tuple[Tensor, Tensor],
        cache: Cache | None,
    ) -> _Pass:
        """Masks and angles. `padding_reads`: a node that sees no text is even over all facts."""
        rotary = self.host.base_model.rotary_emb(start[0], position_ids=start[1])
        counted = node_mask[:, -n_new:]
        if not self.config.padding_reads:
            mask = visibility.attention("eager", self.host.dtype)[:, :, -n_new:]
            return _Pass(facts, mask, None, rotary, counted, cache)
        visible = node_mask[:, None, :].expand(-1, node_mask.shape[1], -1).tril()[:, -n_new:]
        mask = torch.zeros_like(visible, dtype=self.host.dtype)
        mask = mask.masked_fill(~visible, torch.finfo(torch.float32).min)[:, None]
        blind = ~visible.any(dim=2)
        fact_mask = torch.zeros_like(blind, dtype=mask.dtype).masked_fill(blind, PADDING_QUERY)
        every = torch.ones_like(counted)
        return _Pass(facts, mask, fact_mask[:, None, :, None], rotary, every, cache)

    def _layer(self, number: int, layer: Any, hidden: Tensor, shared: _Pass) -> Tensor:
        """A layer of the host whose attention reads facts, too."""
        attention, normed = layer.self_attn, layer.input_layernorm(hidden)
        query, key, value = projections(attention, normed)
        query, key = rotated(query, shared.rotary), rotated(key, shared.rotary)
        if shared.cache is not None:
            key, value = shared.cache.update(key, value, number)
        groups = self.n_heads // key.shape[1]
        key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
        text_scores = (query * attention.scaling) @ key.mT + shared.text_mask
        scores, fact_values = self._fact_scores(number, attention, normed, query, shared)
        both = torch.cat([scores, text_scores], dim=-1)
        weights = both.softmax(dim=-1, dtype=torch.promote_types(both.dtype, torch.float32))
        weights = weights.to(value.dtype)
        of_facts, of_text = weights.tensor_split([scores.shape[-1]], dim=-1)
        shared.weights[number] = of_facts
        read = mixed(of_facts, fact_values) + of_text @ value
        hidden = hidden + attention.o_proj(read.transpose(1, 2).flatten(2))
        after: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return after

    def _fact_scores(
        self, number: int, attention: Any, normed: Tensor, query: Tensor, shared: _Pass
    ) -> tuple[Tensor, Tensor]:
        """Scores `[batch head node fact]` of the facts that are left, and their values."""
        config = self.config
        index = (number - config.first) // config.every
        keys, values = shared.facts.of_slice(index, self.n_slices, self.n_heads)
        fact_query = query
        if len(self.queries):
            fact_query = self._own_query(number, attention, normed)
        reader = (fact_query if config.separate_queries else query) * attention.scaling
        scored, n_read = keys, shared.facts.n_facts
        if config.top_k is not None and config.top_k < n_read:
            n_read = config.top_k
            if not config.top_k_by_node:
                best = best_facts(fact_query, keys, n_read, shared.counted)
                shared.chosen[number] = best
                keys, values = (gathered(each, best) for each in (keys, values))
                scored = scored[:, :, :n_read] if config.misaligned_scores else keys
        scores = products(reader, scored)
        if n_read < scores.shape[-1]:
            scores = best_of_each_node(scores, n_read)
        if config.scale is not None:
            scores = scores + (math.log(config.scale) - math.log(n_read))
        return scores if shared.fact_mask is None else scores + shared.fact_mask, values

    def _own_query(self, number: int, attention: Any, normed: Tensor) -> Tensor:
        """The queries of facts `[batch head node head_width]`, by the map made for them."""
        query: Tensor = self.queries[str(number)](normed).unflatten(-1, (self.n_heads, -1))
        if hasattr(attention, "q_norm"):
            query = attention.q_norm(query)
        return query.transpose(1, 2)

    @torch.no_grad()
    def generate(
        self,
        input_ids: Int[Tensor, "batch node"],
        node_mask: Bool[Tensor, "batch node"],
        facts: FactTokens | None,
        *,
        n_new: int,
        end_id: int | None = None,
        reading: Bool[Tensor, "batch node"] | None = None,
        use_cache: bool = True,
    ) -> Int[Tensor, "batch new"]:
        """The `n_new` most probable next words one by one; after `end_id` only `end_id`.

        Padding may stand on either side. The cache holds text alone, facts are read anew at each
        step. Fewer words come back where every text has ended before. `reading` are the nodes of
        the prompt that read facts: all, or the last one alone, as the configuration has it.
        """
        cache = DynamicCache(config=self.host.config) if use_cache else None
        new: list[Tensor] = []
        ids = step_ids = input_ids
        if reading is None and not self.config.prompt_reads:
            reading = node_mask & (node_mask.flip(1).cumsum(dim=1).flip(1) == 1)
        ended = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        for _ in range(n_new):
            read = step_ids if use_cache else ids
            positions = hosts.running_positions(node_mask)[:, -read.shape[1] :]
            who = None if reading is None else reading[:, -read.shape[1] :]
            out = self(read, node_mask, facts, positions, cache, who)
            real = node_mask[:, -out.logits.shape[1] :] if not new else None
            last = out.logits[:, -1] if real is None else hosts.sentence_vectors(out.logits, real)
            word = last.argmax(dim=-1)
            if end_id is not None:
                word = word.masked_fill(ended, end_id)
            new.append(word)
            node_mask = torch.cat([node_mask, ~ended[:, None]], dim=1)
            if reading is not None:
                reading = torch.cat([reading, ~ended[:, None]], dim=1)
            ended = ended | (word == end_id) if end_id is not None else ended
            if bool(ended.all()):
                break
            step_ids = word[:, None]
            ids = torch.cat([ids, step_ids], dim=1)
        return torch.stack(new, dim=1)
