"""Questions with five choices that only a graph answers, in the form of CommonsenseQA's file.

"Who in Zigal is a baker?", with five made-up people of whom one works as a baker in the graph. No
name is in two questions, so none of the test is in training.
"""

from __future__ import annotations

import json
from pathlib import Path

from kept.lab.reading.worlds import COUNTRIES, OCCUPATIONS
from kept.objectives.mentions.made_up import made_up_names
from kept.randomness import generator
from kg_loaders import Triple, graph_from_records

SIZES = {"train": 400, "dev": 10, "test": 200}
N_CHOICES = 5
OCCUPATION = "baker"
SEED = 0


def write_control(folder: Path) -> None:
    """Write `graph` and a file of questions for each set into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = generator(SEED, "questions that only a graph answers")
    n_questions = sum(SIZES.values())
    names = made_up_names(n_questions * (N_CHOICES + 1), draws)
    towns = names[n_questions * N_CHOICES :]
    right = [int(i) for i in draws.integers(N_CHOICES, size=n_questions)]
    others = [name for name in OCCUPATIONS if name != OCCUPATION]
    rows, triples = [], []
    for number, position in enumerate(right):
        people = names[number * N_CHOICES : (number + 1) * N_CHOICES]
        rows.append(_row(towns[number], people, position))
        for i, name in enumerate(people):
            other = others[int(draws.integers(len(others)))]
            triples.append(Triple(name, "works as", OCCUPATION if i == position else other))
            country = COUNTRIES[int(draws.integers(len(COUNTRIES)))]
            triples.append(Triple(name, "lives in", country))
    graph_from_records(triples).save(folder / "graph")
    first = 0
    for part, size in SIZES.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows[first : first + size])
        (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")
        first += size


def _row(town: str, people: list[str], right: int) -> dict[str, str]:
    options = [f"{chr(ord('A') + i)}. {name}" for i, name in enumerate(people)]
    question = f"Who in {town} is a {OCCUPATION}?"
    return {"question": question, "options": "\n".join(options), "answer": options[right]}
