"""Why a linker chose what it chose: every candidate's confidence, and what each scorer added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from entity_linking.cache import CachedLinker
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import Candidate, Link, LinkedText
from entity_linking.parts import Disambiguator
from entity_linking.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Explanation:
    """A candidate, how sure the linker would be of it, how it was found, what scorers gave it."""

    candidate: Candidate
    confidence: float
    reason: str
    parts: dict[str, float] = field(default_factory=dict)


def explain(
    linker: Disambiguator, texts: Sequence[LinkedText]
) -> list[list[tuple[Explanation, ...]]]:
    """For each link of each text, which `linker` made, its candidates explained, best first."""
    while isinstance(linker, CachedLinker):
        linker = linker.linker
    if isinstance(linker, Pipeline):
        return _of_pipeline(linker, texts)
    return [[_plain(linker, text, link) for link in text.links] for text in texts]


def _of_pipeline(
    pipeline: Pipeline, texts: Sequence[LinkedText]
) -> list[list[tuple[Explanation, ...]]]:
    return [
        [
            tuple(
                Explanation(candidate, sure, candidate.reason)
                for candidate, sure in zip(
                    link.candidates,
                    pipeline.decision.confidences(
                        np.array([candidate.score for candidate in link.candidates])
                    ).tolist()
                    if link.candidates
                    else (),
                    strict=True,
                )
            )
            for link in text.links
        ]
        for text in texts
    ]


def _plain(linker: Disambiguator, text: LinkedText, link: Link) -> tuple[Explanation, ...]:
    """Of a linker whose confidence is the prior."""
    entries = []
    if isinstance(linker, DictionaryLinker):
        entries = linker.entries(text.text[link.mention.start : link.mention.end])
    told = []
    for candidate in link.candidates:
        names = [
            f"{'label' if entry.is_label else 'alias'} {entry.surface!r}"
            + (f" seen {entry.frequency}" if entry.frequency else "")
            for entry in entries
            if entry.entity == candidate.entity
        ]
        told.append(Explanation(candidate, candidate.prior, candidate.reason or ", ".join(names)))
    return tuple(told)
