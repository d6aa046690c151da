"""QA-GNN's and GreaseLM's networks (released codes, MIT) in plain torch, by the originals' names.

A restatement of the semantics that tests/golden/qagnn and greaselm describe, in tensors and
dictionaries alone. It says what the originals would for folders of other sizes, and is itself
compared with their stored numbers.

Axis legend: row (a question with one choice), place, node (all places of all rows), edge, width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

HEADS = 4
"""Of a graph layer; fixed in both codes."""
CONTEXT = 3
"""The type of the context node."""
N_NODE_TYPES = 4
NO_DECAY = ("bias", "LayerNorm.bias", "LayerNorm.weight")
State = dict[str, Tensor]


def gelu(values: Tensor) -> Tensor:
    return F.gelu(values, approximate="tanh")


@dataclass
class Network:
    """Weights by their original names; `state` also holds the running statistics, which change.

    `heads` of the pooling.
    """

    state: State
    training: bool = False
    heads: int = 2
    values: State = field(default_factory=dict)

    def linear(self, name: str, values: Tensor) -> Tensor:
        return F.linear(values, self.state[f"{name}.weight"], self.state[f"{name}.bias"])

    def layer_norm(self, name: str, values: Tensor, eps: float = 1e-5) -> Tensor:
        weight, bias = (self.state[f"{name}.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(values, values.shape[-1:], weight, bias, eps)

    def batch_norm(self, name: str, values: Tensor) -> Tensor:
        state = self.state
        mean, variance = (state[f"{name}.running_{part}"] for part in ("mean", "var"))
        if self.training:
            n = len(values)
            mean, variance = values.mean(0), values.var(0, unbiased=False)
            for part, new in (("mean", mean), ("var", variance * n / (n - 1))):
                old = state[f"{name}.running_{part}"]
                state[f"{name}.running_{part}"] = 0.9 * old + 0.1 * new.detach()
            state[f"{name}.num_batches_tracked"] = state[f"{name}.num_batches_tracked"] + 1
        scaled = (values - mean) / (variance + 1e-5).sqrt()
        return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

    def normed_mlp(self, name: str, values: Tensor) -> Tensor:
        hidden = F.relu(self.batch_norm(f"{name}.1", self.linear(f"{name}.0", values)))
        return self.linear(f"{name}.3", hidden)

    def score_mlp(self, name: str, values: Tensor, *, normed: bool) -> Tensor:
        """Hidden layers: linear, norm if there is one, GELU; the last is linear alone."""
        start = f"{name}.layers."
        last = max(int(k.removeprefix(start).split("-")[0]) for k in self.state if start in k)
        for i in range(last):
            values = self.linear(f"{start}{i}-Linear", values)
            values = self.layer_norm(f"{start}{i}-LayerNorm", values) if normed else values
            values = gelu(values)
        return self.linear(f"{start}{last}-Linear", values)

    # ---- the graph -------------------------------------------------------------------------------
    def graph_layer(
        self, name: str, states: Tensor, extra: Tensor, edges: Tensor, index: Tensor
    ) -> State:
        """Attention, aggregate and output of one layer; `index` has the self loops."""
        source, target = index
        both, width = torch.cat([states, extra], 1), states.shape[1] // HEADS
        query = self.linear(f"{name}.linear_query", both[source]) / math.sqrt(width)
        key = self.linear(f"{name}.linear_key", torch.cat([both[target], edges], 1))
        message = self.linear(f"{name}.linear_msg", torch.cat([both[source], edges], 1))
        scores = (query * key).view(-1, HEADS, width).sum(2)
        leaving = F.one_hot(source, len(states)).to(scores.dtype).T
        largest = scores.new_full((len(states), HEADS), -math.inf)
        owners = source[:, None].expand_as(scores)
        largest = largest.scatter_reduce(0, owners, scores.detach(), "amax")
        weights = (scores - largest[source]).exp()
        shares = weights / (leaving.T @ (leaving @ weights))
        degree = leaving.sum(1)[source, None]
        weighted = message.view(-1, HEADS, width) * (shares * degree)[..., None]
        arriving = F.one_hot(target, len(states)).to(scores.dtype).T
        aggregated = arriving @ weighted.flatten(1)
        output = self.normed_mlp(f"{name}.mlp", aggregated)
        return {"attention": shares, "aggregated": aggregated, "output": output}

    def pooled(self, name: str, sentence: Tensor, nodes: Tensor, hidden: Tensor) -> State:
        """`hidden` places are left out, all but the first where every one is."""
        hidden = hidden.clone()
        hidden[hidden.all(1), 0] = False
        heads, n_rows, n_places = self.heads, *nodes.shape[:2]
        query = self.linear(f"{name}.w_qs", sentence).view(n_rows, heads, -1)
        keys, values = (
            self.linear(f"{name}.{part}", nodes).view(n_rows, n_places, heads, -1)
            for part in ("w_ks", "w_vs")
        )
        scores = torch.einsum("bhd,bnhd->hbn", query, keys) / math.sqrt(query.shape[2])
        shares = scores.masked_fill(hidden, -math.inf).softmax(2)
        pooled = torch.einsum("hbn,bnhd->bhd", shares, values).flatten(1)
        attention = shares.flatten(0, 1)
        return {"mask": hidden, "attention": attention, "graph_vecs": pooled}


@dataclass(frozen=True)
class Rows:
    """The graphs of some rows: `ids`, `types` and `scores [row place]`, and one batched graph."""

    ids: Tensor
    types: Tensor
    scores: Tensor
    lengths: Tensor
    index: Tensor
    edge_types: Tensor

    @property
    def padding(self) -> Tensor:
        return torch.arange(self.ids.shape[1]) >= self.lengths[:, None]

    def with_loops(self) -> Tensor:
        nodes = torch.arange(self.ids.numel())
        return torch.cat([self.index, nodes.expand(2, -1)], 1)

    def one_hot(self, n_types: int) -> Tensor:
        """The input of the edge encoder: the types of an edge, its source and its target."""
        types = torch.cat([self.edge_types, torch.full((self.ids.numel(),), n_types)])
        nodes = F.one_hot(self.types.flatten(), N_NODE_TYPES)
        source, target = self.with_loops()
        return torch.cat([F.one_hot(types, n_types + 1), nodes[source], nodes[target]], 1)


def batched(edges: Sequence[tuple[Tensor, Tensor]], n_places: int) -> tuple[Tensor, Tensor]:
    """Edges of rows as those of one graph."""
    index = [ends + i * n_places for i, (ends, _) in enumerate(edges)]
    return torch.cat(index, 1), torch.cat([types for _, types in edges])


def normalised(rows: Rows) -> Tensor:
    """Larger is less relevant; the context node and padding have 0."""
    apart = (rows.scores[:, :1] - rows.scores).masked_fill(rows.padding, 0)
    return apart / (apart.abs().sum(1, keepdim=True) / rows.lengths[:, None] + 1e-5)


def concepts_of(net: Network, name: str, ids: Tensor) -> Tensor:
    """The table's rows, mapped where the widths differ."""
    vectors = net.state[f"{name}.emb.weight"][ids]
    if f"{name}.cpt_transform.weight" in net.state:
        return gelu(net.linear(f"{name}.cpt_transform", vectors))
    return vectors


