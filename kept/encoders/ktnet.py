"""KT-NET: each word attends to the concepts that it may mean, then to all other words.

Yang et al. 2019, "Enhancing Pre-Trained Language Representations with Rich Knowledge for Machine
Reading Comprehension" (ACL): the layers of knowledge integration and of self-matching. Where we
differ: its last linear layer scores start and end from six states side by side; here `output`
brings these back to the host's width and adds the host's own states, so that any head and objective
reads them. Under a head that is linear the two layers are one.

Axis legend: batch, node, slot (concepts of one word), width (of the host), concept_width, joint
(width + concept_width), entity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, NONE, PAD_ROW, KnowledgeBatch
from kept.batches.host_copies import on_host
from kept.encoders.base import EMBEDDINGS, HEAD, KnowledgeConfig, KnowledgeEncoder, VectorEncoder
from kept.errors import BatchError
from kept.graphs.views.ktnet import CONCEPTS
from kept.kge.vectors import RECIPE, open_vectors, vector_rows
from kept.layers.part_table import entity_table
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

WIDTH = 100
"""Of the paper's concept vectors."""
N_JOINED = 6
"""States that self-matching puts side by side."""


class KTNETConfig(KnowledgeConfig):
    """`concept_width`: of the concepts' vectors."""

    model_type = "kept-ktnet"

    def __init__(self, *, concept_width: int = WIDTH, **options: Any) -> None:
        self.concept_width = concept_width
        super().__init__(**options)


class SentinelAttention(nn.Module):
    """Knowledge integration: a word's attention to its concepts and to a learned sentinel.

    A score is the product of the projected state and a vector; a word without concepts gets zeros.
    """

    def __init__(self, *, width: int, concept_width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, concept_width, bias=False)
        self.sentinel = nn.Parameter(torch.zeros(concept_width))

    def attention(
        self,
        states: Float[Tensor, "batch node width"],
        concepts: Float[Tensor, "batch node slot concept_width"],
        is_concept: Bool[Tensor, "batch node slot"],
    ) -> Float[Tensor, "batch node _"]:
        """Shares of the sentinel, which is the first, and of every slot."""
        query = self.projection(states)
        scores = (concepts * query[:, :, None]).sum(-1)
        scores = scores.masked_fill(~is_concept, torch.finfo(scores.dtype).min)
        of_sentinel = (query * self.sentinel).sum(-1, keepdim=True)
        return torch.cat([of_sentinel, scores], dim=-1).softmax(-1)

    def forward(
        self,
        states: Float[Tensor, "batch node width"],
        concepts: Float[Tensor, "batch node slot concept_width"],
        is_concept: Bool[Tensor, "batch node slot"],
    ) -> Float[Tensor, "batch node concept_width"]:
        """The weighted sum of sentinel and concepts."""
        shares = self.attention(states, concepts, is_concept)
        mixed = (shares[..., 1:, None] * concepts).sum(2) + shares[..., :1] * self.sentinel
        return mixed.masked_fill(~is_concept.any(-1, keepdim=True), 0)


class SelfMatching(nn.Module):
    """Direct and indirect interactions of the words that see each other."""

    def __init__(self, *, joint: int) -> None:
        super().__init__()
        self.query, self.key, self.product = (nn.Parameter(torch.empty(joint)) for _ in range(3))
        self.bias = nn.Parameter(torch.zeros(1))

    def attention(
        self, states: Float[Tensor, "batch node joint"], mask: Bool[Tensor, "batch node node"]
    ) -> Float[Tensor, "batch node node"]:
        """Each node's shares of the nodes that it sees; `query` and `bias` change none of them."""
        scores = (states * self.product + self.key) @ states.mT + self.bias
        scores = scores + (states * self.query).sum(-1, keepdim=True)
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)

    def forward(
        self, states: Float[Tensor, "batch node joint"], mask: Bool[Tensor, "batch node node"]
    ) -> Float[Tensor, "batch node _"]:
        """`N_JOINED` states side by side: u, v, u v, u - v, w, u - w; v is what u reads of all u,
        and w what it reads of all v."""
        shares = self.attention(states, mask)
        direct = shares @ states
        indirect = shares @ direct
        joined = (states, direct, states * direct, states - direct, indirect, states - indirect)
        return torch.cat(joined, dim=-1)


