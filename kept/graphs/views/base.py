"""What a view is, and the words alone, which several methods start from.

Axis legend: node, word, text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Link
from kept.batches import N_SPECIAL_ROWS, NONE, KnowledgeBatch, Visibility
from kept.errors import BatchError
from kept.graphs.annotation import Annotation, annotation_ids
from kept.graphs.builder import BuilderConfig
from kept.graphs.edit import nodes_of_fact
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kg_loaders import KnowledgeGraph


class View(ABC):
    """Abstract: what a method sees of a word-knowledge graph. Must pickle cheaply.

    `reads_candidates`: links must keep their candidates. `reads_graph`: False where a batch holds
    the words alone, so that a text can be encoded without any graph. `facts_per_mention`: how many
    of the best-ranked facts are shown at each, None for all. `remedy`: what to do where texts have
    links and the graph has facts of them, and the view shows nothing of either.
    """

    reads_candidates: ClassVar[bool] = False
    reads_graph: ClassVar[bool] = True
    facts_per_mention: int | None = None
    remedy: ClassVar[str] = (
        "links and facts are there, but the settings leave nothing of them: see the sizes under "
        "`graph` (max_neighbours, max_nodes, max_words) and the options under `view`"
    )

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        """The view over this graph and tokenizer; by default neither is needed."""
        return cls(**options)

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of the options of `of`; those of the constructor where `of` hands all on."""
        parameters, new = (signature(make).parameters.values() for make in (cls.of, cls.__init__))
        named = [
            *(new if any(each.kind is each.VAR_KEYWORD for each in parameters) else ()),
            *parameters,
        ]
        return [each.name for each in named if each.kind is each.KEYWORD_ONLY]

    @classmethod
    def builder_fields(cls, config: BuilderConfig, options: Mapping[str, Any]) -> dict[str, Any]:
        """Fields that graphs for this view, with `options`, need otherwise than `config` has them.

        None by default; a view whose options ask for more facts, or other ones, says so here.
        """
        return {}

    @classmethod
    def within_positions(
        cls, n_positions: int, options: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Return the longest text for a host of `n_positions`, and options that keep to them.

        By default what the view adds takes no position behind the text.
        """
        return n_positions, {}

    def most_words(self, config: BuilderConfig) -> int:
        """Return how many word pieces of a text that `config` builds are sure to have room.

        A view that cuts what it shows says so here: targets behind are cut off, and windows over
        longer texts have this length.
        """
        return config.max_words

    @abstractmethod
    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        """A batch of one, without padding."""

    def stacked(
        self, graphs: Sequence[WordKnowledgeGraph], *, word_pad_id: int = 0
    ) -> KnowledgeBatch:
        """This view of every graph in one batch, padded to the longest."""
        return KnowledgeBatch.stack([self(graph) for graph in graphs], word_pad_id=word_pad_id)

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> NDArray[np.int64]:
        """Where every node of `graph` stands in `batch`, this view of it: `[node]`, -1 if nowhere.

        By default the words are, in order, the nodes that the first one sees; this holds for words
        alone and for trees with branches that the trunk does not see (K-BERT), cut or whole. A view
        of which it does not hold says so here.
        """
        positions = np.full(graph.n_nodes, -1, np.int64)
        trunk = np.flatnonzero(batch.visibility.mask[0, 0].numpy())
        words = np.flatnonzero(graph.kinds == NodeKind.WORD)[: len(trunk)]
        positions[words] = trunk[: len(words)]
        return positions

    def fact_nodes(
        self, graph: WordKnowledgeGraph, batch: KnowledgeBatch, relation: int
    ) -> NDArray[np.int64]:
        """Where the fact whose relation is node `relation` of `graph` stands in `batch`: `[node]`.

        By default what it alone brings, where the view places it; none where facts are not nodes.
        """
        positions = self.places(graph, batch)[nodes_of_fact(graph, relation)]
        return positions[positions >= 0]

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether `batch`, this view of `graph`, holds anything of the knowledge graph.

        By default a node that is not a word, or an entity beside words or among candidates.
        """
        if bool((batch.node_kinds != NodeKind.WORD).any()):
            return True
        id_rows = (batch.entity_ids, batch.candidate_ids)
        return any(ids is not None and bool((ids >= N_SPECIAL_ROWS).any()) for ids in id_rows)

    @property
    def fingerprint(self) -> str:
        """Changes whenever a batch could, for the same word-knowledge graphs."""
        return type(self).__name__

    def n_nodes(
        self, n_words: NDArray[np.int64], n_links: NDArray[np.int64], n_facts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """An upper bound of nodes for texts of so many word pieces, links and facts, `[text]`."""
        return n_words


class WeighingView(View):
    """Abstract: a view of the graph's own ids; its option weights links by confidence."""

    def __init__(self, *, weigh_links: bool = False) -> None:
        self.weigh_links = weigh_links

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.weigh_links}"


def words_of(graph: WordKnowledgeGraph) -> KnowledgeBatch:
    """The word pieces alone at running positions, each seeing all: a batch of one.

    Raises `BatchError` when anchors took the place of words (build with `replace_mentions=False`).
    """
    words = np.flatnonzero(graph.kinds == NodeKind.WORD)
    positions = graph.positions[words]
    if not np.array_equal(positions, np.arange(len(words))):
        raise BatchError(
            "mentions were replaced by anchors in this graph; build it with replace_mentions=False"
        )
    n_words = len(words)
    return KnowledgeBatch(
        node_ids=row(graph.ids[words]),
        node_kinds=torch.zeros(1, n_words, dtype=torch.int64),
        node_mask=torch.ones(1, n_words, dtype=torch.bool),
        positions=row(positions),
        segment_ids=row(graph.segments[words]),
        visibility=Visibility.everyone(1, n_words),
    )


class CandidatesView(View):
    """Abstract: `words_of`, with `extra_ids` of the vocabulary `vocabulary`.

    A word piece has the ids of every link that it is in, each once. Without `phrases` only mentions
    of one word count.
    """

    vocabulary: ClassVar[str]
    reads_candidates = True

    def __init__(self, graph: KnowledgeGraph, *, phrases: bool = True) -> None:
        self.graph, self.phrases = graph, phrases

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        return cls(graph, **options)

    @abstractmethod
    def ids_of(self, entities: Sequence[int]) -> tuple[int, ...]:
        """Return the ids of a link that may mean these entities, the best first."""

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        annotations = []
        for link in graph.links:
            start, end = link.mention.start, link.mention.end
            if self.phrases or len(graph.text[start:end].split()) == 1:
                annotations.append(Annotation(start, end, self.ids_of(self._entities(link))))
        return words_of(graph).replace(
            extra_ids={self.vocabulary: annotation_ids(graph, annotations)}
        )

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether any word has an id."""
        return bool(((batch.extra_ids or {})[self.vocabulary] != NONE).any())

    def _entities(self, link: Link) -> list[int]:
        """A link's candidates in the graph, or its own entity where it has no candidates."""
        names = [candidate.entity for candidate in link.candidates]
        known = map(
            self.graph.entities.find, names or ([] if link.entity is None else [link.entity])
        )
        return [entity for entity in known if entity is not None]


def weights_of(graph: WordKnowledgeGraph) -> NDArray[np.float32]:
    """The confidence of the link that brought each node, 1 for words, `[node]`."""
    confidence = np.array([*(link.confidence for link in graph.links), 1.0], np.float32)
    return confidence[graph.origins[:, 0]]  # -1, no link, is the last


def row(values: NDArray[np.integer]) -> Tensor:
    """One sample's values as int64 `[1 ...]`."""
    return torch.from_numpy(values.astype(np.int64))[None]
