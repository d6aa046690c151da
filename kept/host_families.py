"""Families of encoders: where the parts of each lie, and how one of its layers is called.

`kept.hosts` is what other modules use. A new family is one class here and one name in
`tests/kept/tiny_hosts.py`; the contract of encoders then tries every method on it.

Some families know positions as *distances* between nodes (MPNet, DeBERTa, NomicBERT and
ModernBERT). The distance of two nodes is then the difference of their positions, soft ones too:
K-BERT's first fact word is one place from its mention, although other words lie between them in
the row. ModernBERT's local layers let a node see the nodes within their window of *positions*.

Axis legend: batch, node, width (of the layers), embedding (of the word table), head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from kept.batches import Visibility
from kept.errors import BatchError, HostError
from kept.layers.fused import bert_layer, is_fusable

Step = Callable[[nn.Module, Tensor], Tensor]
"""From a layer and states `[batch node width]` to the states after that layer."""
Positions: TypeAlias = Int[Tensor, "batch node"]
Weights: TypeAlias = Float[Tensor, "batch node"]


class LayerInputs(NamedTuple):
    """What the layers of a host read besides states."""

    visibility: Visibility
    positions: Positions | None
    weights: Weights | None


def linear_maps(query: str, key: str, value: str, output: str) -> Mapping[str, str]:
    """Return the linear maps of a layer by LoRA's names for them."""
    return {"query": query, "key": key, "value": value, "output": output}


class Family:
    """BERT's shape, which most families share; the others are subclasses.

    `layer_path`: where the list of layers is in the host.
    `has_bert_layers`: a layer has the parts of BERT's (`attention.self`, `attention.output`,
    `intermediate`, `output`) and is called with states and a mask alone. ERNIE, LUKE and projected
    attention layers compute with these parts. `has_bert_outputs`: both sub-layers end in an
    `output.dropout`, where bottlenecks go. `projections`: LoRA's targets to the linear maps of a
    layer. `attention`: the part of a layer that returns its attention weights, "" where none does.
    `weighs_links`: whether attention can be multiplied by the weights of links.
    `implementations`: those of attention that can take a mask for each pair of nodes.
    """

    model_types: tuple[str, ...] = ("bert", "electra", "ernie")
    layer_path = "encoder.layer"
    has_bert_layers = True
    has_bert_outputs = True
    projections: Mapping[str, str] = linear_maps(
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    )
    attention = "attention.self"
    weighs_links = True
    implementations: tuple[str, ...] = ("sdpa", "eager")
    head_names: tuple[str, ...] = ("pooler.",)
    """Prefixes of what reads the last layer."""

    def layers(self, host: Any) -> Sequence[nn.Module]:
        """Return the layers, first to last; one that is passed several times, several times."""
        return list(host.get_submodule(self.layer_path))

    def layer_prefix(self, host: PreTrainedModel, number: int) -> str:
        """Return the name of layer `number` in the host, with a dot at its end."""
        return f"{self.layer_path}.{number}."

    def keep_first(self, host: Any, n: int) -> None:
        """Remove the layers above the first `n`."""
        parent, _, name = self.layer_path.rpartition(".")
        setattr(host.get_submodule(parent), name, host.get_submodule(self.layer_path)[:n])
        host.config.num_hidden_layers = n

    def new_layer(self, host: PreTrainedModel) -> nn.Module:
        """Return one more layer of the host's kind and sizes, untrained."""
        return type(self.layers(host)[0])(host.config)

    def layer_number(self, config: PretrainedConfig, name: str) -> int | None:
        """Return the number of the layer that the host's parameter `name` belongs to, or None."""
        match = re.match(rf"{re.escape(self.layer_path)}\.(\d+)\.", name)
        return int(match[1]) if match else None

    def position_offset(self, config: PretrainedConfig) -> int:
        """Return the row of the position table that a text's first token uses."""
        return 0

    def norm(self, host: Any) -> nn.Module:
        """Return the LayerNorm after the embeddings."""
        norm: nn.Module = host.embeddings.LayerNorm
        return norm

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Return what the first layer reads; `positions` are rows of the position table."""
        hidden: Tensor = host.embeddings(
            inputs_embeds=vectors, position_ids=positions, token_type_ids=segments
        )
        projection = getattr(host, "embeddings_project", None)  # ELECTRA's
        return hidden if projection is None else projection(hidden)

    def stepper(self, host: Any, inputs: LayerInputs) -> Step:
        """Return the function that computes a layer."""
        mask = self.mask(host, inputs.visibility, inputs.weights)

        def step(layer: nn.Module, hidden: Tensor) -> Tensor:
            if self.has_bert_layers and is_fusable(layer, hidden):
                fused: Tensor = bert_layer(layer, hidden, mask)
                return fused
            states: Tensor = layer(hidden, mask)
            return states

        return step

    def mask(self, host: Any, visibility: Visibility, weights: Weights | None) -> Tensor:
        """Return the mask `[batch 1 node node]` in the form that the host's attention reads."""
        kind = host.config._attn_implementation
        return visibility.attention(kind, host.dtype, weights=weights)

    def pooled(self, host: Any, states: Tensor) -> Tensor:
        """Return the pooler's vector of the first node; its bare state without a pooler."""
        pooler = getattr(host, "pooler", None)
        return states[:, 0] if pooler is None else pooler(states)


