"""Questions with five choices that only a graph answers, in the form of CommonsenseQA's file.

"What does Krosek do?", with (Krosek, works as, baker) in the graph. Every question is about another
made-up person, so no test name is in training, and occupations are equally frequent.
"""

from __future__ import annotations

import json
from pathlib import Path

from kept.lab.reading.worlds import COUNTRIES, OCCUPATIONS
from kept.objectives.mentions.made_up import made_up_names
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

SIZES = {"train": 400, "dev": 10, "test": 200}
N_CHOICES = 5
SEED = 0


def write_control(folder: Path) -> None:
    """Write `graph` and a file of questions for each set into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = generator(SEED, "questions that only a graph answers")
    names = made_up_names(sum(SIZES.values()), draws)
    occupations = [OCCUPATIONS[int(i)] for i in draws.permutation(len(names)) % len(OCCUPATIONS)]
    rows = []
    for name, occupation in zip(names, occupations, strict=True):
        others = [other for other in OCCUPATIONS if other != occupation]
        wrong = [others[int(i)] for i in draws.permutation(len(others))[: N_CHOICES - 1]]
        place = int(draws.integers(N_CHOICES))
        rows.append(_row(name, [*wrong[:place], occupation, *wrong[place:]], place))
    first = 0
    for part, size in SIZES.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows[first : first + size])
        (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")
        first += size
    countries = [COUNTRIES[int(draws.integers(len(COUNTRIES)))] for _ in names]
    _graph(names, occupations, countries).save(folder / "graph")


def _row(name: str, choices: list[str], right: int) -> dict[str, str]:
    options = [f"{chr(ord('A') + i)}. {choice}" for i, choice in enumerate(choices)]
    question = f"What does {name} do?"
    return {"question": question, "options": "\n".join(options), "answer": options[right]}


def _graph(names: list[str], occupations: list[str], countries: list[str]) -> KnowledgeGraph:
    """Of each person what it works as, and a country that does not help."""
    triples = [
        Triple(name, relation, tail)
        for name, *tails in zip(names, occupations, countries, strict=True)
        for relation, tail in zip(("works as", "lives in"), tails, strict=True)
    ]
    return graph_from_records(triples)
