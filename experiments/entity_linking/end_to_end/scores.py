"""Scores by ELEVANT's counts, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from entity_linking.randomness import generator
from entity_linking.scoring.elevant import LabelledText, Mode, count_elevant
from entity_linking.scoring.intervals import ratio_interval
from experiments.entity_linking.end_to_end.study import Bench

Results = dict[str, Any]


def counted(
    bench: Bench, gold: Sequence[LabelledText], ours: Sequence[LinkedText], mode: Mode
) -> Results:
    """Precision, recall and F1 with its interval over texts."""
    counts: NDArray[np.float64] = count_elevant(gold, ours, mode=mode).astype(np.float64)
    n_gold, n_found, n_right = counts.sum(axis=0).tolist()
    study = bench.laboratory.study
    between = ratio_interval(
        2 * counts[:, 2], counts[:, 0] + counts[:, 1],
        generator=generator(study.seed, "link scores"), n_resamples=study.n_resamples,
    )  # fmt: skip
    return {
        "precision": n_right / max(n_found, 1),
        "recall": n_right / max(n_gold, 1),
        **msgspec.to_builtins(between),
    }
