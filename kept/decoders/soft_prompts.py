"""Facts as a soft prompt: a graph network reads them, a frozen decoder reads its vectors as words.

He et al. 2024, "G-Retriever" (NeurIPS), sections 5.3 and 5.4: the facts around a question are a
graph whose nodes and edges have sentence vectors; a graph attention network makes states of its
nodes, their mean goes through two layers to vectors of the decoder's width, and these stand before
the text. Network and layers are those of torch-geometric's `GRetriever`; nothing of the decoder is
trained. Where we differ: a fact is an edge in both directions, the facts are those of the linked
entities (no Steiner tree is chosen), and they are not repeated as words.

Axis legend: batch, soft (vectors of a prompt), node, width (of the decoder), vector (of a
sentence).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from kept.batches import Visibility
from kept.decoders import hosts
from kept.decoders.kblam.knowledge_base import unit_vectors
from kept.decoders.trees import Tree
from kept.errors import BatchError, ConfigError
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class SoftPromptOptions:
    """`n_soft` vectors from a network `width` wide of `n_layers`; raises `ConfigError`."""

    vector_width: int
    n_soft: int = 4
    width: int = 128
    n_layers: int = 2
    n_heads: int = 4

    def __post_init__(self) -> None:
        names = ("vector_width", "n_soft", "width", "n_layers", "n_heads")
        faults = [f"{n} {getattr(self, n)}: 1 or more" for n in names if getattr(self, n) < 1]
        if not faults and self.width % self.n_heads:
            faults.append(f"width {self.width}: a multiple of n_heads {self.n_heads}")
        if faults:
            raise ConfigError("soft prompt: " + "; ".join(faults))


@dataclass(frozen=True, eq=False)
class Facts:
    """The graph around a text: vectors of its nodes and edges, and the ends of these."""

    x: Float[Tensor, "entity vector"]
    edge_index: Int[Tensor, "2 edge"]
    edge_attr: Float[Tensor, "edge vector"]


@dataclass(frozen=True, eq=False)
class LabelSentences:
    """Sentence vectors of the labels of a graph's entities and relations."""

    graph: KnowledgeGraph
    entities: Float[Tensor, "entity vector"]
    relations: Float[Tensor, "relation vector"]

    @classmethod
    def of(cls, graph: KnowledgeGraph, encoder: Any) -> LabelSentences:
        """Those of every label, by an `entity_linking.parts.SentenceEncoder`."""
        entities = [graph.label(i) for i in range(graph.n_entities)]
        relations = [graph.relation_label(i) for i in range(graph.n_relations)]
        return cls(graph, unit_vectors(entities, encoder), unit_vectors(relations, encoder))

    def around(self, graph: KnowledgeGraph, entity: int) -> Facts | None:
        """The facts of `graph` (of the same ids) whose head is `entity`; None without one."""
        triples = graph.outgoing(entity)
        if not len(triples):
            return None
        nodes, places = np.unique(triples[:, [0, 2]], return_inverse=True)
        ends = torch.from_numpy(places.reshape(-1, 2).T)
        relations = self.relations[triples[:, 1].tolist()]
        return Facts(
            self.entities[nodes.tolist()],
            torch.cat([ends, ends.flip(0)], dim=1),
            relations.repeat(2, 1),
        )


class GraphPrompter(nn.Module):
    """What makes vectors of facts that stand before a decoder's text.

    `retriever` is torch-geometric's; of it `trained` alone is learnt and stored.
    """

    def __init__(self, host: PreTrainedModel, options: SoftPromptOptions) -> None:
        super().__init__()
        from torch_geometric.llm.models import GRetriever
        from torch_geometric.nn import GAT

        hosts.check_decoder(host)
        host.requires_grad_(False)
        network = GAT(
            options.vector_width, options.width, options.n_layers, options.width,
            v2=True, heads=options.n_heads, edge_dim=options.vector_width,
        )  # fmt: skip
        asked_for = SimpleNamespace(
            llm=host, device=host.device, word_embedding=host.get_input_embeddings(),
            autocast_context=nullcontext(),
        )  # fmt: skip
        self.retriever = GRetriever(asked_for, network, mlp_out_tokens=options.n_soft)

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and values of the network and of the layers behind it."""
        for part in ("gnn", "projector"):
            for name, value in getattr(self.retriever, part).named_parameters():
                yield f"{part}.{name}", value

    def own_state(self) -> dict[str, Tensor]:
        """What `trained` names, detached."""
        return {name: value.detach() for name, value in self.trained()}

    def load_own_state(self, state: dict[str, Tensor]) -> None:
        """Set what `own_state` returns; raises `ConfigError` for a name too many or too few."""
        own = dict(self.trained())
        wrong = sorted(own.keys() ^ state.keys())
        if wrong:
            raise ConfigError(f"weights of another soft prompt; in one alone: {wrong[:3]}")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(state[name])

    def forward(self, facts: Sequence[Facts]) -> Float[Tensor, "batch soft width"]:
        """The prompts of texts, each with its facts; raises `BatchError` without a text."""
        if not facts:
            raise BatchError("no text with facts to make a prompt of")
        sizes = torch.tensor([len(each.x) for each in facts])
        starts = sizes.cumsum(0) - sizes
        edges = [each.edge_index + start for each, start in zip(facts, starts, strict=True)]
        states = self.retriever.encode(
            torch.cat([each.x for each in facts]),
            torch.cat(edges, dim=1),
            torch.arange(len(facts)).repeat_interleave(sizes),
            torch.cat([each.edge_attr for each in facts]),
        )
        prompts: Tensor = self.retriever.projector(states)
        return prompts

    def tree(
        self, host: PreTrainedModel, facts: Sequence[Facts | None],
        input_ids: Int[Tensor, "batch node"], node_mask: Bool[Tensor, "batch node"],
    ) -> Tree:  # fmt: skip
        """What the decoder reads: each text's prompt, then its words, padded on the right.

        A text without facts has no prompt: its numbers are those of the words alone.
        """
        if len(facts) != len(input_ids):
            raise BatchError(f"facts of {len(facts)} texts for {len(input_ids)}")
        words = host.get_input_embeddings()(input_ids)
        there = torch.tensor([each is not None for each in facts], device=input_ids.device)
        known = [each for each in facts if each is not None]
        vectors, mask = words, node_mask
        if known:
            made = self(known)
            soft = words.new_zeros(len(words), made.shape[1], words.shape[2])
            soft = soft.index_put((there.nonzero()[:, 0],), made.to(words.dtype))
            vectors = torch.cat([soft, words], dim=1)
            mask = torch.cat([there[:, None].expand(-1, made.shape[1]), node_mask], dim=1)
        places = torch.arange(mask.shape[1], device=mask.device)
        return Tree(
            vectors, hosts.running_positions(mask), Visibility.causal(mask), mask,
            mask.sum(dim=1), (mask * places).argmax(dim=1),
        )  # fmt: skip