def features_of(net: Network, prefix: str, types: Tensor, scores: Tensor) -> Tensor:
    kinds = F.one_hot(types, N_NODE_TYPES).to(scores.dtype)
    width = net.state[f"{prefix}emb_score.bias"].shape[0]
    waves = torch.sin(1.1 ** torch.arange(width, dtype=scores.dtype) * scores[..., None])
    parts = (
        gelu(net.linear(f"{prefix}emb_node_type", kinds)),
        gelu(net.linear(f"{prefix}emb_score", waves)),
    )
    return torch.cat(parts, -1).flatten(0, 1)


def n_layers_of(state: Mapping[str, Tensor]) -> int:
    numbers = (re.search(r"gnn_layers\.(\d+)\.", name) for name in state)
    return 1 + max(int(number[1]) for number in numbers if number)


def closing(net: Network, prefix: str, rows: Rows, sentence: Tensor, output: Tensor) -> Tensor:
    """Pool, put side by side, and score; `prefix` of the pooler and of the score."""
    hidden = rows.padding | (rows.types == CONTEXT)
    pool = net.pooled(f"{prefix}pooler", sentence, output, hidden)
    net.values |= {f"pool.{name}": value for name, value in pool.items()}
    text = torch.cat([pool["graph_vecs"], sentence, output[:, 0]], 1)
    net.values["concat"] = text
    return net.score_mlp(f"{prefix}fc", text, normed=True)


