"""KnowBERT's linker as one more linker: candidates from another, the choice by the model.

Axis legend: batch, mention, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Candidate, Link, LinkedText, Linker, Mention, require_texts
from kept.batches import N_SPECIAL_ROWS, UNKNOWN_ROW, KnowledgeBatch
from kept.encoders.knowbert import KnowBERT
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views.knowbert import FurtherGraph, KnowBERTView
from kept.layers.kar import KAR
from kept.layers.spans import FAR
from kg_loaders import KnowledgeGraph

ALWAYS = FAR / 10
"""A threshold that every real candidate exceeds: softmax models always choose."""


def decode(
    scores: Float[Tensor, "batch mention candidate"],
    candidate_ids: Int[Tensor, "batch mention candidate"],
    *,
    threshold: float = ALWAYS,
) -> Int[Tensor, "batch mention"]:
    """The row of each mention's best candidate; UNKNOWN_ROW (NIL) unless it exceeds `threshold`."""
    best, place = scores.max(2)
    rows = candidate_ids.gather(2, place[..., None]).squeeze(2)
    return rows.where(best > threshold, UNKNOWN_ROW)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a KAR makes of a mention: an entity of its graph, or None for NIL.

    `kar` is its name. `score` is the model's, of the best candidate, chosen or not; scores of
    different KARs do not compare.
    """

    mention: Mention
    kar: str
    entity: str | None
    score: float


def choices(
    encoder: KnowBERT,
    view: KnowBERTView,
    word_graph: WordKnowledgeGraph,
    sample: KnowledgeBatch,
    scores: Float[Tensor, "mention candidate"],
) -> tuple[Choice, ...]:
    """The choices for a text, in the order of the batch: the first graph's, then the others'.

    `sample` is the `view` of `word_graph`; `scores`, on the CPU, may have padding at their ends.
    """
    assert sample.candidate_ids is not None
    _, n_mentions, width = sample.candidate_ids.shape
    scores, chosen_links, at = scores[:n_mentions, :width], [], 0
    graphs = (view.graph, *(further.graph for further in view.further))
    for spec, graph, part in zip(encoder.specs, graphs, view.find(word_graph), strict=False):
        own = slice(at, at + len(part.links))
        rows = decode(scores[None, own], sample.candidate_ids[:, own], threshold=threshold_of(spec))
        best = scores[own].max(1).values.tolist()
        for link, row, score in zip(part.links, rows[0].tolist(), best, strict=True):
            name = graph.entities.name(row - N_SPECIAL_ROWS) if row >= N_SPECIAL_ROWS else None
            chosen_links.append(Choice(link.mention, spec.name, name, score))
        at = own.stop
    return tuple(chosen_links)


def threshold_of(spec: KAR) -> float:
    """The score that a candidate must exceed: a margin model's own, any for softmax."""
    return spec.threshold if spec.loss == "margin" else ALWAYS


class KnowBERTLinker:
    """Chooses among the candidates of another linker, in context (Peters et al. 2019, 3.4).

    `candidates` finds the mentions, `further` those of the graphs after the first. A link's
    candidates come back best first by the model's score. Its `confidence` is the softmax of the
    scores at the choice, for margin models beside the threshold, which stands for NIL; it is not
    calibrated. A link that the model cannot read (no candidate in `graph`, or cut off after
    `max_words` pieces) stays as `candidates` gave it. Puts the encoder into evaluation mode.
    """

    def __init__(
        self,
        encoder: KnowBERT,
        tokenizer: PreTrainedTokenizerBase,
        graph: KnowledgeGraph,
        candidates: Linker,
        *,
        further: Sequence[FurtherGraph] = (),
        max_words: int = 128,
        batch_size: int = 32,
    ) -> None:
        encoder.require_graph(graph)
        if len(further) + 1 != len(encoder.specs):
            raise ConfigError(
                f"the encoder has {len(encoder.specs)} KARs; give {len(encoder.specs) - 1} "
                f"further graphs, not {len(further)}"
            )
        for spec, each in zip(encoder.specs[1:], further, strict=True):
            encoder.require_graph(each.graph, spec.name)
        self._encoder, self._tokenizer = encoder.eval(), tokenizer
        self._graph, self._candidates = graph, candidates
        self._view = KnowBERTView(graph, further=further)
        self._builder = BuilderConfig(
            replace_mentions=False, max_neighbours=0, max_words=max_words, max_nodes=2 * max_words
        )
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"KnowBERTLinker({self._candidates!r}, {self._graph!r})"

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order."""
        require_texts(texts)
        linked_texts: list[LinkedText] = []
        for start in range(0, len(texts), self._batch_size):
            linked = self._candidates.link(texts[start : start + self._batch_size])
            linked_texts.extend(self.disambiguate(linked))
        return linked_texts

    @torch.inference_mode()
    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The same mentions and candidates with the model's choices; one batch."""
        graphs = build_many(texts, self._tokenizer, self._graph, seed=0, config=self._builder)
        if not graphs:
            return []
        pad_id = int(self._tokenizer.pad_token_id or 0)
        batch = self._view.stacked(graphs, word_pad_id=pad_id).to(self._encoder.device)
        scores = self._encoder(batch).linking_scores
        assert scores is not None
        assert batch.candidate_ids is not None
        rows, scores = batch.candidate_ids.cpu(), scores.float().cpu()
        return [
            self._relinked(text, graph, rows[i], scores[i])
            for i, (text, graph) in enumerate(zip(texts, graphs, strict=True))
        ]

    def _relinked(
        self, text: LinkedText, graph: WordKnowledgeGraph, rows: Tensor, scores: Tensor
    ) -> LinkedText:
        """`rows` and `scores [mention candidate]`; the first graph's mentions come first."""
        read = self._view.find(graph)[0].links
        chosen = {id(link): self._choose(link, rows[i], scores[i]) for i, link in enumerate(read)}
        links = tuple(chosen.get(id(link), link) for link in text.links)
        return LinkedText(text.text, links, text.id, text.pair_start)

    def _choose(self, link: Link, rows: Tensor, scores: Tensor) -> Link:
        spec = self._encoder.specs[0]
        threshold = threshold_of(spec)
        row = int(decode(scores[None, None], rows[None, None], threshold=threshold))
        priors = {candidate.entity: candidate.prior for candidate in link.candidates}
        real = [
            (score, self._graph.entities.name(entity - N_SPECIAL_ROWS))
            for entity, score in zip(rows.tolist(), scores.tolist(), strict=True)
            if entity >= N_SPECIAL_ROWS
        ]
        ranked = tuple(
            Candidate(name, priors.get(name, 1.0), score)
            for score, name in sorted(real, key=lambda pair: -pair[0])
        )
        shares = torch.tensor([threshold, *(candidate.score for candidate in ranked)]).softmax(0)
        is_nil = row < N_SPECIAL_ROWS
        confidence = float(shares[0 if is_nil else 1].clamp(0, 1))
        return Link(link.mention, ranked, None if is_nil else ranked[0].entity, confidence)
