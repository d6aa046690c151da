"""Remake the data files of the atlas from its tables: `python -m kg_loaders.atlas.compose [DIR]`.

Everything is drawn by seeds that hold the item's own id, so an added row changes little else.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from random import Random

from kg_loaders.atlas.describe import describe, nameable
from kg_loaders.atlas.tables import AtlasTables, load, rows
from kg_loaders.atlas.wording import Draft, Surfaces, Writer
from kg_loaders.disk.writing import write_lines
from kg_loaders.records import Triple

SENTENCES = {
    "country": 6, "city": 1, "river": 3, "mountain": 3, "person": 3, "literary work": 4,
    "film": 3, "painting": 4, "opera": 4, "language": 2, "currency": 1, "state": 2,
    "organisation": 2, "continent": 2,
}  # fmt: skip
CAPITAL_SENTENCES = 2
RESERVED_SHARE = {"person": 0.06, "film": 0.06, "literary work": 0.06, "city": 0.05, "river": 0.06,
                  "mountain": 0.08}  # fmt: skip
RESERVED_MAX_DEGREE_IN = 3
TEST_SHARE, VALID_SHARE = 0.08, 0.04
PROBES_A_RELATION = 20


@dataclass(frozen=True)
class Split:
    """Which triples are held out, and which entities are unseen in training."""

    train: tuple[Triple, ...]
    valid: tuple[Triple, ...]
    test: tuple[Triple, ...]
    inductive: tuple[Triple, ...]
    reserved: tuple[str, ...]

    @cached_property
    def held_pairs(self) -> dict[tuple[str, str], str]:
        """Pair of entities -> "valid" or "test"."""
        held = {pair(t.head, t.tail): "valid" for t in self.valid}
        return held | {pair(t.head, t.tail): "test" for t in self.test}


def _rank(key: str) -> str:
    return sha256(f"atlas:{key}".encode()).hexdigest()


def pair(head: str, tail: str) -> tuple[str, str]:
    """The unordered pair: all triples on one pair, inverses and twins among them, go together."""
    return (head, tail) if head <= tail else (tail, head)


def reserve(world: AtlasTables) -> tuple[str, ...]:
    """Entities of the inductive split: little-mentioned ones, a share of each kind."""
    degree_in = Counter(tail for _, _, tail in world.triples)
    capitals = {tail: None for _, relation, tail in world.triples if relation == "P36"}
    chosen: list[str] = []
    for kind, share in RESERVED_SHARE.items():
        pool = [
            item.id
            for item in world.items.values()
            if item.kind == kind
            and degree_in[item.id] <= RESERVED_MAX_DEGREE_IN
            and item.id not in capitals
        ]
        chosen += sorted(pool, key=_rank)[: round(share * len(pool))]
    return tuple(sorted(chosen))


def split(world: AtlasTables) -> Split:
    """Hold out pairs whose ends keep other training triples; P31 stays in training."""
    reserved = reserve(world)
    unseen = frozenset(reserved)
    groups: dict[tuple[str, str], list[Triple]] = defaultdict(list)
    left: Counter[str] = Counter()
    inductive, fixed = [], []
    for triple in world.triples:
        if triple.head in unseen or triple.tail in unseen:
            inductive.append(triple)
        elif triple.relation == "P31":
            fixed.append(triple)
        else:
            groups[pair(triple.head, triple.tail)].append(triple)
            left.update((triple.head, triple.tail, triple.relation))
    n_seen = len(world.triples) - len(inductive)
    held: dict[str, list[Triple]] = {"test": [], "valid": [], "train": fixed}
    for ends in sorted(groups, key=lambda p: _rank(f"{p[0]} {p[1]}")):
        group = groups[ends]
        loss = Counter(name for t in group for name in t)
        name = "train"
        if all(left[key] > n for key, n in loss.items()):
            if len(held["test"]) < TEST_SHARE * n_seen:
                name = "test"
            elif len(held["valid"]) < VALID_SHARE * n_seen:
                name = "valid"
        if name != "train":
            left.subtract(loss)
        held[name] += group
    return Split(
        train=tuple(sorted(held["train"])),
        valid=tuple(sorted(held["valid"])),
        test=tuple(sorted(held["test"])),
        inductive=tuple(inductive),
        reserved=reserved,
    )


def sentences(world: AtlasTables) -> list[tuple[str, Draft]]:
    """`(id, draft)` of every sentence: from phrases, then the hand-written passages."""
    writer, surfaces = Writer(world), Surfaces(world)
    phrases: dict[str, list[str]] = defaultdict(list)
    for row in rows("phrases.tsv"):
        phrases[row["kind"]].append(row["template"])
    drafts: list[tuple[str, Draft]] = []
    seen: dict[str, None] = {}
    for item in world.items.values():
        random = Random(f"atlas:{item.id}")
        n_wanted = SENTENCES.get(item.kind, 1)
        if item.kind == "city" and writer.tails[item.id, "P1376"]:
            n_wanted = CAPITAL_SENTENCES
        number = 0
        for template in random.sample(phrases[item.kind], len(phrases[item.kind])):
            draft = writer.fill(template, item, random)
            if number == n_wanted:
                break
            if draft and draft.text not in seen and _is_clean(draft, surfaces):
                seen[draft.text] = None
                drafts.append((f"{item.id}-{number}", draft))
                number += 1
    for number, row in enumerate(rows("passages.tsv")):
        drafts.append((f"passage-{number}", writer.passage(row["facts"], row["text"])))
    return drafts


def _is_clean(draft: Draft, surfaces: Surfaces) -> bool:
    entities = [entity for _, _, entity in draft.mentions]
    return len(entities) == len(dict.fromkeys(entities)) and not surfaces.unmarked(
        draft.text, draft.mentions
    )


def split_of(draft: Draft, parts: Split) -> str:
    """The split of a sentence: held out as soon as it mentions both ends of a held-out triple."""
    entities = [entity for _, _, entity in draft.mentions]
    if any(entity in parts.reserved for entity in entities):
        return "test"
    pairs = [pair(a, b) for i, a in enumerate(entities) for b in entities[i + 1 :]]
    ends = parts.held_pairs
    places = [ends[p] for p in pairs if p in ends]
    return "test" if "test" in places else "valid" if places else "train"


def probes(world: AtlasTables, parts: Split) -> list[dict[str, str]]:
    """Cloze rows: held-out triples first, at most `PROBES_A_RELATION` a relation."""
    templates = {row["relation"]: row["template"] for row in rows("probes_templates.tsv")}
    held = [*parts.test, *parts.valid, *parts.inductive]
    out: list[dict[str, str]] = []
    for relation, template in templates.items():
        pool = [t for t in dict.fromkeys([*held, *parts.train]) if t.relation == relation]
        for head, _, tail in pool[:PROBES_A_RELATION]:
            x, y = (world.items[e].names[0].article for e in (head, tail))
            text = template.replace("[X]", f"{x}[X]").replace("[Y]", f"{y}[Y]")
            out.append({
                "subject": head, "relation": relation, "object": tail,
                "template": text[0].upper() + text[1:],
            })  # fmt: skip
    return out


def entity_rows(world: AtlasTables, parts: Split) -> list[dict[str, object]]:
    """The lines of entities.jsonl, in table order."""
    known = nameable(world, parts.train, parts.reserved)
    types: dict[str, list[str]] = defaultdict(list)
    for head, relation, tail in world.triples:
        if relation == "P31":
            types[head].append(tail)
    return [
        {
            "id": item.id,
            "label": item.label,
            "aliases": [
                text for text in dict.fromkeys(n.text for n in item.names) if text != item.label
            ],
            "types": types[item.id],
            "description": describe(item, world, known),
        }
        for item in world.items.values()
    ]


def compose(folder: Path) -> None:
    """Write triples.tsv, entities.jsonl, sentences.jsonl, splits.json and probes.jsonl."""
    world = load()
    parts = split(world)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "triples.tsv", ["head\trelation\ttail", *("\t".join(t) for t in world.triples)])
    _write_json(folder / "entities.jsonl", entity_rows(world, parts))
    _write_json(
        folder / "sentences.jsonl",
        (
            {
                "id": name,
                "text": draft.text,
                "mentions": draft.mentions,
                "facts": draft.facts,
                "split": split_of(draft, parts),
            }
            for name, draft in sentences(world)
        ),
    )
    _write_json(folder / "probes.jsonl", probes(world, parts))
    held = {
        "valid": parts.valid, "test": parts.test, "inductive": parts.inductive,
        "inductive_entities": parts.reserved,
    }  # fmt: skip
    lines = [f'"{name}": {_json(value)}' for name, value in held.items()]
    _write(folder / "splits.json", ["{" + ",\n".join(lines) + "}"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write_json(path: Path, values: Iterable[object]) -> None:
    _write(path, (_json(value) for value in values))


def _write(path: Path, lines: Iterable[str]) -> None:
    write_lines(path, (f"{line}\n".encode() for line in lines), force=True)


if __name__ == "__main__":
    compose(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
