"""The files that the pages' commands name, small: what a user would bring.

Two worlds. Most pages speak of the atlas (Paris, `Q90`). A page that builds its graph from its own
`triples.tsv` gets a private one: made-up people with roles and towns, and sentences that name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

TEXTS = [
    "Paris is the capital of France.", "The Seine flows through Paris.",
    "Rouen lies on the Seine.", "Lyon is a city in France.",
]  # fmt: skip
LAYERS = (
    "1\tParis\tParis\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n"
)
FIRST = ("Ada", "Bo", "Cem", "Dina", "Egon", "Fay", "Gus", "Hedda", "Ivo", "Jola")
LAST = ("Alvik", "Brandt", "Castel", "Dorn", "Eklund", "Fabre")
ROLES = ("baker", "notary", "pilot")
TOWNS = {
    "Kaldvik": "Norland",
    "Osterby": "Norland",
    "Mirefontaine": "Sudland",
    "Talheim": "Sudland",
}
SENTENCES = (
    "{} called again this morning.", "We wrote to {} last week.", "Nobody has seen {} since May.",
    "The letter from {} arrived.", "Please ask {} about it.", "{} will be here at nine.",
)  # fmt: skip


def people() -> list[tuple[str, str, str]]:
    """Everybody's name, role and town."""
    names = [" ".join(pair) for pair in product(FIRST, LAST)]
    towns = list(TOWNS)
    return [(name, ROLES[i % 3], towns[i % 4]) for i, name in enumerate(names)]


def private_triples() -> str:
    """The private world as `triples.tsv`."""
    facts = [f"{name}\tworks as\t{role}\n{name}\tlives in\t{town}" for name, role, town in people()]
    facts += [f"{town}\tlies in\t{county}" for town, county in TOWNS.items()]
    return "\n".join(facts) + "\n"


def labelled() -> str:
    """Sentences that name the people, with their roles, as `labelled.csv`."""
    rows = [
        f"{SENTENCES[i // 3 % len(SENTENCES)].format(name)},{name},{role}"
        for i, (name, role, _) in enumerate(people())
    ]
    return "\n".join(["text,mention,label", *rows]) + "\n"


def write(folder: Path, shown: Mapping[str, str] = {}, *, private: bool = False) -> None:
    """Write them into `folder`; `shown` are the contents that a page shows, by name of the file."""
    from entity_linking.annotations import to_json
    from kept import DictionaryLinker, KnowledgeGraph, atlas

    triples = shown.get("triples.tsv", private_triples())
    if private:
        rows = [tuple(line.split("\t")) for line in triples.splitlines() if line.count("\t") == 2]
        graph = KnowledgeGraph.from_triples(rows)
        texts = [s.format(name) for s in SENTENCES for name, *_ in people()]
        notes = [f"{people()[0][0]} met {people()[1][0]} in Kaldvik."]
    else:
        graph = atlas.graph()
        texts, notes = [s.text for s in atlas.sentences("valid")][:200], TEXTS
    for name in ("kg", "atlas"):
        graph.save(folder / name)
    links = DictionaryLinker(graph).link(texts)
    for name in ("linked", "gold", "held-out", "news", "pretraining"):
        (folder / f"{name}.jsonl").write_bytes(b"".join(to_json(text) + b"\n" for text in links))
    for name, content in {**_tables(), "notes.txt": "\n".join(notes) + "\n", **shown}.items():
        (folder / name).write_text(content, encoding="utf-8")


def _tables() -> dict[str, str]:
    files = {
        "triples.tsv": private_triples(), "labelled.csv": labelled(), "people.csv": labelled(),
        "staff.tsv": private_triples(),
        "new.tsv": "Q90\tP17\tQ9999\n", "my.tsv": "Q90\tP17\tQ142\n",
        "labels.tsv": "".join(f"{name}\t{name}\n" for name, *_ in people()),
        "templates.tsv": "P17\t[X] lies in [Y] .\nP36\t[Y] is the capital of [X] .\n",
        "questions-words.txt": ": capitals\nParis France Rome Italy\n" * 3,
    }  # fmt: skip
    for name in ("train", "dev", "test"):
        files[f"{name}.tsv"] = "Q90\tP17\tQ142\n"
        files[f"{name}.conllu"] = (LAYERS + "\n") * 12
        files[f"{name}.txt"] = "".join(map(_wiki80, range(8, 12) if name == "dev" else range(8)))
    for name in ("train", "dev"):
        files[f"{name}.json"] = json.dumps([_typing(i) for i in range(12)])
    return files


def _wiki80(number: int) -> str:
    row = {
        "token": ["Paris", "lies", "in", "France", str(number)],
        "h": {"name": "Paris", "id": "Q90", "pos": [0, 1]},
        "t": {"name": "France", "id": "Q142", "pos": [3, 4]},
        "relation": "country" if number % 2 else "capital of",
    }
    return json.dumps(row) + "\n"


def _typing(number: int) -> dict[str, Any]:
    return {
        "sent": f"Paris is {number} days old", "start": 0, "end": 5,
        "labels": ["city"] if number % 2 else ["person"], "ents": [["Q90", 0, 5, 0.9]],
    }  # fmt: skip