class KTNET(VectorEncoder):
    """The encoder: the host, and over its last states the two layers of the paper.

    `KnowledgeOutput.hidden_states` are the host's, then the `node_states`. `concept_vectors [entity
    row]` are frozen and saved with the model; special rows are zero.
    """

    config_class = KTNETConfig
    vector_table = "concept_vectors"
    parts = {  # noqa: RUF012 - a class variable of the base
        **KnowledgeEncoder.parts,
        "reader": ("memory.", "matching.", "output."),
    }

    def __init__(self, config: KTNETConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        width, concept_width = self.host.config.hidden_size, config.concept_width
        joint = width + concept_width
        self.concept_vectors = entity_table(config.n_entities + N_SPECIAL_ROWS, concept_width)
        self.memory = SentinelAttention(width=width, concept_width=concept_width)
        self.matching = SelfMatching(joint=joint)
        self.output = nn.Linear(N_JOINED * joint, width)
        self.post_init()
        self.freeze()

    @classmethod
    def for_graph(
        cls,
        host: PreTrainedModel,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        vectors: str | Path | None = None,
        vector_epochs: int = RECIPE.n_epochs,
        **options: Any,
    ) -> KTNET:
        """A new encoder whose concept vectors are those of a triple scorer on `graph`.

        `vectors` is the folder of one trained with `kept kgc train` (the paper's is DistMult, there
        called BILINEAR), or a text file of Wikipedia2Vec; without it a TransE of `vector_epochs`
        epochs is trained here, `concept_width` wide. Their mean length is 1; a concept that the
        file does not have is a zero vector.
        """
        width = int(options.pop("concept_width", WIDTH))
        if vectors is not None:
            width = open_vectors(vectors).width
        source = vector_rows(graph, width=width, seed=seed, n_epochs=vector_epochs, path=vectors)
        model = cls.from_host(host, graph, concept_width=width, **options)
        source.put_into(model.concept_vectors, N_SPECIAL_ROWS)
        return model

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, SelfMatching):
            for weight in (module.query, module.key, module.product):
                nn.init.normal_(weight, std=self.config.initializer_range)

    @property
    def n_states(self) -> int:
        """The host's, and the last."""
        return super().n_states + 1

    def group_outside_host(self, name: str) -> str:
        """The layers read the host's last states; the vectors are embeddings."""
        return EMBEDDINGS if name.startswith("concept_vectors.") else HEAD

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every word; in a batch without the vocabulary no word has a concept.

        Raises `BatchError` for a row beyond the concept vectors.
        """
        hidden = hosts.embed_words(self.host, batch)
        states = hosts.run(
            self.host, hidden, batch.visibility, batch.node_mask, positions=batch.positions
        )
        last = states[-1]
        none = batch.node_ids.new_full((*batch.node_ids.shape, 1), NONE)
        joint = self.with_concepts(last, (batch.extra_ids or {}).get(CONCEPTS, none))
        read = self.output(self.matching(joint, batch.visibility.mask))
        return KnowledgeOutput.of((*states, last + read))

    def with_concepts(
        self, states: Float[Tensor, "batch node width"], ids: Int[Tensor, "batch node slot"]
    ) -> Float[Tensor, "batch node joint"]:
        """Each state beside what it reads of its concepts."""
        n_rows = self.concept_vectors.num_embeddings
        if not torch.compiler.is_compiling() and bool((on_host(ids) >= n_rows).any()):
            raise BatchError(
                f"concept row {int(ids.max())} is beyond the {n_rows} concept vectors; the batch "
                "was made with another graph"
            )
        is_concept = ids != NONE
        concepts = self.concept_vectors(ids.where(is_concept, PAD_ROW))
        return torch.cat([states, self.memory(states, concepts, is_concept)], dim=-1)
