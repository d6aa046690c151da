"""QA-GNN's preparation of ConceptNet and of texts (michiyasunaga/qagnn, released code, MIT).

A restatement, its rules as data. The library reads any graph and joins texts with its own builder;
these are the released rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

RELATIONS = {
    "atlocation": ("locatednear",),
    "capableof": (),
    "causes": ("causesdesire", "*motivatedbygoal"),
    "createdby": (),
    "desires": (),
    "antonym": ("distinctfrom",),
    "hascontext": (),
    "hasproperty": (),
    "hassubevent": (
        "hasfirstsubevent", "haslastsubevent", "hasprerequisite", "entails", "mannerof",
    ),
    "isa": ("instanceof", "definedas"),
    "madeof": (),
    "notcapableof": (),
    "notdesires": (),
    "partof": ("*hasa",),
    "receivesaction": (),
    "relatedto": ("similarto", "synonym"),
    "usedfor": (),
}  # fmt: skip
"""Each group and what is merged into it; "*": head and tail change places."""
UNWANTED_ENDS = {"uk", "us", "take", "make", "object", "person", "people"}
UNWANTED_RELATION = "hascontext"
SUFFIXES = ("/n", "/a", "/v", "/r")
Line = tuple[str, str, str, str]


def groups() -> dict[str, str]:
    """Every relation and its group, "*" before the group where ends change places."""
    groups = {}
    for group, members in RELATIONS.items():
        groups[group] = group
        for member in members:
            groups[member.lstrip("*")] = ("*" if member.startswith("*") else "") + group
    return groups


def extract(lines: Iterable[str]) -> Iterator[Line]:
    """Relation, head, tail and weight of each assertion that is taken."""
    merged = groups()
    for line in lines:
        _, relation, head, tail, facts = line.strip().split("\t")
        if not (head.startswith("/c/en/") and tail.startswith("/c/en/")):
            continue
        relation = relation.split("/")[-1].lower()
        head, tail = (name_of(end) for end in (head, tail))
        if not all(end.replace("_", "").replace("-", "").isalpha() for end in (head, tail)):
            continue
        if relation not in merged:
            continue
        group = merged[relation]
        if group.startswith("*"):
            head, tail, group = tail, head, group[1:]
        yield group, head, tail, str(json.loads(facts)["weight"])


def name_of(end: str) -> str:
    """The words of a node, without its part of speech."""
    if end.endswith(SUFFIXES):
        end = end[: end.rfind("/")]
    return end.split("/")[-1].lower()


def concepts(lines: Iterable[Line]) -> list[str]:
    """All ends in order of first appearance, heads before tails."""
    return list(dict.fromkeys(end for _, head, tail, _ in lines for end in (head, tail)))


def edges(
    lines: Sequence[Line], names: Sequence[str], relations: Sequence[str], *, pruned: bool
) -> list[list[Any]]:
    """Source, target, type and weight of every edge, each both ways, sorted."""
    ids = {name: i for i, name in enumerate(names)}
    numbers = {name: i for i, name in enumerate(relations)}
    known: dict[tuple[int, int, int], float] = {}
    for relation, head, tail, weight in lines:
        unwanted = head in UNWANTED_ENDS or tail in UNWANTED_ENDS or relation == UNWANTED_RELATION
        if head == tail or (pruned and unwanted):
            continue
        key = ids[head], ids[tail], numbers[relation]
        if key not in known:
            known[key] = float(weight)
    both = [[s, t, r, w] for (s, t, r), w in known.items()]
    both += [[t, s, r + len(relations), w] for (s, t, r), w in known.items()]
    return sorted(both)


def cut_pair(first: list[int], second: list[int], length: int) -> None:
    """The longer list loses its last until both fit; of two equally long ones the second."""
    while len(first) + len(second) > length:
        (first if len(first) > len(second) else second).pop()


def text_row(
    tokenizer: Any, statement: Any, choice: str, length: int, *, roberta: bool
) -> tuple[list[int], list[int], list[int], list[bool]]:
    """Ids, mask, segments and output mask (special or padding) of one question and choice.

    RoBERTa has two separators, one segment, and is padded with its start token.
    """
    fact = statement.get("fact1")
    stem = statement["question"]["stem"]
    first, second = (
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
        for text in (f"{fact} {stem}" if fact else stem, f" {choice}")
    )
    n_special = 4 if roberta else 3
    cut_pair(first, second, length - n_special)
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    middle = [end, end] if roberta else [end]
    ids = [start, *first, *middle, *second, end]
    one = 1 + len(first) + len(middle)
    segments = [0] * len(ids) if roberta else [0] * one + [1] * (len(ids) - one)
    special = {start, end}
    mask, output = [1] * len(ids), [i in special for i in ids]
    pads = length - len(ids)
    return ids + [0] * pads, mask + [0] * pads, segments + [0] * pads, output + [True] * pads
