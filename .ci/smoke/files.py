"""The files that the pages' commands name, small: what a user would bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEXTS = [
    "Paris is the capital of France.", "The Seine flows through Paris.",
    "Rouen lies on the Seine.", "Lyon is a city in France.",
]  # fmt: skip
LAYERS = (
    "1\tParis\tParis\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n"
)


def write(folder: Path) -> None:
    """Write them into `folder`."""
    from entity_linking.annotations import to_json
    from kept import DictionaryLinker, atlas

    graph = atlas.graph()
    for name in ("kg", "atlas"):
        graph.save(folder / name)
    links = DictionaryLinker(graph).link([s.text for s in atlas.sentences("valid")][:200])
    for name in ("linked", "gold", "held-out", "news", "pretraining"):
        (folder / f"{name}.jsonl").write_bytes(b"".join(to_json(text) + b"\n" for text in links))
    (folder / "notes.txt").write_text("\n".join(TEXTS) + "\n")
    (folder / "triples.tsv").write_text("Q90\tP17\tQ142\nQ142\tP36\tQ90\n")
    (folder / "new.tsv").write_text("Q90\tP17\tQ9999\n")
    (folder / "my.tsv").write_text("Q90\tP17\tQ142\n")
    (folder / "labels.tsv").write_text("Q90\tParis\nQ142\tFrance\n")
    for name in ("train", "test"):
        (folder / f"{name}.tsv").write_text("Q90\tP17\tQ142\n")
        (folder / f"{name}.conllu").write_text((LAYERS + "\n") * 12)
        (folder / f"{name}.txt").write_text("".join(map(_wiki80, range(8))))
    (folder / "dev.txt").write_text("".join(map(_wiki80, range(8, 12))))
    typing = [_typing(i) for i in range(12)]
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(typing))
    (folder / "templates.tsv").write_text(
        "P17\t[X] lies in [Y] .\nP36\t[Y] is the capital of [X] .\n"
    )
    (folder / "questions-words.txt").write_text(": capitals\nParis France Rome Italy\n" * 3)


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
