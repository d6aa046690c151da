"""Systems as weighted sums of scorers, asked once a data set, and the table of their F1.

Axis legend: instance, sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt, model_validator

from entity_linking.decision import Decision
from entity_linking.mentions import Link, LinkedText
from entity_linking.parts import Scorer, Scores, SentenceEncoder
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.features import PriorScorer
from entity_linking.scoring import LinkScore
from entity_linking.senses.candidates import FirstSense, GlossScorer, SenseCandidates
from entity_linking.senses.corpus import (
    SenseText,
    answers,
    correct,
    gold_synsets,
    read_senses,
    score_senses,
    sentence_of,
)
from entity_linking.senses.gloss_links import gloss_links
from entity_linking.senses.walks import SenseWalk, relations, undirected
from entity_linking.senses.wordnet import WordNetCandidates
from kept.evaluation.statistics import bootstrap_interval, paired_bootstrap_interval
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.formats.wordnet import find_wordnet
from kg_loaders.formats.wordnet_lexicon import Lexicon

Found = list[list[Scores]]


class Part(BaseModel):
    """A scorer; `edges` are a walk's, "relations" of WordNet or those "with_glosses"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["first_sense", "prior", "walk", "gloss"]
    edges: Literal["relations", "with_glosses"] = "relations"
    options: dict[str, Any] = {}


class SenseConfig(BaseModel):
    """What is run: parts by name, systems as weighted sums of parts, and what was published.

    `files` is `NAME: [data, keys]` below the folder of data sets; `published` is
    `system: {NAME: F1, source: ...}` in per cent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: dict[str, tuple[str, str]]
    gloss_senses: Literal["first", "all"] = "first"
    encoder: dict[str, Any] = {}
    parts: dict[str, Part]
    systems: dict[str, dict[str, float]]
    baseline: str
    n_resamples: PositiveInt = 10_000
    seed: int = 0
    published: dict[str, dict[str, float | str]] = {}

    @model_validator(mode="after")
    def _names_are_known(self) -> SenseConfig:
        names = {part for weights in self.systems.values() for part in weights}
        if names - set(self.parts):
            raise ValueError(
                f"systems name parts that are not there: {sorted(names - {*self.parts})}"
            )
        if self.baseline not in self.systems:
            raise ValueError(f"baseline {self.baseline!r} is none of the systems")
        return self


@dataclass(frozen=True)
class World:
    """WordNet, the annotated texts by data set, and the synset of each gold key."""

    graph: KnowledgeGraph
    lexicon: Lexicon
    texts: dict[str, list[SenseText]]
    synset_of: Mapping[str, str]


def read_world(root: Path, config: SenseConfig) -> World:
    """Read WordNet (some ten seconds) and the data sets below `root`."""
    folder = find_wordnet()
    graph, _ = load([Source(folder, "wordnet", {"lexical": "synsets"})])
    texts = {
        name: read_senses(root / data, root / keys) for name, (data, keys) in config.files.items()
    }
    return World(graph, Lexicon.open(folder), texts, gold_synsets(folder))


def run(
    world: World,
    config: SenseConfig,
    encoder: SentenceEncoder | None,
    announce: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Everything the tables show, as plain values; `encoder` is needed by "gloss" parts alone."""
    proposed = {name: _propose(world, texts) for name, texts in world.texts.items()}
    edges: dict[str, Any] = {}
    scores: dict[str, dict[str, Found]] = {}
    seconds: dict[str, float] = {}
    used = {part for weights in config.systems.values() for part in weights}
    for name, part in config.parts.items():
        if name not in used:
            continue
        start = time.process_time()
        scorer = _scorer(part, world, config, encoder, edges)
        scores[name] = {}
        joined = scorer.scores([text for texts in proposed.values() for text in texts])
        for data, texts in proposed.items():
            scores[name][data], joined = joined[: len(texts)], joined[len(texts) :]
        seconds[name] = round(time.process_time() - start, 1)
        announce(f"{name}: {seconds[name]} CPU seconds")
    results = {data: _tell(world, config, data, proposed[data], scores) for data in world.texts}
    return {"data": results, "cpu_seconds": seconds, "config": config.model_dump(mode="json")}


def _propose(world: World, texts: Sequence[SenseText]) -> list[LinkedText]:
    source = SenseCandidates(world.graph, world.lexicon, texts)
    steps = Pipeline(WordNetCandidates(world.graph, world.lexicon), source, FirstSense())
    return steps.propose([text.linked for text in texts])


