"""Why a linker chose what it chose: every candidate's confidence, and what each scorer added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from entity_linking.cache import CachedLinker
from entity_linking.detection import EndToEnd
from entity_linking.mentions import Candidate, Link, LinkedText
from entity_linking.parts import Disambiguator, Scores
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.mix import Mix, Shares
from entity_linking.scorers.reranker import Reranker


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
    if isinstance(linker, EndToEnd):
        return _of_pipeline(linker.pipeline, texts, _routing(linker, linker.pipeline, texts))
    if isinstance(linker, Pipeline):
        return _of_pipeline(linker, texts, _routing(linker, linker, texts))
    return [
        [tuple(Explanation(c, c.prior, c.reason) for c in link.candidates) for link in text.links]
        for text in texts
    ]  # of a linker whose confidence is the prior


def _of_pipeline(
    pipeline: Pipeline, texts: Sequence[LinkedText], questions: list[list[str]]
) -> list[list[tuple[Explanation, ...]]]:
    parts: list[list[Shares]] = [[{} for _ in text.links] for text in texts]
    if isinstance(pipeline.scorer, Mix):
        parts = pipeline.scorer.parts(texts)
    elif isinstance(pipeline.scorer, Reranker):  # no sum: one number for all its features
        parts = [[{"log-odds against NIL": _scores(link)} for link in t.links] for t in texts]
    return [
        [
            _explanations(pipeline, link, shares, why) if link.candidates else ()
            for link, shares, why in zip(text.links, of_text, reasons, strict=True)
        ]
        for text, of_text, reasons in zip(texts, parts, questions, strict=True)
    ]


def _explanations(
    pipeline: Pipeline, link: Link, shares: Shares, question: str
) -> tuple[Explanation, ...]:
    sure_of = pipeline.decision.confidences(_scores(link)).tolist()
    return tuple(
        Explanation(
            candidate,
            sure,
            "; ".join(filter(None, (candidate.reason, question))),
            {name: float(values[i]) for name, values in shares.items()},
        )
        for i, (candidate, sure) in enumerate(zip(link.candidates, sure_of, strict=True))
    )


def _routing(
    linker: Pipeline | EndToEnd, pipeline: Pipeline, texts: Sequence[LinkedText]
) -> list[list[str]]:
    """For each link whether dear scorers were asked about it, and why; empty where none is dear.

    Mentions are found again, since those that the linker left out were read too.
    """
    model = pipeline.scorer
    if not isinstance(model, Reranker) or model.asking is None:
        return [[""] * len(text.links) for text in texts]
    plain = [text.text for text in texts]
    if isinstance(linker, EndToEnd):
        detected = [each.linked for each in linker.detect(plain)]
    else:
        mentions = pipeline.mentions.link(plain)
        detected = [
            linked if _holds(linked, text) else text
            for linked, text in zip(mentions, texts, strict=True)
        ]
    answers = model.first_stage(pipeline.propose(detected))
    names = " and ".join(model.asking.dear)
    reasons = []
    for text, linked, of_text in zip(texts, detected, answers, strict=True):
        explanations = {
            link.mention: f"{names} {'' if each.is_asked else 'not '}used: without it the best "
            f"answer has {each.sure:.3f} (used up to {model.asking.most_sure:.3f})"
            for link, each in zip(linked.links, of_text, strict=True)
        }
        reasons.append([explanations.get(link.mention, "") for link in text.links])
    return reasons


def _holds(linked: LinkedText, text: LinkedText) -> bool:
    """Whether all mentions of a text are among those that were found there."""
    return {link.mention for link in text.links} <= {link.mention for link in linked.links}


def _scores(link: Link) -> Scores:
    return np.array([candidate.score for candidate in link.candidates], np.float64)
