"""States of words after every layer of an encoder.

Axis legend: layer (the embedding first), edge, width, token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entity_linking.mentions import Linker
from kept.auto import AutoEncoder
from kept.lab.probing.layers.edges import Edge, renumbered
from kept.tasks.datasets.conllu import Sentence, Word
from kg_loaders import KnowledgeGraph

_N_AT_ONCE = 128


def edge_states(
    encoder: AutoEncoder,
    sentences: Sequence[Sentence],
    edges: Sequence[Edge],
    graph: KnowledgeGraph | None,
    linker: Linker | None = None,
) -> tuple[Float[Tensor, "layer edge width"], list[Edge]]:
    """The states of each question's word, with its head's beside it where it has one, and the
    questions that were read.

    A word's state is the mean of its pieces'. Words that the encoder's limits cut off are left
    out, and so are their questions; a graph is read as `AutoEncoder.encode` reads it.
    """
    numbers, local = renumbered(edges)
    states: list[Tensor] = []
    read: list[Edge] = []
    by_sentence: dict[int, list[int]] = {}
    for i, edge in enumerate(local):
        by_sentence.setdefault(edge.sentence, []).append(i)
    for start in range(0, len(numbers), _N_AT_ONCE):
        some = numbers[start : start + _N_AT_ONCE]
        texts = [sentences[number].text for number in some]
        for offset, text in enumerate(
            encoder.encode(texts, graph, linker, layers=True, long="cut")
        ):
            words = sentences[some[offset]].words
            assert text.layers is not None
            for i in by_sentence[start + offset]:
                nodes = [words[at] for at in (edges[i].word, edges[i].head) if at is not None]
                covers = [_covering(text.token_spans, word) for word in nodes]
                if all(bool(tokens.any()) for tokens in covers):
                    parts = [text.layers[:, tokens].mean(1) for tokens in covers]
                    states.append(torch.cat(parts, -1))
                    read.append(edges[i])
    return torch.stack(states, 1), read


def _covering(spans: Int[Tensor, "token 2"], word: Word) -> Bool[Tensor, " token"]:
    """Whether each token covers characters of the word."""
    return (spans[:, 0] < word.end) & (spans[:, 1] > word.start)
