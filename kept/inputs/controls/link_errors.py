"""Corrupted links of a task's texts: how much of a score depends on the links being right?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from entity_linking.corruption import CorruptionReport, corrupt
from kept.tasks.datasets.formats import TaskExample
from kg_loaders import KnowledgeGraph

Kind = Literal["drop", "swap", "random"]
KINDS: tuple[Kind, ...] = ("drop", "swap", "random")


class LinkErrors(BaseModel):
    """A share of all links is removed ("drop") or linked wrongly.

    "swap": to what a linker might confuse it with, the best wrong candidate, else an entity of the
    same type, else of about the same degree. "random": to any entity of the graph. `sets`: those
    evaluated on ("asked": a linker worse at work than on the training data), trained on, or all.
    `spread`: confidences of a linker that errs as often and knows how sure it may be
    (`entity_linking.corruption`); without it they stay, as those of one that does not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Kind = "drop"
    share: Annotated[float, Field(ge=0, le=1)] = 0.0
    spread: Annotated[float, Field(gt=0)] | None = None
    sets: Literal["asked", "train", "all"] = "asked"

    def touches(self, name: str) -> bool:
        """Whether the set called `name` has these errors."""
        return self.sets == "all" or (self.sets == "train") == (name == "train")


def corrupt_links(
    examples: Sequence[TaskExample], errors: LinkErrors, graph: KnowledgeGraph, seed: int
) -> tuple[list[TaskExample], CorruptionReport]:
    """Return the examples with `errors.share` of all their links corrupted, and how many were.

    Links that are wrong at one share are so at every higher one (see `corrupt`). Labels, targets
    and pairs stay.
    """
    texts, report = corrupt(
        [example.linked for example in examples],
        drop=errors.share if errors.kind == "drop" else 0.0,
        swap=0.0 if errors.kind == "drop" else errors.share,
        wrong="any" if errors.kind == "random" else "likely",
        seed=seed,
        graph=graph,
        spread=errors.spread,
    )
    pairs = zip(examples, texts, strict=True)
    return [dataclasses.replace(example, linked=text) for example, text in pairs], report


def corrupted_sets(
    sets: Mapping[str, list[TaskExample]], errors: LinkErrors, graph: KnowledgeGraph, seed: int
) -> tuple[dict[str, list[TaskExample]], dict[str, str]]:
    """Return the sets, those that `errors` touches corrupted, and what was done to each."""
    corrupted, reports = dict(sets), {}
    for name in sets:
        if errors.share and errors.touches(name):
            corrupted[name], report = corrupt_links(sets[name], errors, graph, seed)
            reports[name] = str(report)
    return corrupted, reports