# ---- QA-GNN --------------------------------------------------------------------------------------
def qagnn(net: Network, rows: Rows, sentence: Tensor, n_choices: int, n_edge_types: int) -> Tensor:
    """The logits; every step by its stored name in `net.values`."""
    seen = net.values
    concepts = concepts_of(net, "concept_emb", (rows.ids[:, 1:] - 1))
    context = gelu(net.linear("svec2nvec", sentence))
    inputs = torch.cat([context[:, None], concepts], 1)
    scores = normalised(rows)
    extra = features_of(net, "gnn.", rows.types, scores)
    one_hot = rows.one_hot(n_edge_types).to(extra.dtype)
    seen |= {"concept_embedding": concepts, "gnn.input_H": inputs,
             "node_scores_normalised": scores[..., None], "node_feature_extra": extra}  # fmt: skip
    states = inputs.flatten(0, 1)
    for i in range(n_layers_of(net.state)):
        edges = net.normed_mlp("gnn.edge_encoder", one_hot)
        name = f"gnn.gnn_layers.{i}"
        layer = net.graph_layer(name, states, extra, edges, rows.with_loops())
        seen |= {f"layer{i}.{part}": value for part, value in layer.items()}
        if not i:
            seen["layer0.edge_embeddings"] = edges
        states = gelu(layer["output"])
    output = gelu(net.linear("gnn.Vh", inputs) + net.linear("gnn.Vx", states.view_as(inputs)))
    seen["gnn.output"] = output
    seen["logits"] = closing(net, "", rows, sentence, output).view(-1, n_choices)
    return seen["logits"]


# ---- the language model --------------------------------------------------------------------------
@dataclass(frozen=True)
class Words:
    """Texts as token ids; positions of RoBERTa skip what is `pad_id`, those of BERT nothing."""

    ids: Tensor
    mask: Tensor
    segments: Tensor
    pad_id: int
    family: str = "roberta"

    @property
    def positions(self) -> Tensor:
        if self.family == "bert":
            return torch.arange(self.ids.shape[1]).expand_as(self.ids)
        real = self.ids != self.pad_id
        return real.cumsum(1) * real + self.pad_id


def embedded(net: Network, prefix: str, words: Words, eps: float) -> Tensor:
    tables = (("word", words.ids), ("position", words.positions), ("token_type", words.segments))
    summed = sum(net.state[f"{prefix}embeddings.{name}_embeddings.weight"][ids]
                 for name, ids in tables)  # fmt: skip
    assert isinstance(summed, Tensor)
    return net.layer_norm(f"{prefix}embeddings.LayerNorm", summed, eps)


def lm_layer(
    net: Network, name: str, hidden: Tensor, mask: Tensor, config: Mapping[str, Any]
) -> Tensor:
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    query, key, value = (
        net.linear(f"{name}.attention.self.{part}", hidden).view(*hidden.shape[:2], heads, -1)
        for part in ("query", "key", "value")
    )
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[3])
    shares = (scores + (1 - mask[:, None, None].to(scores.dtype)) * -10000.0).softmax(3)
    context = torch.einsum("bhqk,bkhd->bqhd", shares, value).flatten(2)
    attended = net.linear(f"{name}.attention.output.dense", context)
    hidden = net.layer_norm(f"{name}.attention.output.LayerNorm", hidden + attended, eps)
    inner = F.gelu(net.linear(f"{name}.intermediate.dense", hidden))
    outer = net.linear(f"{name}.output.dense", inner)
    return net.layer_norm(f"{name}.output.LayerNorm", hidden + outer, eps)


