"""A made-up world, and every format of a task's files written about it.

People live in, work in and were born in towns, in sentences that say so. `write_task_file` fills a
file that an experiment names, packed as its name says.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entity_linking import LinkedText, Mention, RelationExample, gold_link
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

VERBS = {"P19": "of old", "P20": "near the", "P551": "through a", "P69": "and river"}
PEOPLE = [f"p{i:02d}" for i in range(24)]
TOWNS = [f"t{i}" for i in range(6)]
DIRECTED = {
    "P19": "Cause-Effect(e1,e2)", "P20": "Cause-Effect(e2,e1)", "P551": "Other",
}  # fmt: skip


# ---- the world -----------------------------------------------------------------------------------
def relation_examples() -> list[RelationExample]:
    """Every person in three relations to random towns, each fact in three sentences."""
    draws = np.random.default_rng(0)
    return [
        _example(person, relation, TOWNS[int(town)], turn)
        for person in PEOPLE
        for relation, town in zip(list(VERBS)[:3], draws.permutation(6)[:3], strict=True)
        for turn in range(3)
    ]


def _example(head: str, relation: str, tail: str, turn: int) -> RelationExample:
    start = "the " * turn
    text = f"{start}{head} {VERBS[relation]} {tail}"
    places = Mention(len(start), len(start) + len(head)), Mention(len(text) - len(tail), len(text))
    links = tuple(
        gold_link(m.start, m.end, name) for m, name in zip(places, (head, tail), strict=True)
    )
    return RelationExample(LinkedText(text, links), head, relation, tail, *places)


def world_graph(examples: Sequence[RelationExample]) -> KnowledgeGraph:
    """The facts of the examples, a school for everyone, and two inverse triples that tell."""
    triples = [Triple(e.head, e.relation, e.tail) for e in examples]
    triples += [Triple(person, "P69", TOWNS[i % 6]) for i, person in enumerate(PEOPLE)]
    triples += [Triple(examples[0].tail, "P1376", examples[0].head)]
    names = [Text(name, TextKind.LABEL, name, "en") for name in (*PEOPLE, *TOWNS)]
    return graph_from_records([*triples, *names])


# ---- examples as rows of a format ----------------------------------------------------------------
def _words(example: RelationExample) -> tuple[list[str], int, int]:
    """The words, and which of them are head and tail."""
    words = example.linked.text.split()
    return words, words.index(example.head), words.index(example.tail)


def wiki80_row(example: RelationExample) -> dict[str, Any]:
    """An example in Wiki80's form."""
    words, head, tail = _words(example)
    ends = {
        name: {"id": entity, "pos": [start, start + 1]}
        for name, entity, start in (("h", example.head, head), ("t", example.tail, tail))
    }
    return {"token": words, **ends, "relation": example.relation}


def document_row(examples: Sequence[RelationExample], title: str) -> dict[str, Any]:
    """The sentences of `examples`, which all name one person, as a document of DocRED."""
    sents = [example.linked.text.split() for example in examples]
    names = list(dict.fromkeys(name for e in examples for name in (e.head, e.tail)))
    places = {name: list[dict[str, Any]]() for name in names}
    for number, words in enumerate(sents):
        for name in names:
            if name in words:
                first = words.index(name)
                mention = {"name": name, "sent_id": number, "pos": [first, first + 1]}
                places[name].append(mention)
    facts = [
        {"r": e.relation, "h": names.index(e.head), "t": names.index(e.tail)} for e in examples
    ]
    return {"title": title, "sents": sents, "vertexSet": list(places.values()), "labels": facts}


def _semeval(example: RelationExample) -> dict[str, Any]:
    row = wiki80_row(example)
    return row | {"relation": DIRECTED[example.relation]}


def _fewrel(examples: Sequence[RelationExample]) -> str:
    relations: dict[str, list[Any]] = {}
    for example in examples:
        words, head, tail = _words(example)
        row = {
            "tokens": words, "h": [example.head, example.head, [[head]]],
            "t": [example.tail, example.tail, [[tail]]],
        }  # fmt: skip
        relations.setdefault(example.relation, []).append(row)
    return json.dumps(relations)


def _docred(examples: Sequence[RelationExample]) -> str:
    people = dict.fromkeys(example.head for example in examples)
    rows = [document_row([e for e in examples if e.head == p][::3], p) for p in people]
    return json.dumps(rows)


