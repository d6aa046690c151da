"""KnowBERT's view (Peters et al. 2019, section 3.1): the words, and mentions with candidates.

Every linked mention is kept, overlapping and nested ones too, unless the text was cut inside it.
Further graphs have mentions of their own, found by linkers of their own.

Axis legend: node, mention, candidate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from entity_linking.alignment import pieces_of_all
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import Candidate, Link, Linker
from entity_linking.senses.wordnet import WordNetCandidates
from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW, KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views.base import View, row, words_of
from kg_loaders import KnowledgeGraph
from kg_loaders.formats.wordnet_lexicon import Lexicon


@dataclasses.dataclass(frozen=True)
class FurtherGraph:
    """One more graph, what finds its mentions, and whether the linker's choices are labels.

    One that was read travels to other processes as what was read: linkers are large.
    """

    graph: KnowledgeGraph
    linker: Linker
    labelled: bool = False
    source: Mapping[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is not None:
            return FurtherGraph.read, (dict(self.source),)
        return FurtherGraph, (self.graph, self.linker, self.labelled)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> FurtherGraph:
        """From `{kg: folder, linker: dictionary | wordnet, lexicon: folder, labelled: bool}`.

        `case` is how case counts for the linker `dictionary`.
        """
        unknown = sorted(values.keys() - {"kg", "linker", "lexicon", "labelled", "case"})
        if unknown or "kg" not in values:
            fault = f"has no field {unknown[0]!r}" if unknown else "lacks `kg`, its graph's folder"
            raise ConfigError(
                f"a further graph {fault}; it has kg, linker, lexicon, labelled, case"
            )
        graph = KnowledgeGraph.open(Path(values["kg"]))
        kind = values.get("linker", "dictionary")
        if kind not in ("dictionary", "wordnet"):
            raise ConfigError(f"linker is {kind!r}; use 'dictionary' or 'wordnet'")
        linker: Linker = (
            DictionaryLinker(graph, case=values.get("case", "smart"))
            if kind == "dictionary"
            else WordNetCandidates(graph, Lexicon.open(values.get("lexicon")))
        )
        return cls(graph, linker, bool(values.get("labelled", False)), dict(values))


class FoundMentions(NamedTuple):
    """The mentions of one graph in one text: whose link, word nodes, rows, priors, label."""

    links: list[Link]
    spans: list[list[int]]
    rows: list[list[int]]
    priors: list[list[float]]
    labels: list[int]


class KnowBERTView(View):
    """Words with candidate sets; `mention_labels` are the links' own choices.

    The best `max_candidates` that the graph has are kept, and their priors made to sum to 1. A link
    without candidates has its own choice as the only one; without either it is not a mention. A
    label is `UNKNOWN_ROW` where the choice is none of the graph's entities. With `weigh_links`
    priors sum to the link's confidence instead.
    """

    reads_candidates = True

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        further: Sequence[FurtherGraph] = (),
        max_candidates: int = 30,
        weigh_links: bool = False,
    ) -> None:
        if max_candidates < 1:
            raise ConfigError(f"max_candidates is {max_candidates}; use 1 or more")
        self.graph, self.further = graph, tuple(further)
        self.max_candidates, self.weigh_links = max_candidates, weigh_links

    @classmethod
    def of(  # type: ignore[override]
        cls,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        further: Sequence[Mapping[str, Any]] = (),
        max_candidates: int = 30,
        weigh_links: bool = False,
    ) -> Self:
        """`further`: the fields of `FurtherGraph.read` for each graph after the first."""
        read = [FurtherGraph.read(values) for values in further]
        return cls(graph, further=read, max_candidates=max_candidates, weigh_links=weigh_links)

    @property
    def fingerprint(self) -> str:
        further = [(repr(f.linker), f.graph.content_hash, f.labelled) for f in self.further]
        return f"{type(self).__name__} {self.max_candidates} {self.weigh_links} {further}"

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        mentions = self.find(graph)
        width = max([1, *(len(rows) for part in mentions for rows in part.rows)])
        n_mentions = sum(len(part.spans) for part in mentions)
        ids = np.full((n_mentions, width), PAD_ROW, np.int64)
        priors = np.zeros((n_mentions, width), np.float32)
        every = [pair for part in mentions for pair in zip(part.rows, part.priors, strict=True)]
        for i, (rows, shares) in enumerate(every):
            ids[i, : len(rows)], priors[i, : len(rows)] = rows, shares
        spans = [span for part in mentions for span in part.spans]
        numbers = [number for number, part in enumerate(mentions) for _ in part.spans]
        return dataclasses.replace(
            words_of(graph),
            mention_spans=row(np.array(spans, np.int64).reshape(-1, 2)),
            mention_graphs=row(np.array(numbers, np.int64)) if self.further else None,
            mention_labels=row(np.array([i for p in mentions for i in p.labels], np.int64)),
            candidate_ids=row(ids),
            candidate_priors=torch.from_numpy(priors)[None],
        )

    def find(self, graph: WordKnowledgeGraph) -> list[FoundMentions]:
        """The mentions of each graph, in the order of the batch."""
        mentions = [self._find(graph, graph.links, self.graph, labelled=True)]
        for further in self.further:
            (linked,) = further.linker.link([graph.text])
            mentions.append(
                self._find(graph, linked.links, further.graph, labelled=further.labelled)
            )
        return mentions

    def _find(
        self,
        text: WordKnowledgeGraph,
        links: Sequence[Link],
        graph: KnowledgeGraph,
        *,
        labelled: bool,
    ) -> FoundMentions:
        result = FoundMentions([], [], [], [], [])
        for link, span in spans_of(text, links):
            rows, priors = self._candidates(link, graph)
            if not rows:
                continue
            result.links.append(link)
            result.spans.append(span)
            result.rows.append(rows)
            result.priors.append(priors)
            result.labels.append(_row_of(link.entity, graph) if labelled else IGNORE)
        return result

    def _candidates(self, link: Link, graph: KnowledgeGraph) -> tuple[list[int], list[float]]:
        candidates = link.candidates
        if not candidates and link.entity is not None:
            candidates = (Candidate(link.entity, 1.0, 1.0),)
        pairs = [(_row_of(c.entity, graph), c.prior) for c in candidates]
        pairs = [pair for pair in pairs if pair[0] != UNKNOWN_ROW][: self.max_candidates]
        total = sum(prior for _, prior in pairs)
        weight = link.confidence if self.weigh_links else 1.0
        return [entity for entity, _ in pairs], [
            weight * (prior / total if total else 1 / len(pairs)) for _, prior in pairs
        ]


def _row_of(entity: str | None, graph: KnowledgeGraph) -> int:
    row_id = None if entity is None else graph.entities.find(entity)
    return UNKNOWN_ROW if row_id is None else row_id + N_SPECIAL_ROWS


def spans_of(graph: WordKnowledgeGraph, links: Sequence[Link]) -> Iterator[tuple[Link, list[int]]]:
    """Links with their word nodes (end exclusive), unless they were cut or span two texts."""
    is_word = graph.kinds == NodeKind.WORD
    words, segments = graph.spans[is_word], graph.segments[is_word]
    ends = [int(words[segments == segment, 1].max(initial=0)) for segment in (0, 1)]
    mentions = np.array([(k.mention.start, k.mention.end) for k in links], np.int64).reshape(-1, 2)
    pieces: NDArray[np.int64] = pieces_of_all(words, mentions)
    for link, (start, stop) in zip(links, pieces.tolist(), strict=True):
        if start >= stop or (words[start:stop, 0] < 0).any():
            continue
        end = ends[int(segments[start])]
        if graph.text[end : link.mention.end].strip() == "":
            yield link, [start, stop]
