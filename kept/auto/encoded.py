"""What `AutoEncoder.encode` returns.

Axis legend: text, token, mention, entity, layer (the embedding first), width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from entity_linking.mentions import Link, LinkedText
from kept.auto.sentence_modules import SentenceModules
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.graphs.cuts import Cut
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.places import nodes_of, target_spans, text_nodes
from kept.graphs.windows import TextWindow
from kept.linking.knowbert import Choice
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted


@dataclass(frozen=True, eq=False)
class Entities:
    """Vectors of entities: `names` in the graph, `links` (index of the mention's link, or None for
    a neighbour that a fact brought)."""

    names: tuple[str, ...]
    links: tuple[int | None, ...]
    vectors: Float[Tensor, "entity width"]

    def __repr__(self) -> str:
        return f"Entities({len(self.names)}, vectors {list(self.vectors.shape)})"


@dataclass(frozen=True, eq=False)
class EncodedText:
    """One text. `token_spans` are characters of `linked.text`, in order and without special pieces.

    A token is a word piece, or, with methods that put an entity in the place of its mention's words
    (CoLAKE), that entity. `links[i]` is the link behind `mentions[i]`, the mean of its tokens;
    links cut off with the text are not among them. `entities` is None where the method has none in
    this text. `sentence` is the mean of all tokens, or what the modules of a
    model of sentence-transformers make of them. `linking` holds what a method that links by
    itself (KnowBERT) chose for the mentions of each of its graphs, None with other methods.
    `layers` holds the tokens' states in the embedding and after every layer, where asked for.
    """

    linked: LinkedText
    token_spans: Int[Tensor, "token 2"]
    tokens: Float[Tensor, "token width"]
    links: tuple[Link, ...]
    mentions: Float[Tensor, "mention width"]
    entities: Entities | None
    sentence: Float[Tensor, " width"]
    linking: tuple[Choice, ...] | None = None
    layers: Float[Tensor, "layer token width"] | None = None

    def __repr__(self) -> str:
        return (
            f"EncodedText({self.linked.text[:40]!r}, tokens {list(self.tokens.shape)}, "
            f"mentions {list(self.mentions.shape)}, sentence {list(self.sentence.shape)})"
        )


@dataclass(frozen=True, eq=False)
class Encoded(Sequence[EncodedText]):
    """The encoded texts in their order; `sentences` holds all their sentence vectors.

    `cut` counts the texts, pieces and links that are not read because texts are too long, and the
    texts that are read in windows.
    """

    texts: tuple[EncodedText, ...]
    sentences: Float[Tensor, "text width"]
    cut: Cut | None = None

    def __getitem__(self, index: Any) -> Any:
        return self.texts[index]

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        cut = f"; {self.cut}" if self.cut is not None and self.cut.has_long else ""
        return (
            f"Encoded({counted(len(self), 'texts')}, sentences {list(self.sentences.shape)}{cut})"
        )


def encoded_text(
    linked: LinkedText,
    word_graph: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    places: NDArray[np.int64],
    layers: Float[Tensor, "layer node width"],
    entity_states: Tensor | None,
    graph: KnowledgeGraph,
) -> EncodedText:
    nodes = text_nodes(word_graph)
    nodes = nodes[places[nodes] >= 0]
    states, chosen = layers[-1], torch.from_numpy(places[nodes])
    tokens = states[chosen]
    of_links = [(link, nodes_of(word_graph, nodes, link.mention)) for link in linked.links]
    of_links = [(link, node_ids) for link, node_ids in of_links if len(node_ids)]
    means = [states[torch.from_numpy(places[node_ids])].mean(0) for _, node_ids in of_links]
    width = states.shape[-1]
    return EncodedText(
        linked=linked,
        token_spans=torch.from_numpy(word_graph.spans[nodes].astype(np.int64)),
        tokens=tokens,
        links=tuple(link for link, _ in of_links),
        mentions=torch.stack(means) if means else torch.zeros(0, width),
        entities=_entities(word_graph, batch, places, states, entity_states, graph),
        sentence=tokens.mean(0) if len(tokens) else states[0],
        layers=layers[:, chosen] if len(layers) > 1 else None,
    )


def stitched(
    linked: LinkedText,
    windows: Sequence[TextWindow],
    parts: Sequence[EncodedText],
    modules: SentenceModules | None,
) -> EncodedText:
    """Return a text from its windows: each token, mention and entity from the one that it is in.

    `sentence` is the mean over the windows, weighted by their tokens; the mean of all tokens where
    no `modules` pool them. A neighbour that a fact brought is there once for each window that shows
    it.
    """
    masks = [
        torch.tensor([window.owns(span) for span in part.token_spans.tolist()], dtype=torch.bool)
        for window, part in zip(windows, parts, strict=True)
    ]
    pairs = list(zip(parts, masks, strict=True))
    tokens = torch.cat([part.tokens[mask] for part, mask in pairs])
    vectors = {
        link.mention: vector
        for window, part in zip(windows, parts, strict=True)
        for link, vector in zip(part.links, part.mentions, strict=True)
        if window.owns(link.mention)
    }
    links = tuple(link for link in linked.links if link.mention in vectors)
    sentence = tokens.mean(0)
    if modules is not None:
        shares = torch.stack([mask.sum() for mask in masks]) / len(tokens)
        sentence = (torch.stack([part.sentence for part in parts]) * shares[:, None]).sum(0)
        sentence = functional.normalize(sentence, dim=0) if modules.normalize else sentence
    choices = [
        tuple(each for each in part.linking or () if window.owns(each.mention))
        for window, part in zip(windows, parts, strict=True)
    ]
    layers = [part.layers[:, mask] for part, mask in pairs if part.layers is not None]
    return EncodedText(
        linked=linked,
        token_spans=torch.cat([part.token_spans[mask] for part, mask in pairs]),
        tokens=tokens,
        links=links,
        mentions=torch.stack([vectors[link.mention] for link in links])
        if links
        else parts[0].mentions[:0],
        entities=_joined_entities(linked, windows, parts),
        sentence=sentence,
        linking=tuple(chain.from_iterable(choices)) if parts[0].linking is not None else None,
        layers=torch.cat(layers, 1) if layers else None,
    )


def _joined_entities(
    linked: LinkedText, windows: Sequence[TextWindow], parts: Sequence[EncodedText]
) -> Entities | None:
    """The entities of all windows, each mention's from the window that it is in."""
    names: list[str] = []
    links: list[int | None] = []
    vectors: list[Tensor] = []
    for window, part in zip(windows, parts, strict=True):
        if part.entities is None:
            continue
        rows = zip(part.entities.names, part.entities.links, part.entities.vectors, strict=True)
        for name, link, vector in rows:
            if link is None or window.owns(linked.links[link].mention):
                names.append(name)
                links.append(link)
                vectors.append(vector)
    return Entities(tuple(names), tuple(links), torch.stack(vectors)) if vectors else None