def _tagme(examples: Sequence[RelationExample]) -> str:
    rows = [
        {
            "sent": e.linked.text, "start": e.tail_mention.start, "end": e.tail_mention.end,
            "labels": ["place"] if e.relation == "P19" else ["place", "home"],
            "ents": [[k.entity, k.mention.start, k.mention.end, 0.5] for k in e.linked.links],
        }
        for e in examples
    ]  # fmt: skip
    return json.dumps(rows)


def _ultrafine(example: RelationExample) -> dict[str, Any]:
    words, _, tail = _words(example)
    return {
        "annot_id": example.linked.text, "left_context_token": words[:tail],
        "mention_span": words[tail], "right_context_token": words[tail + 1 :],
        "y_str": ["place", "home"] if example.relation == "P551" else ["place"],
    }  # fmt: skip


def _conll(examples: Sequence[RelationExample]) -> str:
    tags = {name: f"B-{kind}" for kind, names in (("p", PEOPLE), ("t", TOWNS)) for name in names}
    sentences = [
        "".join(f"{word}\t{tags.get(word, 'O')}\n" for word in e.linked.text.split())
        for e in examples
    ]
    return "\n".join(sentences)


def _label(example: RelationExample) -> int:
    return int(example.relation == "P19")


def _tsv(examples: Sequence[RelationExample]) -> str:
    rows = [f"{e.linked.text}\t{_label(e)}\n" for e in examples]
    return "".join(["sentence\tlabel\n", *rows])


def _cola(examples: Sequence[RelationExample]) -> str:
    return "".join(
        f"made\t{_label(e)}\t{'' if _label(e) else '*'}\t{e.linked.text}\n" for e in examples
    )


def _wic(example: RelationExample) -> dict[str, Any]:
    text = example.linked.text
    sides = f"Sentence 1: A city {text}. Sentence 2: Old cities {text}."
    return {"text": f"Word: city. {sides}", "label": _label(example)}


def _lines(row: Callable[[RelationExample], Any]) -> Callable[[Sequence[RelationExample]], str]:
    return lambda examples: "".join(json.dumps(row(example)) + "\n" for example in examples)


def _atlas(example: RelationExample) -> dict[str, Any]:
    mentions = [[k.mention.start, k.mention.end, k.entity] for k in example.linked.links]
    fact = [example.head, example.relation, example.tail]
    return {"text": example.linked.text, "mentions": mentions, "facts": [fact]}


def _squad(examples: Sequence[RelationExample]) -> str:
    paragraphs = []
    for number, each in enumerate(examples):
        answer = {"text": each.tail, "answer_start": each.tail_mention.start}
        question = {"id": str(number), "question": f"where is {each.head}", "answers": [answer]}
        paragraphs.append({"context": each.linked.text, "qas": [question]})
    return json.dumps({"data": [{"paragraphs": paragraphs}]})


def _lettered(example: RelationExample) -> dict[str, Any]:
    choices = {"A": example.tail, "B": "nowhere", "C": "a hill"}
    options = "".join(f"\n{letter}. {choice}" for letter, choice in choices.items())
    question = f"Where is {example.head}?"
    return {"question": question, "options": options, "answer": f"A. {example.tail}"}


WRITERS: dict[str, Callable[[Sequence[RelationExample]], str]] = {
    "atlas": _lines(_atlas),
    "wiki80": _lines(wiki80_row),
    "semeval": _lines(_semeval),
    "fewrel": _fewrel,
    "docred": _docred,
    "tagme": _tagme,
    "ultrafine": _lines(_ultrafine),
    "conll": _conll,
    "tsv": _tsv,
    "cola": _cola,
    "wic": _lines(_wic),
    "squad": _squad,
    "lettered": _lines(_lettered),
}


def write_task_file(path: Path, format: str, examples: Sequence[RelationExample]) -> Path:
    """The examples in a format: plain, gzipped (`.gz`), or as a member `ARCHIVE.zip/MEMBER`."""
    content = WRITERS[format](examples).encode()
    archive, is_member, member = str(path).partition(".zip/")
    target = Path(f"{archive}.zip") if is_member else path
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_member:
        with zipfile.ZipFile(target, "a") as sink:
            sink.writestr(member, content)
    else:
        target.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
