"""Scores by ELEVANT's counts, with intervals over texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from entity_linking.mentions import LinkedText
from entity_linking.randomness import generator
from entity_linking.scoring.elevant import LabelledText, Mode, count_elevant
from entity_linking.scoring.intervals import ratio_interval
from experiments.entity_linking.config import LinkingStudy

Results = dict[str, Any]


def elevant_f1(
    study: LinkingStudy, gold: Sequence[LabelledText], ours: Sequence[LinkedText], mode: Mode
) -> Results:
    """Return F1 with its interval."""
    counts = count_elevant(gold, ours, mode=mode).astype(float)
    interval = ratio_interval(
        2 * counts[:, 2], counts[:, 0] + counts[:, 1],
        generator=generator(study.seed, "link scores"), n_resamples=study.n_resamples,
    )  # fmt: skip
    values: Results = msgspec.to_builtins(interval)
    return values


def elevant_scores(
    study: LinkingStudy, gold: Sequence[LabelledText], ours: Sequence[LinkedText], mode: Mode
) -> Results:
    """Return precision, recall and F1 with its interval."""
    n_gold, n_linked, n_right = count_elevant(gold, ours, mode=mode).sum(axis=0).tolist()
    return {
        "precision": n_right / max(n_linked, 1),
        "recall": n_right / max(n_gold, 1),
        **elevant_f1(study, gold, ours, mode),
    }
