"""The five benchmarks, coarse types of their gold entities, and the supplied candidate sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from entity_linking.annotations import (
    Excerpt,
    TypedText,
    read_elevant_articles,
    read_elevant_typed,
)
from entity_linking.mentions import Candidate, LinkedText
from entity_linking.parts import Candidates
from kept.tasks.datasets.public_files import lines
from kg_loaders.damage import DamageReport

FILES = {
    "kore50": "kore50.benchmark.jsonl",
    "rss-500": "rss-500.benchmark.jsonl.gz",
    "reuters-128": "reuters-128.benchmark.jsonl.gz",
    "oke-2016": "oke-2016-train.benchmark.jsonl.gz",
    "wiki-fair": "wiki-fair-v2.benchmark.jsonl.gz",
}
PARTLY_MARKED = ("rss-500",)
"""Exactly two mentions a sentence are marked there, so other links cannot be judged."""
PRONOUNS_MARKED = ("oke-2016", "wiki-fair")
"""Whose guidelines have pronouns marked: OKE says so, Wiki-Fair marks all that means an entity."""
CHOSEN_ON = ("rss-500", "reuters-128", "wiki-fair")
"""On which choices are made, and whose labels say how sure to be of other texts. KORE50 and OKE are
held out of every choice since decision 0113."""
WITH_NIL = ("rss-500", "reuters-128")
TYPES = (("Q215627", "person"), ("Q27096213", "place"), ("Q43229", "organisation"))

Benchmarks = dict[str, tuple[TypedText, ...]]


def read_benchmarks(root: Path) -> Benchmarks:
    """Documents cropped to their evaluation span, the only part that is annotated in full."""
    return {
        name: tuple(read_elevant_typed(root / "el" / file, DamageReport()))
        for name, file in FILES.items()
    }


def read_articles(root: Path) -> dict[str, tuple[Excerpt, ...]]:
    """The same documents whole, of which linkers may read all; only Wiki-Fair's are longer."""
    return {
        name: tuple(read_elevant_articles(root / "el" / file, DamageReport()))
        for name, file in FILES.items()
    }


def coarse(types: Sequence[str]) -> str:
    """Person, place, organisation or other, from the Wikidata classes that ELEVANT gives."""
    names = [item for each in types for item in each.split("|")]
    return next((name for item, name in TYPES if item in names), "other")


class SuppliedCandidates:
    """A `CandidateSource` of what ten linkers offered on these very texts: optimistic.

    One set a surface, wherever it stood. The prior is the share of the systems' votes; ties stand
    in the order of the file.
    """

    def __init__(self, path: Path) -> None:
        self._sets: dict[str, Candidates] = {}
        for row in map(json.loads, lines(path)):
            offered = sorted(row["candidates"], key=lambda c: -len(c["systems"]))
            votes = sum(len(c["systems"]) for c in offered)
            self._sets[row["mention"]] = tuple(
                Candidate(
                    c["qid"],
                    len(c["systems"]) / votes,
                    float(len(c["systems"])),
                    f"offered by {', '.join(c['systems'])}",
                )
                for c in offered
            )

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link the set of its surface, none if no system linked it anywhere."""
        return [
            [self._sets.get(t.text[k.mention.start : k.mention.end], ()) for k in t.links]
            for t in texts
        ]
