"""Temporary."""

from __future__ import annotations
import gzip, json
from dataclasses import dataclass
from entity_linking.mentions import LinkedText, Link, Mention, Candidate


@dataclass(frozen=True)
class RelationExample:
    linked: LinkedText
    head: str
    relation: str
    tail: str
    head_mention: Mention
    tail_mention: Mention


def read_trex(path, report, *, distinct=True):
    for line in gzip.open(path, "rt", encoding="utf-8"):
        d = json.loads(line)
        seen = set()
        for e in d["evidences"]:
            m = e["masked_sentence"]
            if m in seen:
                continue
            seen.add(m)
            if m.count("[MASK]") != 1:
                continue
            o = e["obj_surface"]
            i = m.index("[MASK]")
            text = m.replace("[MASK]", o)
            j = text.find(e["sub_surface"])
            if j < 0 or not e["sub_surface"] or not o:
                continue
            a, b = Mention(j, j + len(e["sub_surface"])), Mention(i, i + len(o))
            if a.start < b.end and b.start < a.end:
                continue

            def L(mm, q):
                return Link(mm, (Candidate(q, 1.0, 1.0),), q, 1.0)

            links = tuple(sorted([L(a, d["sub_uri"]), L(b, d["obj_uri"])], key=lambda l: l.mention))
            yield RelationExample(
                LinkedText(text, links), d["sub_uri"], d["predicate_id"], d["obj_uri"], a, b
            )
