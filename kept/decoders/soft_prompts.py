"""Facts as a soft prompt: a graph network reads them, a frozen decoder reads its vectors as words.

He et al. 2024, "G-Retriever" (NeurIPS), sections 5.3 and 5.4: the facts around a question are a
graph whose nodes and edges have sentence vectors; a graph attention network makes states of its
nodes, their mean goes through two layers to vectors of the decoder's width, and these stand before
the text. Network and layers are those of torch-geometric's `GRetriever`; nothing of the decoder is
trained. Where we differ: a fact is an edge in both directions, the facts are those of the linked
entities (no Steiner tree is chosen), and they are not repeated as words. A prompt may stand within
the text, where words would: in front of the first mark of a turn bare words are read half as often
(experiments/question_answering). And it may be aligned first with the decoder's own words for the
facts (`said_words`), which takes no pass of the decoder.

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
from kept.decoders.trees import LabelVectors, Tree
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
    """Sentence vectors of the labels of a graph's entities and relations, less their means.

    Labels have most of their vectors in common, and a graph network's mean over nodes keeps little
    else: without the means taken off, prompts of two entities differ by a twentieth of their
    length. Where we differ from the paper. `means`: of entities, of relations.
    """

    graph: KnowledgeGraph
    entities: Float[Tensor, "entity vector"]
    relations: Float[Tensor, "relation vector"]
    means: tuple[Tensor, Tensor]

    @classmethod
    def of(
        cls, graph: KnowledgeGraph, encoder: Any, like: LabelSentences | None = None
    ) -> LabelSentences:
        """Those of every label, by an `entity_linking.parts.SentenceEncoder`.

        `like`: those that a prompter was trained on, whose means are taken off.
        """
        entities = unit_vectors([graph.label(i) for i in range(graph.n_entities)], encoder)
        names = [graph.relation_label(i) for i in range(graph.n_relations)]
        relations = unit_vectors(names, encoder)
        mean_rows = entities.mean(dim=0), relations.mean(dim=0)
        means = mean_rows if like is None else like.means
        return cls(graph, entities - means[0], relations - means[1], means)

    def around(self, graph: KnowledgeGraph, entity: int) -> Facts | None:
        """The facts of `graph` (of the same ids) whose head is `entity`; None without one."""
        triples = graph.outgoing(entity)
        if not len(triples):
            return None
        nodes, inverse = np.unique(triples[:, [0, 2]], return_inverse=True)
        ends = torch.from_numpy(inverse.reshape(-1, 2).T)
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
            options.vector_width,
            options.width,
            options.n_layers,
            options.width,
            v2=True,
            heads=options.n_heads,
            edge_dim=options.vector_width,
        )
        asked_for = SimpleNamespace(
            llm=host,
            device=host.device,
            word_embedding=host.get_input_embeddings(),
            autocast_context=nullcontext(),
        )
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
        trained = dict(self.trained())
        wrong = sorted(trained.keys() ^ state.keys())
        if wrong:
            raise ConfigError(f"weights of another soft prompt; in one alone: {wrong[:3]}")
        with torch.no_grad():
            for name, value in trained.items():
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
        return self.retriever.projector(states)

    def tree(
        self,
        host: PreTrainedModel,
        facts: Sequence[Facts | None],
        input_ids: Int[Tensor, "batch node"],
        node_mask: Bool[Tensor, "batch node"],
        before: Sequence[int] | None = None,
    ) -> Tree:
        """What the decoder reads: words, padded on the right, and among them each text's prompt.

        A prompt stands in front of the text, or before the word whose number `before` gives. A text
        without facts has no prompt: its numbers are those of the words alone.
        """
        if len(facts) != len(input_ids):
            raise BatchError(f"facts of {len(facts)} texts for {len(input_ids)}")
        words = host.get_input_embeddings()(input_ids)
        there = torch.tensor([each is not None for each in facts], device=input_ids.device)
        facts_given = [each for each in facts if each is not None]
        vectors, mask = words, node_mask
        if facts_given:
            soft_words = self(facts_given)
            soft = words.new_zeros(len(words), soft_words.shape[1], words.shape[2])
            soft = soft.index_put((there.nonzero()[:, 0],), soft_words.to(words.dtype))
            positions = before or [0] * len(words)
            vectors = _among(words, soft, positions)
            mask = _among(node_mask, there[:, None].expand(-1, soft_words.shape[1]), positions)
        numbers = torch.arange(mask.shape[1], device=mask.device)
        return Tree(
            vectors,
            hosts.running_positions(mask),
            Visibility.causal(mask),
            mask,
            mask.sum(dim=1),
            (mask * numbers).argmax(dim=1),
        )


def _among(nodes: Tensor, new: Tensor, positions: Sequence[int]) -> Tensor:
    """Rows of `nodes` `[batch node ...]` with those of `new` before the node of that number."""
    rows = zip(nodes, new, positions, strict=True)
    return torch.stack([torch.cat([words[:k], soft, words[k:]]) for words, soft, k in rows])


def said_words(
    graph: KnowledgeGraph, entities: Sequence[int], words: LabelVectors, n_soft: int
) -> Float[Tensor, "entity soft width"]:
    """A prompt for each entity in words of the decoder: a relation, its value, the next relation.

    What a graph network can learn to say before the decoder has read any of it. With fewer pairs of
    vectors than relations these share them, each the mean of its words; one vector alone is of
    values. An entity without a fact of a pair has zeros there.
    """
    n_pairs = max(n_soft // 2, 1)
    triples = np.concatenate([graph.outgoing(entity) for entity in entities])
    pair_of = {r: i % n_pairs for i, r in enumerate(np.unique(triples[:, 1]).tolist())}
    vectors = words.entities.new_zeros(len(entities), n_soft, words.entities.shape[1])
    for row, entity in enumerate(entities):
        counts = [0] * n_pairs
        for _, relation, tail in graph.outgoing(entity).tolist():
            pair = pair_of[relation]
            counts[pair] += 1
            vectors[row, n_soft // n_pairs * (pair + 1) - 1] += words.entities[tail]
            if n_soft > 1:
                vectors[row, n_soft // n_pairs * pair] += words.relations[relation]
        for pair, count in enumerate(counts):
            width = n_soft // n_pairs
            vectors[row, width * pair : width * (pair + 1)] /= max(count, 1)
    return vectors