def _entities(
    word_graph: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    places: NDArray[np.int64],
    states: Tensor,
    aligned: Tensor | None,
    graph: KnowledgeGraph,
) -> Entities | None:
    """Entity nodes of the batch; else the states of entities that are aligned with words."""
    if aligned is not None and batch.entity_ids is not None:
        chosen = (batch.entity_ids[0] >= N_SPECIAL_ROWS).nonzero()[:, 0]
        ids = (batch.entity_ids[0, chosen] - N_SPECIAL_ROWS).tolist()
        spans = target_spans(word_graph, places, [link.mention for link in word_graph.links])
        first = {int(start): i for i, (start, stop) in enumerate(spans.tolist()) if start < stop}
        names = tuple(graph.entities.name(i) for i in ids)
        return Entities(names, tuple(map(first.get, chosen.tolist())), aligned[chosen])
    nodes = np.flatnonzero((word_graph.kinds == NodeKind.ENTITY) & (places >= 0))
    if not len(nodes):
        return None
    return Entities(
        tuple(graph.entities.name(int(i)) for i in word_graph.ids[nodes]),
        tuple(
            int(word_graph.origins[n, 0]) if word_graph.spans[n, 0] >= 0 else None for n in nodes
        ),
        states[torch.from_numpy(places[nodes])],
    )