class RoBERTa(Family):
    """BERT whose positions start behind the row of padding."""

    model_types = ("roberta", "xlm-roberta", "camembert")

    def position_offset(self, config: PretrainedConfig) -> int:
        return int(config.pad_token_id) + 1


class DistilBERT(Family):
    """Half of BERT's layers, no segments and no pooler (Sanh et al. 2019)."""

    model_types = ("distilbert",)
    layer_path = "transformer.layer"
    has_bert_layers = has_bert_outputs = False
    projections = linear_maps(
        "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"
    )
    attention = "attention"

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden: Tensor = host.embeddings(None, inputs_embeds=vectors, position_ids=positions)
        return hidden


class ALBERT(Family):
    """Few layers, each passed several times (Lan et al. 2020).

    A layer here is one pass: what a method adds after layer n comes after pass n. What is inserted
    *into* a layer (LoRA) is shared by its passes, as its weights are. In schedules that go layer by
    layer, a shared layer belongs to its first pass, so that no state below changes with it.
    """

    model_types = ("albert",)
    layer_path = "encoder.albert_layer_groups"
    has_bert_layers = has_bert_outputs = False
    projections = linear_maps(
        "attention.query", "attention.key", "attention.value", "attention.dense"
    )
    attention = ""

    def layers(self, host: Any) -> Sequence[nn.Module]:
        groups = super().layers(host)
        return [groups[i] for i in _albert_passes(host.config)]

    def layer_prefix(self, host: PreTrainedModel, number: int) -> str:
        group = _albert_passes(host.config)[number]
        return f"encoder.albert_layer_groups.{group}.albert_layers.0."

    def keep_first(self, host: Any, n: int) -> None:
        if host.config.num_hidden_groups > 1:
            raise HostError("an ALBERT with several groups of layers cannot be shortened; use all")
        host.config.num_hidden_layers = n

    def layer_number(self, config: PretrainedConfig, name: str) -> int | None:
        group = super().layer_number(config, name)
        return None if group is None else _albert_passes(config).index(group)

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden: Tensor = host.encoder.embedding_hidden_mapping_in(
            super().embed(host, vectors, positions, segments)
        )
        return hidden

    def pooled(self, host: Any, states: Tensor) -> Tensor:
        if host.pooler is None:
            return states[:, 0]
        vector: Tensor = host.pooler_activation(host.pooler(states[:, 0]))
        return vector


def _albert_passes(config: Any) -> list[int]:
    """The group of layers of every pass."""
    per_group = config.num_hidden_layers / config.num_hidden_groups
    return [int(i / per_group) for i in range(config.num_hidden_layers)]


class MPNet(Family):
    """BERT with a bias for the distance of two nodes, and positions (Song et al. 2020).

    The bias is added to the scores, so it is part of the mask here.
    """

    model_types = ("mpnet",)
    has_bert_layers = has_bert_outputs = False
    projections = linear_maps(
        "attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o"
    )
    attention = ""
    implementations = ("eager",)

    def position_offset(self, config: PretrainedConfig) -> int:
        return 2  # MPNetEmbeddings has row 1 for padding whatever its configuration says

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden: Tensor = host.embeddings(inputs_embeds=vectors, position_ids=positions)
        return hidden

    def stepper(self, host: Any, inputs: LayerInputs) -> Step:
        mask = inputs.visibility.attention("eager", host.dtype, weights=inputs.weights)
        distances = -_distances(
            inputs.positions, "MPNet"
        )  # from the reader to the node that is read
        buckets = host.encoder.relative_position_bucket(distances)
        bias = host.encoder.relative_attention_bias(buckets).permute(0, 3, 1, 2)
        with_bias = (mask + bias).clamp(min=torch.finfo(host.dtype).min)
        return lambda layer, hidden: layer(hidden, with_bias)[0]


