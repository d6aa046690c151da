"""Small worlds for the tests of scorers, mixes and re-rankers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from entity_linking import Candidate, Link, LinkedText, Mention


def linked(text: str, *links: tuple[str, list[tuple[str, float]], str | None]) -> LinkedText:
    """Links by surface (its first place), candidates with priors, and entity."""
    proposed = []
    for surface, candidates, entity in links:
        start = text.index(surface)
        proposed.append(
            Link(
                Mention(start, start + len(surface)),
                tuple(Candidate(name, prior, prior) for name, prior in candidates),
                entity,
                1.0,
            )
        )
    return LinkedText(text, tuple(sorted(proposed, key=lambda link: link.mention)))


def toy_world(n: int, seed: int, n_candidates: int = 4) -> list[LinkedText]:
    """The highest prior is right, but where it is below 0.3 the mention is NIL."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        priors = rng.dirichlet(np.ones(n_candidates)) * rng.choice([1.0, 0.25])
        gold = None if priors.max() < 0.3 else f"Q{int(priors.argmax())}"
        candidates = [(f"Q{j}", float(prior)) for j, prior in enumerate(priors)]
        texts.append(linked(f"Paris number {i}", ("Paris", candidates, gold)))
    return texts


def flat(scores: Sequence[Sequence[np.ndarray]]) -> list[list[list[float]]]:
    """Scores as plain lists, to be compared exactly."""
    return [[column.tolist() for column in text] for text in scores]
