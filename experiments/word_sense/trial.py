"""`python -m experiments word_sense CONFIG -o RUN`: word senses by weighted sums of scorers.

Each scorer runs once on all data sets; the table has the F1 of every system. Needs KEPT_DATA and
WordNet 3.0 (Debian package wordnet-base, or WNSEARCHDIR).

Axis legend: instance, sentence.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

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
from experiments.command import Results, announce, data_root, run_study
from experiments.word_sense.tables import to_markdown
from kept.evaluation.statistics import bootstrap_interval, paired_bootstrap_interval
from kept.linking.sentences import HostSentenceEncoder
from kept.randomness import generator
from kept.training.config import RunConfig
from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.formats.wordnet import find_wordnet
from kg_loaders.formats.wordnet_lexicon import Lexicon

TextScores = list[list[Scores]]


class Part(BaseModel):
    """A scorer; `edges` are a walk's, "relations" of WordNet or those "with_glosses"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["first_sense", "prior", "walk", "gloss"]
    edges: Literal["relations", "with_glosses"] = "relations"
    options: dict[str, Any] = {}


class SenseConfig(RunConfig):
    """What is run: parts by name, systems as weighted sums of parts, and what was published.

    `files` is `NAME: [data, keys]` below the folder of data sets; `published` is
    `system: {NAME: F1, source: ...}` in per cent.
    """

    files: dict[str, tuple[str, str]]
    gloss_senses: Literal["first", "all"] = "first"
    encoder: dict[str, Any] = Field(default_factory=dict)
    parts: dict[str, Part]
    systems: dict[str, dict[str, float]]
    baseline: str
    n_resamples: PositiveInt = 10_000
    seed: int = 0
    published: dict[str, dict[str, float | str]] = Field(default_factory=dict)

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
class SenseData:
    """WordNet, the annotated texts by data set, and the synset of each gold key."""

    graph: KnowledgeGraph
    lexicon: Lexicon
    texts: dict[str, list[SenseText]]
    synset_of: Mapping[str, str]


def read_world(root: Path, config: SenseConfig) -> SenseData:
    """Read WordNet (some ten seconds) and the data sets below `root`."""
    folder = find_wordnet()
    graph, _ = load([Source(folder, "wordnet", {"lexical": "synsets"})])
    texts = {
        name: read_senses(root / data, root / keys) for name, (data, keys) in config.files.items()
    }
    return SenseData(graph, Lexicon.open(folder), texts, gold_synsets(folder))


def results_of(
    world: SenseData, config: SenseConfig, encoder: SentenceEncoder | None
) -> dict[str, Any]:
    """Return what the tables show, as plain values; "gloss" parts alone need `encoder`."""
    proposed = {name: _propose(world, texts) for name, texts in world.texts.items()}
    every = [text for texts in proposed.values() for text in texts]
    edges: dict[str, Any] = {}
    scores: dict[str, dict[str, TextScores]] = {}
    seconds: dict[str, float] = {}
    used = {part for weights in config.systems.values() for part in weights}
    for name in (name for name in config.parts if name in used):
        start = time.process_time()
        scored = iter(_scorer(config.parts[name], world, config, encoder, edges).scores(every))
        scores[name] = {data: [next(scored) for _ in texts] for data, texts in proposed.items()}
        seconds[name] = round(time.process_time() - start, 1)
        announce(f"{name}: {seconds[name]} CPU seconds")
    data = {name: _of_data_set(world, config, name, proposed[name], scores) for name in world.texts}
    return {"data": data, "cpu_seconds": seconds, "config": config.model_dump(mode="json")}


def _propose(world: SenseData, texts: Sequence[SenseText]) -> list[LinkedText]:
    source = SenseCandidates(world.graph, world.lexicon, texts)
    steps = Pipeline(WordNetCandidates(world.graph, world.lexicon), source, FirstSense())
    return steps.propose([text.linked for text in texts])


def _scorer(
    part: Part,
    world: SenseData,
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


def _of_data_set(
    world: SenseData, config: SenseConfig, data: str, proposed: Sequence[LinkedText],
    scores: Mapping[str, Mapping[str, TextScores]],
) -> dict[str, Any]:  # fmt: skip
    """Return F1 of every system on a data set, and its difference from the baseline."""
    texts = world.texts[data]
    options: dict[str, Any] = {
        "clusters": _sentences(texts), "n_resamples": config.n_resamples
    }  # fmt: skip
    right: dict[str, list[bool]] = {}
    rows: dict[str, dict[str, Any]] = {}
    for system, weights in config.systems.items():
        mixed = _sum([(scores[part][data], weight) for part, weight in weights.items()])
        decided = [
            replace(text, links=_decide(text, of_text))
            for text, of_text in zip(proposed, mixed, strict=True)
        ]
        answered = answers(texts, decided)
        right[system] = list(correct(texts, answered, world.synset_of).values())
        draws = generator(config.seed, "f1", data, system)
        f1 = bootstrap_interval(right[system], generator=draws, **options)
        score = _row(score_senses(texts, answered, world.synset_of))
        rows[system] = score | {"low": f1.low, "high": f1.high}
    for system in (system for system in rows if system != config.baseline):
        draws = generator(config.seed, "difference", data, system)
        gap = paired_bootstrap_interval(
            right[system], right[config.baseline], generator=draws, **options
        )
        difference = {"mean": gap.estimate, "low": gap.low, "high": gap.high}
        rows[system]["difference"] = difference
    words = [(w, t.links[i]) for s, t in zip(texts, proposed, strict=True)
             for i, w in enumerate(s.words)]  # fmt: skip
    n_candidates = [len(link.candidates) for word, link in words if word.id is not None]
    return {
        "documents": len(texts),
        "sentences": sum(text.text.count("\n") + 1 for text in texts),
        "sentences_with_instances": len({*options["clusters"]}),
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


def _sum(weighted: Sequence[tuple[TextScores, float]]) -> TextScores:
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


# ---- the command ---------------------------------------------------------------------------------
def run(config: SenseConfig, arguments: argparse.Namespace) -> Results:
    """Return the page and its values."""
    world = read_world(data_root(), config)
    announce(f"{world.graph} {world.lexicon}")
    encoder = HostSentenceEncoder(**config.encoder)
    results = results_of(world, config, encoder)
    results |= {"encoder": encoder.name, "content_hash": world.graph.content_hash}
    return to_markdown(results), results


if __name__ == "__main__":
    run_study(__doc__, SenseConfig, run)