def hidden_states(
    net: Network, words: Words, config: Mapping[str, Any], prefix: str = ""
) -> list[Tensor]:
    """The embeddings, then the states after each layer."""
    states = [embedded(net, prefix, words, config["layer_norm_eps"])]
    for i in range(config["num_hidden_layers"]):
        states.append(lm_layer(net, f"{prefix}encoder.layer.{i}", states[-1], words.mask, config))
    return states


def relevance(net: Network, words: Words, config: Mapping[str, Any]) -> Tensor:
    """Of each text minus the summed cross entropy of its own tokens, none masked."""
    hidden = hidden_states(net, words, config, "roberta.")[-1]
    eps = config["layer_norm_eps"]
    inner = net.layer_norm("lm_head.layer_norm", F.gelu(net.linear("lm_head.dense", hidden)), eps)
    table = net.state["roberta.embeddings.word_embeddings.weight"]
    logits = F.linear(inner, table, net.state["lm_head.bias"])
    likely = logits.log_softmax(2).gather(2, words.ids[..., None])[..., 0]
    return (likely * words.mask).sum(1)


# ---- GreaseLM ------------------------------------------------------------------------------------
def is_mixed(exchange: bool | str, fused: int) -> bool:
    return exchange is True or (exchange == "every-other-layer" and fused % 2 == 0)


def greaselm(
    net: Network, rows: Rows, words: Words, config: Mapping[str, Any], layer_id: int = -1
) -> Tensor:
    """The logits; every step by its stored name in `net.values`."""
    seen, lm, body = net.values, config["lm_config"], "lmgnn.mp."
    n_concepts = len(net.state["lmgnn.concept_emb.emb.weight"])
    ids = torch.cat([torch.full_like(rows.ids[:, :1], n_concepts - 1), rows.ids[:, 1:] - 1], 1)
    concepts = concepts_of(net, "lmgnn.concept_emb", ids)
    inputs = concepts.clone()
    inputs[:, 0] = 0
    scores = torch.zeros_like(rows.scores)
    extra = features_of(net, body, rows.types, scores)
    seen |= {"concept_embedding": concepts, "concept_ids_as_looked_up": ids,
             "node_scores_used": scores[..., None], "node_feature_extra": extra}  # fmt: skip
    hidden = [embedded(net, body, words, lm["layer_norm_eps"])]
    seen["lm.embedding"] = hidden[0]
    one_hot = rows.one_hot(config["n_etype"]).to(extra.dtype)
    states = inputs.flatten(0, 1)
    for i in range(lm["num_hidden_layers"]):
        state = lm_layer(net, f"{body}encoder.layer.{i}", hidden[-1], words.mask, lm)
        seen[f"lm.layer{i}.output_before_mixing"] = state
        fused = i - lm["num_hidden_layers"] + config["k"]
        if fused >= 0:
            states = _fused(net, fused, states, extra, one_hot, rows)
            state, states = _mixed(net, fused, state, states, rows, config)
        hidden.append(state)
    output = gelu(net.linear(f"{body}Vh", inputs) + net.linear(f"{body}Vx", states.view_as(inputs)))
    sentence = net.linear(f"{body}pooler.dense", hidden[layer_id][:, 0]).tanh()
    seen |= {"lm.last_hidden": hidden[-1], "gnn.output": output, "sent_vecs": sentence}
    seen["logits"] = closing(net, "lmgnn.", rows, sentence, output).view(-1, config["num_choice"])
    return seen["logits"]


