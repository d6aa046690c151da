"""SentiLARE's view: words, each with its part of speech and its prior polarity.

Ke et al. 2020, "SentiLARE" (EMNLP), section 3.1. In the paper a tagger gives the part of speech;
here the link does, by the synset that it leads to (an entity of any other graph is named by a
noun). Glosses are not compared with the text: senses are weighted by their order alone.

Axis legend: word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Link
from kept.batches import NONE, KnowledgeBatch
from kept.graphs.annotation import Annotation, annotation_ids
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.sentiment import (
    OTHER,
    PARTS,
    SentimentLexicon,
    polarity,
    prior_score,
)
from kept.graphs.views.base import View, words_of
from kg_loaders import KnowledgeGraph

PART, POLARITY, RATING = "part", "polarity", "rating"
"""The vocabularies' names in a batch. Ratings are put in by the objective `sentiment`."""


class Label(NamedTuple):
    """A word of a text, its part of speech and its polarity."""

    start: int
    end: int
    part: int
    polarity: int


class SentiLAREView(View):
    """`words_of`, with `extra_ids` of the vocabularies `PART` and `POLARITY` for linked words.

    `lexicon` is a file that `SentimentLexicon.read` takes; without it every word is neutral.
    """

    remedy = "no word of the texts is linked; link them with WordNet (kept link --kg wordnet/)"

    def __init__(
        self, graph: KnowledgeGraph, lexicon: SentimentLexicon, *, source: str = ""
    ) -> None:
        self.graph, self.lexicon, self.source = graph, lexicon, source

    @classmethod
    def of(  # type: ignore[override]
        cls,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        lexicon: str | Path | None = None,
    ) -> Self:
        opened = SentimentLexicon({}) if lexicon is None else SentimentLexicon.read(lexicon)
        return cls(graph, opened, source="" if lexicon is None else digest(lexicon))

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.source}"

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        return labelled(graph, list(self.labels(graph)))

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether any word has a part of speech or a polarity."""
        return bool(((batch.extra_ids or {})[PART] != NONE).any())

    def labels(self, graph: WordKnowledgeGraph) -> Iterator[Label]:
        """The linked words of a text; the longest mention that begins at a place counts."""
        for link in graph.links:
            part = self._part(link)
            if part is not None:
                start, end = link.mention.start, link.mention.end
                senses = self.lexicon.senses(graph.text[start:end], part)
                yield Label(start, end, PARTS.get(part, OTHER), polarity(prior_score(senses)))

    def _part(self, link: Link) -> str | None:
        """The letter of a link's part of speech; None where it leads nowhere."""
        name = link.entity
        if name is None or self.graph.entities.find(name) is None:
            return None
        letter = name[-1] if name.startswith("wn:") and name[-2:-1] == "-" else "n"
        return {"s": "a"}.get(letter, letter)


def labelled(graph: WordKnowledgeGraph, labels: list[Label]) -> KnowledgeBatch:
    """`words_of` with the part of speech and polarity of `labels`, one id a word at most."""
    ids = {
        PART: annotation_ids(graph, [Annotation(a, b, (part,)) for a, b, part, _ in labels]),
        POLARITY: annotation_ids(graph, [Annotation(a, b, (sign,)) for a, b, _, sign in labels]),
    }
    return words_of(graph).replace(
        extra_ids={name: node_ids[..., :1] for name, node_ids in ids.items()}
    )


def digest(path: str | Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
