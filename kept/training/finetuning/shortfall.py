"""A score no better than an answer without a model: the warning, its likeliest cause, a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kept.methods import BASELINE, method, title
from kept.tasks.datasets.formats import TASKS
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.recipes import budget_warning

SHOWN_SHARE = 0.5
"""Share of texts in which the graph is shown, below which it can decide little."""


def shortfall(
    name: str, scores: Mapping[str, Any], config: FinetuneConfig, n_train: int
) -> str | None:
    """Return a warning where the `scores` of a split are not above those of its baseline.

    `scores` are those of `FinetuneRun.score`, `n_train` the examples of training.
    """
    kind = TASKS[config.task].kind
    label, ours = kind.headline(scores)
    theirs = kind.headline(scores["baseline"])[1]
    if ours is None or theirs is None or ours > theirs:
        return None
    return (
        f"{name}: {label} {abs(ours):.3f} is no better than an answer without a model "
        f"({abs(theirs):.3f}): {_cause(scores, config, n_train)}"
    )


def _cause(scores: Mapping[str, Any], config: FinetuneConfig, n_train: int) -> str:
    name, share = config.method, scores["coverage"]["shares"]["read"]
    if name not in (None, BASELINE) and config.knowledge == "true":
        if share is not None and share < SHOWN_SHARE:
            link = "" if config.link else "; --link finds entities in texts without links"
            return (
                f"the model gets facts or entities of the graph in {share:.0%} of the "
                f"texts, so it can affect few of them; add names and facts (kept kg build "
                f"--aliases FILE){link}"
            )
        if config.as_published and method(name or "").recipe.differs:
            return (
                f"{title(name or '')} has its paper's settings, with which it hardly reads at a "
                "small budget; leave out --as-published"
            )
        if short := budget_warning(config, n_train):
            return short
    return (
        "it may have learned too little, or too fast: give more --steps, another --lr (3e-4 suits "
        "minilm, 5e-5 wider hosts), or let `kept fit` choose"
    )