def _fused(
    net: Network, fused: int, states: Tensor, extra: Tensor, one_hot: Tensor, rows: Rows
) -> Tensor:
    """One graph layer beside a layer of the language model."""
    name = "lmgnn.mp.encoder."
    edges = net.normed_mlp(f"{name}edge_encoder", one_hot)
    layer = net.graph_layer(f"{name}gnn_layers.{fused}", states, extra, edges, rows.with_loops())
    net.values[f"gnn.layer{fused}.input"] = states
    net.values |= {f"gnn.layer{fused}.{part}": value for part, value in layer.items()}
    return gelu(layer["output"])


def _mixed(
    net: Network, fused: int, words: Tensor, states: Tensor, rows: Rows, config: Mapping[str, Any]
) -> tuple[Tensor, Tensor]:
    """First token and context node replaced by what the MLP makes of both."""
    if not is_mixed(config["info_exchange"], fused):
        return words, states
    name = "lmgnn.mp.encoder.ie_layer"
    name += f"s.{fused}" if config["sep_ie_layers"] else ""
    places = states.view(*rows.ids.shape, -1)
    pair = torch.cat([words[:, 0], places[:, 0]], 1)
    mixed = net.score_mlp(name, pair, normed=False)
    net.values |= {f"mixing{fused}.input": pair, f"mixing{fused}.output": mixed}
    first, context = mixed.split([words.shape[2], places.shape[2]], 1)
    words = torch.cat([first[:, None], words[:, 1:]], 1)
    places = torch.cat([context[:, None], places[:, 1:]], 1)
    return words, places.flatten(0, 1)


# ---- losses and training -------------------------------------------------------------------------
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels)


def margin_rank(logits: Tensor, labels: Tensor) -> Tensor:
    right = logits.gather(1, labels[:, None])
    wrong = ~F.one_hot(labels, logits.shape[1]).bool()
    return (0.1 - (right - logits)).clamp(min=0)[wrong].mean()


LOSSES = {"cross_entropy": cross_entropy, "margin_rank": margin_rank}


class RAdam:
    """The originals' own: plain updates while the variance has too few terms, then rectified."""

    def __init__(self, parameters: Mapping[str, Tensor], rates: Mapping[str, float], decay: float):
        self.parameters, self.rates, self.decay = parameters, rates, decay
        self.moments: dict[str, tuple[int, Tensor, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        for name, value in self.parameters.items():
            if value.grad is None:
                continue
            t, first, second = self.moments.get(name, (0, value * 0, value * 0))
            t, first = t + 1, 0.9 * first + 0.1 * value.grad
            second = 0.999 * second + 0.001 * value.grad**2
            self.moments[name] = t, first, second
            if not any(part in name for part in NO_DECAY):
                value.mul_(1 - self.rates[name] * self.decay)
            value.sub_(self.rates[name] / (1 - 0.9**t) * rectified(t, first, second))


def rectified(t: int, first: Tensor, second: Tensor) -> Tensor:
    most, power = 2 / (1 - 0.999) - 1, 0.999**t
    n = most - 2 * t * power / (1 - power)
    if n < 5:
        return first
    share = (n - 4) / (most - 4) * (n - 2) / n * most / (most - 2)
    return math.sqrt((1 - power) * share) * first / (second.sqrt() + 1e-8)


def micro_batches(
    n_questions: int, settings: Mapping[str, Any]
) -> Iterator[tuple[slice, float, bool]]:
    """Questions of each micro-batch, its share of its batch, and whether it ends the batch."""
    size, micro = settings["batch_size"], settings["mini_batch_size"]
    for first in range(0, n_questions, size):
        stop = min(first + size, n_questions)
        for start in range(first, stop, micro):
            end = min(start + micro, stop)
            yield slice(start, end), (end - start) / (stop - first), end == stop


def clip(parameters: Mapping[str, Tensor], most: float) -> None:
    grads = [value.grad for value in parameters.values() if value.grad is not None]
    norm = torch.stack([grad.norm() for grad in grads]).norm()
    for grad in grads:
        grad.mul_(min(1.0, most / (float(norm) + 1e-6)))
