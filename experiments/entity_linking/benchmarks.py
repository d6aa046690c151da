"""The five benchmarks, the types of their gold entities, and the supplied candidate sets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from entity_linking.annotations import read_elevant
from entity_linking.mentions import Candidate, LinkedText
from entity_linking.parts import Candidates
from kg_loaders.damage import DamageReport

NAMES = {
    "kore50": "kore50.benchmark.jsonl",
    "rss-500": "rss-500.benchmark.jsonl.gz",
    "reuters-128": "reuters-128.benchmark.jsonl.gz",
    "oke-2016": "oke-2016-train.benchmark.jsonl.gz",
    "wiki-fair": "wiki-fair-v2.benchmark.jsonl.gz",
}
TYPES = (("Q215627", "person"), ("Q27096213", "place"), ("Q43229", "organisation"))


def read_benchmarks(root: Path) -> dict[str, list[LinkedText]]:
    """Documents cropped to their evaluation span, the only part that is annotated in full."""
    found = {}
    for name, file in NAMES.items():
        documents = read_elevant(root / "el" / file, DamageReport())
        found[name] = [
            LinkedText(text.text, text.links, f"{name}-{i}") for i, text in enumerate(documents)
        ]
    return found


def read_types(root: Path) -> dict[str, str]:
    """Person, place, organisation or other, of every gold entity, as ELEVANT types them."""
    types: dict[str, str] = {}
    for file in NAMES.values():
        data = (root / "el" / file).read_bytes()
        for line in (gzip.decompress(data) if file.endswith(".gz") else data).split(b"\n"):
            for label in json.loads(line)["labels"] if line else ():
                given = label["type"].split("|")
                names = [name for item, name in TYPES if item in given]
                types[label["entity_id"]] = names[0] if names else "other"
    return types


class SuppliedCandidates:
    """What ten linkers offered for the same surface on these very texts: optimistic.

    The prior is the share of the systems' votes; ties stand in the order of the file.
    """

    def __init__(self, root: Path) -> None:
        self._sets: dict[str, Candidates] = {}
        with gzip.open(root / "el" / "candidates_elevant.jsonl.gz", "rt", encoding="utf-8") as rows:
            for line in rows:
                row = json.loads(line)
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

    def candidates(self, texts: list[LinkedText]) -> list[list[Candidates]]:
        """For each link the set of its surface, none if no system linked it anywhere."""
        return [
            [self._sets.get(t.text[k.mention.start : k.mention.end], ()) for k in t.links]
            for t in texts
        ]
