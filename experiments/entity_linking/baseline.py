"""The dictionary to beat: lower-cased names, counts from T-REx surfaces, nothing else.

    p(entity | surface) ~ how often T-REx writes the entity so

Every label and alias is an entry with count 0, `el/mention_prior_trex.tsv.gz` adds its counts.
Entities with equal counts stand in the order of the files (labels, then aliases, then T-REx).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from entity_linking.mentions import Candidate, Link, LinkedText
from kept.tasks.datasets.public_files import table

Lowered = dict[str, Counter[str]]


def read_lowered(root: Path) -> Lowered:
    """Lower-cased surface to its entities and their counts."""
    names: Lowered = {}
    for file, column in (("qid_labels", "label"), ("qid_aliases", "alias")):
        for row in table(root / "wikidata_labels" / f"{file}.tsv"):
            names.setdefault(row[column].lower(), Counter())[row["qid"]] += 0
    for row in table(root / "el" / "mention_prior_trex.tsv"):
        names.setdefault(row["surface"].lower(), Counter())[row["qid"]] += int(row["count"])
    return names


def disambiguate(texts: Sequence[LinkedText], names: Lowered) -> list[LinkedText]:
    """The given mentions with every entity that bears the surface, the most frequent first."""
    linked = []
    for text in texts:
        links = []
        for link in text.links:
            surface = text.text[link.mention.start : link.mention.end].lower()
            entities = names.get(surface, Counter()).most_common()
            total = sum(count for _, count in entities) or 1
            candidates = tuple(Candidate(e, count / total, float(count)) for e, count in entities)
            best = candidates[0].entity if candidates else None
            links.append(Link(link.mention, candidates, best, 1.0))
        linked.append(replace(text, links=tuple(links)))
    return linked
