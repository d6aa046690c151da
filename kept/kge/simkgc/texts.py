"""What SimKGC reads: texts of entities and relations, and their word pieces.

Wang et al. 2022, "SimKGC" (ACL), sections 3.2 and 4.1; released code intfloat/SimKGC. An entity is
"name: description"; a short description may be followed by the names of neighbours. The inverse of
relation r is r + `n_relations`.

Axis legend: text, token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kept.evaluation.ranking import Triples
from kg_loaders import KnowledgeGraph

INVERSE = "inverse "
N_NEIGHBOURS = 10
N_SHORT = 20
"""Words below which a description is followed by names of neighbours."""


def name_and_description(name: str, description: str) -> str:
    """ "name: description", the name not twice where the description starts with it.

    As released, no border of a word ends the name.

    >>> name_and_description("Oskel", "Oskel is a village"), name_and_description("Oskel", "")
    ('Oskel: is a village', 'Oskel')
    """
    rest = description
    if description.startswith(name):
        rest = description[len(name) :].strip()
    return f"{name}: {rest}" if rest else name


def wordnet_name(name: str) -> str:
    """The lemma of a synset's name: without part of speech and sense.

    >>> wordnet_name("family_alcidae_NN_1")
    'family alcidae'
    """
    return " ".join(name.split("_")[:-2])


class Links:
    """Who stands beside whom in triples `[triple 3]`, whatever the relation and the direction."""

    def __init__(self, triples: Triples, n_entities: int) -> None:
        rows = np.asarray(triples, np.int64).reshape(-1, 3)
        ends = np.concatenate([rows[:, [0, 2]], rows[:, [2, 0]]])
        pairs = np.unique(ends, axis=0)
        self._others = pairs[:, 1]
        self._starts = np.searchsorted(pairs[:, 0], np.arange(n_entities + 1))

    def of(self, entity: int) -> NDArray[np.int64]:
        """Neighbours in order of their ids, the entity itself where a triple is a loop."""
        return self._others[self._starts[entity] : self._starts[entity + 1]]

    def within(self, entity: int, n_hops: int, *, limit: int = 100_000) -> NDArray[np.int64]:
        """All within `n_hops` of the entity, itself included; none where they are above `limit`."""
        reached = np.zeros(len(self._starts) - 1, np.bool_)
        reached[entity] = True
        edge = np.array([entity])
        for _ in range(n_hops):
            if not len(edge):
                break
            others = np.unique(np.concatenate([self.of(one) for one in edge.tolist()]))
            edge = others[~reached[others]]
            reached[edge] = True
        neighbours = np.flatnonzero(reached)
        return neighbours if len(neighbours) <= limit else neighbours[:0]


@dataclass(frozen=True, eq=False)
class Texts:
    """Names and descriptions by entity, texts by relation; `links` add names of neighbours."""

    names: Sequence[str]
    descriptions: Sequence[str]
    relations: Sequence[str]
    links: Links | None = None

    @classmethod
    def of(cls, graph: KnowledgeGraph, *, n_words: int = 50, links: Links | None = None) -> Texts:
        """Those of a graph: labels, and the first `n_words` of descriptions."""
        described = (graph.description(i) or "" for i in range(graph.n_entities))
        return cls(
            [graph.label(i) for i in range(graph.n_entities)],
            [" ".join(text.split()[:n_words]) for text in described],
            [graph.relation_label(i) for i in range(graph.n_relations)],
            links,
        )

    def entity(self, entity: int, *, without: int | None = None) -> str:
        """The text of an entity; `without` is left out of the neighbours that are named.

        It is the other end of a training triple; as released, it still counts among the ten.
        """
        description = self.descriptions[entity]
        if self.links is not None and len(description.split()) < N_SHORT:
            others = self.links.of(entity)[:N_NEIGHBOURS].tolist()
            names = [self.names[other] for other in others if other != without]
            description += " " + " ".join(names)
        return name_and_description(self.names[entity], description)

    def plain(self, entity: int) -> str:
        """ "name: description", or the name alone; nothing is left out and no neighbour named."""
        name, description = self.names[entity], self.descriptions[entity]
        return f"{name}: {description}" if description else name

    def relation(self, relation: int) -> str:
        """The text of a relation or, from `n_relations` on, of an inverse."""
        n = len(self.relations)
        return self.relations[relation] if relation < n else INVERSE + self.relations[relation - n]

    def with_description(self, entity: int, description: str) -> Texts:
        """The same with another description of one entity."""
        descriptions = list(self.descriptions)
        descriptions[entity] = description
        return replace(self, descriptions=descriptions)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Word pieces of a batch of texts, padded to the longest; mask True = no padding."""

    ids: Int[Tensor, "text token"]
    types: Int[Tensor, "text token"]
    mask: Bool[Tensor, "text token"]

    @cached_property
    def n_texts(self) -> int:
        return len(self.ids)


def tokenise(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    seconds: Sequence[str] | None = None,
    *,
    n_tokens: int,
) -> Tokens:
    """Word pieces of texts, or of pairs of a text and a second one.

    At most `n_tokens` each: of a pair the longer text is cut.
    """
    encoded = tokenizer(
        list(texts),
        None if seconds is None else list(seconds),
        truncation=True,
        padding=True,
        max_length=n_tokens,
        return_token_type_ids=True,
        return_tensors="pt",
    )
    ids, mask = encoded["input_ids"], encoded["attention_mask"].bool()
    assert isinstance(ids, torch.Tensor)
    return Tokens(ids, encoded["token_type_ids"], mask)
