"""What a mistyped name may have meant."""

from __future__ import annotations

from collections.abc import Iterable

N_NEAR, LEAST_ALIKE = 3, 60.0


def near(name: str, known: Iterable[str]) -> list[str]:
    """Those of `known` that are spelled most like `name`, the nearest first; at most three.

    >>> near("finetunne", ["compare", "finetune", "pretrain"])
    ['finetune']
    """
    from rapidfuzz import fuzz, process

    matches = process.extract(
        name, list(known), scorer=fuzz.ratio, limit=N_NEAR, score_cutoff=LEAST_ALIKE
    )
    return [each for each, _, _ in matches]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that says that there is no `name`; "" where nothing is near.

    >>> did_you_mean("shufled", ["off", "shuffled"])
    '; did you mean shuffled?'
    """
    suggestions = near(name, known)
    return f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
