"""Linked texts and a graph as `PretrainingData`: word-knowledge graphs in a method's view.

A text's neighbours and labels are sampled anew in every epoch, by (seed, epoch, text). Axis legend:
word (word pieces), link, node, entity row.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText, Mention
from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.errors import ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig, join_words
from kept.graphs.coverage import (
    LOW_SHARE,
    Coverage,
    candidate_warnings,
    caution,
    coverage_of,
    require_read,
)
from kept.graphs.cuts import cut_of
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.places import target_spans
from kept.graphs.views import View
from kept.graphs.windows import Long, parts_of
from kept.graphs.words import PairTemplate, Words, encode_words, join_texts
from kept.inputs.flat_texts import (
    encode_texts,
    linked_entities,
    node_bounds,
    without_candidates,
)
from kept.inputs.pairs import TextPairs
from kept.objectives.base import Preparation, PreparationContext, Rewritten
from kept.objectives.model import objective_kind
from kept.randomness import generator
from kept.training.pretraining.stated import joined
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted


class WordGraphData:
    """Word-knowledge graphs of `texts` as a method's `view` shows them, marked by `objectives`.

    Word pieces are computed once, here. `objectives` maps a name to its options; their preparations
    label each sample and complete each batch, in this order. Where one of them needs pairs
    (`Preparation.pairing`), sample i is a pair around text i, sampled anew in every epoch;
    `documents` are the numbers of texts that belong together, in order (all, if absent). Where one
    of them rewrites texts, they are tokenised for every sample. `long` "windows": a text that is
    too long becomes several, one after another (`kept.graphs.windows.parts_of`); "cut": its first
    pieces are read. Raises `ConfigError` when no link
    leads into `graph` and view or objectives read it, unless `require_links` is false (a control
    without knowledge); `NoKnowledgeError` where view or objective read nothing of it, unless
    `require_read` is false (a control that may leave nothing); `HostError` for a slow tokenizer.
    """

    def __init__(
        self,
        texts: Sequence[LinkedText],
        graph: KnowledgeGraph,
        tokenizer: Any,
        *,
        builder: BuilderConfig,
        view: View,
        objectives: Mapping[str, Mapping[str, Any]],
        documents: Sequence[int] | None = None,
        require_links: bool = True,
        require_read: bool = True,
        long: Long = "cut",
    ) -> None:
        self.graph, self.builder, self.view = graph, builder, view
        n_words, n_texts, counts = builder.max_words, len(texts), list[int]()
        room = min(n_words, view.most_words(builder))
        self._words, self._word_offsets = encode_texts(texts, tokenizer, n_words)
        if long == "windows":
            parts = {
                i: parts_of(texts[i], tokenizer, max_words=room)
                for i in np.flatnonzero(np.diff(self._word_offsets) >= room).tolist()
            }
            counts = [len(each) for each in parts.values() if len(each) > 1]
            documents = _sizes(documents, [len(parts.get(i, [0])) for i in range(n_texts)])
            texts = [part for i, text in enumerate(texts) for part in parts.get(i, [text])]
        if counts:
            self._words, self._word_offsets = encode_texts(texts, tokenizer, n_words)
        self.notes: list[str] = []  # what was done to the texts, for the screen
        self._word_pad_id = hosts.padding_id(tokenizer)
        self._texts = list(texts)
        if not view.reads_candidates:
            self._texts = [without_candidates(text) for text in texts]
        self._entities, self._link_offsets = linked_entities(texts, graph)
        if require_links and view.reads_graph:
            self._require_links()
        world = PreparationContext(graph, tokenizer, self.frequencies())
        self.preparations: dict[str, Preparation] = {}
        for name, values in objectives.items():
            kind = objective_kind(name)
            self.preparations[name] = kind.preparation.of(kind.read(name, values), world)
        for name, preparation in [*self.preparations.items()]:
            for other in preparation.replaces:
                if objectives.get(other):
                    raise ConfigError(
                        f"objective {name} chooses what {other} predicts; give the options "
                        f"{', '.join(objectives[other])} to {name}"
                    )
                self.preparations.pop(other, None)
        for preparation in self.preparations.values():
            preparation.require_view(view)
        if require_links and self.shares_read:
            self._require_links()
        self._rewriter = _rewriter(self.preparations)
        self._tokenizer = tokenizer if self._rewriter else None
        cut, self._lost_links = cut_of(texts, self._words, self._word_offsets, tokenizer, n_words)
        self.cut = dataclasses.replace(
            cut, n_texts=n_texts, n_windowed=len(counts), n_windows=sum(counts)
        )
        self._pairs = _pairs(self.preparations, texts, documents)
        self._template = None if self._pairs is None else PairTemplate.of(tokenizer)
        self._bounds = node_bounds(
            self._entities,
            self._link_offsets,
            self._longest(),
            graph,
            builder,
            view,
            of_pairs=self._pairs is not None,
        )
        self._fingerprint = self._hash()
        if require_links and require_read:
            self.require_read(needs_facts=False)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        n_inside = int((self._entities >= 0).sum())
        return (
            f"WordGraphData({counted(len(self), 'texts')}, {n_inside} of "
            f"{counted(len(self._entities), 'links')} in the "
            f"graph, {counted(len(self._words.ids), 'word pieces')})"
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over graph, word pieces, links, view and every option."""
        return self._fingerprint

    @cached_property
    def coverage(self) -> Coverage:
        """The share of texts in which the method's input has anything of the graph."""
        is_read = self._is_read if self.view.reads_graph else None
        entities = np.where(self._lost_links, -1, self._entities)
        coverage = coverage_of(self._texts, entities, self.graph, is_read=is_read)
        return dataclasses.replace(coverage, cut=self.cut)

    @cached_property
    def shares_read(self) -> dict[str, float]:
        """By objective that reads the graph itself: the share of its data that it learns from."""
        texts = np.split(self._entities, self._link_offsets[1:-1])
        shares = {name: p.share_read(texts) for name, p in self.preparations.items()}
        return {name: share for name, share in shares.items() if share is not None}

    @property
    def cautions(self) -> list[str]:
        """A warning for the view, and for every objective, with low coverage."""
        of_view = caution(self.coverage.as_json(), "texts")
        return (
            [*([of_view] if of_view else [])]
            + [
                f"objective {name} learns from {share:.1%} of what it is given; below "
                f"{LOW_SHARE:.0%} little of the graph can be learned"
                for name, share in self.shares_read.items()
                if share < LOW_SHARE
            ]
            + [line for preparation in self.preparations.values() for line in preparation.cautions]
            + candidate_warnings(self._texts, self.view, "the texts")
        )

    def require_read(self, *, needs_facts: bool) -> None:
        """Raise `NoKnowledgeError` where the view, or an objective, reads nothing of the graph.

        `needs_facts` False: knowledge about entities does not come from the graph's triples.
        """
        require_read(
            self.coverage,
            self._texts,
            self.graph,
            self.view,
            of="the texts",
            needs_facts=needs_facts,
        )
        for name, share in self.shares_read.items():
            if not share:
                raise NoKnowledgeError(
                    f"objective {name} gets nothing from {self.graph}: "
                    f"{self.preparations[name].remedy}"
                )

    def _require_links(self) -> None:
        if not (self._entities >= 0).any():
            raise ConfigError(
                f"none of the {len(self._entities)} links of {len(self)} texts leads into "
                f"{self.graph}; link the texts with this graph (`kept link`)"
            )

    def _is_read(self, index: int) -> bool:
        graph = join_words(
            self._texts[index],
            self._words_of(index),
            self.graph,
            generator=generator(0, "coverage", index),
            config=dataclasses.replace(self.builder, drop_probability=0.0),
        )
        return self.view.contains_knowledge(graph, self.view(graph))

    @property
    def period(self) -> int:
        """The period, in batches, of the kinds of batches: it has every loss."""
        return math.lcm(*(preparation.period for preparation in self.preparations.values()))

    def frequencies(self) -> NDArray[np.float64]:
        """The frequency of each entity in links, `[entity row]`; special rows 0."""
        rows = self._entities[self._entities >= 0] + N_SPECIAL_ROWS
        counts = np.bincount(rows, minlength=self.graph.n_entities + N_SPECIAL_ROWS)
        return counts.astype(np.float64)

    def n_nodes(self, index: int) -> int:
        """An upper bound for text `index` in every epoch."""
        return int(self._bounds[index])

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """Return the graph of text `index` as sampled and labelled in `epoch`."""
        (sample,) = self.samples([index], epoch=epoch, seed=seed)
        return sample

    def samples(self, indices: Sequence[int], *, epoch: int, seed: int) -> list[KnowledgeBatch]:
        """`sample` of every index; their graphs are built in one pass."""
        texts = [self._text(index, epoch, seed) for index in indices]
        graphs = joined(
            [text for text, _, _ in texts],
            [words for _, words, _ in texts],
            self.graph,
            self.builder,
            self.view,
            [generator(seed, "graph", epoch, index) for index in indices],
        )
        return [
            self._labelled(index, graph, text, label, epoch, seed)
            for index, graph, (text, _, label) in zip(indices, graphs, texts, strict=True)
        ]

    def _labelled(
        self,
        index: int,
        graph: WordKnowledgeGraph,
        text: Rewritten,
        label: int | None,
        epoch: int,
        seed: int,
    ) -> KnowledgeBatch:
        graph = dataclasses.replace(graph, link_labels=text.link_labels)
        batch = self.view(graph)
        if text.marked:
            spans = target_spans(graph, self.view.places(graph, batch), text.marked)
            batch = batch.replace(target_spans=torch.from_numpy(spans)[None])
        if label is not None:
            batch = batch.replace(pair_labels=torch.tensor([label]))
        for name, preparation in self.preparations.items():
            batch = preparation.mark(batch, generator(seed, name, epoch, index))
        return batch

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Return stacked samples completed by every preparation, or an objective's own batch."""
        for name, preparation in self.preparations.items():
            extra_batch = preparation.own_batch(step, generator(seed, name, "own batch", step))
            if extra_batch is not None:
                return extra_batch
        batch = KnowledgeBatch.stack(samples, word_pad_id=self._word_pad_id)
        for name, preparation in self.preparations.items():
            batch = preparation.complete(batch, generator(seed, name, "batch", step))
        return batch

    def _text(self, index: int, epoch: int, seed: int) -> tuple[Rewritten, Words, int | None]:
        """Return a sample's text, its pieces, the class of a pair."""
        if self._pairs is None or self._template is None:
            text, words = self._rewritten(index, epoch, seed)
            return text, words, None
        first, second, label = self._pairs.draw(index, generator(seed, "pairs", epoch, index))
        text, words = self._rewritten(first, epoch, seed)
        if second is None:
            return text, words, label
        other, other_words = self._rewritten(second, epoch, seed)
        linked = join_texts(text.linked, other.linked)
        shift = linked.pair_start
        assert shift is not None
        words = self._template.join(
            words, other_words, shift=shift, max_words=self.builder.max_words
        )
        labels = text.link_labels
        if labels is not None and other.link_labels is not None:
            labels = np.concatenate([labels, other.link_labels])
        moved = (Mention(each.start + shift, each.end + shift) for each in other.marked)
        stated = (*text.stated, *other.stated)
        return Rewritten(linked, labels, (*text.marked, *moved), stated), words, label

    def _rewritten(self, index: int, epoch: int, seed: int) -> tuple[Rewritten, Words]:
        """Return a text, as it is or rewritten, with its pieces."""
        text = self._texts[index]
        if self._rewriter is None:
            return Rewritten(text), self._words_of(index)
        rewritten = self._rewriter.rewrite(text, generator(seed, "rewrite", epoch, index))
        (words,) = encode_words(
            [rewritten.linked.text],
            self._tokenizer,
            max_words=self.builder.max_words,
            pair_starts=[rewritten.linked.pair_start],
        )
        return rewritten, words

    def _longest(self) -> NDArray[np.int64]:
        """An upper bound of word pieces by text; inserted names may be of any length."""
        n_words: NDArray[np.int64] = np.diff(self._word_offsets)
        if self._rewriter is None:
            return n_words
        has_links = np.diff(self._link_offsets) > 0
        return np.where(has_links, self.builder.max_words, n_words)

    def _words_of(self, index: int) -> Words:
        return self._words[slice(self._word_offsets[index], self._word_offsets[index + 1])]

    def _hash(self) -> str:
        digest = hashlib.sha256(self.graph.content_hash.encode())
        mentions = [link.mention for text in self._texts for link in text.links]
        spans = np.array([(m.start, m.end) for m in mentions], np.int64)
        for array in (
            self._words.ids,
            self._words.spans,
            self._words.segment_ids,
            self._word_offsets,
            self._entities,
            self._link_offsets,
            spans,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        if self.view.reads_candidates:
            links = [link.candidates for text in self._texts for link in text.links]
            digest.update(repr(links).encode())
        marks = {name: p.fingerprint for name, p in self.preparations.items()}
        options = [dataclasses.asdict(self.builder), self.view.fingerprint, marks]
        if self._pairs is not None:
            options.append(self._pairs.fingerprint)
        fields = json.dumps([*options, self._word_pad_id], default=_name)
        digest.update(fields.encode())
        return digest.hexdigest()


def _sizes(documents: Sequence[int] | None, n_parts: Sequence[int]) -> list[int] | None:
    """Return how many parts each document has, from its texts and the parts of each."""
    if documents is None or sum(documents) != len(n_parts):
        return None if documents is None else [*documents]
    parts = iter(n_parts)
    return [sum(islice(parts, n)) for n in documents]


def _name(policy: Any) -> str:
    return f"{policy.__module__}.{policy.__qualname__}"


def _rewriter(preparations: Mapping[str, Preparation]) -> Preparation | None:
    """The one preparation that rewrites texts; raises `ConfigError` for more than one."""
    rewriting = [name for name, preparation in preparations.items() if preparation.rewrites]
    if len(rewriting) > 1:
        raise ConfigError(f"{' and '.join(rewriting)} both rewrite texts; take one")
    return preparations[rewriting[0]] if rewriting else None


def _pairs(
    preparations: Mapping[str, Preparation],
    texts: Sequence[LinkedText],
    documents: Sequence[int] | None,
) -> TextPairs | None:
    """Return the pairs that the objectives need; raises `ConfigError` where they cannot be made."""
    pairings = {name: p.pairing for name, p in preparations.items() if p.pairing is not None}
    if not pairings:
        return None
    kinds = list(dict.fromkeys(pairings.values()))
    if len(kinds) > 1:
        raise ConfigError(f"{' and '.join(pairings)} ask for different pairs of texts; take one")
    if any(text.pair_start is not None for text in texts):
        raise ConfigError(
            f"{', '.join(pairings)}: pairs are made from single texts; some are pairs"
        )
    documents = [len(texts)] if documents is None else documents
    if sum(documents) != len(texts):
        raise ConfigError(f"documents hold {sum(documents)} texts, not {len(texts)}")
    return TextPairs(kinds[0], documents)