class DeBERTa(Family):
    """Attention by content and by distance apart (He et al. 2021; DeBERTa-v2 and v3).

    It multiplies no link by a weight, since it takes only visible or not.
    """

    model_types = ("deberta-v2",)
    has_bert_layers = False
    projections = linear_maps(
        "attention.self.query_proj",
        "attention.self.key_proj",
        "attention.self.value_proj",
        "attention.output.dense",
    )
    attention = ""
    weighs_links = False
    implementations = ("eager",)

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        if host.encoder.conv is not None:
            raise HostError(
                "this DeBERTa has a convolution over neighbouring words (conv_kernel_size), which "
                "would mix words and facts that lie side by side; use deberta-v3, or a size of v2 "
                "without it"
            )
        return super().embed(host, vectors, positions, segments)

    def stepper(self, host: Any, inputs: LayerInputs) -> Step:
        visible = inputs.visibility.mask.unsqueeze(1)
        encoder, relative = host.encoder, None
        if encoder.relative_attention:
            relative = _distances(inputs.positions, "DeBERTa")
            if encoder.position_buckets > 0:
                relative = make_log_bucket_position(
                    relative, encoder.position_buckets, encoder.max_relative_positions
                ).to(torch.long)
            n_heads = host.config.num_attention_heads  # one block [node node] a sample and head
            relative = relative.repeat_interleave(n_heads, dim=0).unsqueeze(0)
        embeddings = encoder.get_rel_embedding()
        return lambda layer, hidden: layer(
            hidden, visible, relative_pos=relative, rel_embeddings=embeddings
        )[0]


class NomicBERT(Family):
    """BERT with rotated positions and no table of them (Nussbaum et al. 2024)."""

    model_types = ("nomic_bert",)
    layer_path = "layers"
    has_bert_layers = has_bert_outputs = False
    projections = linear_maps(
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"
    )
    attention = "self_attn"

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden: Tensor = host.embeddings(inputs_embeds=vectors, token_type_ids=segments)
        return hidden

    def stepper(self, host: Any, inputs: LayerInputs) -> Step:
        mask = self.mask(host, inputs.visibility, inputs.weights)
        rows = _required(inputs.positions, "NomicBERT")

        def step(layer: nn.Module, hidden: Tensor) -> Tensor:
            states: Tensor = layer(
                hidden, attention_mask=mask, position_embeddings=host.rotary_emb(hidden, rows)
            )
            return states

        return step


class ModernBERT(NomicBERT):
    """Rotated positions; layers that see everything, and local ones (Warner et al. 2024).

    The last layer's states are normalised as the host does it.
    """

    model_types = ("modernbert",)
    projections = linear_maps("attn.Wqkv", "attn.Wqkv", "attn.Wqkv", "attn.Wo")  # one makes three
    attention = "attn"

    def layer_number(self, config: PretrainedConfig, name: str) -> int | None:
        if name.startswith("final_norm."):
            return int(config.num_hidden_layers) - 1
        return super().layer_number(config, name)

    def new_layer(self, host: PreTrainedModel) -> nn.Module:
        last = self.layers(host)[-1]
        return type(last)(host.config, len(self.layers(host)) - 1)

    def keep_first(self, host: Any, n: int) -> None:
        super().keep_first(host, n)
        host.config.layer_types = host.config.layer_types[:n]

    def norm(self, host: Any) -> nn.Module:
        norm: nn.Module = host.embeddings.norm
        return norm

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden: Tensor = host.embeddings(inputs_embeds=vectors)
        return hidden

    def stepper(self, host: Any, inputs: LayerInputs) -> Step:
        visibility, positions, weights = inputs
        near = _distances(positions, "ModernBERT").abs() <= host.config.sliding_window
        masks = {
            "full_attention": self.mask(host, visibility, weights),
            "sliding_attention": self.mask(host, Visibility(visibility.mask & near), weights),
        }
        last = self.layers(host)[-1]

        def step(layer: Any, hidden: Tensor) -> Tensor:
            kind = layer.attention_type
            rotated = host.rotary_emb(hidden, positions, kind)
            states: Tensor = layer(hidden, attention_mask=masks[kind], position_embeddings=rotated)
            if layer is last:
                states = host.final_norm(states)
            return states

        return step