def _scorer(
    part: Part,
    world: World,
    config: SenseConfig,
    encoder: SentenceEncoder | None,
    edges: dict[str, Any],
) -> Scorer:
    if part.kind == "first_sense":
        return FirstSense()
    if part.kind == "prior":
        return PriorScorer(**part.options)
    if part.kind == "gloss":
        if encoder is None:
            raise ValueError("a part of kind 'gloss' needs a sentence encoder")
        return GlossScorer(world.graph, encoder, **part.options)
    if part.edges not in edges:
        walk = edges.setdefault("relations", relations(world.graph))
        if part.edges == "with_glosses":
            glosses = gloss_links(world.graph, world.lexicon, senses=config.gloss_senses)
            edges[part.edges] = undirected(walk, glosses)
    return SenseWalk(world.graph, edges[part.edges], **part.options)


def _tell(
    world: World,
    config: SenseConfig,
    data: str,
    proposed: Sequence[LinkedText],
    scores: Mapping[str, Mapping[str, Found]],
) -> dict[str, Any]:
    """F1 and interval of every system on a data set, and its difference from the baseline."""
    texts = world.texts[data]
    sentences = _sentences(texts)
    right: dict[str, list[bool]] = {}
    rows: dict[str, dict[str, Any]] = {}
    for system, weights in config.systems.items():
        mixed = _sum([(scores[part][data], weight) for part, weight in weights.items()])
        decided = [
            replace(text, links=_decide(text, mixed_scores))
            for text, mixed_scores in zip(proposed, mixed, strict=True)
        ]
        answered = answers(texts, decided)
        right[system] = list(correct(texts, answered, world.synset_of).values())
        rows[system] = _row(score_senses(texts, answered, world.synset_of))
        draws = generator(config.seed, "f1", data, system)
        mixed_scores = bootstrap_interval(
            right[system], generator=draws, clusters=sentences, n_resamples=config.n_resamples
        )
        rows[system] |= {"low": mixed_scores.low, "high": mixed_scores.high}
    for system, row in rows.items():
        if system != config.baseline:
            gap = paired_bootstrap_interval(
                right[system],
                right[config.baseline],
                generator=generator(config.seed, "difference", data, system),
                clusters=sentences,
                n_resamples=config.n_resamples,
            )
            row["difference"] = {"mean": gap.estimate, "low": gap.low, "high": gap.high}
    words = [(w, t.links[i]) for s, t in zip(texts, proposed, strict=True)
             for i, w in enumerate(s.words)]  # fmt: skip
    n_candidates = [len(link.candidates) for word, link in words if word.id is not None]
    return {
        "documents": len(texts),
        "sentences": sum(text.text.count("\n") + 1 for text in texts),
        "sentences_with_instances": len(set(sentences)),
        "instances": len(n_candidates),
        "one_sense": sum(n == 1 for n in n_candidates),
        "context_words": sum(bool(link.candidates) for _, link in words),
        "systems": rows,
    }


def _row(score: LinkScore) -> dict[str, Any]:
    if score.n_predicted != score.n_gold:
        raise ValueError(
            f"{score.n_gold - score.n_predicted} instances have no answer; then F1 is no mean over "
            "instances, and the intervals do not hold"
        )
    return {"f1": score.f1, "precision": score.precision, "recall": score.recall}


def _decide(text: LinkedText, scores: Sequence[Scores]) -> tuple[Link, ...]:
    decide = Decision().decide
    return tuple(
        decide(link.mention, link.candidates, score)
        for link, score in zip(text.links, scores, strict=True)
    )


def _sum(weighted: Sequence[tuple[Found, float]]) -> Found:
    (first, weight), *rest = weighted
    total = [[weight * np.asarray(score) for score in links] for links in first]
    for scores, weight in rest:
        for sums, links in zip(total, scores, strict=True):
            for number, score in enumerate(links):
                sums[number] = sums[number] + weight * score
    return total


def _sentences(texts: Sequence[SenseText]) -> list[str]:
    """Document and line of each instance, in the order of `correct`."""
    return [
        f"{text.id}.{line}"
        for text in texts
        for word, line in zip(text.words, sentence_of(text.linked).tolist(), strict=True)
        if word.id is not None
    ]