class WholeHost(Family):
    """Any other encoder of transformers, run as a whole.

    Nothing can be done between its layers, and all nodes see each other. That is enough for methods
    whose knowledge is in the text or in the vectors that go in.
    """

    model_types = ()
    has_bert_layers = has_bert_outputs = False
    projections: Mapping[str, str] = {}
    attention = ""
    weighs_links = False

    def layers(self, host: Any) -> Sequence[nn.Module]:
        raise HostError(self.refusal(host, "this step"))

    def refusal(self, host: Any, what: str) -> str:
        """Return why `what` does not work with this host."""
        return (
            f"{what} needs the layers of a host, and kept does not know those of "
            f"{host.config.model_type!r}; use a host of {', '.join(MODEL_TYPES)}, or one of the "
            "methods that need no layers, such as none, words, kepler and ebert"
        )

    def layer_number(self, config: PretrainedConfig, name: str) -> int | None:
        match = re.match(r"(?:.*\.)?(?:layers?|h|blocks?)\.(\d+)\.", name)
        return int(match[1]) if match else None

    def keep_first(self, host: Any, n: int) -> None:
        self.layers(host)

    def embed(self, host: Any, vectors: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        return vectors  # the host embeds while it runs

    def run(
        self,
        host: Any,
        vectors: Tensor,
        visibility: Visibility,
        node_mask: Bool[Tensor, "batch node"] | None,
        positions: Positions | None,
    ) -> tuple[Tensor, ...]:
        """Return the host's states of all layers, the embeddings' first.

        Nodes are put in the order of their positions while the host runs. Raises `BatchError` where
        nodes do not all see each other, or two share a position, or one is left out.
        """
        real = visibility.mask.new_ones(vectors.shape[:2]) if node_mask is None else node_mask
        name = host.config.model_type
        both = real[:, None, :] & real[:, :, None]
        if bool((both & ~visibility.mask).any()):
            raise BatchError(f"a {name} host lets all words see each other; use another method")
        places = real.cumsum(1) - 1 if positions is None else positions
        last = real.shape[1]
        order = places.masked_fill(~real, last).argsort(dim=1, stable=True)
        mask = real.gather(1, order)
        counted = torch.arange(last, device=order.device)
        if bool(((places.gather(1, order) != counted) & mask).any()):
            raise BatchError(f"a {name} host counts its positions itself; use another method")
        output = host(
            inputs_embeds=_in_order(vectors, order),
            attention_mask=mask.long(),
            output_hidden_states=True,
        )
        states = (*output.hidden_states[:-1], output.last_hidden_state)
        return tuple(_in_order(each, order.argsort(dim=1)) for each in states)


def _in_order(values: Tensor, order: Tensor) -> Tensor:
    return values.gather(1, order[..., None].expand_as(values))


def _required(positions: Tensor | None, family: str) -> Tensor:
    if positions is None:
        raise BatchError(f"{family} reads the positions of nodes in every layer; give `positions`")
    return positions


def _distances(positions: Positions | None, family: str) -> Int[Tensor, "batch node node"]:
    """The position of the node that reads (second axis) less that of the node that is read."""
    rows = _required(positions, family)
    return rows[:, :, None] - rows[:, None, :]


FAMILIES: tuple[Family, ...] = (
    Family(),
    RoBERTa(),
    DistilBERT(),
    ALBERT(),
    MPNet(),
    DeBERTa(),
    NomicBERT(),
    ModernBERT(),
)
MODEL_TYPES: tuple[str, ...] = tuple(name for family in FAMILIES for name in family.model_types)
_BY_NAME = {name: family for family in FAMILIES for name in family.model_types}
_WHOLE = WholeHost()


def family_of(config: PretrainedConfig) -> Family:
    """Return the family of a host by its configuration; `WholeHost` for one of no other."""
    return _BY_NAME.get(config.model_type, _WHOLE)


def n_rows_of_positions(config: Any) -> int:
    """Return how many positions a host has, those before a text's first included.

    512 where the configuration states none, as for hosts that know distances alone.
    """
    return int(getattr(config, "max_position_embeddings", 0) or 512)


def layer_norm_eps(config: Any) -> float:
    """Return the epsilon of the host's layer norms: 1e-12 where it names none (DistilBERT)."""
    for name in ("layer_norm_eps", "norm_eps"):
        value = getattr(config, name, None)
        if value is not None:
            return float(value)
    return 1e-12


def n_segments(config: Any) -> int:
    """Return how many texts of a pair the host can tell apart: 1 without segment embeddings."""
    return max(int(getattr(config, "type_vocab_size", 0) or 0), 1)
